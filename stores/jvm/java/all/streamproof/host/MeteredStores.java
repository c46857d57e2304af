package streamproof.host;

import java.util.Map;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/** Stores as a processor has them: metered, with a cache and with a changelog. Keys are bytes. */
final class MeteredStores {
  private MeteredStores() {}

  /** The store of a supplier or a builder; what was given, if it is neither. */
  static Object of(Object given) {
    StoreBuilder<?> builder = builder(given);
    return builder == null
        ? given
        : builder.withCachingEnabled().withLoggingEnabled(Map.of()).build();
  }

  private static StoreBuilder<? extends StateStore> builder(Object given) {
    var keys = Serdes.Bytes();
    var values = Serdes.ByteArray();
    if (given instanceof KeyValueBytesStoreSupplier) {
      KeyValueBytesStoreSupplier supplier = (KeyValueBytesStoreSupplier) given;
      return supplier.get() instanceof TimestampedBytesStore
          ? Stores.timestampedKeyValueStoreBuilder(supplier, keys, values)
          : Stores.keyValueStoreBuilder(supplier, keys, values);
    }
    if (given instanceof WindowBytesStoreSupplier) {
      WindowBytesStoreSupplier supplier = (WindowBytesStoreSupplier) given;
      return supplier.get() instanceof TimestampedBytesStore
          ? Stores.timestampedWindowStoreBuilder(supplier, keys, values)
          : Stores.windowStoreBuilder(supplier, keys, values);
    }
    if (given instanceof SessionBytesStoreSupplier) {
      return Stores.sessionStoreBuilder((SessionBytesStoreSupplier) given, keys, values);
    }
    return given instanceof StoreBuilder ? (StoreBuilder<?>) given : null;
  }
}
