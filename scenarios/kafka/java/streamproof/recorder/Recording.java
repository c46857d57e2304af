package streamproof.recorder;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The file of one process: a line of JSON for each event, which is with the kernel before the
 * process goes on. So a kill loses at most a part of the last line.
 *
 * <p>Each line has the monotonic clock of the machine in nanoseconds, which all processes share. It
 * is read under the lock under which the line is written, so the lines are in the order of time.
 */
final class Recording {
  private static final int POLL_MS = 1;

  /** What a record changes comes after this event, and belongs to it. */
  private static final String BEGINS_A_STEP = "task.processed";

  private static final ThreadLocal<Later> LATER = new ThreadLocal<>();

  private record Later(String hold, long number) {
  }

  private final FileOutputStream out;
  private final Holds holds;
  private final Path directory;
  private final String id;
  private long written;

  /** Whether a thread stands still at a hold: all others do at their next event. */
  private boolean standing;

  Recording(Path directory) throws IOException {
    this.directory = directory;
    Files.createDirectories(directory);
    // A process id may come again.
    id = ProcessHandle.current().pid() + "-" + System.nanoTime();
    out = new FileOutputStream(directory.resolve(id + ".events").toFile());
    holds = Holds.read(directory);
  }

  /** Write a line about the recording itself. */
  void tell(String what, Map<String, ?> details) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("about", what);
    line.putAll(details);
    synchronized (this) {
      line.put("at", System.nanoTime());
      write(line);
    }
  }

  /**
   * Write an event, and hold the process there if a hold is for this event. While it stands still,
   * only what somebody asks of it goes on: a pause that comes at a hold could not end otherwise.
   */
  void event(Line event) {
    String hold;
    long number;
    synchronized (this) {
      standAside();
      number = written;
      hold = written(event);
      standing = standing || hold != null;
    }
    await(hold, number);
  }

  /** Write an event; the hold at which the process stands still now, or null. */
  private String written(Line event) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("at", System.nanoTime());
    line.put("actor", event.actor());
    line.put("kind", event.kind());
    line.put("task", event.task());
    line.put("partition", event.partition());
    line.put("offset", event.offset());
    line.put("attributes", event.attributes());
    String hold = holds.of(event);
    boolean isLater = hold != null && event.kind().equals(BEGINS_A_STEP);
    if (isLater) {
      LATER.set(new Later(hold, written));
      line.put("later", true);
    } else if (hold != null) {
      line.put("hold", hold);
    }
    line.put("number", written);
    write(line);
    return isLater ? null : hold;
  }

  /** Hold the process at the end of a step whose event said so at its beginning. */
  void stepDone() {
    Later later = LATER.get();
    if (later == null) {
      return;
    }
    LATER.remove();
    long number;
    synchronized (this) {
      standAside();
      number = written;
      Map<String, Object> line = new LinkedHashMap<>();
      line.put("about", "hold");
      line.put("at", System.nanoTime());
      line.put("hold", later.hold());
      line.put("of", later.number());
      line.put("number", written);
      write(line);
      standing = true;
    }
    await(later.hold(), number);
  }

  /** Wait while another thread stands still, except for what somebody asks of this process. */
  private void standAside() {
    try {
      while (standing && !Commands.isHere()) {
        wait();
      }
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }

  /** Stand still until somebody makes the file that lets this process go on. */
  private void await(String hold, long number) {
    if (hold == null) {
      return;
    }
    Path go = directory.resolve("go-" + id + "-" + number);
    try {
      while (!Files.exists(go) && !holds.isOver(hold)) {
        Thread.sleep(POLL_MS);
      }
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    } finally {
      synchronized (this) {
        standing = false;
        notifyAll();
      }
    }
  }

  private void write(Map<String, Object> line) {
    StringBuilder text = new StringBuilder();
    Json.write(text, line);
    text.append('\n');
    try {
      out.write(text.toString().getBytes(StandardCharsets.UTF_8));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    written++;
  }
}
