package com.acme.state;

import static java.nio.file.StandardCopyOption.ATOMIC_MOVE;
import static java.nio.file.StandardOpenOption.READ;

import java.io.File;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.UnaryOperator;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.h2.mvstore.MVStore;
import org.h2.mvstore.MVStoreException;

/** Opens the files of MVStore in the directory of a task. */
final class MvFiles {
  private MvFiles() {}

  /** Opens a file with some settings, and makes it first if it is not there. */
  static MVStore open(File stateDir, String name, UnaryOperator<MVStore.Builder> settings) {
    Path path = stateDir.toPath().resolve(name + ".mv");
    try {
      if (!Files.exists(path)) {
        create(path);
      }
      return settings.apply(builder(path)).open();
    } catch (IOException | MVStoreException error) {
      throw new ProcessorStateException("The store cannot open its file " + path, error);
    }
  }

  /**
   * Makes an empty file under another name, and renames it once it is on the disk.
   *
   * <p>MVStore refuses a file with half a header, which a loss of power may leave.
   */
  private static void create(Path path) throws IOException {
    Path directory = Files.createDirectories(path.getParent());
    Path fresh = directory.resolve(path.getFileName() + ".new");
    Files.deleteIfExists(fresh);
    try (MVStore made = builder(fresh).open()) {
      made.sync();
    }
    Files.move(fresh, path, ATOMIC_MOVE);
    try (FileChannel entries = FileChannel.open(directory, READ)) {
      entries.force(true);
    }
  }

  private static MVStore.Builder builder(Path path) {
    return new MVStore.Builder().fileName(path.toString());
  }
}
