package org.apache.kafka.streams.processor.internals;

import java.util.Map;
import streamproof.host.TaskSetting;

/** From Kafka 4.3 on, stores keep their offsets, and the manager commits them (KIP-1035). */
final class StoreOffsets {
  private final ProcessorStateManager manager;

  StoreOffsets(ProcessorStateManager manager) {
    this.manager = manager;
  }

  static ProcessorStateManager manager(
      TaskSetting setting, StateDirectory directory, Map<String, String> changelogs) {
    return StateManagers.of(setting, directory, changelogs);
  }

  /** The stores were opened, and their offsets were read. */
  void opened() {
    // Nothing is to be remembered: each commit is handed to the store.
  }

  /** Commit the stores; how often they write the offsets down is their affair. */
  void save(boolean isEnforced) {
    manager.commit();
  }

  /** Do nothing: a store marks its own files as long as it is open. */
  void distrust() {}
}
