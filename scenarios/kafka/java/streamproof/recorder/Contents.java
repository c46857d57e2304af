package streamproof.recorder;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What the stores of a task have, and what is written to them. */
final class Contents {
  private static final String STATE = "org.apache.kafka.streams.state.internals.";
  private static final int TIME = 8;
  private static final int LONGEST = 100_000;

  private Contents() {
  }

  static void opened(Seen call) {
    Object manager = call.self();
    String task = Reflect.field(manager, "taskId").toString();
    if (Tasks.isRecycled(task)) {
      return;
    }
    if (!Events.isInThread()) {
      foundAtStart(call, task);
      return;
    }
    Commands.knowManager(manager);
    boolean wipe = call.thrown() != null
        && call.thrown().getClass().getSimpleName().equals("TaskCorruptedException");
    for (Object store : stores(manager)) {
      Object changelog = Reflect.field(store, "changelogPartition");
      if (changelog == null) {
        continue;
      }
      boolean isInput = (Boolean) Reflect.call(manager, "changelogAsSource", changelog);
      Restorations.know(changelog, task, isInput);
      boolean persistent = isPersistent(store);
      long offset = offset(store);
      boolean spoilt = wipe && persistent && offset < 0;
      Object name = Reflect.call(Reflect.field(store, "stateStore"), "name");
      Events.emit(Line.of(Events.thread(), "store.opened")
          .task(task).partition(changelog).offset(offset)
          .with("store", name).with("wipe", spoilt)
          .with("persistent", persistent).with("place", name)
          .with("segmented", false));
      if (spoilt) {
        return;
      }
    }
    if (call.succeeded()) {
      tell("store.found", manager);
    }
  }

  /** Before its threads begin, a process opens the stores that it finds, to read their offsets. */
  private static void foundAtStart(Seen call, String task) {
    long total = 0;
    for (Object store : stores(call.self())) {
      if (Reflect.field(store, "changelogPartition") != null) {
        total += offset(store) + 1;
      }
    }
    Events.emit(Line.of(Events.here(), "state.opened").task(task));
    Events.emit(Line.of(Events.here(), "state.found").task(task)
        .with("total", call.succeeded() ? total : -1));
  }

  static void running(Seen call) {
    if (call.succeeded()) {
      tell("store.running", Reflect.field(call.self(), "stateMgr"));
    }
  }

  static void restored(Seen call) {
    List<?> records = (List<?>) call.argument(1);
    if (!call.succeeded() || records.isEmpty()) {
      return;
    }
    Object store = call.argument(0);
    Events.emit(line("store.restored", call.self(), store).with("records", records.size()));
  }

  static void committed(Seen call) {
    if (!call.succeeded() || !Events.isInThread()) {
      return;
    }
    for (Object store : stores(call.self())) {
      if (Reflect.field(store, "changelogPartition") != null && isPersistent(store)
          && !(Boolean) Reflect.field(store, "corrupted")) {
        Events.emit(line("store.committed", call.self(), store));
      }
    }
  }

  static void put(Seen call) {
    Object manager = Reflect.call(call.self(), "stateManager");
    Object changelog = Reflect.call(manager, "registeredChangelogPartitionFor", call.argument(0));
    Events.emit(Line.of(Events.thread(), "store.put")
        .task(Reflect.call(call.self(), "taskId")).partition(changelog)
        .with("key", Reflect.call(call.argument(1), "get"))
        .with("value", call.argument(2)));
  }

  /** Tell all rows of all logged stores of a task. */
  static void tell(String kind, Object manager) {
    for (Object metadata : stores(manager)) {
      Object changelog = Reflect.field(metadata, "changelogPartition");
      if (changelog == null) {
        continue;
      }
      Object store = Reflect.field(metadata, "stateStore");
      if (!(Boolean) Reflect.call(store, "isOpen")) {
        continue;
      }
      List<List<byte[]>> rows = new ArrayList<>();
      List<Long> times = new ArrayList<>();
      read(store, rows, times);
      Events.emit(line(kind, manager, metadata)
          .with("rows", rows)
          .with("timestamps", times)
          .with("is_input", Reflect.call(manager, "changelogAsSource", changelog))
          .with("position", position(store)));
    }
  }

  private static void read(Object store, List<List<byte[]>> rows, List<Long> times) {
    String wrapped = STATE + "WrappedStateStore";
    boolean hasTimes = (Boolean) Reflect.callStatic(store, wrapped, "isTimestamped", store)
        && !(Boolean) Reflect.callStatic(store, wrapped, "isVersioned", store);
    Object beneath = innermost(store);
    // The sessions in memory can only be asked for by their times.
    Object iterator = Reflect.has(beneath, "all")
        ? Reflect.call(beneath, "all")
        : Reflect.call(beneath, "findSessions", 0L, Long.MAX_VALUE);
    try {
      for (Iterator<?> each = (Iterator<?>) iterator; each.hasNext();) {
        Object row = each.next();
        byte[] value = (byte[]) Reflect.field(row, "value");
        if (hasTimes) {
          times.add(java.nio.ByteBuffer.wrap(value).getLong());
          value = java.util.Arrays.copyOfRange(value, TIME, value.length);
        }
        rows.add(List.of(key(beneath, Reflect.field(row, "key")), value));
        if (rows.size() > LONGEST) {
          throw new IllegalStateException("the store has more than " + LONGEST + " rows");
        }
      }
    } finally {
      Reflect.call(iterator, "close");
    }
  }

  /** The store below all layers. */
  static Object innermost(Object store) {
    Object beneath = store;
    while (Reflect.has(beneath, "wrapped")) {
      beneath = Reflect.call(beneath, "wrapped");
    }
    return beneath;
  }

  /** A key as the changelog has it. */
  private static byte[] key(Object store, Object key) {
    if (!key.getClass().getSimpleName().equals("Windowed")) {
      return (byte[]) Reflect.call(key, "get");
    }
    Object made = store.getClass().getSimpleName().contains("Session")
        ? Reflect.callStatic(store, STATE + "SessionKeySchema", "toBinary", key)
        : Reflect.callStatic(store, STATE + "WindowKeySchema", "toStoreKeyBinary", key, 0);
    return (byte[]) Reflect.call(made, "get");
  }

  private static Map<String, Object> position(Object store) {
    Map<String, Object> found = new TreeMap<>();
    Object position = Reflect.call(store, "getPosition");
    for (Object topic : (Iterable<?>) Reflect.call(position, "getTopics")) {
      ((Map<?, ?>) Reflect.call(position, "getPartitionPositions", topic))
          .forEach((partition, offset) -> found.put(topic + "-" + partition, offset));
    }
    return found;
  }

  private static Line line(String kind, Object manager, Object store) {
    return Line.of(Events.thread(), kind)
        .task(Reflect.field(manager, "taskId"))
        .partition(Reflect.field(store, "changelogPartition"))
        .offset(offset(store));
  }

  static Iterable<?> stores(Object manager) {
    return ((Map<?, ?>) Reflect.field(manager, "stores")).values();
  }

  private static boolean isPersistent(Object store) {
    return (Boolean) Reflect.call(Reflect.field(store, "stateStore"), "persistent");
  }

  private static long offset(Object store) {
    Object offset = Reflect.field(store, "offset");
    return offset == null ? -1 : Math.max((Long) offset, -1);
  }
}
