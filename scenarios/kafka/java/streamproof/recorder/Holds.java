package streamproof.recorder;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * At which events a process stands still until it is told to go on: {@code holds.tsv} beside the
 * recordings. Each line has an id, a kind, an actor, a task, a partition and an offset, and then
 * attributes as {@code name=JSON}; an empty field fits everything. A hold is over once there is a
 * file {@code over-ID}.
 */
final class Holds {
  private static final int FIXED = 6;

  private final Path directory;
  private final List<String[]> wanted = new ArrayList<>();

  private Holds(Path directory) {
    this.directory = directory;
  }

  static Holds read(Path directory) throws IOException {
    Holds holds = new Holds(directory);
    Path file = directory.resolve("holds.tsv");
    if (Files.exists(file)) {
      for (String line : Files.readAllLines(file)) {
        holds.wanted.add(line.split("\t", -1));
      }
    }
    return holds;
  }

  /** The hold that is for an event; null if there is none. */
  String of(Line event) {
    for (String[] each : wanted) {
      if (fits(each, event) && !isOver(each[0])) {
        return each[0];
      }
    }
    return null;
  }

  boolean isOver(String hold) {
    return Files.exists(directory.resolve("over-" + hold));
  }

  private static boolean fits(String[] each, Line event) {
    boolean fixed = each[1].equals(event.kind())
        && (each[2].isEmpty() || event.actor().equals(each[2])
          || event.actor().startsWith(each[2] + "/"))
        && (each[3].isEmpty() || each[3].equals(event.task()))
        && (each[4].isEmpty() || each[4].equals(event.partition()))
        && (each[5].isEmpty() || each[5].equals(Long.toString(event.offset())));
    for (int at = FIXED; fixed && at < each.length; at++) {
      int equals = each[at].indexOf('=');
      StringBuilder found = new StringBuilder();
      Json.write(found, event.attributes().get(each[at].substring(0, equals)));
      fixed = found.toString().equals(each[at].substring(equals + 1));
    }
    return fixed;
  }
}
