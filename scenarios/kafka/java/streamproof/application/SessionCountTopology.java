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
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;

/**
 * How many records each key has in each session: {@code in} to {@code out}. The rows of closed
 * sessions are deleted with the next counted record.
 */
final class SessionCountTopology {
  private static final String STORE = "sessions";
  private static final long GAP_MS = 500;
  private static final long GRACE_MS = 1_000;

  /** The processor deletes the rows itself, so the store must keep closed sessions for a while. */
  private static final Duration RETENTION = Duration.ofMinutes(2);

  private SessionCountTopology() {
  }

  static Topology make() {
    return new Topology()
        .addSource("source", new ByteArrayDeserializer(), new ByteArrayDeserializer(),
          Topics.named("in"))
        .addProcessor("count", Counter::new, "source")
        .addStateStore(
          Stores.sessionStoreBuilder(
            Suppliers.session(STORE, RETENTION), Serdes.ByteArray(), Serdes.ByteArray()),
          "count")
        .addSink("sink", Topics.named("out"), new ByteArraySerializer(), new ByteArraySerializer(),
          new KeyPartitioner(), "count");
  }

  private static final class Counter extends ContextualProcessor<byte[], byte[], byte[], byte[]> {
    private SessionStore<byte[], byte[]> sessions;

    @Override
    public void init(ProcessorContext<byte[], byte[]> context) {
      super.init(context);
      sessions = context.getStateStore(STORE);
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
      if (record.value() == null) {
        return;
      }
      long closedBefore = context().currentStreamTimeMs() - GAP_MS - GRACE_MS;
      long start = record.timestamp();
      long end = record.timestamp();
      int count = 1;
      List<KeyValue<Windowed<byte[]>, byte[]>> near = near(record);
      for (KeyValue<Windowed<byte[]>, byte[]> each : near) {
        start = Math.min(start, each.key.window().start());
        end = Math.max(end, each.key.window().end());
        count += Integer.parseInt(Texts.text(each.value));
      }
      if (end < closedBefore) {
        return;
      }
      near.forEach(each -> write(record, each.key, null));
      write(record, new Windowed<>(record.key(), new SessionWindow(start, end)),
          Texts.bytes(Integer.toString(count)));
      closed(closedBefore).forEach(each -> write(record, each, null));
    }

    private void write(Record<byte[], byte[]> record, Windowed<byte[]> session, byte[] value) {
      sessions.put(session, value);
      byte[] key = session.key();
      byte[] raw = ByteBuffer.allocate(key.length + 2 * Long.BYTES)
          .put(key).putLong(session.window().end()).putLong(session.window().start()).array();
      context().forward(record.withKey(raw).withValue(value));
    }

    /** The sessions of the key that the record belongs to. */
    private List<KeyValue<Windowed<byte[]>, byte[]>> near(Record<byte[], byte[]> record) {
      List<KeyValue<Windowed<byte[]>, byte[]>> found = new ArrayList<>();
      try (KeyValueIterator<Windowed<byte[]>, byte[]> rows = sessions.findSessions(
              record.key(), record.timestamp() - GAP_MS, record.timestamp() + GAP_MS)) {
        rows.forEachRemaining(found::add);
      }
      return found;
    }

    private List<Windowed<byte[]>> closed(long before) {
      List<Windowed<byte[]>> found = new ArrayList<>();
      try (KeyValueIterator<Windowed<byte[]>, byte[]> rows =
                sessions.findSessions(null, null, 0, Long.MAX_VALUE)) {
        while (rows.hasNext()) {
          Windowed<byte[]> each = rows.next().key;
          if (each.window().end() < before) {
            found.add(each);
          }
        }
      }
      return found;
    }
  }
}
