package streamproof.recorder;

import java.io.File;

/** What the cleaner of state directories deletes. */
final class Cleaning {
  /** The delay of the cleaner that is at work in a thread. */
  private static final ThreadLocal<Object> DELAY = new ThreadLocal<>();

  private Cleaning() {
  }

  static void begins(Seen call) {
    DELAY.set(call.argument(0));
  }

  static void ends(Seen call) {
    DELAY.remove();
  }

  static void deleted(Seen call) {
    if (DELAY.get() != null && call.succeeded() && call.arguments().length == 1) {
      String task = ((File) call.argument(0)).getName();
      Events.emit(
          Line.of(Events.here(), "state.cleaned").task(task).with("delay_ms", DELAY.get()));
    }
  }
}
