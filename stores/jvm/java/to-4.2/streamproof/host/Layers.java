package streamproof.host;

import java.util.Map;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.internals.OneStoreTask;

/** The only layer of Kafka up to 4.2: the task keeps the offsets of its stores. */
final class Layers {
  private Layers() {}

  static Layer around(StateStore store, String layer, TaskSetting setting) {
    return new OneStoreTask(store, setting);
  }

  /** Claim what a store shows alone. */
  static void addClaims(Map<String, Object> claims, StateStore store) {
    claims.put("manages_offsets", false);
    claims.put("forgets_offsets", false);
  }
}
