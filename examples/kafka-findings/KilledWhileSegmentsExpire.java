import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.test.TestRecord;
import org.rocksdb.Options;

/**
 * A task does not start any more after a kill in the middle of the deletion of an expired segment.
 *
 * <p>Each segment of a window store is a database in a directory of its own. The files of an
 * expired one are deleted one by one under the name of the segment. A process is killed by SIGKILL
 * meanwhile. Each later start opens every directory that has the name of a segment, and RocksDB
 * misses the deleted files. Small buffers and no compaction give the segment many files, so that
 * the kill is easy to time.
 */
public final class KilledWhileSegmentsExpire {
  private static final int ROWS = 1_000;
  private static final int SOME = 10;
  private static final int TRIES = 20;
  private static final String STARTS = "the task starts";

  public static void main(String[] arguments) throws Exception {
    if (arguments.length == 1) {
      kill(arguments[0]);
    } else if (arguments[1].equals("write")) {
      write(arguments[0]);
    } else {
      start(arguments[0]);
    }
    // No driver is closed: its clean-up would delete the files.
    System.out.flush();
    Runtime.getRuntime().halt(0);
  }

  /** Kills processes until one dies in the middle of a deletion, and starts others after it. */
  private static void kill(String directory) throws Exception {
    for (int number = 0; number < TRIES; number++) {
      String state = Path.of(directory, "try" + number).toString();
      Process writer = process(state, "write");
      BufferedReader said = writer.inputReader();
      Path segment = Path.of(said.readLine());
      int most = 0;
      for (int left = files(segment); left > most - SOME && writer.isAlive(); ) {
        most = Math.max(most, left);
        left = files(segment);
      }
      writer.destroyForcibly().waitFor();
      String first = process(state, "start").inputReader().readLine();
      if (!first.equals(STARTS)) {
        System.out.println("after the kill: " + first);
        String second = process(state, "start").inputReader().readLine();
        System.out.println("at the next start: " + second);
        return;
      }
    }
    System.out.println("No process was killed in the middle of a deletion.");
  }

  private static int files(Path directory) {
    String[] names = directory.toFile().list();
    return names == null ? 0 : names.length;
  }

  private static Process process(String state, String mode) throws IOException {
    return new ProcessBuilder(
            ProcessHandle.current().info().command().orElseThrow(),
            "-Djava.io.tmpdir=" + System.getProperty("java.io.tmpdir"),
            "-cp",
            System.getProperty("java.class.path"),
            KilledWhileSegmentsExpire.class.getName(),
            state,
            mode)
        .redirectError(ProcessBuilder.Redirect.INHERIT)
        .start();
  }

  private static void write(String state) {
    var input =
        driver(state).createInputTopic("in", new StringSerializer(), new ByteArraySerializer());
    for (int number = 0; number < ROWS; number++) {
      input.pipeInput(
          new TestRecord<>("key" + number, new byte[10_000], Instant.ofEpochMilli(number)));
    }
    System.out.println(Path.of(state, "findings", "0_0", "windows", "windows.0"));
    Instant later = Instant.EPOCH.plus(Duration.ofDays(1));
    input.pipeInput(new TestRecord<>("late", new byte[1], later));
  }

  private static void start(String state) {
    try {
      driver(state);
      System.out.println(STARTS);
    } catch (RuntimeException error) {
      Throwable cause = error;
      while (cause.getCause() != null) {
        cause = cause.getCause();
      }
      boolean missing = cause.getMessage().contains("No such file or directory");
      String why = missing ? "because a file is missing" : cause.toString();
      System.out.println(error.getClass().getSimpleName() + ", " + why);
    }
  }

  /** A task of Kafka Streams without a broker, with its state in a directory. */
  private static TopologyTestDriver driver(String directory) {
    Properties config = new Properties();
    config.put(StreamsConfig.APPLICATION_ID_CONFIG, "findings");
    config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:1");
    config.put(StreamsConfig.STATE_DIR_CONFIG, directory);
    config.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, ManyFiles.class);
    var windows =
        Stores.windowStoreBuilder(
            Stores.persistentWindowStore(
                "windows", Duration.ofMinutes(3), Duration.ofSeconds(10), false),
            Serdes.String(),
            Serdes.ByteArray());
    Topology topology =
        new Topology()
            .addSource(
                "source", Serdes.String().deserializer(), Serdes.ByteArray().deserializer(), "in")
            .addProcessor("processor", Putting::new, "source")
            .addStateStore(windows, "processor");
    return new TopologyTestDriver(topology, config, Instant.EPOCH);
  }

  /** Small buffers, which are never merged into larger files. */
  public static final class ManyFiles implements RocksDBConfigSetter {
    @Override
    public void setConfig(String store, Options options, Map<String, Object> configs) {
      options.setWriteBufferSize(65_536);
      options.setDisableAutoCompactions(true);
    }

    @Override
    public void close(String store, Options options) {}
  }

  private static final class Putting implements Processor<String, byte[], Void, Void> {
    private WindowStore<String, byte[]> store;

    @Override
    public void init(ProcessorContext<Void, Void> context) {
      store = context.getStateStore("windows");
    }

    @Override
    public void process(Record<String, byte[]> record) {
      store.put(record.key(), record.value(), record.timestamp());
    }
  }
}
