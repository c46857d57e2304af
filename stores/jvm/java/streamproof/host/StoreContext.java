package streamproof.host;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.KeyValue;
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
        return record == null ? -1 : record.timestamp();
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

  /** Hand records of the changelog, each key, value, offset and timestamp, to the store. */
  void restore(List<List<Object>> rows) {
    if (restoreCallback instanceof RecordBatchingStateRestoreCallback) {
      List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
      rows.forEach(row -> records.add(changelogRecord(row)));
      ((RecordBatchingStateRestoreCallback) restoreCallback).restoreBatch(records);
    } else if (restoreCallback instanceof BatchingStateRestoreCallback) {
      List<KeyValue<byte[], byte[]>> entries = new ArrayList<>();
      rows.forEach(row -> entries.add(KeyValue.pair(key(row), value(row))));
      ((BatchingStateRestoreCallback) restoreCallback).restoreAll(entries);
    } else {
      rows.forEach(row -> restoreCallback.restore(key(row), value(row)));
    }
  }

  private ConsumerRecord<byte[], byte[]> changelogRecord(List<Object> row) {
    return new ConsumerRecord<>(
        APPLICATION + "-store-changelog",
        0,
        (Long) row.get(2),
        (Long) row.get(3),
        TimestampType.CREATE_TIME,
        key(row).length,
        value(row) == null ? 0 : value(row).length,
        key(row),
        value(row),
        new RecordHeaders(),
        Optional.empty());
  }

  private static byte[] key(List<Object> row) {
    return Request.bytes(row.get(0));
  }

  private static byte[] value(List<Object> row) {
    return Request.bytes(row.get(1));
  }
}
