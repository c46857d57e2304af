package streamproof.application;

import java.util.Optional;
import java.util.Set;
import java.util.zip.CRC32;
import org.apache.kafka.streams.processor.StreamPartitioner;

/** The partition of a key in the topics of the simulator. */
final class KeyPartitioner implements StreamPartitioner<byte[], byte[]> {
  /** What Kafka asks for up to 3.9. */
  public Integer partition(String topic, byte[] key, byte[] value, int partitions) {
    CRC32 checksum = new CRC32();
    checksum.update(key);
    return (int) (checksum.getValue() % partitions);
  }

  /** What Kafka asks for since 3.4. */
  public Optional<Set<Integer>> partitions(
        String topic, byte[] key, byte[] value, int partitions) {
    return Optional.of(Set.of(partition(topic, key, value, partitions)));
  }
}
