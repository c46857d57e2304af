package org.apache.kafka.streams.processor.internals;

import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.utils.LogContext;
import streamproof.host.TaskSetting;

/** Makes the state manager of a task of Kafka 4.3. */
final class StateManagers {
  private StateManagers() {}

  static ProcessorStateManager of(
      TaskSetting setting, StateDirectory directory, Map<String, String> changelogs) {
    return new ProcessorStateManager(
        setting.task(),
        Task.TaskType.ACTIVE,
        setting.isExactlyOnce(),
        new LogContext(""),
        directory,
        changelogs,
        Set.of());
  }
}
