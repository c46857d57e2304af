package streamproof.host;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueStore;

/** The operations on a key-value store of bytes. */
final class KeyValueOperations extends Operations {
  private final KeyValueStore<Bytes, Object> store;

  @SuppressWarnings("unchecked")
  KeyValueOperations(KeyValueStore<?, ?> store) {
    super(store);
    this.store = (KeyValueStore<Bytes, Object>) store;
  }

  @Override
  void addClaims(Map<String, Object> claims) {
    // Kafka's stores in memory copy the keys for an iterator, and look up each value when due.
    claims.put("iterator_view", store.persistent() ? "snapshot" : "weak");
  }

  @Override
  Object read(String op, Request request) {
    switch (op) {
      case "get":
        return values().answer(store.get(request.key("key")), false);
      case "get_with_timestamp":
        return values().answer(store.get(request.key("key")), true);
      case "approximate_num_entries":
        return store.approximateNumEntries();
      case "range":
      case "range_with_timestamp":
        return opened(op, store.range(request.key("from"), request.key("to")), Rows::bytes);
      case "reverse_range":
        return opened(op, store.reverseRange(request.key("from"), request.key("to")), Rows::bytes);
      case "all":
      case "all_with_timestamp":
        return opened(op, store.all(), Rows::bytes);
      case "reverse_all":
        return opened(op, store.reverseAll(), Rows::bytes);
      case "prefix_scan":
        return opened(
            op, store.prefixScan(request.value("prefix"), new ByteArraySerializer()), Rows::bytes);
      default:
        throw unknown(op);
    }
  }

  @Override
  Object write(String op, Request request) {
    Bytes key = request.key("key");
    switch (op) {
      case "put":
        store.put(key, plain(request.value("value")));
        return null;
      case "put_with_timestamp":
        store.put(key, values().stored(request.value("value"), request.time("timestamp")));
        return null;
      case "delete":
        return values().answer(store.delete(key), false);
      case "delete_with_timestamp":
        return values().answer(store.delete(key), true);
      case "put_if_absent":
        return values().answer(store.putIfAbsent(key, plain(request.value("value"))), false);
      case "put_if_absent_with_timestamp":
        Object stamped = values().stored(request.value("value"), request.time("timestamp"));
        return values().answer(store.putIfAbsent(key, stamped), true);
      case "put_all":
      case "put_all_with_timestamp":
        store.putAll(entries(request));
        return null;
      default:
        throw unknown(op);
    }
  }

  /** Entries with plain values, or with pairs of a value and its timestamp. */
  private List<KeyValue<Bytes, Object>> entries(Request request) {
    List<KeyValue<Bytes, Object>> entries = new ArrayList<>();
    for (List<Object> row : request.rows("entries")) {
      Object written = row.get(1);
      Object value =
          written instanceof List
              ? values()
                  .stored(
                      Request.bytes(((List<?>) written).get(0)), (Long) ((List<?>) written).get(1))
              : plain(Request.bytes(written));
      entries.add(KeyValue.pair(Bytes.wrap(Request.bytes(row.get(0))), value));
    }
    return entries;
  }
}
