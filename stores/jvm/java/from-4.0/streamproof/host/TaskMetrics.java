package streamproof.host;

import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;

/** The metrics of a task. */
final class TaskMetrics {
  private TaskMetrics() {}

  static StreamsMetricsImpl make(String client) {
    return new StreamsMetricsImpl(new Metrics(), client, Time.SYSTEM);
  }
}
