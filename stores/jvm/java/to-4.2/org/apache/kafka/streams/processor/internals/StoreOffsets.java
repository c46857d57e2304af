package org.apache.kafka.streams.processor.internals;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.LogContext;
import streamproof.host.TaskSetting;

/** Up to Kafka 4.2, a task keeps the offsets of its stores in the file {@code .checkpoint}. */
final class StoreOffsets {
  private final ProcessorStateManager manager;
  private Map<TopicPartition, Long> saved = Map.of();

  StoreOffsets(ProcessorStateManager manager) {
    this.manager = manager;
  }

  static ProcessorStateManager manager(
      TaskSetting setting, StateDirectory directory, Map<String, String> changelogs) {
    return new ProcessorStateManager(
        setting.task(),
        Task.TaskType.ACTIVE,
        setting.isExactlyOnce(),
        new LogContext(""),
        directory,
        null,
        changelogs,
        Set.of(),
        // The state updater restores, so the manager registers no changelog with a reader.
        true);
  }

  /** The stores were opened, and their offsets were read. */
  void opened() {
    saved = new HashMap<>(manager.changelogOffsets());
  }

  /** Write the file if enough records were written since the last time, or in any case. */
  void save(boolean isEnforced) {
    Map<TopicPartition, Long> offsets = manager.changelogOffsets();
    if (StateManagerUtil.checkpointNeeded(isEnforced, saved, offsets)) {
      manager.flush();
      manager.checkpoint();
      saved = new HashMap<>(offsets);
    }
  }

  /**
   * Delete the file before records are processed under exactly-once, if the release does so.
   *
   * <p>Kafka 4.2.2 was the first that did so with the state updater (KAFKA-20685).
   */
  void distrust() throws IOException {
    String[] release = AppInfoParser.getVersion().split("\\D");
    if (release[0].equals("4") && release[1].equals("2") && Integer.parseInt(release[2]) >= 2) {
      manager.deleteCheckPointFileIfEOSEnabled();
    }
  }
}
