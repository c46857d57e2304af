package streamproof.host;

import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.BatchingStateRestoreCallback;
import org.apache.kafka.streams.processor.CommitCallback;
import org.apache.kafka.streams.processor.StateRestoreCallback;
import org.apache.kafka.streams.processor.internals.InternalProcessorContext;
import org.apache.kafka.streams.processor.internals.Internals;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.processor.internals.RecordBatchingStateRestoreCallback;
import org.apache.kafka.streams.state.internals.ThreadCache;

/**
 * The context that the runtime gives a store at its opening: configuration, directory, metrics, and
 * the input record that is being processed.
 *
 * <p>Kafka's stores cast the public context to the internal one, so this is a proxy of that: its
 * many methods for processors are refused.
 */
final class StoreContext {
  /** Small, so that entries are evicted within a short program. */
  private static final long CACHE_BYTES = 4 * 1024;

  /** What the runtime has in place of a record while it punctuates. */
  private static final ProcessorRecordContext NO_RECORD =
      new ProcessorRecordContext(-1, -1, -1, null, new RecordHeaders());

  private final TaskSetting setting;
  private final Map<String, Object> configs;
  private final ThreadCache cache;
  private final List<Object> logged = new ArrayList<>();
  private StateRestoreCallback restoreCallback;
  private CommitCallback commitCallback = () -> {};
  private ProcessorRecordContext record;

  StoreContext(TaskSetting setting) {
    this.setting = setting;
    configs = new HashMap<>(setting.config().originals());
    configs.putAll(setting.config().values());
    cache = Internals.cache(CACHE_BYTES, setting.metrics());
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
        return TaskSetting.APPLICATION;
      case "taskId":
        return setting.task();
      case "stateDir":
        return setting.directory();
      case "metrics":
        return setting.metrics();
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
        return record == null ? NO_RECORD : record;
      case "setRecordContext":
        // A cache writes an entry with the record that it came from.
        record = arguments[0] == NO_RECORD ? null : (ProcessorRecordContext) arguments[0];
        return null;
      case "timestamp":
        return record == null ? NO_RECORD.timestamp() : record.timestamp();
      case "headers":
        return (record == null ? NO_RECORD : record).headers();
      case "cache":
        return cache;
      case "registerCacheFlushListener":
        cache.addDirtyEntryFlushListener(
            (String) arguments[0], (ThreadCache.DirtyEntryFlushListener) arguments[1]);
        return null;
      case "logChange":
        logged.add(
            Arrays.asList(((Bytes) arguments[1]).get(), (byte[]) arguments[2], arguments[3]));
        return null;
      case "currentSystemTimeMs":
        return System.currentTimeMillis();
      case "changelogFor":
        return TaskSetting.APPLICATION + "-" + arguments[0] + "-changelog";
      case "register":
        restoreCallback = (StateRestoreCallback) arguments[1];
        commitCallback = arguments.length > 2 ? (CommitCallback) arguments[2] : commitCallback;
        return null;
      case "hashCode":
        return System.identityHashCode(proxy);
      case "equals":
        return proxy == arguments[0];
      case "toString":
        return "the context of task " + setting.task();
      default:
        throw new UnsupportedOperationException("A store is not given " + method.getName() + "()");
    }
  }

  /** From now on this input record is processed; null if there is none. */
  void processing(ProcessorRecordContext input) {
    record = input;
  }

  /** What the store has sent to its changelog since the last call: key, value, timestamp. */
  List<Object> takeLogged() {
    List<Object> taken = List.copyOf(logged);
    logged.clear();
    return taken;
  }

  void runCommitCallback() throws IOException {
    commitCallback.onCommit();
  }

  /** Hand records of the changelog to the store, as it keeps them. */
  void restore(List<ConsumerRecord<byte[], byte[]>> records) {
    if (restoreCallback instanceof RecordBatchingStateRestoreCallback) {
      ((RecordBatchingStateRestoreCallback) restoreCallback).restoreBatch(records);
    } else if (restoreCallback instanceof BatchingStateRestoreCallback) {
      ((BatchingStateRestoreCallback) restoreCallback)
          .restoreAll(
              records.stream()
                  .map(each -> KeyValue.pair(each.key(), each.value()))
                  .collect(Collectors.toList()));
    } else {
      records.forEach(each -> restoreCallback.restore(each.key(), each.value()));
    }
  }
}
