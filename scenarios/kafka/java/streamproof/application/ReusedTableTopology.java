package streamproof.application;

import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/** A left join of {@code stream} and {@code table} to {@code out}; the table is its changelog. */
final class ReusedTableTopology {
  /** {@code StreamsConfig.REUSE_KTABLE_SOURCE_TOPICS}, which Kafka has since 3.4. */
  private static final String REUSE_THE_INPUT = "reuse.ktable.source.topics";

  private ReusedTableTopology() {
  }

  static Topology make(Properties properties) {
    properties.setProperty(
        StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, REUSE_THE_INPUT);
    Serde<byte[]> bytes = Serdes.ByteArray();
    StreamsBuilder builder = new StreamsBuilder();
    KTable<byte[], byte[]> table = builder.table(Topics.named("table"), Consumed.with(bytes, bytes),
        Materialized.<byte[], byte[]>as(Suppliers.keyValue("rows"))
            .withKeySerde(bytes).withValueSerde(bytes));
    builder.stream(Topics.named("stream"), Consumed.with(bytes, bytes))
        .filter((key, value) -> value != null)
        .leftJoin(table, Texts::joined, Joined.with(bytes, bytes, bytes))
        .to(Topics.named("out"), Produced.with(bytes, bytes, new KeyPartitioner()));
    return builder.build(properties);
  }
}
