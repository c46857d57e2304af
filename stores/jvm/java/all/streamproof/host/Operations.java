package streamproof.host;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.internals.Internals;
import org.apache.kafka.streams.processor.internals.OneStoreTask;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.KeyValueIterator;

/** The operations of the protocol that are the same for every kind of store. */
abstract class Operations {
  private static final long VERSION = 2;

  private final StateStore store;
  private final Values values;
  private final Map<Integer, Rows<?>> iterators = new HashMap<>();
  private Map<String, Object> declared = Map.of();
  private String around = "bytes";
  private boolean takesName;
  private boolean transactional;
  private TaskSetting setting;
  private Layer layer;
  private long processedTime = -1;
  private boolean isOver;
  private int lastIterator;

  Operations(StateStore store) {
    this.store = store;
    this.values = new Values(store);
  }

  /** Claim this beyond what the store shows, or instead of it. */
  final void declare(Map<String, Object> claims) {
    declared = claims;
  }

  /** Serve the store within this layer: one of those in docs/jvm-stores.md. */
  final void within(String named) {
    around = named;
  }

  /** Serve stores of other names, too, in the layers in which several share a directory. */
  final void takeNames(boolean takes) {
    takesName = takes;
  }

  /** Open the store with transactions, which Kafka's stores have from 4.4 on (KIP-892). */
  final void stageWrites(boolean stages) {
    transactional = stages;
  }

  private boolean isTransactional() {
    return transactional || Boolean.TRUE.equals(declared.get("transactional"));
  }

  /** Perform a request; the answer is made of bytes, texts, numbers, lists and maps, or null. */
  final Object perform(Request request) throws IOException {
    String op = String.valueOf(request.text("op"));
    switch (op) {
      case "hello":
        return hello(request);
      case "open":
        return open(request);
      case "close":
        layer.close();
        isOver = true;
        return null;
      case "is_open":
        return store.isOpen();
      case "flush":
        store.flush();
        return null;
      case "commit":
        return commit(request);
      case "committed_offset":
        return layer.committedOffset(
            new TopicPartition(request.text("topic"), request.number("partition")));
      case "position":
        return position();
      case "dropped_records":
        return setting.droppedRecords();
      case "restore":
        layer.restore(restored(request));
        return null;
      case "approximate_num_uncommitted_entries":
        // Kafka counts the bytes alone; -1 is the answer of a store that cannot count.
        return isTransactional() ? -1 : 0;
      case "approximate_num_uncommitted_bytes":
        return Internals.uncommittedBytes(store);
      case "next":
        return iterators.get(request.number("iterator")).next(request.number("limit"));
      case "peek_next_key":
        return iterators.get(request.number("iterator")).peekNextKey();
      case "close_iterator":
        iterators.remove(request.number("iterator")).close();
        return null;
      default:
        return op.startsWith("put") || op.startsWith("delete") || op.equals("remove")
            ? writing(op, request)
            : read(op, request);
    }
  }

  /** What the store has sent to its changelog since the last call: key, value, timestamp. */
  final List<Object> takeLogged() {
    return layer == null ? List.of() : layer.takeLogged();
  }

  /** Whether the store was closed: another one can be opened in its place. */
  final boolean isOver() {
    return isOver;
  }

  /** Whether the store was never opened. */
  final boolean isUnused() {
    return layer == null;
  }

  private Object writing(String op, Request request) throws IOException {
    ProcessorRecordContext record = record(request.list("record"));
    processedTime = record == null ? -1 : record.timestamp();
    layer.processing(record);
    return write(op, request);
  }

  /** An input record: topic, partition, offset, timestamp; or null. */
  private static ProcessorRecordContext record(List<?> input) {
    return input == null
        ? null
        : new ProcessorRecordContext(
            (Long) input.get(3),
            (Long) input.get(2),
            Math.toIntExact((Long) input.get(1)),
            (String) input.get(0),
            new RecordHeaders());
  }

  /** The records of a request that restores. */
  List<ConsumerRecord<byte[], byte[]>> restored(Request request) {
    return RestoredRecords.of(request);
  }

  /** Perform an operation that reads. */
  abstract Object read(String op, Request request);

  /** Perform an operation that writes, while the record of the request is processed. */
  abstract Object write(String op, Request request);

  /** Add what this kind of store claims beyond {@link #hello}. */
  abstract void addClaims(Map<String, Object> claims);

  /** How values with their timestamps are kept. */
  final Values values() {
    return values;
  }

  /** What a plain put writes: with the timestamp of the record, if the store has those. */
  final Object plain(byte[] value) {
    return values.stored(value, processedTime);
  }

  /** The timestamp of the input record that is being processed, in milliseconds; -1 if none is. */
  final long processedTime() {
    return processedTime;
  }

  /** Refuse an operation. */
  static UnsupportedOperationException unknown(String op) {
    return new UnsupportedOperationException("This host does not know the operation " + op);
  }

  /** Keep an iterator, and answer its number. */
  final <K> Object opened(
      String op, KeyValueIterator<K, ?> iterator, Rows.KeyAsAnswer<K> asAnswer) {
    boolean stamped = op.endsWith("_with_timestamp");
    iterators.put(++lastIterator, new Rows<>(iterator, asAnswer, stamped, values));
    return lastIterator;
  }

  private Object hello(Request request) {
    if (request.number("protocol") < VERSION) {
      throw new UnsupportedOperationException("This host needs version 2 of the protocol.");
    }
    return Map.of(
        "protocol", VERSION,
        "name", nameOf(store.getClass()),
        "version", versionOf(store.getClass()),
        "reopens", true,
        // A task locks its directory, and each store is in a process of its own.
        "names", takesName && !around.equals("task"),
        "capabilities", claims());
  }

  /** What the store claims: what it shows, what its layer does for it, and what is declared. */
  private Map<String, Object> claims() {
    Map<String, Object> claims = new TreeMap<>();
    claims.put("persistent", store.persistent());
    Layers.addClaims(claims, store);
    if (around.equals("task")) {
      OneStoreTask.addClaims(claims, store);
    }
    if (transactional) {
      claims.put("transactional", true);
    }
    claims.put("position", true);
    claims.put("timestamped", values.areStamped());
    claims.put("durability", store.persistent() ? "close" : "process");
    addClaims(claims);
    if (around.equals("metered")) {
      claims.put("change_logging", true);
      // What is in the cache is looked up when it is due.
      claims.put("iterator_view", "weak");
    }
    claims.putAll(declared);
    return claims;
  }

  private static String nameOf(Class<?> type) {
    return isOfKafka(type) ? "kafka-streams" : type.getName();
  }

  private static String versionOf(Class<?> type) {
    if (isOfKafka(type)) {
      return Internals.release();
    }
    String version = type.getPackage().getImplementationVersion();
    return version == null ? "" : version;
  }

  private static boolean isOfKafka(Class<?> type) {
    return type.getName().startsWith("org.apache.kafka.");
  }

  private Object open(Request request) {
    setting = new TaskSetting(request, isTransactional());
    layer = Layers.around(store, around, setting);
    layer.open();
    return null;
  }

  private Object commit(Request request) throws IOException {
    Map<TopicPartition, Long> offsets = new HashMap<>();
    for (List<Object> row : request.rows("offsets")) {
      int partition = Math.toIntExact((Long) row.get(1));
      if (row.get(2) == null && !Boolean.TRUE.equals(claims().get("forgets_offsets"))) {
        throw new UnsupportedOperationException("This store does not claim forgets_offsets.");
      }
      offsets.put(new TopicPartition((String) row.get(0), partition), (Long) row.get(2));
    }
    layer.commit(offsets);
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
}
