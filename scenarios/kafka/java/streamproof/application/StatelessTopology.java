package streamproof.application;

import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;

/** Each value is reversed, and tombstones are left out: {@code in} to {@code out}. */
final class StatelessTopology {
  private StatelessTopology() {
  }

  static Topology make() {
    return new Topology()
        .addSource("source", new ByteArrayDeserializer(), new ValueReader(), Topics.named("in"))
        .addProcessor("reverse", Reverse::new, "source")
        .addSink("sink", Topics.named("out"), new ByteArraySerializer(), new ByteArraySerializer(),
          new KeyPartitioner(), "reverse");
  }

  private static final class Reverse extends ContextualProcessor<byte[], byte[], byte[], byte[]> {
    @Override
    public void process(Record<byte[], byte[]> record) {
      Texts.refuse(record.value());
      if (record.value() != null) {
        context().forward(record.withValue(reversed(record.value())));
      }
    }

    private static byte[] reversed(byte[] value) {
      byte[] found = new byte[value.length];
      for (int at = 0; at < value.length; at++) {
        found[value.length - 1 - at] = value[at];
      }
      return found;
    }
  }
}
