package streamproof.host;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.apache.kafka.streams.state.internals.RecordConverter;
import org.apache.kafka.streams.state.internals.RecordConverters;

/** A store that keeps its offsets itself (KIP-1035), with nothing of a task but its context. */
final class StoreAlone implements Layer {
  private final StateStore store;
  private final StoreContext context;
  private final RecordConverter converter;

  StoreAlone(StateStore store, TaskSetting setting) {
    this.store = store;
    context = new StoreContext(setting);
    // The changelog has plain values. The runtime puts the timestamp of the record before each.
    converter =
        store instanceof TimestampedBytesStore
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
    context.restore(records.stream().map(converter::convert).collect(Collectors.toList()));
  }

  @Override
  public void commit(Map<TopicPartition, Long> offsets) throws IOException {
    // The runtime runs the callback of a store with each commit: positions are written there.
    context.runCommitCallback();
    store.commit(offsets);
  }

  @Override
  public Long committedOffset(TopicPartition partition) {
    return store.committedOffset(partition);
  }

  @Override
  public void close() {
    store.close();
  }
}
