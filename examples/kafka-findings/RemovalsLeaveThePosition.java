import java.time.Duration;
import java.time.Instant;
import java.util.Properties;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
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
    Properties config = new Properties();
    config.put(StreamsConfig.APPLICATION_ID_CONFIG, "findings");
    config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:1");
    config.put(StreamsConfig.STATE_DIR_CONFIG, directory);
    Topology topology =
        new Topology()
            .addSource(
                "source", Serdes.String().deserializer(), Serdes.String().deserializer(), "in")
            .addProcessor(
                "processor", () -> new Writing<>(builder.name(), first, second), "source")
            .addStateStore(builder, "processor");
    try (var driver = new TopologyTestDriver(topology, config, Instant.EPOCH)) {
      var input = driver.createInputTopic("in", new StringSerializer(), new StringSerializer());
      input.pipeInput("key", "first");
      input.pipeInput("key", "second");
      var position = driver.getAllStateStores().get(builder.name()).getPosition();
      System.out.println(builder.name() + ", after offset 1: " + position);
    }
  }

  private static final class Writing<S extends StateStore>
      implements Processor<String, String, Void, Void> {
    private final String name;
    private final Consumer<S> first;
    private final Consumer<S> second;
    private S store;

    Writing(String name, Consumer<S> first, Consumer<S> second) {
      this.name = name;
      this.first = first;
      this.second = second;
    }

    @Override
    public void init(ProcessorContext<Void, Void> context) {
      store = context.getStateStore(name);
    }

    @Override
    public void process(Record<String, String> record) {
      (record.value().equals("first") ? first : second).accept(store);
    }
  }
}
