package streamproof.recorder;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * Makes restorations slow, as somebody asks: a file {@code slow-ID} beside the recordings has an
 * instance or nothing, the number of the first slow batch, how many are slow, and how long each
 * takes, in milliseconds. The batches of all processes count together: each makes a file {@code
 * slow-ID.N}. A file {@code fired-ID} tells that a batch was slow.
 */
final class Slowness {
  private static volatile Path directory;

  private Slowness() {
  }

  static void serve(Path given) {
    directory = given;
  }

  /** A batch is about to be applied to a store. */
  static void restoring(Seen call) throws IOException {
    if (((List<?>) call.argument(1)).isEmpty()) {
      return;
    }
    try (DirectoryStream<Path> asked = Files.newDirectoryStream(directory, "slow-*[0-9]")) {
      for (Path each : asked) {
        if (!each.getFileName().toString().contains(".")) {
          slowDown(each, Files.readString(each).split("\t", -1));
        }
      }
    }
  }

  private static void slowDown(Path asked, String[] words) throws IOException {
    if (!words[0].isEmpty() && !words[0].equals(Events.here())) {
      return;
    }
    int first = Integer.parseInt(words[1]);
    int number = counted(asked);
    if (number < first || number >= first + Integer.parseInt(words[2])) {
      return;
    }
    String id = asked.getFileName().toString().substring("slow-".length());
    Path fired = asked.resolveSibling("fired-" + id);
    if (!Files.exists(fired)) {
      Files.createFile(fired);
    }
    try {
      Thread.sleep(Long.parseLong(words[3]));
    } catch (InterruptedException error) {
      // Kafka has interrupted its own thread, and looks for that.
      Thread.currentThread().interrupt();
    }
  }

  /** The number of this batch among all, from 1. */
  private static int counted(Path asked) throws IOException {
    for (int number = 1;; number++) {
      try {
        Files.createFile(asked.resolveSibling(asked.getFileName() + "." + number));
        return number;
      } catch (FileAlreadyExistsException taken) {
        continue;
      }
    }
  }
}
