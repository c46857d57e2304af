package streamproof.application;

import java.util.Properties;
import org.apache.kafka.streams.Topology;

/** Releases before 3.3 lack a method that the topology of this name calls. */
final class LastByteCountTopology {
  private LastByteCountTopology() {
  }

  static Topology make(Properties properties) {
    throw new UnsupportedOperationException("The topology needs Kafka 3.3.");
  }
}
