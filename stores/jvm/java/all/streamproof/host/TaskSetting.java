package streamproof.host;

import java.io.File;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;

/** The task that a store is opened in: its id, its changelog, its configuration, its metrics. */
public final class TaskSetting {
  static final String APPLICATION = "streamproof";

  /** The configuration of the suite that bounds the memory in which a store keeps writes. */
  private static final String WRITE_BUFFER_BYTES = "state.store.write.buffer.bytes";

  /** The configuration of Kafka from 4.4 on that makes its stores transactional (KIP-892). */
  private static final String TRANSACTIONAL = "enable.transactional.statestores";

  private final File directory;
  private final TaskId task;
  private final TopicPartition changelog;
  private final boolean exactlyOnce;
  private final boolean transactional;
  private final StreamsConfig config;
  private final StreamsMetricsImpl metrics = TaskMetrics.make(APPLICATION);

  /** Read the setting from the request that opens a store; transactional stores stage writes. */
  TaskSetting(Request request, boolean transactional) {
    this.transactional = transactional;
    directory = new File(request.text("directory"));
    task = TaskId.parse(request.text("task"));
    changelog = changelogOf(request.list("changelog"));
    exactlyOnce = "exactly-once".equals(request.text("guarantee"));
    Map<String, Object> asked = new HashMap<>();
    asked.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION);
    asked.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:1");
    asked.put(StreamsConfig.STATE_DIR_CONFIG, directory.getPath());
    asked.put(
        StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
        exactlyOnce ? StreamsConfig.EXACTLY_ONCE_V2 : StreamsConfig.AT_LEAST_ONCE);
    asked.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, SmallBuffers.class);
    if (transactional) {
      asked.put(TRANSACTIONAL, true);
    }
    Object buffer = request.map("config").get(WRITE_BUFFER_BYTES);
    asked.put(SmallBuffers.BYTES, buffer == null ? null : Long.valueOf((String) buffer));
    config = new StreamsConfig(asked);
  }

  private static TopicPartition changelogOf(List<?> named) {
    return named == null
        ? null
        : new TopicPartition((String) named.get(0), Math.toIntExact((Long) named.get(1)));
  }

  /** The directory for all files of the store. */
  public File directory() {
    return directory;
  }

  public TaskId task() {
    return task;
  }

  /** The partition of the changelog that backs the store. */
  public TopicPartition changelog() {
    return changelog;
  }

  public boolean isExactlyOnce() {
    return exactlyOnce;
  }

  /** Whether stores stage their writes until a commit (KIP-892). */
  public boolean isTransactional() {
    return transactional;
  }

  public StreamsConfig config() {
    return config;
  }

  public StreamsMetricsImpl metrics() {
    return metrics;
  }

  /** How many records came too late, as the store counts them in the metric of its task. */
  long droppedRecords() {
    double dropped = 0;
    for (Map.Entry<MetricName, ? extends Metric> each : metrics.metrics().entrySet()) {
      if (each.getKey().name().equals("dropped-records-total")) {
        dropped += (Double) each.getValue().metricValue();
      }
    }
    return (long) dropped;
  }
}
