import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/**
 * A batch with a key of null is refused, and its first row is stored all the same.
 *
 * <p>The store is the one that a supplier makes, without the metered store that Kafka's own builder
 * puts around it. That one looks at all keys first.
 */
public final class BatchesAreHalfApplied {
  private static final Bytes FIRST = Bytes.wrap(new byte[] {'a'});

  public static void main(String[] arguments) {
    for (KeyValueBytesStoreSupplier supplier :
        List.of(
            Stores.persistentKeyValueStore("rocksdb"), Stores.inMemoryKeyValueStore("in-memory"))) {
      OneStore.<KeyValueStore<Bytes, byte[]>>ask(
          supplier.name() + ", after a refused batch",
          new Bare(supplier),
          arguments[0],
          BatchesAreHalfApplied::putBatch);
    }
  }

  private static Object putBatch(KeyValueStore<Bytes, byte[]> store) {
    byte[] value = {'1'};
    try {
      store.putAll(Arrays.asList(KeyValue.pair(FIRST, value), KeyValue.pair(null, value)));
      return "it was taken";
    } catch (NullPointerException refused) {
      return store.get(FIRST) == null ? "nothing is stored" : "the first row is stored";
    }
  }

  /** Builds the store of a supplier, and nothing around it. */
  private static final class Bare implements StoreBuilder<KeyValueStore<Bytes, byte[]>> {
    private final KeyValueBytesStoreSupplier supplier;

    Bare(KeyValueBytesStoreSupplier supplier) {
      this.supplier = supplier;
    }

    @Override
    public KeyValueStore<Bytes, byte[]> build() {
      return supplier.get();
    }

    @Override
    public String name() {
      return supplier.name();
    }

    @Override
    public StoreBuilder<KeyValueStore<Bytes, byte[]>> withCachingEnabled() {
      return this;
    }

    @Override
    public StoreBuilder<KeyValueStore<Bytes, byte[]>> withCachingDisabled() {
      return this;
    }

    @Override
    public StoreBuilder<KeyValueStore<Bytes, byte[]>> withLoggingEnabled(
        Map<String, String> config) {
      return this;
    }

    @Override
    public StoreBuilder<KeyValueStore<Bytes, byte[]>> withLoggingDisabled() {
      return this;
    }

    @Override
    public Map<String, String> logConfig() {
      return Map.of();
    }

    @Override
    public boolean loggingEnabled() {
      return false;
    }
  }
}
