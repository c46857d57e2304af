package streamproof.host;

import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;

/** The operations on a session store of bytes. */
final class SessionOperations extends Operations {
  private final SessionBytesStoreSupplier supplier;
  private final SessionStore<Bytes, byte[]> store;

  SessionOperations(SessionBytesStoreSupplier supplier, SessionStore<Bytes, byte[]> store) {
    super(store);
    this.supplier = supplier;
    this.store = store;
  }

  @Override
  void addClaims(Map<String, Object> claims) {
    claims.put("kind", "session");
    // A plain RocksDBSessionStore has no search by ends over all keys.
    claims.put("scan", Overrides.everywhere(store, "findSessions", long.class, long.class));
    Segments.addClaims(
        claims, store.persistent(), supplier.retentionPeriod(), supplier.segmentIntervalMs());
  }

  @Override
  Object read(String op, Request request) {
    Bytes key = request.key("key");
    Bytes low = request.key("from");
    Bytes high = request.key("to");
    switch (op) {
      case "fetch_session":
        return store.fetchSession(key, request.time("start"), request.time("end"));
      case "fetch":
        return opened(op, store.fetch(key), Rows::windowed);
      case "backward_fetch":
        return opened(op, store.backwardFetch(key), Rows::windowed);
      case "fetch_range":
        return opened(op, store.fetch(low, high), Rows::windowed);
      case "backward_fetch_range":
        return opened(op, store.backwardFetch(low, high), Rows::windowed);
      case "find_sessions_between":
        long earliest = request.time("earliest_session_end");
        long latest = request.time("latest_session_end");
        return opened(op, store.findSessions(earliest, latest), Rows::windowed);
      default:
        return search(op, request, key, low, high);
    }
  }

  private Object search(String op, Request request, Bytes key, Bytes low, Bytes high) {
    long end = request.time("earliest_session_end");
    long start = request.time("latest_session_start");
    switch (op) {
      case "find_sessions":
        return opened(op, store.findSessions(key, end, start), Rows::windowed);
      case "backward_find_sessions":
        return opened(op, store.backwardFindSessions(key, end, start), Rows::windowed);
      case "find_sessions_range":
        return opened(op, store.findSessions(low, high, end, start), Rows::windowed);
      case "backward_find_sessions_range":
        return opened(op, store.backwardFindSessions(low, high, end, start), Rows::windowed);
      default:
        throw unknown(op);
    }
  }

  @Override
  Object write(String op, Request request) {
    switch (op) {
      case "put":
        store.put(session(request), request.value("value"));
        return null;
      case "remove":
        store.remove(session(request));
        return null;
      default:
        throw unknown(op);
    }
  }

  private static Windowed<Bytes> session(Request request) {
    List<?> session = request.list("session");
    List<?> window = (List<?>) session.get(1);
    return new Windowed<>(
        Bytes.wrap(Request.bytes(session.get(0))),
        new SessionWindow((Long) window.get(0), (Long) window.get(1)));
  }
}
