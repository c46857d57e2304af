package streamproof.recorder;

import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Transactions as the logs of a broker show them. */
final class Transactions {
  private static final Map<Long, String> IDS = new ConcurrentHashMap<>();

  /** The partitions that still lack the marker of a decided transaction, by producer. */
  private static final Map<Long, Set<String>> UNMARKED = new ConcurrentHashMap<>();

  /** By producer and group, the offsets in its open transaction. */
  private static final Map<Long, Map<String, Map<String, Object>>> ADDED =
      new ConcurrentHashMap<>();

  private Transactions() {
  }

  static void decided(String id, long producer, boolean commit, Set<String> partitions) {
    IDS.put(producer, id);
    UNMARKED.put(producer, new HashSet<>(partitions));
    Events.emit(Line.of("brokers", "transaction.decided").with("transactional_id", id)
        .with("producer", producer).with("commit", commit));
  }

  static void offsets(String group, Map<String, Object> offsets, long producer) {
    if (producer < 0) {
      committed(group, offsets);
      return;
    }
    ADDED.computeIfAbsent(producer, each -> new LinkedHashMap<>())
        .computeIfAbsent(group, each -> new LinkedHashMap<>()).putAll(offsets);
    Events.emit(Line.of("brokers", "offsets.added").with("group", group)
        .with("producer", producer).with("offsets", offsets));
  }

  static void marker(
        String partition, boolean isOfGroups, long offset, long producer, boolean commit) {
    Set<String> left = UNMARKED.getOrDefault(producer, Set.of());
    if (left.contains(partition)) {
      left.remove(partition);
    }
    if (!isOfGroups) {
      emit(partition, offset, producer, commit, left.isEmpty());
      return;
    }
    Map<String, Map<String, Object>> added = ADDED.remove(producer);
    if (added != null) {
      added.forEach((group, offsets) -> {
        if (commit) {
          committed(group, offsets);
        }
        emit("group:" + group, -1, producer, commit, left.isEmpty());
      });
    }
  }

  private static void emit(
        String target, long offset, long producer, boolean commit, boolean complete) {
    Events.emit(Line.of("brokers", "transaction.marker").partition(target).offset(offset)
        .with("producer", producer)
        .with("transactional_id", IDS.getOrDefault(producer, ""))
        .with("commit", commit).with("complete", complete));
  }

  private static void committed(String group, Map<String, Object> offsets) {
    Events.emit(Line.of("brokers", "offsets.committed").with("group", group)
        .with("offsets", offsets));
  }
}
