import java.time.Instant;
import java.util.Iterator;
import java.util.List;
import java.util.Properties;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.kafka.common.serialization.BytesSerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.StoreBuilder;

/** A task of Kafka Streams with one store. The programs beside this class use the store itself. */
final class OneStore {
  /** What a program configures beyond an application that has to be configured. */
  static final Properties MORE = new Properties();

  private OneStore() {}

  /** Opens a store, calls it, and prints what it does: an answer or an exception. */
  @SuppressWarnings("unchecked")
  static <S extends StateStore> void ask(
      String what,
      StoreBuilder<? super S> builder,
      String directory,
      Function<S, Object> question) {
    try (var driver = driver(builder, directory)) {
      String found;
      try {
        found = String.valueOf(question.apply((S) driver.getAllStateStores().get(builder.name())));
      } catch (RuntimeException error) {
        found = error.toString();
      }
      System.out.println(what + ": " + found);
    }
  }

  /** Opens a store, uses it, and lets the task close it. */
  @SuppressWarnings("unchecked")
  static <S extends StateStore> S closed(
      StoreBuilder<? super S> builder, String directory, Consumer<S> use) {
    try (var driver = driver(builder, directory)) {
      S store = (S) driver.getAllStateStores().get(builder.name());
      use.accept(store);
      return store;
    }
  }

  /** Opens a store, and takes each of some steps while a record is processed. */
  @SuppressWarnings("unchecked")
  static <S extends StateStore> void process(
      StoreBuilder<? super S> builder, String directory, List<Consumer<S>> steps) {
    Iterator<Consumer<S>> left = steps.iterator();
    Consumer<StateStore> next = store -> left.next().accept((S) store);
    try (var driver = driver(builder, directory, () -> new Using(builder.name(), next))) {
      var input = driver.createInputTopic("in", new BytesSerializer(), new BytesSerializer());
      // The task commits after each record.
      steps.forEach(step -> input.pipeInput(Bytes.wrap(new byte[0]), Bytes.wrap(new byte[0])));
    }
  }

  /** Opens a store, uses it while a record is processed, and closes it; its files stay. */
  @SuppressWarnings({"unchecked", "resource"})
  static <S extends StateStore> void leave(
      StoreBuilder<? super S> builder, String directory, Consumer<S> use) {
    // The driver is not closed: its clean-up would delete the files.
    var driver =
        driver(builder, directory, () -> new Using(builder.name(), store -> use.accept((S) store)));
    var input = driver.createInputTopic("in", new BytesSerializer(), new BytesSerializer());
    // The task commits after the record.
    input.pipeInput(Bytes.wrap(new byte[0]), Bytes.wrap(new byte[0]));
    driver.getAllStateStores().get(builder.name()).close();
  }

  private static TopologyTestDriver driver(StoreBuilder<?> builder, String directory) {
    return driver(builder, directory, () -> new Using(builder.name(), store -> {}));
  }

  private static TopologyTestDriver driver(
      StoreBuilder<?> builder,
      String directory,
      ProcessorSupplier<Object, Object, Void, Void> processor) {
    Properties config = new Properties();
    config.put(StreamsConfig.APPLICATION_ID_CONFIG, "findings");
    config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:1");
    config.put(StreamsConfig.STATE_DIR_CONFIG, directory);
    config.putAll(MORE);
    Topology topology =
        new Topology()
            .addSource(
                "source", Serdes.Bytes().deserializer(), Serdes.Bytes().deserializer(), "in")
            .addProcessor("processor", processor, "source")
            .addStateStore(builder, "processor");
    return new TopologyTestDriver(topology, config, Instant.EPOCH);
  }

  private static final class Using implements Processor<Object, Object, Void, Void> {
    private final String name;
    private final Consumer<StateStore> use;
    private StateStore store;

    Using(String name, Consumer<StateStore> use) {
      this.name = name;
      this.use = use;
    }

    @Override
    public void init(ProcessorContext<Void, Void> context) {
      store = context.getStateStore(name);
    }

    @Override
    public void process(Record<Object, Object> record) {
      use.accept(store);
    }
  }
}
