package streamproof.host;

import java.util.Map;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;

/** The operations on a window store of bytes. */
final class WindowOperations extends Operations {
  private final WindowBytesStoreSupplier supplier;
  private final WindowStore<Bytes, Object> store;

  WindowOperations(WindowBytesStoreSupplier supplier, WindowStore<Bytes, Object> store) {
    super(store);
    this.supplier = supplier;
    this.store = store;
  }

  @Override
  void addClaims(Map<String, Object> claims) {
    claims.put("kind", "window");
    claims.put("window_size_ms", supplier.windowSize());
    claims.put("retain_duplicates", supplier.retainDuplicates());
    Segments.addClaims(
        claims, store.persistent(), supplier.retentionPeriod(), supplier.segmentIntervalMs());
  }

  @Override
  Object read(String op, Request request) {
    if (op.equals("fetch") || op.equals("fetch_with_timestamp")) {
      Object found = store.fetch(request.key("key"), request.time("window_start"));
      return values().answer(found, op.equals("fetch_with_timestamp"));
    }
    if (op.equals("all") || op.equals("all_with_timestamp")) {
      return opened(op, store.all(), Rows::windowed);
    }
    if (op.equals("backward_all")) {
      return opened(op, store.backwardAll(), Rows::windowed);
    }
    return between(op, request, request.time("time_from"), request.time("time_to"));
  }

  private Object between(String op, Request request, long from, long to) {
    Bytes low = request.key("from");
    Bytes high = request.key("to");
    switch (op) {
      case "fetch_between":
      case "fetch_between_with_timestamp":
        return opened(op, store.fetch(request.key("key"), from, to), start -> start);
      case "backward_fetch_between":
        return opened(op, store.backwardFetch(request.key("key"), from, to), start -> start);
      case "fetch_range":
      case "fetch_range_with_timestamp":
        return opened(op, store.fetch(low, high, from, to), Rows::windowed);
      case "backward_fetch_range":
        return opened(op, store.backwardFetch(low, high, from, to), Rows::windowed);
      case "fetch_all":
      case "fetch_all_with_timestamp":
        return opened(op, store.fetchAll(from, to), Rows::windowed);
      case "backward_fetch_all":
        return opened(op, store.backwardFetchAll(from, to), Rows::windowed);
      default:
        throw unknown(op);
    }
  }

  @Override
  Object write(String op, Request request) {
    Bytes key = request.key("key");
    byte[] value = request.value("value");
    switch (op) {
      case "put":
        store.put(key, plain(value), request.time("window_start"));
        return null;
      case "put_with_timestamp":
        long start = request.time("window_start", processedTime());
        store.put(key, values().stored(value, request.time("timestamp")), start);
        return null;
      default:
        throw unknown(op);
    }
  }
}
