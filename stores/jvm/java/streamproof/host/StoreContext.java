package streamproof.host;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.BatchingStateRestoreCallback;
import org.apache.kafka.streams.processor.CommitCallback;
import org.apache.kafka.streams.processor.StateRestoreCallback;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.InternalProcessorContext;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.processor.internals.RecordBatchingStateRestoreCallback;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;

/**
 * The context that the runtime gives a store at its opening: configuration, directory, metrics, and
 * the input record that is being processed.
 *
 * <p>Kafka's stores cast the public context to the internal one, so this is a proxy of that: its
 * many methods for processors are refused.
 */
final class StoreContext {
  private static final String APPLICATION = "streamproof";

  /** The configuration of the suite that bounds the memory in which a store keeps writes. */
  private static final String WRITE_BUFFER_BYTES = "state.store.write.buffer.bytes";

  private final File directory;
  private final TaskId task;
  private final Map<String, Object> configs;
  private final StreamsMetricsImpl metrics =
      new StreamsMetricsImpl(new Metrics(), APPLICATION, Time.SYSTEM);
  private StateRestoreCallback restoreCallback;
  private CommitCallback commitCallback = () -> {};
  private ProcessorRecordContext record;

  StoreContext(File directory, String task, String guarantee, Map<String, Object> config) {
    this.directory = directory;
    this.task = TaskId.parse(task);
    Map<String, Object> asked = new HashMap<>();
    asked.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION);
    asked.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:1");
    asked.put(StreamsConfig.STATE_DIR_CONFIG, directory.getPath());
    asked.put(
        StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
        guarantee.equals("exactly-once")
            ? StreamsConfig.EXACTLY_ONCE_V2
            : StreamsConfig.AT_LEAST_ONCE);
    asked.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, SmallBuffers.class);
    Object buffer = config.get(WRITE_BUFFER_BYTES);
    asked.put(SmallBuffers.BYTES, buffer == null ? null : Long.valueOf((String) buffer));
    StreamsConfig checked = new StreamsConfig(asked);
    configs = new HashMap<>(checked.originals());
    configs.putAll(checked.values());
  }

  /** The context as a store takes it. */
  InternalProcessorContext<?, ?> proxy() {
    return (InternalProcessorContext<?, ?>)
        Proxy.newProxyInstance(
            StoreContext.class.getClassLoader(),
            new Class<?>[] {InternalProcessorContext.class},
            this::call);
  }

  private Object call(Object proxy, Method method, Object[] arguments) {
    switch (method.getName()) {
      case "applicationId":
        return APPLICATION;
      case "taskId":
        return task;
      case "stateDir":
        return directory;
      case "metrics":
        return metrics;
      case "appConfigs":
        return configs;
      case "appConfigsWithPrefix":
        return new HashMap<String, Object>();
      case "keySerde":
      case "valueSerde":
        return Serdes.ByteArray();
      case "recordMetadata":
        return Optional.ofNullable(record);
      case "recordContext":
        return record;
      case "timestamp":
        return timestamp();
      case "currentSystemTimeMs":
        return System.currentTimeMillis();
      case "changelogFor":
        return APPLICATION + "-" + arguments[0] + "-changelog";
      case "register":
        restoreCallback = (StateRestoreCallback) arguments[1];
        commitCallback = arguments.length > 2 ? (CommitCallback) arguments[2] : commitCallback;
        return null;
      case "hashCode":
        return System.identityHashCode(proxy);
      case "equals":
        return proxy == arguments[0];
      case "toString":
        return "the context of task " + task;
      default:
        throw new UnsupportedOperationException("A store is not given " + method.getName() + "()");
    }
  }

  /** From now on this input record is processed: topic, partition, offset, timestamp; or none. */
  void processing(List<?> input) {
    record =
        input == null
            ? null
            : new ProcessorRecordContext(
                (Long) input.get(3),
                (Long) input.get(2),
                Math.toIntExact((Long) input.get(1)),
                (String) input.get(0),
                new RecordHeaders());
  }

  void runCommitCallback() throws IOException {
    commitCallback.onCommit();
  }

  /** The timestamp of the input record that is being processed; -1 if there is none. */
  long timestamp() {
    return record == null ? -1 : record.timestamp();
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

  /** Hand records of the changelog to the store. */
  void restore(RestoredRecords restored) {
    if (restoreCallback instanceof RecordBatchingStateRestoreCallback) {
      ((RecordBatchingStateRestoreCallback) restoreCallback).restoreBatch(restored.records());
    } else if (restoreCallback instanceof BatchingStateRestoreCallback) {
      ((BatchingStateRestoreCallback) restoreCallback).restoreAll(restored.pairs());
    } else {
      restored.pairs().forEach(pair -> restoreCallback.restore(pair.key, pair.value));
    }
  }
}
