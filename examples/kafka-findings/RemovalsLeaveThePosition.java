import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
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

/**
 * A removal leaves the position of some stores where it was.
 *
 * <p>The record at offset 0 puts a row, and the record at offset 1 removes it.
 */
public final class RemovalsLeaveThePosition {
  private static final Windowed<String> SESSION = new Windowed<>("key", new SessionWindow(0, 5));
  private static final Duration RETENTION = Duration.ofMinutes(3);

  public static void main(String[] arguments) {
    rows(Stores.persistentKeyValueStore("rocksdb"), arguments[0]);
    rows(Stores.inMemoryKeyValueStore("in-memory"), arguments[0]);
    sessions(Stores.persistentSessionStore("rocksdb-session", RETENTION), arguments[0]);
    sessions(Stores.inMemorySessionStore("in-memory-session", RETENTION), arguments[0]);
  }

  private static void rows(KeyValueBytesStoreSupplier supplier, String directory) {
    RemovalsLeaveThePosition.<KeyValueStore<String, String>>process(
        Stores.keyValueStoreBuilder(supplier, Serdes.String(), Serdes.String()),
        store -> store.put("key", "value"),
        store -> store.delete("key"),
        directory);
  }

  private static void sessions(SessionBytesStoreSupplier supplier, String directory) {
    RemovalsLeaveThePosition.<SessionStore<String, String>>process(
        Stores.sessionStoreBuilder(supplier, Serdes.String(), Serdes.String()),
        store -> store.put(SESSION, "value"),
        store -> store.remove(SESSION),
        directory);
  }

  private static <S extends StateStore> void process(
      StoreBuilder<S> builder, Consumer<S> first, Consumer<S> second, String directory) {
    Consumer<S> print =
        store ->
            System.out.println(builder.name() + ", after offset 1: " + store.getPosition());
    OneStore.process(builder, directory, List.of(first, second, print));
  }
}
