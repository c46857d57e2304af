package streamproof.application;

import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;

/** The last byte of the value becomes the key; the records of each are counted behind it. */
final class LastByteCountTopology {
  /** The setting that has the number of partitions of the input. */
  private static final String PARTITIONS = "streamproof.partitions";

  private LastByteCountTopology() {
  }

  static Topology make(Properties properties) {
    Serde<byte[]> bytes = Serdes.ByteArray();
    int partitions = Integer.parseInt(properties.getProperty(PARTITIONS));
    StreamsBuilder builder = new StreamsBuilder();
    builder.addStateStore(CountTopology.store(CountTopology.STORE));
    builder.stream(Topics.named("in"), Consumed.with(bytes, bytes))
        .filter((key, value) -> value != null)
        .map((key, value) -> KeyValue.pair(new byte[] {value[value.length - 1]}, key))
        .repartition(Repartitioned.with(bytes, bytes).withName("keys")
            .withNumberOfPartitions(partitions + 1)
            .withStreamPartitioner(new KeyPartitioner()))
        .process(CountTopology.Counter::new, CountTopology.STORE)
        .to(Topics.named("out"), Produced.with(bytes, bytes, new KeyPartitioner()));
    return builder.build(properties);
  }
}
