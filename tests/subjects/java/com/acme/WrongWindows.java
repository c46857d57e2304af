package com.acme;

import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.apache.kafka.streams.state.internals.InMemorySessionBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.InMemorySessionStore;
import org.apache.kafka.streams.state.internals.InMemoryWindowBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.InMemoryWindowStore;

/** Windows and sessions with one mistake each; Kafka's own in memory are right in these points. */
public final class WrongWindows {
  private static final long KEPT = 180_000;
  private static final long SIZE = 10_000;

  private WrongWindows() {}

  /** A right session store, as the windows of {@link Stores} are right. */
  public static SessionBytesStoreSupplier sessions() {
    return new InMemorySessionBytesStoreSupplier("acme", KEPT);
  }

  private static WindowBytesStoreSupplier windows(WindowStore<Bytes, byte[]> store) {
    return new InMemoryWindowBytesStoreSupplier("acme", KEPT, SIZE, false) {
      @Override
      public WindowStore<Bytes, byte[]> get() {
        return store;
      }
    };
  }

  private static SessionBytesStoreSupplier sessions(SessionStore<Bytes, byte[]> store) {
    return new InMemorySessionBytesStoreSupplier("acme", KEPT) {
      @Override
      public SessionStore<Bytes, byte[]> get() {
        return store;
      }
    };
  }

  /** Leaves the window out that starts at the upper bound. */
  public static WindowBytesStoreSupplier upperBoundLeftOut() {
    return windows(
        new InMemoryWindowStore("acme", KEPT, SIZE, false, "acme") {
          @Override
          public WindowStoreIterator<byte[]> fetch(Bytes key, long from, long to) {
            return super.fetch(key, from, to == Long.MAX_VALUE ? to : to - 1);
          }
        });
  }

  /** Keeps a window whose value is deleted. */
  public static WindowBytesStoreSupplier windowStays() {
    return windows(
        new InMemoryWindowStore("acme", KEPT, SIZE, false, "acme") {
          @Override
          public void put(Bytes key, byte[] value, long windowStart) {
            super.put(key, value == null ? new byte[0] : value, windowStart);
          }
        });
  }

  /** Finds only the sessions that start before the last moment of a search, and not at it. */
  public static SessionBytesStoreSupplier sessionAtTheEndLeftOut() {
    return sessions(
        new InMemorySessionStore("acme", KEPT, "acme") {
          @Override
          public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(
              Bytes key, long earliestSessionEnd, long latestSessionStart) {
            long latest =
                latestSessionStart == Long.MAX_VALUE ? latestSessionStart : latestSessionStart - 1;
            return super.findSessions(key, earliestSessionEnd, latest);
          }
        });
  }

  /** Removes nothing. */
  public static SessionBytesStoreSupplier sessionStays() {
    return sessions(
        new InMemorySessionStore("acme", KEPT, "acme") {
          @Override
          public void remove(Windowed<Bytes> session) {
            // The session stays.
          }
        });
  }
}
