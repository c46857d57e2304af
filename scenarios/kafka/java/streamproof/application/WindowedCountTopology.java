package streamproof.application;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/**
 * How many records each key has in each window: {@code in} to {@code out}. The row of a closed
 * window is deleted when the next new row is written.
 */
final class WindowedCountTopology {
  private static final String STORE = "windows";
  private static final long SIZE_MS = 2_000;
  private static final long GRACE_MS = 2_000;
  private static final int SEQUENCE = 0;

  /** The processor deletes the rows itself, so the store must keep closed windows for a while. */
  private static final Duration RETENTION = Duration.ofMinutes(2);

  private WindowedCountTopology() {
  }

  static Topology make() {
    return new Topology()
        .addSource("source", new ByteArrayDeserializer(), new ByteArrayDeserializer(),
          Topics.named("in"))
        .addProcessor("count", Counter::new, "source")
        .addStateStore(
          Stores.windowStoreBuilder(
            Suppliers.window(STORE, RETENTION, Duration.ofMillis(SIZE_MS)),
            Serdes.ByteArray(), Serdes.ByteArray()),
          "count")
        .addSink("sink", Topics.named("out"), new ByteArraySerializer(), new ByteArraySerializer(),
          new KeyPartitioner(), "count");
  }

  private static final class Counter extends ContextualProcessor<byte[], byte[], byte[], byte[]> {
    private WindowStore<byte[], byte[]> windows;

    @Override
    public void init(ProcessorContext<byte[], byte[]> context) {
      super.init(context);
      windows = context.getStateStore(STORE);
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
      long now = context().currentStreamTimeMs();
      long start = record.timestamp() - record.timestamp() % SIZE_MS;
      if (record.value() == null || isClosed(start, now)) {
        return;
      }
      byte[] before = windows.fetch(record.key(), start);
      write(record, record.key(), start, Texts.more(before));
      if (before == null) {
        for (Windowed<byte[]> each : closed(now)) {
          write(record, each.key(), each.window().start(), null);
        }
      }
    }

    private void write(Record<byte[], byte[]> record, byte[] key, long start, byte[] value) {
      windows.put(key, value, start);
      byte[] raw = ByteBuffer.allocate(key.length + Long.BYTES + Integer.BYTES)
          .put(key).putLong(start).putInt(SEQUENCE).array();
      context().forward(record.withKey(raw).withValue(value));
    }

    private List<Windowed<byte[]>> closed(long now) {
      List<Windowed<byte[]>> found = new ArrayList<>();
      try (KeyValueIterator<Windowed<byte[]>, byte[]> all = windows.all()) {
        while (all.hasNext()) {
          KeyValue<Windowed<byte[]>, byte[]> each = all.next();
          if (isClosed(each.key.window().start(), now)) {
            found.add(each.key);
          }
        }
      }
      return found;
    }

    private static boolean isClosed(long start, long now) {
      return start + SIZE_MS + GRACE_MS <= now;
    }
  }
}
