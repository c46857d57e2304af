import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Window and session stores on RocksDB lose rows in a kill, and say that they have them.
 *
 * <p>A process puts one early row into each store, then 400 later ones of 100 kB, and is killed by
 * SIGKILL. Nothing but defaults is configured, unless an argument asks for exactly-once and
 * transactional stores. Each segment of a store is a database of its own. The later segment has
 * flushed; the early one has not. The store takes the offset of the later segment for that of the
 * store, so the early row is never restored.
 */
public final class RowsAreLost {
  public static void main(String[] arguments) throws Exception {
    String directory = arguments[0];
    boolean transactional = List.of(arguments).contains("transactional");
    if (List.of(arguments).contains("write")) {
      write(directory, transactional);
      return;
    }
    Process writer =
        new ProcessBuilder(
                ProcessHandle.current().info().command().orElseThrow(),
                "-Djava.io.tmpdir=" + System.getProperty("java.io.tmpdir"),
                "-cp",
                System.getProperty("java.class.path"),
                RowsAreLost.class.getName(),
                directory,
                transactional ? "transactional" : "plain",
                "write")
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    if (writer.getInputStream().read() < 0) {
      throw new IllegalStateException("The process that writes has failed.");
    }
    writer.destroyForcibly().waitFor();

    TopologyTestDriver driver = driver(directory, transactional);
    WindowStore<String, byte[]> windows = driver.getWindowStore("windows");
    tell(windows, windows.fetch("early", 0) != null);
    SessionStore<String, byte[]> sessions = driver.getSessionStore("sessions");
    tell(sessions, sessions.fetchSession("early", 0, 0) != null);
    // The driver is not closed: its clean-up would delete the files.
    Runtime.getRuntime().halt(0);
  }

  private static void tell(StateStore store, boolean found) {
    Long committed =
        store.committedOffset(new TopicPartition("findings-" + store.name() + "-changelog", 0));
    System.out.println(
        store.name()
            + ": has all records up to offset "
            + committed
            + ", as it says; the record at offset 0 is "
            + (found ? "there" : "lost"));
  }

  private static void write(String directory, boolean transactional) throws InterruptedException {
    var input =
        driver(directory, transactional)
            .createInputTopic("in", new StringSerializer(), new ByteArraySerializer());
    input.pipeInput(new TestRecord<>("early", new byte[100_000], Instant.ofEpochMilli(0)));
    Instant later = Instant.ofEpochMilli(100_000);
    for (int number = 0; number < 400; number++) {
      input.pipeInput(new TestRecord<>("late" + number, new byte[100_000], later));
    }
    System.out.println("written");
    Thread.sleep(Long.MAX_VALUE);
  }

  /** A task of Kafka Streams without a broker, with its state in a directory. */
  private static TopologyTestDriver driver(String directory, boolean transactional) {
    Properties config = new Properties();
    config.put(StreamsConfig.APPLICATION_ID_CONFIG, "findings");
    config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:1");
    config.put(StreamsConfig.STATE_DIR_CONFIG, directory);
    if (transactional) {
      // Kafka has this configuration from 4.4 on.
      config.put("enable.transactional.statestores", true);
      config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    }
    var windows =
        Stores.windowStoreBuilder(
            Stores.persistentWindowStore(
                "windows", Duration.ofMinutes(3), Duration.ofSeconds(10), false),
            Serdes.String(),
            Serdes.ByteArray());
    var sessions =
        Stores.sessionStoreBuilder(
            Stores.persistentSessionStore("sessions", Duration.ofMinutes(3)),
            Serdes.String(),
            Serdes.ByteArray());
    Topology topology =
        new Topology()
            .addSource(
                "source", Serdes.String().deserializer(), Serdes.ByteArray().deserializer(), "in")
            .addProcessor("processor", Putting::new, "source")
            .addStateStore(windows, "processor")
            .addStateStore(sessions, "processor");
    return new TopologyTestDriver(topology, config, Instant.EPOCH);
  }

  private static final class Putting implements Processor<String, byte[], Void, Void> {
    private WindowStore<String, byte[]> windows;
    private SessionStore<String, byte[]> sessions;

    @Override
    public void init(ProcessorContext<Void, Void> context) {
      windows = context.getStateStore("windows");
      sessions = context.getStateStore("sessions");
    }

    @Override
    public void process(Record<String, byte[]> record) {
      windows.put(record.key(), record.value(), record.timestamp());
      var session = new SessionWindow(record.timestamp(), record.timestamp());
      sessions.put(new Windowed<>(record.key(), session), record.value());
    }
  }
}
