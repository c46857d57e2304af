package streamproof.application;

import java.io.FileReader;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * One instance of an application: {@code Application TOPOLOGY PROPERTIES}. With a third argument,
 * the name of a file, it waits for that file before it goes near its state directory or the
 * brokers, so that it begins at a given moment and not a slow start of a JVM later.
 */
public final class Application {
  private static final Duration CLOSING = Duration.ofSeconds(20);

  private static final int POLL_MS = 2;

  /** Classes that bring many others with them. */
  private static final List<String> SLOW = List.of(
      "com.fasterxml.jackson.databind.ObjectMapper",
      "org.apache.kafka.clients.admin.KafkaAdminClient",
      "org.apache.kafka.clients.producer.KafkaProducer",
      "org.apache.kafka.streams.KafkaStreams",
      "org.apache.kafka.streams.processor.internals.StreamThread",
      "org.apache.kafka.streams.processor.internals.StreamTask",
      "org.apache.kafka.streams.processor.internals.StreamsPartitionAssignor",
      "org.rocksdb.RocksDB");

  private Application() {
  }

  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    try (Reader reader = new FileReader(arguments[1])) {
      properties.load(reader);
    }
    Topology topology = topology(arguments[0], properties);
    if (arguments.length > 2) {
      standBy(properties, Path.of(arguments[2]));
    }
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

  /** Load what takes long, and wait for a file. */
  private static void standBy(Properties properties, Path go) throws Exception {
    for (String each : SLOW) {
      Class.forName(each);
    }
    // A consumer asks no broker for anything before somebody asks the consumer.
    Map<String, Object> cluster =
        Map.of("bootstrap.servers", properties.getProperty("bootstrap.servers"));
    ByteArrayDeserializer bytes = new ByteArrayDeserializer();
    new KafkaConsumer<>(cluster, bytes, bytes).close();
    System.out.println("ready");
    while (!Files.exists(go)) {
      Thread.sleep(POLL_MS);
    }
  }

  /** A topology, and the settings that it needs. */
  private static Topology topology(String name, Properties properties) {
    return switch (name) {
      case "count" -> CountTopology.make();
      case "global-table-join" -> GlobalTableTopology.make();
      case "last-byte-count" -> LastByteCountTopology.make(properties);
      case "punctuated-count" -> PunctuatedCountTopology.make();
      case "reused-table-join" -> ReusedTableTopology.make(properties);
      case "session-count" -> SessionCountTopology.make();
      case "stateless" -> StatelessTopology.make();
      case "stream-stream-join" -> StreamStreamTopology.make();
      case "stream-table-join" -> StreamTableTopology.make();
      case "table-operators" -> TableOperatorsTopology.make();
      case "windowed-count" -> WindowedCountTopology.make();
      default -> throw new IllegalArgumentException("There is no topology " + name + ".");
    };
  }
}
