import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * An iterator that is open during a commit raises, if the store in memory is transactional.
 *
 * <p>Kafka has such stores from 4.4 on.
 */
public final class CommitsEndOpenIterators {
  public static void main(String[] arguments) {
    for (boolean transactional : List.of(false, true)) {
      OneStore.MORE.put("enable.transactional.statestores", transactional);
      var builder =
          Stores.keyValueStoreBuilder(
              Stores.inMemoryKeyValueStore("store"), Serdes.String(), Serdes.String());
      String with = transactional ? "with transactions" : "without transactions";
      List<KeyValueIterator<String, String>> open = new ArrayList<>();
      Consumer<KeyValueStore<String, String>> put =
          store -> List.of("a", "b", "d").forEach(key -> store.put(key, "1"));
      Consumer<KeyValueStore<String, String>> begin =
          store -> {
            store.put("c", "1");
            open.add(store.all());
            open.get(0).next();
          };
      // The task commits after each step.
      Consumer<KeyValueStore<String, String>> goOn =
          store -> System.out.println(with + ", the rest of a scan: " + rest(open.get(0)));
      OneStore.process(builder, arguments[0] + transactional, List.of(put, begin, goOn));
    }
  }

  private static String rest(KeyValueIterator<String, String> rows) {
    List<String> found = new ArrayList<>();
    try (rows) {
      rows.forEachRemaining(row -> found.add(row.key));
    } catch (RuntimeException error) {
      return error.toString();
    }
    return found.toString();
  }
}
