import java.time.Instant;
import java.util.Properties;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.StoreBuilder;

/** A task of Kafka Streams with one store. The programs beside this class use the store itself. */
final class OneStore {
  private OneStore() {}

  /** Opens a store, calls it, and prints what it does: an answer or an exception. */
  @SuppressWarnings("unchecked")
  static <S extends StateStore> void ask(
      String what, StoreBuilder<? super S> builder, String directory, Function<S, Object> question) {
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

  private static TopologyTestDriver driver(
      StoreBuilder<?> builder, String directory) {
    Properties config = new Properties();
    config.put(StreamsConfig.APPLICATION_ID_CONFIG, "findings");
    config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:1");
    config.put(StreamsConfig.STATE_DIR_CONFIG, directory);
    Topology topology =
        new Topology()
            .addSource(
                "source", Serdes.Bytes().deserializer(), Serdes.Bytes().deserializer(), "in")
            .addProcessor("processor", Idle::new, "source")
            .addStateStore(builder, "processor");
    return new TopologyTestDriver(topology, config, Instant.EPOCH);
  }

  private static final class Idle implements Processor<Object, Object, Void, Void> {
    @Override
    public void process(Record<Object, Object> record) {
      // Nothing is processed.
    }
  }
}
