package streamproof.recorder;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The calls that the hooks make. They never throw: the application must not notice them. */
public final class Events {
  private static final Pattern OF_A_CLIENT =
      Pattern.compile(
        "(.*)-(StreamThread|StateUpdater|GlobalStreamThread|CleanupThread)(?:-(\\d+))?.*");

  private static final Map<String, String> PROCESSES = new ConcurrentHashMap<>();
  private static final Set<String> UNFIT = ConcurrentHashMap.newKeySet();

  private static volatile Recording recording;
  private static volatile String base;

  private Events() {
  }

  static void open(Recording opened, Map<String, String> options) {
    recording = opened;
    base = options.getOrDefault("name", "process-" + ProcessHandle.current().pid());
  }

  /** Take in that a hooked method begins or ends. */
  public static void see(
        String hook, Object self, Object[] arguments, Object returned, Throwable thrown) {
    if (UNFIT.contains(hook)) {
      return;
    }
    try {
      Hooks.HANDLERS.get(hook).see(new Seen(self, arguments, returned, thrown));
    } catch (Throwable error) {
      unfit(hook, "it failed: " + error);
    }
  }

  /** Take in that a hook does not fit this release, and will not be used. */
  static void unfit(String hook, String reason) {
    if (UNFIT.add(hook)) {
      recording.tell("unfit", Map.of(
          "hook", hook, "reason", reason, "kinds", Hooks.lost(hook, UNFIT)));
    }
  }

  /** Tell what is recorded from here on, of what. */
  static void begin(String role, Object neighbour, Map<String, Object> details) {
    for (String hook : Hooks.missing(role, neighbour.getClass().getClassLoader())) {
      unfit(hook, "its class is not there");
    }
    Map<String, Object> all = new LinkedHashMap<>(details);
    Set<String> kinds = new TreeSet<>(Hooks.kindsOf(role));
    all.put("kinds", kinds);
    recording.tell(role, all);
  }

  static void tell(String what, Map<String, ?> details) {
    recording.tell(what, details);
  }

  static void emit(Line event) {
    recording.event(event);
  }

  static void stepDone() {
    recording.stepDone();
  }

  /** The process of a client of Kafka Streams: a JVM with one client is one process. */
  static String process(String client) {
    return PROCESSES.computeIfAbsent(
        client, each -> PROCESSES.isEmpty() ? base : base + "." + (PROCESSES.size() + 1));
  }

  /** The stream thread that acts, or to which the acting state updater belongs. */
  static String thread() {
    return actor(Thread.currentThread().getName(), "thread");
  }

  /** The state updater that acts, or the one that the acting stream thread has. */
  static String updater() {
    return actor(Thread.currentThread().getName(), "updater");
  }

  /** The stream thread of a name that begins with its own, as that of a producer. */
  static String actor(String name, String role) {
    Matcher found = OF_A_CLIENT.matcher(name);
    if (!found.matches()) {
      return base;
    }
    String process = process(found.group(1));
    if (found.group(3) == null) {
      return process + "/global";
    }
    return process + "/" + role + "-" + found.group(3);
  }

  /** The process of the acting thread. */
  static String here() {
    String actor = thread();
    int slash = actor.indexOf('/');
    return slash < 0 ? actor : actor.substring(0, slash);
  }

  /** Whether a stream thread acts, or one that belongs to it. */
  static boolean isInThread() {
    return thread().contains("/");
  }

  static List<String> texts(Iterable<?> values) {
    Set<String> sorted = new TreeSet<>();
    values.forEach(each -> sorted.add(String.valueOf(each)));
    return List.copyOf(sorted);
  }
}
