package streamproof.application;

import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/** How many records each key has had since its last tombstone: {@code in} to {@code out}. */
final class CountTopology {
  static final String STORE = "counts";

  private CountTopology() {
  }

  static Topology make() {
    return new Topology()
        .addSource("source", new ByteArrayDeserializer(), new ValueReader(), Topics.named("in"))
        .addProcessor("count", Counter::new, "source")
        .addStateStore(store(STORE), "count")
        .addSink("sink", Topics.named("out"), new ByteArraySerializer(), new ByteArraySerializer(),
          new KeyPartitioner(), "count");
  }

  /** A store with a changelog. */
  static StoreBuilder<KeyValueStore<byte[], byte[]>> store(String name) {
    return Stores.keyValueStoreBuilder(
        Suppliers.keyValue(name), Serdes.ByteArray(), Serdes.ByteArray());
  }

  /** Counts the records of each key, and forgets a key at a tombstone. */
  static final class Counter implements Processor<byte[], byte[], byte[], byte[]> {
    private ProcessorContext<byte[], byte[]> context;
    private KeyValueStore<byte[], byte[]> counts;

    @Override
    public void init(ProcessorContext<byte[], byte[]> given) {
      context = given;
      counts = given.getStateStore(STORE);
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
      Texts.refuse(record.value());
      byte[] next = record.value() == null ? null : Texts.more(counts.get(record.key()));
      counts.put(record.key(), next);
      context.forward(record.withValue(next));
    }
  }
}
