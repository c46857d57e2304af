package streamproof.recorder;

import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** What state updaters do, as listeners are told. */
final class Restorations {
  private static final Map<String, String> TASKS = new ConcurrentHashMap<>();
  private static final Map<String, Boolean> INPUTS = new ConcurrentHashMap<>();
  private static final Map<String, Long> ENDS = new ConcurrentHashMap<>();

  private Restorations() {
  }

  /** Remember the task of a changelog, and whether it is an input: listeners are not told. */
  static void know(Object changelog, String task, boolean isInput) {
    TASKS.put(Events.here() + " " + changelog, task);
    INPUTS.put(changelog.toString(), isInput);
  }

  static void start(Seen call) {
    if (isGlobal()) {
      return;
    }
    long start = (Long) call.argument(2);
    long end = (Long) call.argument(3);
    ENDS.put(Events.here() + " " + call.argument(0), end);
    Events.emit(line("restore.start", call).with("records", 0)
        .with("start", start).with("end", end));
  }

  static void batch(Seen call) {
    if (isGlobal()) {
      return;
    }
    long offset = (Long) call.argument(2);
    long end = ENDS.getOrDefault(Events.here() + " " + call.argument(0), offset + 1);
    Events.emit(line("restore.batch", call).offset(offset).with("records", call.argument(3))
        .with("remaining", Math.max(end - offset - 1, 0)));
  }

  static void end(Seen call) {
    if (!isGlobal()) {
      Events.emit(line("restore.end", call).with("records", 0).with("total", call.argument(2)));
    }
  }

  static void suspended(Seen call) {
    Events.emit(
        line("restore.suspended", call).with("records", 0).with("total", call.argument(2)));
  }

  static void updateStart(Seen call) {
    Events.emit(line("update.start", call).with("records", 0).with("start", call.argument(2)));
  }

  static void updateBatch(Seen call) {
    Events.emit(line("update.batch", call).offset((Long) call.argument(3))
        .with("records", call.argument(4))
        .with("is_input", INPUTS.getOrDefault(call.argument(0).toString(), false)));
  }

  static void updateSuspended(Seen call) {
    String reason = call.argument(4).toString().toLowerCase(Locale.ROOT);
    // The offset is the next one, as lags are counted.
    Events.emit(line("update.suspended", call).offset((Long) call.argument(2) - 1)
        .with("records", 0).with("reason", reason));
  }

  static void updaterStarted(Seen call) {
    Events.emit(Line.of(Events.updater(), "updater.started").with("mode", "kafka"));
  }

  /** Global stores have kinds of events of their own, which are not recorded. */
  private static boolean isGlobal() {
    return Events.updater().endsWith("/global");
  }

  private static Line line(String kind, Seen call) {
    String task = TASKS.getOrDefault(Events.here() + " " + call.argument(0), "");
    return Line.of(Events.updater(), kind).task(task).partition(call.argument(0));
  }
}
