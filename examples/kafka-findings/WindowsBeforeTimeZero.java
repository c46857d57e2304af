import java.time.Duration;
import java.util.List;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;

/**
 * A window store takes a window that starts before time 0, and no read of all windows finds it.
 *
 * <p>Such a start comes from a processor that puts at {@code timestamp - size}.
 */
public final class WindowsBeforeTimeZero {
  private static final Duration RETENTION = Duration.ofMinutes(3);
  private static final Duration SIZE = Duration.ofSeconds(10);

  public static void main(String[] arguments) {
    for (WindowBytesStoreSupplier supplier :
        List.of(
            Stores.persistentWindowStore("rocksdb", RETENTION, SIZE, false),
            Stores.inMemoryWindowStore("in-memory", RETENTION, SIZE, false))) {
      var builder = Stores.windowStoreBuilder(supplier, Serdes.String(), Serdes.String());
      Function<WindowStore<String, String>, Object> read =
          store -> {
            store.put("key", "value", -1);
            try (var rows = store.all()) {
              String all = rows.hasNext() ? "finds it" : "finds nothing";
              return "all() " + all + ", fetch() finds " + store.fetch("key", -1);
            }
          };
      OneStore.ask(supplier.name() + ", after a put at -1", builder, arguments[0], read);
    }
  }
}
