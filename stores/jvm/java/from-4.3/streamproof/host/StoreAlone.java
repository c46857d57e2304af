package streamproof.host;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.state.internals.CachedStateStore;
import org.apache.kafka.streams.state.internals.RecordConverter;
import org.apache.kafka.streams.state.internals.RecordConverters;
import org.apache.kafka.streams.state.internals.WrappedStateStore;

/** A store that keeps its offsets itself (KIP-1035), with nothing of a task but its context. */
final class StoreAlone implements Layer {
  private final StateStore store;
  private final StoreContext context;
  private final RecordConverter converter;

  StoreAlone(StateStore store, TaskSetting setting) {
    this.store = store;
    context = new StoreContext(setting);
    // The changelog has plain values. The runtime puts the timestamp of the record before each,
    // but a versioned store takes it from the record.
    converter =
        WrappedStateStore.isTimestamped(store) && !WrappedStateStore.isVersioned(store)
            ? RecordConverters.rawValueToTimestampedValue()
            : RecordConverters.identity();
  }

  @Override
  public void open() {
    store.init(context.proxy(), store);
  }

  @Override
  public void processing(ProcessorRecordContext record) {
    context.processing(record);
  }

  @Override
  public void restore(List<ConsumerRecord<byte[], byte[]>> records) {
    if (store instanceof CachedStateStore) {
      // A task that has processed is restored only once it was recycled, which empties the cache.
      flushCache();
      ((CachedStateStore<?, ?>) store).clearCache();
    }
    context.restore(records.stream().map(converter::convert).collect(Collectors.toList()));
  }

  @Override
  public void commit(Map<TopicPartition, Long> offsets) throws IOException {
    // A task prepares a commit with this, so that the changelog has all writes before it commits.
    flushCache();
    // The runtime runs the callback of a store with each commit: positions are written there.
    context.runCommitCallback();
    store.commit(offsets);
  }

  private void flushCache() {
    if (store instanceof CachedStateStore) {
      ((CachedStateStore<?, ?>) store).flushCache();
    }
  }

  @Override
  public Long committedOffset(TopicPartition partition) {
    return store.committedOffset(partition);
  }

  @Override
  public List<Object> takeLogged() {
    return context.takeLogged();
  }

  @Override
  public void close() {
    store.close();
  }
}
