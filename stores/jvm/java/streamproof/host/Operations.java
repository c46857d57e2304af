package streamproof.host;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;

/** The operations of the protocol on one store of bytes. */
final class Operations {
  private static final long VERSION = 1;

  private final KeyValueStore<Bytes, byte[]> store;
  private final Map<Integer, KeyValueIterator<Bytes, byte[]>> iterators = new HashMap<>();
  private StoreContext context;
  private int lastIterator;

  @SuppressWarnings("unchecked")
  Operations(KeyValueStore<?, ?> store) {
    this.store = (KeyValueStore<Bytes, byte[]>) store;
  }

  /** Perform a request; the answer is made of bytes, texts, numbers, lists and maps, or null. */
  Object perform(Request request) throws IOException {
    String op = String.valueOf(request.text("op"));
    switch (op) {
      case "hello":
        return hello();
      case "open":
        return open(request);
      case "close":
        store.close();
        return null;
      case "flush":
        store.flush();
        return null;
      case "commit":
        return commit(request);
      case "committed_offset":
        return store.committedOffset(
            new TopicPartition(request.text("topic"), request.number("partition")));
      case "position":
        return position();
      case "restore":
        context.restore(request.rows("entries"));
        return null;
      case "get":
        return store.get(request.key("key"));
      case "approximate_num_entries":
        return store.approximateNumEntries();
      case "approximate_num_uncommitted_entries":
      case "approximate_num_uncommitted_bytes":
        // No store of these releases stages writes (KIP-892: the default of StateStore is 0).
        return 0;
      case "next":
        return next(request);
      case "close_iterator":
        iterators.remove(request.number("iterator")).close();
        return null;
      case "range":
        return opened(store.range(request.key("from"), request.key("to")));
      case "reverse_range":
        return opened(store.reverseRange(request.key("from"), request.key("to")));
      case "all":
        return opened(store.all());
      case "reverse_all":
        return opened(store.reverseAll());
      case "prefix_scan":
        return opened(store.prefixScan(request.value("prefix"), new ByteArraySerializer()));
      default:
        return write(op, request);
    }
  }

  private Object hello() {
    Map<String, Object> claims = new TreeMap<>();
    claims.put("persistent", store.persistent());
    claims.put("manages_offsets", store.managesOffsets());
    claims.put("forgets_offsets", false);
    claims.put("position", true);
    claims.put("durability", store.persistent() ? "close" : "process");
    // Kafka's stores in memory copy the keys for an iterator, and look up each value when due.
    claims.put("iterator_view", store.persistent() ? "snapshot" : "weak");
    return Map.of(
        "protocol", VERSION,
        "name", nameOf(store.getClass()),
        "version", versionOf(store.getClass()),
        "capabilities", claims);
  }

  private static String nameOf(Class<?> type) {
    return isOfKafka(type) ? "kafka-streams" : type.getName();
  }

  private static String versionOf(Class<?> type) {
    if (isOfKafka(type)) {
      return AppInfoParser.getVersion();
    }
    String version = type.getPackage().getImplementationVersion();
    return version == null ? "" : version;
  }

  private static boolean isOfKafka(Class<?> type) {
    return type.getName().startsWith("org.apache.kafka.");
  }

  private Object open(Request request) {
    context =
        new StoreContext(
            new File(request.text("directory")),
            request.text("task"),
            request.text("guarantee"),
            request.map("config"));
    store.init(context.proxy(), store);
    return null;
  }

  private Object commit(Request request) throws IOException {
    Map<TopicPartition, Long> offsets = new HashMap<>();
    for (List<Object> row : request.rows("offsets")) {
      int partition = Math.toIntExact((Long) row.get(1));
      if (row.get(2) == null) {
        throw new UnsupportedOperationException("Kafka's stores do not forget a committed offset.");
      }
      offsets.put(new TopicPartition((String) row.get(0), partition), (Long) row.get(2));
    }
    // The runtime runs the callback of a store with each commit: positions are written there.
    context.runCommitCallback();
    store.commit(offsets);
    return null;
  }

  private Object position() {
    List<Object> found = new ArrayList<>();
    Position position = store.getPosition();
    for (String topic : position.getTopics()) {
      position
          .getPartitionPositions(topic)
          .forEach((partition, offset) -> found.add(List.of(topic, partition, offset)));
    }
    return found;
  }

  private Object write(String op, Request request) {
    context.processing(request.list("record"));
    switch (op) {
      case "put":
        store.put(request.key("key"), request.value("value"));
        return null;
      case "delete":
        return store.delete(request.key("key"));
      case "put_if_absent":
        return store.putIfAbsent(request.key("key"), request.value("value"));
      case "put_all":
        List<KeyValue<Bytes, byte[]>> entries = new ArrayList<>();
        for (List<Object> row : request.rows("entries")) {
          Bytes key = Bytes.wrap(Request.bytes(row.get(0)));
          entries.add(KeyValue.pair(key, Request.bytes(row.get(1))));
        }
        store.putAll(entries);
        return null;
      default:
        throw new UnsupportedOperationException("This host does not know the operation " + op);
    }
  }

  /** The number of an iterator. */
  private Object opened(KeyValueIterator<Bytes, byte[]> iterator) {
    iterators.put(++lastIterator, iterator);
    return lastIterator;
  }

  private Object next(Request request) {
    KeyValueIterator<Bytes, byte[]> iterator = iterators.get(request.number("iterator"));
    List<Object> rows = new ArrayList<>();
    for (int left = request.number("limit"); left > 0 && iterator.hasNext(); left--) {
      KeyValue<Bytes, byte[]> entry = iterator.next();
      rows.add(List.of(entry.key.get(), entry.value));
    }
    return Map.of("rows", rows, "done", !iterator.hasNext());
  }
}
