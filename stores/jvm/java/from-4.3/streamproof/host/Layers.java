package streamproof.host;

import java.util.Map;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.internals.OneStoreTask;

/** The layers of Kafka from 4.3 on, whose stores keep their offsets (KIP-1035). */
final class Layers {
  private Layers() {}

  static Layer around(StateStore store, String layer, TaskSetting setting) {
    return layer.equals("task") ? new OneStoreTask(store, setting) : new StoreAlone(store, setting);
  }

  /** Claim what a store shows alone. */
  static void addClaims(Map<String, Object> claims, StateStore store) {
    claims.put("manages_offsets", store.managesOffsets());
    // A commit of an empty map makes a store that keeps offsets forget them (StateStore#commit).
    claims.put("forgets_offsets", store.managesOffsets());
  }
}
