package streamproof.recorder;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** What an instance of Kafka Streams does as a whole. */
final class Instances {
  /** The settings that describe a run. */
  private static final List<String> SETTINGS = List.of(
      "application.id", "processing.guarantee", "num.standby.replicas", "max.warmup.replicas",
      "acceptable.recovery.lag", "probing.rebalance.interval.ms", "commit.interval.ms",
      "max.task.idle.ms", "statestore.cache.max.bytes", "metrics.recording.level", "state.dir",
      "upgrade.from", "task.timeout.ms", "topic.delete.retention.ms",
      "state.cleanup.dir.max.age.ms", "default.timestamp.extractor",
      "default.deserialization.exception.handler", "deserialization.exception.handler",
      "processing.exception.handler", "enable.transactional.statestores",
      "statestore.uncommitted.max.bytes");

  private static final Set<Object> KNOWN = ConcurrentHashMap.newKeySet();

  private static final Set<Object> STOPPED = ConcurrentHashMap.newKeySet();

  private Instances() {
  }

  static void made(Seen call) {
    // The constructors call each other.
    if (!KNOWN.add(call.self())) {
      return;
    }
    Object streams = call.self();
    Commands.knowClient(streams);
    Map<String, ?> values = (Map<String, ?>) Reflect.call(
        Reflect.field(streams, "applicationConfigs", "config"), "values");
    Map<String, Object> settings = new LinkedHashMap<>();
    SETTINGS.forEach(each -> settings.put(each, values.get(each)));
    String process = Events.process((String) Reflect.field(streams, "clientId"));
    String release = releaseOf(streams);
    Map<String, Object> details = new LinkedHashMap<>();
    details.put("actor", process);
    details.put("release", release);
    details.put("settings", settings);
    details.put("epoch_ms", System.currentTimeMillis());
    Events.begin(Hooks.APPLICATION, streams, details);
    Object from = settings.get("upgrade.from");
    Events.emit(Line.of(process, "instance.started")
        .with("drift_ppm", 0)
        .with("release", release)
        .with("manages_offsets", isFrom(release, 4, 3))
        .with("upgrade_from", from == null ? "" : from)
        .with("formats", List.of(1, 2))
        .with("upgrade_mode", "")
        .with("leaves_group", false));
  }

  /** The release of Kafka that an object is of; empty if its jar does not say so. */
  private static String releaseOf(Object streams) {
    Properties version = new Properties();
    String name = "/kafka/kafka-version.properties";
    try (InputStream file = streams.getClass().getResourceAsStream(name)) {
      if (file == null) {
        return "";
      }
      version.load(file);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    return version.getProperty("version");
  }

  static void state(Seen call) {
    if (!Boolean.TRUE.equals(call.returned())) {
      return;
    }
    // Whoever starts the process waits for this.
    Events.tell("state", Map.of("actor", process(call), "state", call.argument(0).toString()));
    if (call.argument(0).toString().equals("NOT_RUNNING")) {
      stopped(call);
    }
  }

  /** Whoever has waited for the end may let the process end before the other thread tells of it. */
  static void closed(Seen call) {
    if (Reflect.call(call.self(), "state").toString().equals("NOT_RUNNING")) {
      stopped(call);
    }
  }

  private static synchronized void stopped(Seen call) {
    if (!STOPPED.add(call.self())) {
      return;
    }
    List<String> leaks = new ArrayList<>();
    Object directory = Reflect.field(call.self(), "stateDirectory");
    Map<?, ?> locked = (Map<?, ?>) Reflect.field(directory, "lockedTasksToOwner");
    locked.keySet().forEach(each -> leaks.add("task " + each + " is locked"));
    Events.emit(Line.of(process(call), "instance.stopped").with("leaks", leaks));
  }

  static void paused(Seen call) {
    Events.emit(Line.of(process(call), "instance.paused"));
  }

  static void resumed(Seen call) {
    Events.emit(Line.of(process(call), "instance.resumed"));
  }

  private static String process(Seen call) {
    return Events.process((String) Reflect.field(call.self(), "clientId"));
  }

  private static boolean isFrom(String release, int major, int minor) {
    String[] numbers = release.split("[.-]");
    int first = Integer.parseInt(numbers[0]);
    return first > major || first == major && Integer.parseInt(numbers[1]) >= minor;
  }
}
