package streamproof.recorder;

import java.io.File;

/** What the cleaner of state directories deletes. */
final class Cleaning {
  /** Whether the cleaner is at work in a thread. */
  private static final ThreadLocal<Boolean> AT_WORK = ThreadLocal.withInitial(() -> false);

  private Cleaning() {
  }

  static void begins(Seen call) {
    AT_WORK.set(true);
  }

  static void ends(Seen call) {
    AT_WORK.remove();
  }

  static void deleted(Seen call) {
    if (AT_WORK.get() && call.succeeded() && call.arguments().length == 1) {
      String task = ((File) call.argument(0)).getName();
      Events.emit(Line.of(Events.here(), "state.cleaned").task(task));
    }
  }
}
