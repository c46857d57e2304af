package org.apache.kafka.streams.processor.internals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;

/** What Kafka's classes need around them: a configuration, metrics, logs, records, stubs. */
public final class Surroundings {
  /** Makes the nodes of an answer. */
  public static final JsonNodeFactory JSON = JsonNodeFactory.instance;

  static final LogContext LOG = new LogContext("");
  static final TaskId TASK = new TaskId(0, 0);
  static final StreamsMetricsImpl METRICS =
      new StreamsMetricsImpl(new Metrics(), "decisions", Time.SYSTEM);

  private static final byte[] NOTHING = new byte[0];

  private Surroundings() {}

  /** A configuration with some settings of its own. */
  static StreamsConfig config(Map<String, Object> settings) {
    Map<String, Object> all =
        new HashMap<>(
            Map.of(
                StreamsConfig.APPLICATION_ID_CONFIG, "decisions",
                StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "127.0.0.1:1"));
    all.putAll(settings);
    return new StreamsConfig(all);
  }

  /** The partition of a history: each topic has one. */
  public static TopicPartition partition(String topic) {
    return new TopicPartition(topic, 0);
  }

  /** Records from pairs of offset and timestamp. */
  static List<ConsumerRecord<byte[], byte[]>> records(String topic, JsonNode pairs) {
    List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
    for (JsonNode each : pairs) {
      records.add(record(topic, each.get(0).asLong(), each.get(1).asLong()));
    }
    return records;
  }

  static ConsumerRecord<byte[], byte[]> record(String topic, long offset, long timestamp) {
    return new ConsumerRecord<>(
        topic,
        0,
        offset,
        timestamp,
        TimestampType.CREATE_TIME,
        0,
        0,
        NOTHING,
        NOTHING,
        new RecordHeaders(),
        Optional.empty());
  }

  /** A number, or null without one. */
  public static Long numberOrNull(JsonNode node) {
    return node == null || node.isNull() ? null : node.asLong();
  }

  /** What a private field of an object has. */
  @SuppressWarnings("unchecked")
  static <T> T privateField(Object owner, String name) throws ReflectiveOperationException {
    Field field = owner.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return (T) field.get(owner);
  }

  /** What a method of a stub does, given its name and its arguments. */
  @FunctionalInterface
  public interface Calls {
    Object call(String method, Object[] arguments) throws Throwable;
  }

  /** An object of an interface whose methods all do what one function says. */
  public static <T> T stub(Class<T> type, Calls calls) {
    return type.cast(
        Proxy.newProxyInstance(
            Surroundings.class.getClassLoader(),
            new Class<?>[] {type},
            (Object proxy, Method method, Object[] arguments) ->
                calls.call(method.getName(), arguments)));
  }

  /** Refuse a call that no decision should make: the stub would have to be more than it is. */
  public static Object refuse(String method) {
    throw new UnsupportedOperationException("A stub was asked for " + method + ".");
  }
}
