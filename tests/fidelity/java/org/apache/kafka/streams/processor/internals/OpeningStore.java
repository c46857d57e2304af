package org.apache.kafka.streams.processor.internals;

import java.io.File;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.state.internals.MarkedOffsets;

/**
 * A store of a task that is opened and closed: a directory, and the offsets that it keeps itself,
 * unless Kafka keeps them in a file beside it.
 */
final class OpeningStore implements StateStore {
  /** The offsets of each commit since the last look, without the empty ones. */
  final List<Map<TopicPartition, Long>> commits = new ArrayList<>();

  private final String name;
  private final boolean isPersistent;
  private final boolean isExactlyOnce;
  private final MarkedOffsets offsets;

  /**
   * A store.
   *
   * @param disk what its files have; null if the store does not keep its offsets
   */
  OpeningStore(String name, boolean isPersistent, boolean isExactlyOnce, Map<String, byte[]> disk) {
    this.name = name;
    this.isPersistent = isPersistent;
    this.isExactlyOnce = isExactlyOnce;
    offsets = disk == null ? null : new MarkedOffsets(name, disk);
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public void init(StateStoreContext context, StateStore root) {
    if (isPersistent) {
      new File(context.stateDir(), name).mkdirs();
    }
    if (offsets != null) {
      try {
        offsets.open(isExactlyOnce);
      } catch (ProcessorStateException error) {
        // As RocksDBStore does it.
        throw new TaskCorruptedException(Set.of(context.taskId()), error);
      }
    }
    context.register(root, (key, value) -> {}, null);
  }

  @Override
  public void commit(Map<TopicPartition, Long> changelogOffsets) {
    if (!changelogOffsets.isEmpty()) {
      commits.add(new HashMap<>(changelogOffsets));
    }
    if (offsets != null) {
      offsets.commit(changelogOffsets);
    }
  }

  @Override
  public Long committedOffset(TopicPartition partition) {
    return offsets == null ? null : offsets.committedOffset(partition);
  }

  @Override
  @SuppressWarnings("deprecation")
  public boolean managesOffsets() {
    return offsets != null;
  }

  void flushToDisk() {
    if (offsets != null) {
      offsets.flush();
    }
  }

  @Override
  public void close() {
    if (offsets != null) {
      offsets.close();
    }
  }

  @Override
  public boolean persistent() {
    return isPersistent;
  }

  @Override
  public boolean isOpen() {
    return true;
  }
}
