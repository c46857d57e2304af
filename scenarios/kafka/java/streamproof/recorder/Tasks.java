package streamproof.recorder;

import java.io.File;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** What becomes of tasks: their states, their roles, and how they are closed. */
final class Tasks {
  /** Tasks that change their role: the next object for the same task goes on with its stores. */
  private static final Set<String> RECYCLED = ConcurrentHashMap.newKeySet();

  private static final Set<String> CORRUPTED = ConcurrentHashMap.newKeySet();

  /** The state manager that a thread closes. */
  private static final ThreadLocal<Object> CLOSING = new ThreadLocal<>();

  private Tasks() {
  }

  static void state(Seen call) {
    Object task = call.self();
    boolean isActive = (Boolean) Reflect.call(task, "isActive");
    String id = Reflect.call(task, "id").toString();
    String before = state(Reflect.call(task, "state"), isActive);
    String after = state(call.argument(0), isActive);
    if (isRecycled(id)) {
      if (after.equals("CLOSED")) {
        // The old object ends; the task goes on.
        return;
      }
      if (before.equals("CREATED") && after.equals("RESTORING")) {
        RECYCLED.remove(here(id));
        before = "SUSPENDED";
      }
    }
    // A corrupted task is created anew with the same object, as every task is created.
    if (!before.equals(after) && !after.equals("CREATED")) {
      Events.emit(Line.of(Events.thread(), "task.state").task(id)
          .with("before", before).with("after", after));
    }
  }

  /** A standby that follows its changelog is RUNNING for Kafka, and RESTORING in an event. */
  private static String state(Object state, boolean isActive) {
    String name = state.toString();
    return name.equals("RUNNING") && !isActive ? "RESTORING" : name;
  }

  static void recycled(Seen call) {
    String id = Reflect.call(call.self(), "id").toString();
    Contents.tell("store.recycled", Reflect.field(call.self(), "stateMgr"));
    boolean becomesActive = !(Boolean) Reflect.call(call.self(), "isActive");
    Events.emit(Line.of(Events.thread(), "task.recycled").task(id)
        .with("is_active", becomesActive));
    RECYCLED.add(here(id));
  }

  static boolean isRecycled(String id) {
    return RECYCLED.contains(here(id));
  }

  static void corrupted(Seen call) {
    for (Object each : (Set<?>) call.argument(0)) {
      CORRUPTED.add(here(each.toString()));
      Events.emit(Line.of(Events.thread(), "task.corrupted").task(each)
          .with("reason", "its stores cannot be trusted"));
    }
  }

  static void closing(Seen call) {
    CLOSING.set(managerOf(call));
    if ((Boolean) call.argument(2) && Events.isInThread()) {
      Contents.tell("store.closing", managerOf(call));
    }
  }

  /** A directory is deleted; if it is that of a task whose stores are closed, this is a moment. */
  static void deleting(Seen call) {
    Object manager = CLOSING.get();
    if (manager != null && Events.isInThread()
        && Reflect.call(manager, "baseDir").equals(call.argument(0))) {
      CLOSING.remove();
      Events.emit(Line.of(Events.thread(), "task.wiping")
          .task(Reflect.field(manager, "taskId")));
    }
  }

  static void closed(Seen call) {
    CLOSING.remove();
    if (!Events.isInThread()) {
      // The process has only looked into the stores that it found at its start.
      return;
    }
    boolean clean = (Boolean) call.argument(2);
    Object manager = managerOf(call);
    // A task with transactional stores is wiped only if one of them is corrupted (KIP-892).
    boolean wiped = !clean && (Boolean) call.argument(3)
        && !((File) Reflect.call(manager, "baseDir")).exists();
    String id = Reflect.field(manager, "taskId").toString();
    RECYCLED.remove(here(id));
    String closing = CORRUPTED.remove(here(id)) ? "CORRUPTED" : clean ? "CLEAN" : "DIRTY";
    Events.emit(Line.of(Events.thread(), "task.closed").task(id).with("closing", closing));
    if (wiped && call.succeeded()) {
      Events.emit(Line.of(Events.thread(), "task.wiped").task(id));
    }
  }

  /** The state manager that is closed; from 4.4 on, another flag stands before it. */
  private static Object managerOf(Seen call) {
    return call.argument(4) instanceof Boolean ? call.argument(5) : call.argument(4);
  }

  private static String here(String id) {
    return Events.here() + " " + id;
  }
}
