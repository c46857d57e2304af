package streamproof.recorder;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.WeakHashMap;

/** What tasks do with their inputs. */
final class Processing {
  private static final long NEVER_IDLES = -1;
  private static final long UNKNOWN = -1;

  private static final Map<Object, Object> WAITING =
      Collections.synchronizedMap(new WeakHashMap<>());

  private static final Map<Object, Object> ENFORCED =
      Collections.synchronizedMap(new WeakHashMap<>());

  /** By punctuator, the interval that it was scheduled with last. */
  private static final Map<Object, Object> INTERVALS =
      Collections.synchronizedMap(new WeakHashMap<>());

  private Processing() {
  }

  static void processed(Seen call) {
    Object task = call.self();
    Object record = Reflect.field(task, "record");
    Object partition = Reflect.call(Reflect.field(task, "recordInfo"), "partition");
    Object group = group(task);
    Map<String, Object> others = new TreeMap<>();
    Map<?, ?> lags = (Map<?, ?>) Reflect.field(group, "fetchedLags");
    Map<?, ?> deadlines = (Map<?, ?>) Reflect.field(group, "idlePartitionDeadlines");
    for (Map.Entry<?, ?> each : queues(group).entrySet()) {
      if (each.getKey().equals(partition)) {
        continue;
      }
      others.put(each.getKey().toString(), isEmpty(each.getValue())
          ? Arrays.asList(null, lags.get(each.getKey()), deadlines.get(each.getKey()))
          : List.of(Reflect.call(each.getValue(), "headRecordTimestamp")));
    }
    Events.emit(line(task, "task.processed")
        .partition(partition)
        .offset((Long) Reflect.call(record, "offset"))
        .with("timestamp", Reflect.field(record, "timestamp"))
        .with("others", others)
        .with("clock", call.argument(0)));
  }

  static void done(Seen call) {
    Events.stepDone();
  }

  /** Why a task waits, as Kafka decides it: the first partition that it waits for counts. */
  static void waits(Seen call) {
    Object task = call.self();
    Object group = group(task);
    if (!call.succeeded() || (Long) Reflect.field(group, "maxTaskIdleMs") == NEVER_IDLES) {
      return;
    }
    long now = (Long) call.argument(0);
    Map<String, Object> waiting = new TreeMap<>();
    List<String> enforced = new ArrayList<>();
    boolean isQueued = false;
    Map<?, ?> lags = (Map<?, ?>) Reflect.field(group, "fetchedLags");
    Map<?, ?> deadlines = (Map<?, ?>) Reflect.field(group, "idlePartitionDeadlines");
    for (Map.Entry<?, ?> each : queues(group).entrySet()) {
      Object partition = each.getKey();
      isQueued |= !isEmpty(each.getValue());
      if (!isEmpty(each.getValue()) || !waiting.isEmpty()) {
        continue;
      }
      Object known = lags.get(partition);
      long lag = known == null ? UNKNOWN : (Long) known;
      Object deadline = deadlines.get(partition);
      if (lag == UNKNOWN) {
        waiting.put(partition.toString(), "lag unknown");
      } else if (lag > 0) {
        waiting.put(partition.toString(), "data on the broker");
      } else if (deadline != null && now < (Long) deadline) {
        waiting.put(partition.toString(), "idling");
      } else {
        enforced.add(partition.toString());
      }
    }
    boolean isReady = Boolean.TRUE.equals(call.returned());
    Object reasons = isReady || !isQueued ? Map.of() : waiting;
    if (!reasons.equals(WAITING.put(task, reasons)) && !((Map<?, ?>) reasons).isEmpty()) {
      Events.emit(line(task, "task.waiting").with("waiting", reasons));
    }
    Object without = isReady ? enforced : List.of();
    if (!without.equals(ENFORCED.put(task, without)) && !((List<?>) without).isEmpty()) {
      Events.emit(line(task, "task.enforced").with("inputs", without));
    }
  }

  /** A punctuator is scheduled: the interval stands before the clock and the punctuator. */
  static void scheduled(Seen call) {
    int last = call.arguments().length - 1;
    INTERVALS.put(call.argument(last), call.argument(last - 2));
  }

  static void punctuated(Seen call) {
    boolean isStreamTime = call.argument(2).toString().equals("STREAM_TIME");
    Events.emit(line(call.self(), "task.punctuated")
        .with("clock", isStreamTime ? "stream time" : "wall-clock time")
        .with("timestamp", call.argument(1))
        .with("interval_ms", INTERVALS.get(call.argument(3))));
  }

  static void buffered(Seen call) {
    Object most = Reflect.field(call.self(), "maxBufferedSize");
    Object queue = queues(group(call.self())).get(call.argument(0));
    if (queue != null && (Integer) Reflect.call(queue, "size") > (Integer) most) {
      Events.emit(Line.of(Events.thread(), "input.paused").partition(call.argument(0)));
    }
  }

  private static Line line(Object task, String kind) {
    return Line.of(Events.thread(), kind).task(Reflect.call(task, "id"));
  }

  private static Object group(Object task) {
    Object group = Reflect.field(task, "partitionGroup");
    return group.getClass().getSimpleName().equals("PartitionGroup")
        ? group : Reflect.field(group, "wrapped");
  }

  private static Map<?, ?> queues(Object group) {
    return (Map<?, ?>) Reflect.field(group, "partitionQueues");
  }

  private static boolean isEmpty(Object queue) {
    return (Boolean) Reflect.call(queue, "isEmpty");
  }
}
