package streamproof.application;

import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;

/** Two tables and a stream of events, to one topic for each operator. */
final class TableOperatorsTopology {
  private static final String LEFT = "left";
  private static final String RIGHT = "right";
  private static final String LATEST = "latest";
  private static final String EVEN = "02468";

  private TableOperatorsTopology() {
  }

  static Topology make() {
    ByteArrayDeserializer bytes = new ByteArrayDeserializer();
    Topology topology = new Topology()
        .addSource(LEFT, bytes, bytes, Topics.named("left"))
        .addSource(RIGHT, bytes, bytes, Topics.named("right"))
        .addSource("events", bytes, bytes, Topics.named("events"))
        .addProcessor("fill-left", () -> new Fill(LEFT, RIGHT), LEFT)
        .addProcessor("fill-right", () -> new Fill(RIGHT, LEFT), RIGHT)
        .addProcessor("aggregate", Aggregate::new, "events")
        .addStateStore(store(LEFT), "fill-left", "fill-right")
        .addStateStore(store(RIGHT), "fill-left", "fill-right")
        // The events belong to the task of the tables, as in the simulator.
        .addStateStore(store(LATEST), "aggregate", "fill-left");
    ByteArraySerializer written = new ByteArraySerializer();
    return topology
        .addSink("to-filtered", Topics.named("filtered"), written, written, new KeyPartitioner(),
          "fill-left")
        .addSink("to-mapped", Topics.named("mapped"), written, written, new KeyPartitioner(),
          "fill-left")
        .addSink("to-joined", Topics.named("joined"), written, written, new KeyPartitioner(),
          "fill-left", "fill-right")
        .addSink("to-out", Topics.named("out"), written, written, new KeyPartitioner(),
          "aggregate");
  }

  private static StoreBuilder<TimestampedKeyValueStore<byte[], byte[]>> store(String name) {
    return Stores.timestampedKeyValueStoreBuilder(
        Suppliers.timestamped(name), Serdes.ByteArray(), Serdes.ByteArray());
  }

  /** Fills a table, passes the rows of the left one on, and joins each with the other table. */
  private static final class Fill extends ContextualProcessor<byte[], byte[], byte[], byte[]> {
    private final String own;
    private final String beside;
    private TimestampedKeyValueStore<byte[], byte[]> rows;
    private TimestampedKeyValueStore<byte[], byte[]> others;

    private Fill(String own, String beside) {
      this.own = own;
      this.beside = beside;
    }

    @Override
    public void init(ProcessorContext<byte[], byte[]> context) {
      super.init(context);
      rows = context.getStateStore(own);
      others = context.getStateStore(beside);
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
      byte[] value = record.value();
      rows.put(record.key(), ValueAndTimestamp.make(value, record.timestamp()));
      if (own.equals(LEFT)) {
        context().forward(record.withValue(passes(value) ? value : null), "to-filtered");
        byte[] mapped = value == null ? null : Texts.bytes(Texts.text(value) + "!");
        context().forward(record.withValue(mapped), "to-mapped");
      }
      ValueAndTimestamp<byte[]> other = others.get(record.key());
      if (other != null) {
        byte[] left = own.equals(LEFT) ? value : other.value();
        byte[] right = own.equals(LEFT) ? other.value() : value;
        byte[] joined = left == null || right == null ? null : Texts.joined(left, right);
        long time = Math.max(record.timestamp(), other.timestamp());
        context().forward(record.withValue(joined).withTimestamp(time), "to-joined");
      }
    }

    private static boolean passes(byte[] value) {
      return value != null && value.length > 0
          && EVEN.indexOf((char) value[value.length - 1]) < 0;
    }
  }

  /** Counts the events of a key, with the last one; the time is the latest of all of them. */
  private static final class Aggregate
      extends ContextualProcessor<byte[], byte[], byte[], byte[]> {
    private TimestampedKeyValueStore<byte[], byte[]> latest;

    @Override
    public void init(ProcessorContext<byte[], byte[]> context) {
      super.init(context);
      latest = context.getStateStore(LATEST);
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
      if (record.value() == null) {
        return;
      }
      ValueAndTimestamp<byte[]> before = latest.get(record.key());
      byte[] count = before == null
          ? null : Texts.bytes(Texts.text(before.value()).split("\\|")[0]);
      long time = before == null
          ? record.timestamp() : Math.max(record.timestamp(), before.timestamp());
      byte[] value = Texts.joined(Texts.more(count), record.value());
      latest.put(record.key(), ValueAndTimestamp.make(value, time));
      context().forward(record.withValue(value).withTimestamp(time));
    }
  }
}
