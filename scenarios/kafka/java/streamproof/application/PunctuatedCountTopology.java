package streamproof.application;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;

/** Counts are sent on by punctuations, by stream time and by wall-clock time. */
final class PunctuatedCountTopology {
  private static final String COUNTS = "counts";
  private static final String PENDING = "pending";
  private static final Duration STREAM_TIME = Duration.ofMillis(500);
  private static final Duration WALL_CLOCK = Duration.ofSeconds(3);

  private PunctuatedCountTopology() {
  }

  static Topology make() {
    return new Topology()
        .addSource("source", new ByteArrayDeserializer(), new ByteArrayDeserializer(),
          Topics.named("in"))
        .addProcessor("count", Counter::new, "source")
        .addStateStore(CountTopology.store(COUNTS), "count")
        .addStateStore(CountTopology.store(PENDING), "count")
        .addSink("sink", Topics.named("out"), new ByteArraySerializer(), new ByteArraySerializer(),
          new KeyPartitioner(), "count");
  }

  private static final class Counter extends ContextualProcessor<byte[], byte[], byte[], byte[]> {
    private KeyValueStore<byte[], byte[]> counts;
    private KeyValueStore<byte[], byte[]> pending;

    @Override
    public void init(ProcessorContext<byte[], byte[]> context) {
      super.init(context);
      counts = context.getStateStore(COUNTS);
      pending = context.getStateStore(PENDING);
      context.schedule(STREAM_TIME, PunctuationType.STREAM_TIME, this::sendOn);
      context.schedule(WALL_CLOCK, PunctuationType.WALL_CLOCK_TIME, this::sendOn);
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
      if (record.value() != null) {
        counts.put(record.key(), Texts.more(counts.get(record.key())));
        pending.put(record.key(), new byte[0]);
      }
    }

    private void sendOn(long time) {
      List<byte[]> keys = new ArrayList<>();
      try (KeyValueIterator<byte[], byte[]> all = pending.all()) {
        all.forEachRemaining(each -> keys.add(each.key));
      }
      for (byte[] key : keys) {
        context().forward(new Record<>(key, counts.get(key), time));
        pending.put(key, null);
        context().commit();
      }
    }
  }
}
