package streamproof.host;

import java.lang.reflect.Constructor;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;

/** The metrics of a task. Patch releases up to 4.0 differ in whether the metrics have a version. */
final class TaskMetrics {
  private TaskMetrics() {}

  static StreamsMetricsImpl make(String client) {
    Constructor<?> constructor = StreamsMetricsImpl.class.getConstructors()[0];
    Object[] arguments =
        constructor.getParameterCount() == 4
            ? new Object[] {new Metrics(), client, StreamsConfig.METRICS_LATEST, Time.SYSTEM}
            : new Object[] {new Metrics(), client, Time.SYSTEM};
    try {
      return (StreamsMetricsImpl) constructor.newInstance(arguments);
    } catch (ReflectiveOperationException error) {
      throw new AssertionError(error);
    }
  }
}
