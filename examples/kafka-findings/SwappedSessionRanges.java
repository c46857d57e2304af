import java.time.Duration;
import java.util.List;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;

/**
 * A range of keys with swapped bounds is empty in a session store on RocksDB, and an exception in
 * memory, once there is a session.
 */
public final class SwappedSessionRanges {
  public static void main(String[] arguments) {
    Duration retention = Duration.ofMinutes(3);
    for (SessionBytesStoreSupplier supplier :
        List.of(
            Stores.persistentSessionStore("rocksdb", retention),
            Stores.inMemorySessionStore("in-memory", retention))) {
      var builder = Stores.sessionStoreBuilder(supplier, Serdes.String(), Serdes.String());
      Function<SessionStore<String, String>, Object> read =
          store -> {
            store.put(new Windowed<>("a", new SessionWindow(0, 5)), "value");
            try (var rows = store.fetch("b", "a")) {
              return rows.hasNext() ? "a session" : "nothing";
            }
          };
      OneStore.ask(supplier.name() + ", range from b to a", builder, arguments[0], read);
    }
  }
}
