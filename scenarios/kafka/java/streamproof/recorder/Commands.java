package streamproof.recorder;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.WeakHashMap;

/**
 * Carries out what somebody asks of this process, without a change of the application: a file
 * {@code tell-NAME} has {@code pause}, {@code resume}, or {@code flush} and a task or nothing. The
 * answer is {@code told-NAME}, which is empty unless that failed.
 */
final class Commands {
  private static final int POLL_MS = 2;

  private static final String THREAD = "streamproof-commands";

  private static final Set<Object> CLIENTS =
      Collections.newSetFromMap(Collections.synchronizedMap(new WeakHashMap<>()));

  private static final Set<Object> MANAGERS =
      Collections.newSetFromMap(Collections.synchronizedMap(new WeakHashMap<>()));

  private Commands() {
  }

  static void knowClient(Object streams) {
    CLIENTS.add(streams);
  }

  static void knowManager(Object manager) {
    MANAGERS.add(manager);
  }

  static void serve(Path directory, String name) {
    Thread thread = new Thread(() -> loop(directory, name), THREAD);
    thread.setDaemon(true);
    thread.start();
  }

  /** Whether something that somebody asked for is being done. */
  static boolean isHere() {
    return Thread.currentThread().getName().equals(THREAD);
  }

  private static void loop(Path directory, String name) {
    Path wanted = directory.resolve("tell-" + name);
    try {
      while (true) {
        // Without a client, another process of this name may be the one that is meant.
        if (CLIENTS.isEmpty() || !Files.exists(wanted)) {
          Thread.sleep(POLL_MS);
          continue;
        }
        String error = "";
        try {
          carryOut(Files.readString(wanted).split(" ", -1));
        } catch (RuntimeException raised) {
          error = raised.toString();
        }
        Files.delete(wanted);
        Path answer = directory.resolve("told-" + name + ".new");
        Files.writeString(answer, error);
        Files.move(answer, directory.resolve("told-" + name));
      }
    } catch (IOException | InterruptedException error) {
      // The directory is gone: nobody asks any more.
      return;
    }
  }

  private static void carryOut(String[] words) {
    if (!words[0].equals("flush")) {
      for (Object each : List.copyOf(CLIENTS)) {
        Reflect.call(each, words[0]);
      }
      return;
    }
    for (Object manager : List.copyOf(MANAGERS)) {
      if (words[1].isEmpty()
          || Reflect.field(manager, "taskId").toString().equals(words[1])) {
        flush(manager);
      }
    }
  }

  /** Let RocksDB write its memory to the disk, as it does by itself when that is full. */
  private static void flush(Object manager) {
    for (Object metadata : Contents.stores(manager)) {
      Object store = Contents.innermost(Reflect.field(metadata, "stateStore"));
      if (store.getClass().getSimpleName().startsWith("RocksDB")
          && (Boolean) Reflect.call(store, "isOpen")) {
        databases(store).forEach(Commands::flushDatabase);
      }
    }
  }

  /** A window or session store has a database for each of its segments: the newest fills up. */
  private static List<?> databases(Object store) {
    if (!store.getClass().getSimpleName().contains("Segmented")) {
      return List.of(store);
    }
    List<?> all = (List<?>) Reflect.call(Reflect.field(store, "segments"), "allSegments", true);
    return all.subList(Math.max(all.size() - 1, 0), all.size());
  }

  private static void flushDatabase(Object store) {
    Object families = Reflect.fields(Reflect.field(store, "cfAccessor"), "ColumnFamilyHandle");
    Reflect.call(Reflect.field(store, "dbAccessor"), "flush", families);
  }
}
