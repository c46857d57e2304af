package streamproof.application;

import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;

/** A left join of {@code in} to {@code out}, with a {@code table} that every instance reads. */
final class GlobalTableTopology {
  private static final String STORE = "rows";

  private GlobalTableTopology() {
  }

  static Topology make() {
    ByteArrayDeserializer bytes = new ByteArrayDeserializer();
    return new Topology()
        .addGlobalStore(
          CountTopology.store(STORE).withLoggingDisabled(), "table", bytes, bytes,
          Topics.named("table"), "fill", Fill::new)
        .addSource("source", bytes, bytes, Topics.named("in"))
        .addProcessor("join", () -> new StreamTableTopology.Join(STORE), "source")
        .addSink("sink", Topics.named("out"), new ByteArraySerializer(), new ByteArraySerializer(),
          new KeyPartitioner(), "join");
  }

  private static final class Fill implements Processor<byte[], byte[], Void, Void> {
    private KeyValueStore<byte[], byte[]> rows;

    @Override
    public void init(ProcessorContext<Void, Void> context) {
      rows = context.getStateStore(STORE);
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
      rows.put(record.key(), record.value());
    }
  }
}
