import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Most stores answer after their close as if they were empty, and take writes that nobody will see.
 *
 * <p>Only the key-value store on RocksDB refuses both.
 */
public final class ClosedStoresAnswer {
  private static final Duration RETENTION = Duration.ofMinutes(3);
  private static final Duration SIZE = Duration.ofSeconds(10);
  private static final Windowed<String> SESSION = new Windowed<>("key", new SessionWindow(0, 5));

  public static void main(String[] arguments) {
    String directory = arguments[0];
    for (KeyValueBytesStoreSupplier supplier :
        List.of(
            Stores.persistentKeyValueStore("rocksdb"),
            Stores.inMemoryKeyValueStore("in-memory"))) {
      ClosedStoresAnswer.<KeyValueStore<String, String>>ask(
          Stores.keyValueStoreBuilder(supplier, Serdes.String(), Serdes.String()),
          directory,
          store -> store.put("key", "value"),
          store -> store.get("key"));
    }
    for (WindowBytesStoreSupplier supplier :
        List.of(
            Stores.persistentWindowStore("rocksdb-window", RETENTION, SIZE, false),
            Stores.inMemoryWindowStore("in-memory-window", RETENTION, SIZE, false))) {
      ClosedStoresAnswer.<WindowStore<String, String>>ask(
          Stores.windowStoreBuilder(supplier, Serdes.String(), Serdes.String()),
          directory,
          store -> store.put("key", "value", 0),
          store -> store.fetch("key", 0));
    }
    for (SessionBytesStoreSupplier supplier :
        List.of(
            Stores.persistentSessionStore("rocksdb-session", RETENTION),
            Stores.inMemorySessionStore("in-memory-session", RETENTION))) {
      ClosedStoresAnswer.<SessionStore<String, String>>ask(
          Stores.sessionStoreBuilder(supplier, Serdes.String(), Serdes.String()),
          directory,
          store -> store.put(SESSION, "value"),
          store -> store.fetchSession("key", 0, 5));
    }
  }

  private static <S extends StateStore> void ask(
      StoreBuilder<S> builder, String directory, Consumer<S> write, Function<S, Object> read) {
    S store = OneStore.closed(builder.withLoggingDisabled(), directory, write);
    Object found = attempt(() -> read.apply(store));
    Object written =
        attempt(
            () -> {
              write.accept(store);
              return "returns";
            });
    System.out.println(builder.name() + ", closed: get gives " + found + ", put " + written);
  }

  private static Object attempt(Supplier<Object> call) {
    try {
      return call.get();
    } catch (RuntimeException error) {
      return "an " + error.getClass().getSimpleName();
    }
  }
}
