import java.time.Duration;
import java.util.Map;
import java.util.function.Function;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/**
 * A window store on RocksDB forgets an offset that is committed while the store has no window.
 *
 * <p>Each segment keeps the offsets, and there is no segment yet.
 */
public final class OffsetsBeforeTheFirstWindow {
  private static final TopicPartition CHANGELOG = new TopicPartition("changelog", 0);

  public static void main(String[] arguments) {
    var builder =
        Stores.windowStoreBuilder(
            Stores.persistentWindowStore(
                "rocksdb", Duration.ofMinutes(3), Duration.ofSeconds(10), false),
            Serdes.String(),
            Serdes.String());
    Function<WindowStore<String, String>, Object> commit =
        store -> {
          store.commit(Map.of(CHANGELOG, 7L));
          return store.committedOffset(CHANGELOG);
        };
    OneStore.ask("rocksdb, the offset after a commit of 7", builder, arguments[0], commit);
  }
}
