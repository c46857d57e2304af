import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;

/**
 * A range with one open end ignores the other end, if a store on RocksDB is transactional.
 *
 * <p>Kafka has such stores from 4.4 on. The same store without transactions keeps to the bound.
 */
public final class TransactionalRangesIgnoreABound {
  public static void main(String[] arguments) {
    for (boolean transactional : List.of(false, true)) {
      OneStore.MORE.put("enable.transactional.statestores", transactional);
      String with = transactional ? "with transactions, " : "without transactions, ";
      plain(with, arguments[0] + "/plain" + transactional);
      timestamped(with, arguments[0] + "/timestamped" + transactional);
    }
  }

  private static void plain(String with, String directory) {
    var builder =
        Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore("store"), Serdes.String(), Serdes.String());
    // The task commits after each step.
    Consumer<KeyValueStore<String, String>> put =
        store -> List.of("a", "b", "c").forEach(key -> store.put(key, "1"));
    Consumer<KeyValueStore<String, String>> scan =
        store -> {
          List<String> found = keys(store.reverseRange("b", null));
          System.out.println(with + "reverseRange(b, null): " + found);
        };
    OneStore.process(builder, directory, List.of(put, scan));
  }

  private static void timestamped(String with, String directory) {
    var builder =
        Stores.timestampedKeyValueStoreBuilder(
            Stores.persistentTimestampedKeyValueStore("store"), Serdes.String(), Serdes.String());
    Consumer<TimestampedKeyValueStore<String, String>> put =
        store ->
            List.of("a", "b", "c").forEach(key -> store.put(key, ValueAndTimestamp.make("1", 0)));
    Consumer<TimestampedKeyValueStore<String, String>> scan =
        store -> {
          List<String> found = keys(store.range(null, "b"));
          System.out.println(with + "timestamped, range(null, b): " + found);
        };
    OneStore.process(builder, directory, List.of(put, scan));
  }

  private static List<String> keys(KeyValueIterator<String, ?> rows) {
    List<String> found = new ArrayList<>();
    try (rows) {
      rows.forEachRemaining(row -> found.add(row.key));
    }
    return found;
  }
}
