package streamproof.recorder;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * Which methods of Kafka are hooked, and which kinds of events each hook is needed for.
 *
 * <p>Where a method has another name in another release, there is a hook for each name, with the
 * same name up to the colon: one of them has to fit.
 */
public final class Hooks {
  static final String APPLICATION = "application";
  static final String BROKERS = "brokers";

  static final Map<String, Handler> HANDLERS = new LinkedHashMap<>();

  private static final String TASKS = "org.apache.kafka.streams.processor.internals.";
  private static final String CLIENTS = "org.apache.kafka.clients.producer.";
  private static final String LOGS = "org.apache.kafka.storage.internals.log.";
  private static final String STREAMS = "org.apache.kafka.streams.KafkaStreams";

  private static final Map<String, Hook> TABLE = new LinkedHashMap<>();

  /** Takes in a call of a hooked method. */
  interface Handler {
    void see(Seen call) throws Exception;
  }

  private record Hook(
      String name, String role, String type, String method, String place, Set<String> kinds) {

    String group() {
      return name.split(":")[0];
    }
  }

  static {
    instances();
    threads();
    tasks();
    stores();
    restorations();
    brokers();
  }

  private Hooks() {
  }

  /** Print each kind of events that can be recorded, with the role of the process. */
  public static void main(String[] arguments) {
    for (String role : List.of(APPLICATION, BROKERS)) {
      kindsOf(role).forEach(kind -> System.out.println(role + "\t" + kind));
    }
  }

  private static void instances() {
    application("started", STREAMS, "<init>", "exit", Instances::made, "instance.started");
    application("state", STREAMS, "setState", "exit", Instances::state, "instance.stopped");
    application("closed-client", STREAMS, "close", "exit", Instances::closed, "instance.stopped");
    application("paused", STREAMS, "pause", "enter", Instances::paused, "instance.paused");
    application("resumed", STREAMS, "resume", "enter", Instances::resumed, "instance.resumed");
    application("cleaner", TASKS + "StateDirectory", "cleanRemovedTasksCalledByCleanerThread",
        "enter", Cleaning::begins, "state.cleaned");
    application("cleaner-done", TASKS + "StateDirectory",
        "cleanRemovedTasksCalledByCleanerThread", "exit", Cleaning::ends, "state.cleaned");
    application("deleted", "org.apache.kafka.common.utils.Utils", "delete", "exit",
        Cleaning::deleted, "state.cleaned");
    application("error", STREAMS, "handleStreamsUncaughtException", "enter", Threads::error,
        "thread.died");
  }

  private static void threads() {
    String assignor = TASKS + "StreamsPartitionAssignor";
    application("report", assignor, "subscriptionUserData", "exit", Threads::subscribed,
        "thread.subscribed");
    application("answer", assignor, "onAssignment", "enter", Threads::answered, "thread.assigned");
    application("assigned", TASKS + "TaskManager", "handleAssignment", "enter", Threads::assigned,
        "thread.assigned");
    application("lost", TASKS + "TaskManager", "handleLostAll", "enter", Threads::lost,
        "thread.lost");
    application("migrated", TASKS + "StreamThread", "handleTaskMigrated", "enter",
        Threads::migrated, "thread.lost");
    application("shutdown", TASKS + "StreamThread", "completeShutdown", "enter", Threads::ended,
        "thread.died", "thread.stopped");
    String commit = "commitOffsetsOrTransaction";
    application("commit:from-3.2", TASKS + "TaskExecutor", commit, "exit", Threads::committed,
        "thread.committed");
    application("commit:to-3.1", TASKS + "TaskManager", commit, "exit", Threads::committed,
        "thread.committed");
    application("staged", TASKS + "StreamThread", "shouldCommitDueToUncommittedBytes", "exit",
        Threads::staged, "thread.staged");
    application("producer", CLIENTS + "KafkaProducer", "<init>", "exit", Threads::producerMade,
        "thread.producer");
    application("producer-id", CLIENTS + "internals.TransactionManager", "setProducerIdAndEpoch",
        "exit", Threads::producer, "thread.producer");
  }

  private static void tasks() {
    application("task-state", TASKS + "AbstractTask", "transitionTo", "enter", Tasks::state,
        "task.state");
    application("recycled-active", TASKS + "StreamTask", "prepareRecycle", "enter",
        Tasks::recycled, "task.recycled", "store.recycled", "task.state");
    application("recycled-standby", TASKS + "StandbyTask", "prepareRecycle", "enter",
        Tasks::recycled, "task.recycled", "store.recycled", "task.state");
    application("corrupted", TASKS + "TaskManager", "handleCorruption", "enter", Tasks::corrupted,
        "task.corrupted", "task.closed");
    application("closing", TASKS + "StateManagerUtil", "closeStateManager", "enter",
        Tasks::closing, "store.closing");
    application("closed", TASKS + "StateManagerUtil", "closeStateManager", "exit",
        Tasks::closed, "task.closed", "task.wiped");
    application("deleting", "org.apache.kafka.common.utils.Utils", "delete", "enter",
        Tasks::deleting, "task.wiping");
    application("processed", TASKS + "StreamTask", "doProcess", "enter", Processing::processed,
        "task.processed");
    application("processed-done", TASKS + "StreamTask", "doProcess", "exit", Processing::done,
        "task.processed");
    application("processable", TASKS + "StreamTask", "isProcessable", "exit", Processing::waits,
        "task.waiting", "task.enforced");
    application("scheduled", TASKS + "StreamTask", "schedule", "enter", Processing::scheduled,
        "task.punctuated");
    application("punctuated", TASKS + "StreamTask", "punctuate", "enter", Processing::punctuated,
        "task.punctuated");
    application("buffered", TASKS + "StreamTask", "addRecords", "exit", Processing::buffered,
        "input.paused");
  }

  private static void stores() {
    String manager = TASKS + "ProcessorStateManager";
    application("opened:from-4.3", manager, "initializeStoreOffsets", "exit", Contents::opened,
        "store.opened", "store.found", "state.opened", "state.found");
    application("opened:to-4.2", manager, "initializeStoreOffsetsFromCheckpoint", "exit",
        Contents::opened, "store.opened", "store.found", "state.opened", "state.found");
    application("running", TASKS + "StreamTask", "completeRestoration", "exit",
        Contents::running, "store.running");
    application("restoring", manager, "restore", "enter", Slowness::restoring);
    application("restored", manager, "restore", "exit", Contents::restored, "store.restored");
    application("stores-committed:from-4.3", manager, "commit", "exit", Contents::committed,
        "store.committed");
    application("stores-committed:to-4.2", manager, "checkpoint", "exit", Contents::committed,
        "store.committed");
    application("logged", TASKS + "ProcessorContextImpl", "logChange", "enter", Contents::put,
        "store.put");
  }

  private static void restorations() {
    String restoring = STREAMS + "$DelegatingStateRestoreListener";
    application("restore-start", restoring, "onRestoreStart", "enter", Restorations::start,
        "restore.start");
    application("restore-batch", restoring, "onBatchRestored", "enter", Restorations::batch,
        "restore.batch");
    application("restore-end", restoring, "onRestoreEnd", "enter", Restorations::end,
        "restore.end");
    application("restore-suspended:from-3.6.1", restoring, "onRestoreSuspended", "enter",
        Restorations::suspended, "restore.suspended");
    // Before, Kafka calls the method of the interface, and no listener hears of it.
    String listener = "org.apache.kafka.streams.processor.StateRestoreListener";
    application("restore-suspended:to-3.6.0", listener, "onRestoreSuspended", "enter", call -> {
    }, "restore.suspended");
    String updating = STREAMS + "$DelegatingStandbyUpdateListener";
    application("update-start", updating, "onUpdateStart", "enter", Restorations::updateStart,
        "update.start");
    application("update-batch", updating, "onBatchLoaded", "enter", Restorations::updateBatch,
        "update.batch");
    application("update-suspended", updating, "onUpdateSuspended", "enter",
        Restorations::updateSuspended, "update.suspended");
    application("updater", TASKS + "DefaultStateUpdater$StateUpdaterThread", "run", "enter",
        Restorations::updaterStarted, "updater.started");
  }

  private static void brokers() {
    String[] kinds = {
      "log.appended", "transaction.marker", "transaction.decided", "offsets.added",
      "offsets.committed"};
    broker("log-made:from-4.0", LOGS + "LocalLog", "<init>", "exit", Logs::made, kinds);
    broker("log-made:to-3.9", "kafka.log.LocalLog", "<init>", "exit", Logs::made, kinds);
    broker("appended:from-4.0", LOGS + "LocalLog", "append", "exit", Logs::appended, kinds);
    broker("appended:to-3.9", "kafka.log.LocalLog", "append", "exit", Logs::appended, kinds);
    String start = "maybeIncrementLogStartOffset";
    broker("deleted:from-4.0", LOGS + "UnifiedLog", start, "exit", Logs::deleted, "log.deleted");
    broker("deleted:to-3.9", "kafka.log.UnifiedLog", start, "exit", Logs::deleted, "log.deleted");
    String clean = "doClean";
    broker("compacted:from-4.0", LOGS + "Cleaner", clean, "exit", Logs::compacted,
        "log.compacted");
    broker("compacted:to-3.9", "kafka.log.Cleaner", clean, "exit", Logs::compacted,
        "log.compacted");
  }

  private static void application(
        String name, String type, String method, String place, Handler handler,
        String... kinds) {
    add(new Hook(name, APPLICATION, type, method, place, Set.of(kinds)), handler);
  }

  private static void broker(
        String name, String type, String method, String place, Handler handler,
        String... kinds) {
    add(new Hook(name, BROKERS, type, method, place, Set.of(kinds)), handler);
  }

  private static void add(Hook hook, Handler handler) {
    TABLE.put(hook.name(), hook);
    HANDLERS.put(hook.name(), handler);
  }

  /** The hooks as those who install them take them: name, class, method and place. */
  static String[][] table() {
    return TABLE.values().stream()
        .map(each -> new String[] {each.name(), each.type(), each.method(), each.place()})
        .toArray(String[][]::new);
  }

  /** The kinds that are lost with some hooks, of which one was lost last. */
  static Set<String> lost(String last, Set<String> hooks) {
    Hook lost = TABLE.get(last);
    boolean isLast = TABLE.values().stream()
        .filter(each -> each.group().equals(lost.group()))
        .allMatch(each -> hooks.contains(each.name()));
    return new TreeSet<>(isLast ? lost.kinds() : Set.of());
  }

  /** The kinds that a process of a role records. */
  static Set<String> kindsOf(String role) {
    return TABLE.values().stream().filter(each -> each.role().equals(role))
        .flatMap(each -> each.kinds().stream()).collect(Collectors.toCollection(TreeSet::new));
  }

  /** The hooks of a role whose class is not there. */
  static List<String> missing(String role, ClassLoader loader) {
    List<String> found = new ArrayList<>();
    for (Hook each : TABLE.values()) {
      String file = each.type().replace('.', '/') + ".class";
      if (each.role().equals(role) && loader.getResource(file) == null) {
        found.add(each.name());
      }
    }
    return found;
  }
}
