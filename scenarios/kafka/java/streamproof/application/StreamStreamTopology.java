package streamproof.application;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * An inner join of {@code left} and {@code right} to {@code out}: records of one key that are close
 * in time. A store for each side has its records for a while.
 */
final class StreamStreamTopology {
  private static final String LEFT = "left";
  private static final String RIGHT = "right";
  private static final long WINDOW_MS = 2_000;
  private static final long GRACE_MS = 1_000;
  private static final int SUFFIX_BYTES = Long.BYTES + Integer.BYTES;

  /** Sequence numbers in keys are below this one. */
  private static final long SEQUENCES = 1L << 31;

  private StreamStreamTopology() {
  }

  static Topology make() {
    ByteArrayDeserializer bytes = new ByteArrayDeserializer();
    return new Topology()
        .addSource("from-left", bytes, bytes, Topics.named(LEFT))
        .addSource("from-right", bytes, bytes, Topics.named(RIGHT))
        .addProcessor("join-left", () -> new Join(LEFT, RIGHT), "from-left")
        .addProcessor("join-right", () -> new Join(RIGHT, LEFT), "from-right")
        .addStateStore(CountTopology.store(LEFT), "join-left", "join-right")
        .addStateStore(CountTopology.store(RIGHT), "join-left", "join-right")
        .addSink("sink", Topics.named("out"), new ByteArraySerializer(), new ByteArraySerializer(),
          new KeyPartitioner(), "join-left", "join-right");
  }

  /** Joins each record of one side with those that the other side has. */
  private static final class Join extends ContextualProcessor<byte[], byte[], byte[], byte[]> {
    private final String side;
    private final String otherSide;
    private KeyValueStore<byte[], byte[]> own;
    private KeyValueStore<byte[], byte[]> other;

    Join(String side, String otherSide) {
      this.side = side;
      this.otherSide = otherSide;
    }

    @Override
    public void init(ProcessorContext<byte[], byte[]> context) {
      super.init(context);
      own = context.getStateStore(side);
      other = context.getStateStore(otherSide);
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
      long now = context().currentStreamTimeMs();
      if (record.value() != null && record.timestamp() >= now - WINDOW_MS - GRACE_MS) {
        own.put(rowKey(record), record.value());
        join(record);
      }
      forget(own, now);
      forget(other, now);
    }

    /** A record that is processed again gets the same row again. */
    private byte[] rowKey(Record<byte[], byte[]> record) {
      int sequence = (int) (context().recordMetadata().orElseThrow().offset() % SEQUENCES);
      return ByteBuffer.allocate(record.key().length + SUFFIX_BYTES)
          .put(record.key()).putLong(record.timestamp()).putInt(sequence).array();
    }

    private void join(Record<byte[], byte[]> record) {
      try (KeyValueIterator<byte[], byte[]> rows =
                other.prefixScan(record.key(), new ByteArraySerializer())) {
        while (rows.hasNext()) {
          KeyValue<byte[], byte[]> row = rows.next();
          byte[] key = Arrays.copyOf(row.key, row.key.length - SUFFIX_BYTES);
          long time = time(row.key);
          if (Arrays.equals(key, record.key())
              && Math.abs(time - record.timestamp()) <= WINDOW_MS) {
            boolean isLeft = side.equals(LEFT);
            byte[] joined = isLeft
                ? Texts.joined(record.value(), row.value)
                : Texts.joined(row.value, record.value());
            context().forward(record.withValue(joined)
                .withTimestamp(Math.max(time, record.timestamp())));
          }
        }
      }
    }

    /** Delete rows if each record that could still be joined with them would come too late. */
    private static void forget(KeyValueStore<byte[], byte[]> store, long now) {
      List<byte[]> expired = new ArrayList<>();
      try (KeyValueIterator<byte[], byte[]> rows = store.all()) {
        while (rows.hasNext()) {
          byte[] key = rows.next().key;
          if (time(key) < now - 2 * WINDOW_MS - GRACE_MS) {
            expired.add(key);
          }
        }
      }
      expired.forEach(key -> store.put(key, null));
    }

    private static long time(byte[] key) {
      return ByteBuffer.wrap(key).getLong(key.length - SUFFIX_BYTES);
    }
  }
}
