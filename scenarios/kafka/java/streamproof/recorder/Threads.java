package streamproof.recorder;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.WeakHashMap;

/** What stream threads do beside their tasks: the group, commits, producers, their end. */
final class Threads {
  private static final String NO_ERROR = "PartitionsLost";

  private static final ThreadLocal<Integer> GENERATION = ThreadLocal.withInitial(() -> -1);
  private static final ThreadLocal<String> REASON = ThreadLocal.withInitial(() -> NO_ERROR);

  /** The client ids of producers, by what keeps the state of their transactions. */
  private static final Map<Object, String> CLIENTS =
      Collections.synchronizedMap(new WeakHashMap<>());

  private static final Map<Object, Long> PRODUCERS =
      Collections.synchronizedMap(new WeakHashMap<>());

  private Threads() {
  }

  static void subscribed(Seen call) {
    if (!(call.returned() instanceof ByteBuffer report)) {
      return;
    }
    Object info = Reflect.callStatic(call.self(),
        "org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo", "decode",
        report.duplicate());
    Map<String, Object> sums = new TreeMap<>();
    ((Map<?, ?>) Reflect.call(info, "taskOffsetSums"))
        .forEach((task, sum) -> sums.put(task.toString(), sum));
    Object manager = Reflect.field(call.self(), "taskManager");
    Set<String> owned = new TreeSet<>();
    // Before 3.4, there is another name for all tasks.
    String tasks = Reflect.has(manager, "allTasks") ? "allTasks" : "tasks";
    ((Map<?, ?>) Reflect.call(manager, tasks)).forEach((id, task) -> {
      if ((Boolean) Reflect.call(task, "isActive")) {
        owned.add(id.toString());
      }
    });
    Events.emit(Line.of(Events.thread(), "thread.subscribed")
        .with("owned", owned)
        .with("sums", sums)
        .with("used", Reflect.call(info, "version"))
        .with("supported", Reflect.call(info, "latestSupportedVersion"))
        .with("formats", null));
  }

  static void answered(Seen call) {
    GENERATION.set((Integer) Reflect.call(call.argument(1), "generationId"));
  }

  static void assigned(Seen call) {
    Events.emit(Line.of(Events.thread(), "thread.assigned")
        .with("generation", GENERATION.get())
        .with("active", Events.texts(((Map<?, ?>) call.argument(0)).keySet()))
        .with("standby", Events.texts(((Map<?, ?>) call.argument(1)).keySet())));
  }

  static void migrated(Seen call) {
    Throwable error = (Throwable) call.argument(0);
    Throwable cause = error.getCause() == null ? error : error.getCause();
    REASON.set(cause.getClass().getSimpleName());
  }

  static void error(Seen call) {
    Throwable error = (Throwable) call.argument(0);
    REASON.set(error.getClass().getSimpleName());
  }

  /** A store reports some bytes also when nothing is staged, and then no task has to commit. */
  static void staged(Seen call) {
    if (!Boolean.TRUE.equals(call.returned())) {
      return;
    }
    Object manager = Reflect.field(call.self(), "taskManager");
    boolean commits = !(Boolean) Reflect.field(manager, "rebalanceInProgress")
        && ((Map<?, ?>) Reflect.call(manager, "allRunningTasks")).values().stream()
            .anyMatch(each -> (Boolean) Reflect.call(each, "commitNeeded"));
    if (commits) {
      Events.emit(Line.of(Events.thread(), "thread.staged")
          .with("records", -1)
          .with("bytes", Reflect.call(manager, "totalUncommittedBytes")));
    }
  }

  static void lost(Seen call) {
    Events.emit(Line.of(Events.thread(), "thread.lost").with("reason", REASON.get()));
    REASON.set(NO_ERROR);
  }

  static void ended(Seen call) {
    if (Boolean.TRUE.equals(call.argument(0))) {
      Events.emit(Line.of(Events.thread(), "thread.stopped"));
    } else {
      Events.emit(Line.of(Events.thread(), "thread.died").with("reason", REASON.get()));
    }
  }

  static void committed(Seen call) {
    if (!call.succeeded()) {
      return;
    }
    Map<String, Object> offsets = new TreeMap<>();
    List<Object> tasks = new ArrayList<>();
    ((Map<?, ?>) call.argument(0)).forEach((task, consumed) -> {
      tasks.add(Reflect.call(task, "id"));
      ((Map<?, ?>) consumed).forEach((partition, each) ->
          offsets.put(partition.toString(), Reflect.call(each, "offset")));
    });
    if (!tasks.isEmpty()) {
      Events.emit(Line.of(Events.thread(), "thread.committed")
          .with("tasks", Events.texts(tasks))
          .with("offsets", offsets));
    }
  }

  static void producerMade(Seen call) {
    Object transactions = Reflect.field(call.self(), "transactionManager");
    if (transactions != null) {
      CLIENTS.put(transactions, (String) Reflect.field(call.self(), "clientId"));
    }
  }

  /** A producer has an id; the epoch may grow with each transaction, and is the same producer. */
  static void producer(Seen call) {
    String client = CLIENTS.get(call.self());
    long id = (Long) Reflect.field(call.argument(0), "producerId");
    Long before = PRODUCERS.put(call.self(), id);
    if (client == null || !client.contains("-StreamThread-") || id < 0
        || before != null && before == id) {
      return;
    }
    Events.emit(Line.of(Events.actor(client, "thread"), "thread.producer").with("producer", id));
  }
}
