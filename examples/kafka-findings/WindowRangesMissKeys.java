import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;

/**
 * A range of keys of a window store on RocksDB misses a key within the range.
 *
 * <p>A row has the bytes of the key and then those of the time. So a key that ends in zero bytes
 * sorts before a shorter key, whose time begins with zero bytes, too.
 */
public final class WindowRangesMissKeys {
  private static final Duration RETENTION = Duration.ofMinutes(3);
  private static final Duration SIZE = Duration.ofSeconds(10);

  public static void main(String[] arguments) {
    for (WindowBytesStoreSupplier supplier :
        List.of(
            Stores.persistentWindowStore("rocksdb", RETENTION, SIZE, false),
            Stores.inMemoryWindowStore("in-memory", RETENTION, SIZE, false))) {
      var builder = Stores.windowStoreBuilder(supplier, Serdes.String(), Serdes.String());
      Function<WindowStore<String, String>, Object> range =
          store -> {
            store.put("a", "short", 900_000);
            store.put("a\0", "long", 900_000);
            List<String> found = new ArrayList<>();
            try (var rows = store.fetch("a", "a\0", 0, 900_000)) {
              rows.forEachRemaining(row -> found.add(row.value));
            }
            return found;
          };
      String what = supplier.name() + ", with the keys a and a\\0, range from a to a\\0";
      OneStore.ask(what, builder, arguments[0], range);
    }
  }
}
