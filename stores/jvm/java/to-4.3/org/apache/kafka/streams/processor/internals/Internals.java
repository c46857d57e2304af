package org.apache.kafka.streams.processor.internals;

import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;
import org.apache.kafka.streams.state.internals.ThreadCache;
import org.slf4j.Logger;
import streamproof.host.TaskSetting;

/** What other releases name otherwise, or give other arguments: here for Kafka up to 4.3. */
public final class Internals {
  private Internals() {}

  /** The release of Kafka whose classes these are. */
  public static String release() {
    return AppInfoParser.getVersion();
  }

  /** A cache of so many bytes. */
  public static ThreadCache cache(long bytes, StreamsMetricsImpl metrics) {
    return new ThreadCache(new LogContext(""), bytes, metrics);
  }

  /** No store of these releases stages writes (KIP-892: the default of StateStore is 0). */
  public static long uncommittedBytes(StateStore store) {
    return 0;
  }

  /** Close the stores of a task, and wipe them where the runtime does. */
  static void close(
      Logger log,
      boolean isClean,
      TaskSetting setting,
      ProcessorStateManager manager,
      StateDirectory directory) {
    StateManagerUtil.closeStateManager(
        log,
        "",
        isClean,
        setting.isExactlyOnce(),
        manager,
        directory,
        Task.TaskType.ACTIVE);
  }
}
