package org.apache.kafka.streams.processor.internals;

import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.LogContext;
import streamproof.host.TaskSetting;

/** Makes the state manager of a task of Kafka from 4.4 on, which knows transactional stores. */
final class StateManagers {
  private StateManagers() {}

  static ProcessorStateManager of(
      TaskSetting setting, StateDirectory directory, Map<String, String> changelogs) {
    return new ProcessorStateManager(
        setting.task(),
        Task.TaskType.ACTIVE,
        setting.isExactlyOnce(),
        setting.isTransactional(),
        new LogContext(""),
        directory,
        Time.SYSTEM,
        changelogs,
        Set.of());
  }
}
