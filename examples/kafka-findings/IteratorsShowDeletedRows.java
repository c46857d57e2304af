import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * An iterator of the store in memory yields a key that was deleted meanwhile, with the value null.
 *
 * <p>Kafka 4.0 leaves the key out.
 */
public final class IteratorsShowDeletedRows {
  public static void main(String[] arguments) {
    for (KeyValueBytesStoreSupplier supplier :
        List.of(
            Stores.persistentKeyValueStore("rocksdb"), Stores.inMemoryKeyValueStore("in-memory"))) {
      var builder = Stores.keyValueStoreBuilder(supplier, Serdes.String(), Serdes.String());
      Function<KeyValueStore<String, String>, Object> scan =
          store -> {
            store.put("a", "1");
            store.put("b", "2");
            List<String> found = new ArrayList<>();
            try (var rows = store.all()) {
              found.add(rows.next().key);
              store.delete("b");
              rows.forEachRemaining(row -> found.add(row.key + "=" + row.value));
            }
            return found;
          };
      String what = supplier.name() + ", b is deleted during the scan";
      OneStore.ask(what, builder, arguments[0], scan);
    }
  }
}
