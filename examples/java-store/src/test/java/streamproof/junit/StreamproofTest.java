package streamproof.junit;

import static java.util.stream.Collectors.groupingBy;
import static java.util.stream.Collectors.joining;
import static java.util.stream.Collectors.toList;
import static org.junit.jupiter.api.DynamicContainer.dynamicContainer;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Properties;
import java.util.jar.Attributes;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import java.util.stream.Stream;
import org.apache.kafka.streams.KafkaStreams;
import org.junit.jupiter.api.DynamicNode;
import org.junit.jupiter.api.TestFactory;

/**
 * Verifies a state store with streamproof. Each requirement becomes a test, and each area a
 * container of tests.
 *
 * <pre>{@code
 * class OrdersTest extends StreamproofTest {
 *   OrdersTest() {
 *     super("com.acme.state.MvStores#orders", "--guarantee", "at-least-once");
 *   }
 * }
 * }</pre>
 *
 * <p>The class runs {@code streamproof verify} with the class path of the test, and reads the run
 * log. A requirement that is kept passes. One that is broken fails: the message has the promise, a
 * program that shows the failure, and a command that finds it again. One that the store does not
 * claim, or that this machine cannot try, is skipped with the reason.
 *
 * <p>The profile is {@code smoke} and the seed 0, so that a build can be repeated. Two system
 * properties change a run:
 *
 * <ul>
 *   <li>{@code -Dstreamproof.command=…}: the path of the command, if it is not in {@code PATH}.
 *   <li>{@code -Dstreamproof.options="--profile quick --only CRASH"}: more options of {@code
 *       streamproof verify}, which win over those of the class.
 * </ul>
 */
public abstract class StreamproofTest {
  private static final String REMEDY =
      "Install Python 3.11 and streamproof (pip install . in a clone of it, or its wheel), or name "
          + "the command: mvn test -Dstreamproof.command=/path/to/streamproof";

  private static final String VERSION_FILE = "/kafka/kafka-version.properties";

  private final String subject;
  private final List<String> options;
  private final Path out = Path.of("target", "streamproof", getClass().getSimpleName());

  /**
   * Names the store and the options of its verification.
   *
   * @param store {@code CLASS#METHOD}: a public static method that returns a supplier of the store
   * @param options options of {@code streamproof verify}, such as {@code "--profile", "quick"}
   */
  protected StreamproofTest(String store, String... options) {
    // The host of the store has to fit the release of Kafka in the class path.
    String release = store.contains("@") ? "" : "@" + releaseOfKafka();
    this.subject = "java:" + store + release;
    this.options = List.of(options);
  }

  private static String releaseOfKafka() {
    // Classes that know the release are internal, and move between releases.
    Properties version = new Properties();
    try (InputStream file = KafkaStreams.class.getResourceAsStream(VERSION_FILE)) {
      version.load(file);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    return version.getProperty("version");
  }

  /** Verifies the store, and makes a test of each requirement. */
  @TestFactory
  protected final Stream<DynamicNode> requirements() throws IOException, InterruptedException {
    RunLog log = verify();
    var areas =
        log.results().stream()
            .collect(groupingBy(RunLog.Result::area, LinkedHashMap::new, toList()));
    Stream<DynamicNode> containers =
        areas.entrySet().stream()
            .map(area -> dynamicContainer(area.getKey(), area.getValue().stream().map(this::test)));
    return Stream.concat(containers, Stream.of(dynamicTest("verdict", log::checkVerdict)));
  }

  private DynamicNode test(RunLog.Result result) {
    return dynamicTest(result.name(), () -> result.check(out));
  }

  private RunLog verify() throws IOException, InterruptedException {
    Path log = out.resolve("run.ndjson");
    Files.createDirectories(out);
    // A run that ends early must not leave the answers of the run before it.
    Files.deleteIfExists(log);
    Path classPath = out.resolve("class-path.jar");
    writeClassPath(classPath);
    System.out.println("streamproof verifies " + subject + "; report: " + out + "/report.html");

    ProcessBuilder builder = new ProcessBuilder(command()).redirectErrorStream(true);
    builder.environment().put("CLASSPATH", classPath.toString());
    Process process = start(builder);
    // Whoever stops the build stops the verification as well.
    Runtime.getRuntime().addShutdownHook(new Thread(process::destroy));
    String printed =
        new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
    Files.writeString(out.resolve("output.txt"), printed);
    return RunLog.read(log, process.waitFor(), printed);
  }

  /** Writes a jar that only names the class path of the test, so that commands stay short. */
  private static void writeClassPath(Path jar) throws IOException {
    String entries =
        Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
            .filter(entry -> !entry.isEmpty())
            .map(entry -> Path.of(entry).toUri().toString())
            .collect(joining(" "));
    Manifest manifest = new Manifest();
    manifest.getMainAttributes().put(Attributes.Name.MANIFEST_VERSION, "1.0");
    manifest.getMainAttributes().put(Attributes.Name.CLASS_PATH, entries);
    new JarOutputStream(Files.newOutputStream(jar), manifest).close();
  }

  private List<String> command() {
    List<String> words = new ArrayList<>();
    words.add(System.getProperty("streamproof.command", "streamproof"));
    words.addAll(List.of("verify", subject, "--profile", "smoke", "--seed", "0"));
    words.addAll(options);
    String more = System.getProperty("streamproof.options", "").strip();
    if (!more.isEmpty()) {
      words.addAll(List.of(more.split("\\s+")));
    }
    words.addAll(List.of("--out", out.toString()));
    return words;
  }

  private static Process start(ProcessBuilder builder) {
    try {
      return builder.start();
    } catch (IOException error) {
      throw RunLog.noAnswer("The command " + builder.command().get(0) + " does not run. " + REMEDY);
    }
  }
}
