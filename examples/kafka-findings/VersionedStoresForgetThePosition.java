import java.time.Duration;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.VersionedKeyValueStore;

/**
 * A versioned store forgets its position when it is closed.
 *
 * <p>The record at offset 0 puts a row, and the task commits. Then the store is closed, and another
 * task opens it.
 */
public final class VersionedStoresForgetThePosition {
  public static void main(String[] arguments) {
    VersionedStoresForgetThePosition.<KeyValueStore<String, String>>reopen(
        Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore("rocksdb"), Serdes.String(), Serdes.String()),
        store -> store.put("key", "value"),
        store -> store.get("key"),
        arguments[0] + "/plain");
    VersionedStoresForgetThePosition.<VersionedKeyValueStore<String, String>>reopen(
        Stores.versionedKeyValueStoreBuilder(
            Stores.persistentVersionedKeyValueStore("rocksdb-versioned", Duration.ofMinutes(3)),
            Serdes.String(),
            Serdes.String()),
        store -> store.put("key", "value", 0),
        store -> store.get("key").value(),
        arguments[0] + "/versioned");
  }

  private static <S extends StateStore> void reopen(
      StoreBuilder<S> builder, Consumer<S> put, Function<S, String> get, String directory) {
    OneStore.<S>leave(
        builder,
        directory,
        store -> {
          put.accept(store);
          System.out.println(builder.name() + ", after offset 0: " + store.getPosition());
        });
    OneStore.<S>ask(
        builder.name() + ", opened again",
        builder,
        directory,
        store -> get.apply(store) + ", " + store.getPosition());
  }
}
