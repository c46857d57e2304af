package streamproof.application;

import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;

/** A left join of {@code stream} and {@code table} to {@code out}; the table is logged. */
final class StreamTableTopology {
  private static final String STORE = "rows";

  private StreamTableTopology() {
  }

  static Topology make() {
    ByteArrayDeserializer bytes = new ByteArrayDeserializer();
    return new Topology()
        .addSource("stream", bytes, bytes, Topics.named("stream"))
        .addSource("table", bytes, bytes, Topics.named("table"))
        .addProcessor("fill", Fill::new, "table")
        .addProcessor("join", () -> new Join(STORE), "stream")
        .addStateStore(CountTopology.store(STORE), "fill", "join")
        .addSink("sink", Topics.named("out"), new ByteArraySerializer(), new ByteArraySerializer(),
          new KeyPartitioner(), "join");
  }

  private static final class Fill implements Processor<byte[], byte[], byte[], byte[]> {
    private KeyValueStore<byte[], byte[]> rows;

    @Override
    public void init(ProcessorContext<byte[], byte[]> context) {
      rows = context.getStateStore(STORE);
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
      rows.put(record.key(), record.value());
    }
  }

  /** Joins each record with the row that a store has. */
  static final class Join extends ContextualProcessor<byte[], byte[], byte[], byte[]> {
    private final String store;
    private KeyValueStore<byte[], byte[]> rows;

    Join(String store) {
      this.store = store;
    }

    @Override
    public void init(ProcessorContext<byte[], byte[]> context) {
      super.init(context);
      rows = context.getStateStore(store);
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
      if (record.value() != null) {
        byte[] row = rows.get(record.key());
        context().forward(record.withValue(Texts.joined(record.value(), row)));
      }
    }
  }
}
