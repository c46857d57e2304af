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

/** A left join of {@code stream} and {@code table} to {@code out}; the table is logged. */
final class StreamTableTopology {
  private static final String STORE = "rows";

  private StreamTableTopology() {
  }

  static Topology make() {
    ByteArrayDeserializer bytes = new ByteArrayDeserializer();
    return new Topology()
        .addSource("stream", bytes, bytes, "stream")
        .addSource("table", bytes, bytes, "table")
        .addProcessor("fill", Fill::new, "table")
        .addProcessor("join", Join::new, "stream")
        .addStateStore(
          Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore(STORE), Serdes.ByteArray(), Serdes.ByteArray()),
          "fill", "join")
        .addSink("sink", "out", new ByteArraySerializer(), new ByteArraySerializer(), "join");
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

  private static final class Join implements Processor<byte[], byte[], byte[], byte[]> {
    private ProcessorContext<byte[], byte[]> context;
    private KeyValueStore<byte[], byte[]> rows;

    @Override
    public void init(ProcessorContext<byte[], byte[]> given) {
      context = given;
      rows = given.getStateStore(STORE);
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
      if (record.value() == null) {
        return;
      }
      byte[] row = rows.get(record.key());
      String joined = text(record.value()) + "|" + (row == null ? "-" : text(row));
      context.forward(record.withValue(joined.getBytes(StandardCharsets.UTF_8)));
    }

    private static String text(byte[] bytes) {
      return new String(bytes, StandardCharsets.UTF_8);
    }
  }
}
