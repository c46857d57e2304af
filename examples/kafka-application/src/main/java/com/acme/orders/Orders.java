package com.acme.orders;

import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Adds up the orders of each customer: {@code Orders VARIANT BOOTSTRAP STATE_DIRECTORY}.
 *
 * <p>From {@code orders} come {@code receipts}, one for each order, and {@code totals}. Each total
 * becomes one of the {@code notices}. The variant {@code right} is right. Each other variant makes
 * one mistake, in the class of its name.
 */
public final class Orders {
  static final String TOTALS = "totals";

  private Orders() {
  }

  public static void main(String[] arguments) {
    String variant = arguments[0];
    KafkaStreams streams = new KafkaStreams(
        topology(variant, arguments[1]), settings(arguments[1], arguments[2]));
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
    streams.start();
    if (variant.equals("uncommitted-reader")) {
      new UncommittedReader(arguments[1]).start();
    }
  }

  private static Properties settings(String bootstrap, String directory) {
    Properties settings = new Properties();
    settings.put("application.id", "orders");
    settings.put("bootstrap.servers", bootstrap);
    settings.put("state.dir", directory);
    settings.put("processing.guarantee", "exactly_once_v2");
    settings.put("default.key.serde", Serdes.StringSerde.class.getName());
    settings.put("default.value.serde", Serdes.StringSerde.class.getName());
    // A second is long enough for a transaction to be open when a process is killed.
    settings.put("commit.interval.ms", "1000");
    // A killed instance is missed soon.
    settings.put("session.timeout.ms", "3000");
    settings.put("heartbeat.interval.ms", "500");
    return settings;
  }

  private static Topology topology(String variant, String bootstrap) {
    ProcessorSupplier<String, String, String, String> adds = switch (variant) {
      case "own-producer" -> () -> new OwnProducer(bootstrap);
      case "static-map" -> StaticMap::new;
      case "right", "uncommitted-reader" -> Adder::new;
      default -> throw new IllegalArgumentException("There is no variant " + variant + ".");
    };
    Topology topology = new Topology()
        .addSource("orders", "orders")
        .addProcessor("add", adds, "orders")
        .addStateStore(
          Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore(TOTALS), Serdes.String(), Serdes.String()),
          "add")
        .addSink("to-totals", TOTALS, "add")
        .addSink("to-receipts", "receipts", "add");
    if (!variant.equals("uncommitted-reader")) {
      topology.addSource("from-totals", TOTALS)
          .addProcessor("tell", Teller::new, "from-totals")
          .addSink("to-notices", "notices", "tell");
    }
    return topology;
  }

  /** Keeps the totals in a store, and forwards what it has to say. */
  static class Adder implements Processor<String, String, String, String> {
    private ProcessorContext<String, String> context;
    private KeyValueStore<String, String> totals;

    @Override
    public void init(ProcessorContext<String, String> given) {
      context = given;
      totals = given.getStateStore(TOTALS);
    }

    @Override
    public void process(Record<String, String> order) {
      String total = Integer.toString(before(order.key()) + Integer.parseInt(order.value()));
      keep(order.key(), total);
      context.forward(order.withValue(total), "to-totals");
      write(order.withValue("booked " + order.value()));
    }

    int before(String customer) {
      String total = totals.get(customer);
      return total == null ? 0 : Integer.parseInt(total);
    }

    void keep(String customer, String total) {
      totals.put(customer, total);
    }

    void write(Record<String, String> receipt) {
      context.forward(receipt, "to-receipts");
    }
  }

  /** Makes a notice of a total. */
  private static final class Teller implements Processor<String, String, String, String> {
    private ProcessorContext<String, String> context;

    @Override
    public void init(ProcessorContext<String, String> given) {
      context = given;
    }

    @Override
    public void process(Record<String, String> total) {
      context.forward(total.withValue("ordered " + total.value()));
    }
  }
}
