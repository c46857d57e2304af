package streamproof.application;

import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** How many records each key has had since its last tombstone: {@code in} to {@code out}. */
final class CountTopology {
  private static final String STORE = "counts";

  private CountTopology() {
  }

  static Topology make() {
    return new Topology()
        .addSource("source", new ByteArrayDeserializer(), new ByteArrayDeserializer(), "in")
        .addProcessor("count", Counter::new, "source")
        .addStateStore(
          Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore(STORE), Serdes.ByteArray(), Serdes.ByteArray()),
          "count")
        .addSink("sink", "out", new ByteArraySerializer(), new ByteArraySerializer(), "count");
  }

  private static final class Counter implements Processor<byte[], byte[], byte[], byte[]> {
    private ProcessorContext<byte[], byte[]> context;
    private KeyValueStore<byte[], byte[]> counts;

    @Override
    public void init(ProcessorContext<byte[], byte[]> given) {
      context = given;
      counts = given.getStateStore(STORE);
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
      byte[] next = record.value() == null ? null : more(counts.get(record.key()));
      counts.put(record.key(), next);
      context.forward(record.withValue(next));
    }

    private static byte[] more(byte[] count) {
      int before = count == null ? 0 : Integer.parseInt(new String(count, StandardCharsets.UTF_8));
      return Integer.toString(before + 1).getBytes(StandardCharsets.UTF_8);
    }
  }
}
