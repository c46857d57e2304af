package streamproof.host;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.VersionedBytesStore;

/**
 * The operations on a versioned store (KIP-889), as far as a key-value store has them: of each key,
 * its latest version.
 *
 * <p>The protocol has no versions, so the host gives each write and each restored record a time of
 * its own, which is later than all before. What the interface lacks is made of its put and its get.
 */
final class VersionedOperations extends Operations {
  /** A millisecond of the host is so many of the store, so that short programs fill segments. */
  private static final long SPEED = 100;

  /** The time of the latest write of this process, in milliseconds of the store. */
  private static long latest;

  private final VersionedBytesStore store;

  VersionedOperations(VersionedBytesStore store) {
    super(store);
    this.store = store;
  }

  /** A time after all that this process, or one before it, has given. */
  private static long nextTime() {
    latest = Math.max(latest + 1, System.currentTimeMillis() * SPEED);
    return latest;
  }

  @Override
  void addClaims(Map<String, Object> claims) {
    // The times are the host's.
    claims.put("timestamped", false);
    for (String each : List.of("scan", "ranges", "reverse", "prefix_scan", "entry_count")) {
      claims.put(each, false);
    }
  }

  @Override
  List<ConsumerRecord<byte[], byte[]>> restored(Request request) {
    return RestoredRecords.of(request, time -> nextTime());
  }

  @Override
  Object read(String op, Request request) {
    if (op.equals("get")) {
      return valueOf(store.get(request.key("key")));
    }
    throw unknown(op);
  }

  /** The value behind the eight bytes of its time. */
  private static byte[] valueOf(byte[] stamped) {
    return stamped == null ? null : Arrays.copyOfRange(stamped, Long.BYTES, stamped.length);
  }

  @Override
  Object write(String op, Request request) {
    Bytes key = request.key("key");
    switch (op) {
      case "put":
        store.put(key, request.value("value"), nextTime());
        return null;
      case "delete":
        return valueOf(store.delete(key, nextTime()));
      case "put_if_absent":
        byte[] existing = valueOf(store.get(key));
        if (existing == null) {
          store.put(key, request.value("value"), nextTime());
        }
        return existing;
      case "put_all":
        putAll(request.rows("entries"));
        return null;
      default:
        throw unknown(op);
    }
  }

  private void putAll(List<List<Object>> entries) {
    for (List<Object> each : entries) {
      if (each.get(0) == null) {
        throw new NullPointerException("the key of an entry is null");
      }
    }
    for (List<Object> each : entries) {
      store.put(
          Bytes.wrap(Request.bytes(each.get(0))), Request.bytes(each.get(1)), nextTime());
    }
  }
}
