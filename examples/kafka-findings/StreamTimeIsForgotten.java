import java.time.Duration;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/**
 * A row that is too late is kept after the store was closed and opened again.
 *
 * <p>The store has a retention of three minutes, and a row of one hour. A row of time 0 is dropped
 * then, unless the store was opened again.
 */
public final class StreamTimeIsForgotten {
  private static final Duration RETENTION = Duration.ofMinutes(3);
  private static final long HOUR = 3_600_000;

  public static void main(String[] arguments) {
    StreamTimeIsForgotten.<WindowStore<String, String>>reopen(
        Stores.windowStoreBuilder(
            Stores.persistentWindowStore("rocksdb-window", RETENTION, RETENTION, false),
            Serdes.String(),
            Serdes.String()),
        store -> store.put("key", "new", HOUR),
        store -> store.put("key", "late", 0),
        store -> store.fetch("key", 0),
        arguments[0]);
    StreamTimeIsForgotten.<SessionStore<String, String>>reopen(
        Stores.sessionStoreBuilder(
            Stores.persistentSessionStore("rocksdb-session", RETENTION),
            Serdes.String(),
            Serdes.String()),
        store -> store.put(session(HOUR), "new"),
        store -> store.put(session(0), "late"),
        store -> store.fetchSession("key", 0, 0),
        arguments[0]);
  }

  private static Windowed<String> session(long time) {
    return new Windowed<>("key", new SessionWindow(time, time));
  }

  private static <S extends StateStore> void reopen(
      StoreBuilder<S> builder,
      Consumer<S> putNew,
      Consumer<S> putLate,
      Function<S, String> read,
      String directory) {
    OneStore.<S>leave(
        builder,
        directory,
        store -> {
          putNew.accept(store);
          putLate.accept(store);
          System.out.println(builder.name() + ", after a late put: " + read.apply(store));
        });
    OneStore.<S>ask(
        builder.name() + ", after a late put into the store opened again",
        builder,
        directory,
        store -> {
          putLate.accept(store);
          return read.apply(store);
        });
  }
}
