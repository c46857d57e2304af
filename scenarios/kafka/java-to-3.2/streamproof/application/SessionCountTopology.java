package streamproof.application;

import org.apache.kafka.streams.Topology;

/** Releases before 3.3 lack a method that the topology of this name calls. */
final class SessionCountTopology {
  private SessionCountTopology() {
  }

  static Topology make() {
    throw new UnsupportedOperationException("The topology needs Kafka 3.3.");
  }
}
