package streamproof.application;

import java.io.FileReader;
import java.io.Reader;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/** One instance of an application: {@code Application TOPOLOGY PROPERTIES}. */
public final class Application {
  private static final Duration CLOSING = Duration.ofSeconds(20);

  private Application() {
  }

  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    try (Reader reader = new FileReader(arguments[1])) {
      properties.load(reader);
    }
    Topology topology = topology(arguments[0], properties);
    KafkaStreams streams = new KafkaStreams(topology, properties);
    // The owner of the process waits for these lines.
    streams.setStateListener((now, before) -> System.out.println("state " + now));
    streams.setUncaughtExceptionHandler(error -> {
      error.printStackTrace();
      return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    });
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(CLOSING)));
    streams.start();
  }

  /** A topology, and the settings that it needs. */
  private static Topology topology(String name, Properties properties) {
    return switch (name) {
      case "count" -> CountTopology.make();
      case "global-table-join" -> GlobalTableTopology.make();
      case "last-byte-count" -> LastByteCountTopology.make(properties);
      case "punctuated-count" -> PunctuatedCountTopology.make();
      case "reused-table-join" -> ReusedTableTopology.make(properties);
      case "stateless" -> StatelessTopology.make();
      case "stream-table-join" -> StreamTableTopology.make();
      case "table-operators" -> TableOperatorsTopology.make();
      case "windowed-count" -> WindowedCountTopology.make();
      default -> throw new IllegalArgumentException("There is no topology " + name + ".");
    };
  }
}
