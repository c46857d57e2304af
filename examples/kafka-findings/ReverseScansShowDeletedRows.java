import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * A scan in reverse shows deleted rows, if the store has a cache.
 *
 * <p>The deletion is in the cache, and the row is in the store beneath. The scan over both skips
 * the deletion as if the keys came in ascending order.
 */
public final class ReverseScansShowDeletedRows {
  /** More than the cache of a thread has room for. */
  private static final String LARGE = "x".repeat(11_000_000);

  public static void main(String[] arguments) {
    for (KeyValueBytesStoreSupplier supplier :
        List.of(
            Stores.persistentKeyValueStore("rocksdb"), Stores.inMemoryKeyValueStore("in-memory"))) {
      var builder =
          Stores.keyValueStoreBuilder(supplier, Serdes.String(), Serdes.String())
              .withCachingEnabled();
      Consumer<KeyValueStore<String, String>> put =
          store -> {
            store.put("a", "1");
            store.put("b", "2");
            // The other rows leave the cache.
            store.put("c", LARGE);
          };
      Consumer<KeyValueStore<String, String>> delete =
          store -> {
            store.delete("a");
            String what = supplier.name() + ", after the removal of a, ";
            System.out.println(what + "all: " + keys(store.all()));
            System.out.println(what + "reverseAll: " + keys(store.reverseAll()));
          };
      OneStore.process(builder, arguments[0], List.of(put, delete));
    }
  }

  private static List<String> keys(KeyValueIterator<String, String> rows) {
    List<String> found = new ArrayList<>();
    try (rows) {
      rows.forEachRemaining(row -> found.add(row.key));
    }
    return found;
  }
}
