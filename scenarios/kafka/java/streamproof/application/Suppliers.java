package streamproof.application;

import java.time.Duration;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/** What keeps the rows of the stores: RocksDB, or memory if the instance is started so. */
final class Suppliers {
  private static final boolean IN_MEMORY = Boolean.getBoolean("streamproof.in.memory");

  private Suppliers() {
  }

  static KeyValueBytesStoreSupplier keyValue(String name) {
    return IN_MEMORY ? Stores.inMemoryKeyValueStore(name) : Stores.persistentKeyValueStore(name);
  }

  static KeyValueBytesStoreSupplier timestamped(String name) {
    return IN_MEMORY
        ? Stores.inMemoryKeyValueStore(name)
        : Stores.persistentTimestampedKeyValueStore(name);
  }

  static WindowBytesStoreSupplier window(String name, Duration retention, Duration size) {
    return IN_MEMORY
        ? Stores.inMemoryWindowStore(name, retention, size, false)
        : Stores.persistentWindowStore(name, retention, size, false);
  }

  static SessionBytesStoreSupplier session(String name, Duration retention) {
    return IN_MEMORY
        ? Stores.inMemorySessionStore(name, retention)
        : Stores.persistentSessionStore(name, retention);
  }
}
