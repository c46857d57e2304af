package org.apache.kafka.streams.processor.internals;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.internals.OffsetCheckpoint;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import streamproof.host.Layer;
import streamproof.host.TaskSetting;

/**
 * An active task with one store, as far as the runtime has it for the files: the state directory
 * with its locks, the state manager, and the context. The changelog, the input and the processors
 * are the suite's.
 *
 * <p>This class is in a package of Kafka, because most of the used classes are private to it.
 */
public final class OneStoreTask implements Layer {
  private static final Logger LOG = LoggerFactory.getLogger(OneStoreTask.class);

  private final StateStore store;
  private final TaskSetting setting;
  private StateDirectory directory;
  private ProcessorStateManager manager;
  private ProcessorContextImpl context;
  private StoreOffsets offsets;
  /** Whether no record was processed since the opening, or since records were restored. */
  private boolean isRestoring;

  private boolean isClosed;

  public OneStoreTask(StateStore store, TaskSetting setting) {
    this.store = store;
    this.setting = setting;
  }

  /** Claim what the task does for a store, in place of what the store shows alone. */
  public static void addClaims(Map<String, Object> claims, StateStore store) {
    claims.put("manages_offsets", store.persistent());
    claims.put("forgets_offsets", false);
    claims.put("several_partitions", false);
  }

  @Override
  public void open() {
    isRestoring = true;
    directory = new StateDirectory(setting.config(), Time.SYSTEM, store.persistent(), false);
    // With this an instance locks its state directory against other processes.
    directory.initializeProcessId();
    Map<String, String> changelogs = Map.of(store.name(), setting.changelog().topic());
    manager = StoreOffsets.manager(setting, directory, changelogs);
    offsets = new StoreOffsets(manager);
    context =
        new ProcessorContextImpl(
            setting.task(),
            setting.config(),
            manager,
            setting.metrics(),
            Internals.cache(0, setting.metrics()));
    ProcessorTopology topology =
        new ProcessorTopology(
            List.of(),
            Map.of(),
            Map.of(),
            List.of(store),
            List.of(),
            changelogs,
            Set.of(),
            Map.of());
    StateManagerUtil.registerStateStores(LOG, "", topology, manager, directory, context);
    offsets.opened();
  }

  @Override
  public void processing(ProcessorRecordContext record) throws IOException {
    if (isRestoring) {
      completeRestoration();
    }
    context.setRecordContext(record);
  }

  @Override
  public void restore(List<ConsumerRecord<byte[], byte[]>> records) {
    requireOpen();
    isRestoring = true;
    manager.restore(manager.storeMetadata(setting.changelog()), records, OptionalLong.empty());
  }

  @Override
  public void commit(Map<TopicPartition, Long> written) {
    requireOpen();
    requireOffset(written);
    // A task that knows no offset leaves it open, and so commits none (KIP-1035).
    Map<TopicPartition, Long> known = new HashMap<>(written);
    known.values().removeIf(offset -> offset == OffsetCheckpoint.OFFSET_UNKNOWN);
    manager.updateChangelogOffsets(known);
    if (isRestoring) {
      // The state updater saves what it has restored whenever it ends or gives up a task.
      offsets.save(true);
    } else if (!setting.isExactlyOnce()) {
      offsets.save(false);
    }
  }

  /** Refuse what the runtime asks no closed task. */
  private void requireOpen() {
    if (isClosed) {
      throw new InvalidStateStoreException("Task " + setting.task() + " is closed.");
    }
  }

  /** Refuse what no task asks for: other changelogs, and to forget an offset. */
  private void requireOffset(Map<TopicPartition, Long> written) {
    boolean knowsNone = manager.changelogOffsets().get(setting.changelog()) == 0;
    if (!(knowsNone && written.isEmpty())
        && !written.keySet().equals(Set.of(setting.changelog()))) {
      throw new UnsupportedOperationException(
          "A task commits an offset of " + setting.changelog() + ", and forgets none.");
    }
  }

  /** Begin to process: the state updater has saved the offsets, even if nothing was restored. */
  private void completeRestoration() throws IOException {
    offsets.save(true);
    isRestoring = false;
    if (setting.isExactlyOnce()) {
      offsets.distrust();
    }
  }

  @Override
  public Long committedOffset(TopicPartition partition) {
    requireOpen();
    if (!store.persistent() || !partition.equals(setting.changelog())) {
      return null;
    }
    return manager.storeMetadata(partition).offset();
  }

  @Override
  public void close() {
    if (isClosed) {
      // The runtime does not close a task again. What is asked is the store.
      store.close();
      return;
    }
    isClosed = true;
    isRestoring = false;
    boolean isClean = false;
    try {
      offsets.save(true);
      isClean = true;
    } finally {
      try {
        Internals.close(LOG, isClean, setting, manager, directory);
      } finally {
        directory.close();
      }
    }
  }
}
