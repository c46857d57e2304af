package com.acme;

import java.time.Duration;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.InMemoryKeyValueStore;

/** Stores of a user: a right one, and some that misbehave. */
public final class Stores {
  private Stores() {}

  /** Makes a store. */
  interface Made {
    KeyValueStore<Bytes, byte[]> get();
  }

  static KeyValueBytesStoreSupplier supplier(Made made) {
    return new KeyValueBytesStoreSupplier() {
      @Override
      public String name() {
        return "acme";
      }

      @Override
      public KeyValueStore<Bytes, byte[]> get() {
        return made.get();
      }

      @Override
      public String metricsScope() {
        return "acme";
      }
    };
  }

  /** Kafka's own store in memory. */
  public static KeyValueBytesStoreSupplier right() {
    return org.apache.kafka.streams.state.Stores.inMemoryKeyValueStore("acme");
  }

  /** Kafka's own store in memory, with the name that it is given. */
  public static KeyValueBytesStoreSupplier named(String name) {
    return org.apache.kafka.streams.state.Stores.inMemoryKeyValueStore(name);
  }

  /** The same store in its builder. */
  public static StoreBuilder<?> built() {
    return org.apache.kafka.streams.state.Stores.keyValueStoreBuilder(
        right(), Serdes.Bytes(), Serdes.ByteArray());
  }

  /** The same store in its builder, with timestamps. */
  public static StoreBuilder<?> builtWithTimestamps() {
    return org.apache.kafka.streams.state.Stores.timestampedKeyValueStoreBuilder(
        right(), Serdes.Bytes(), Serdes.ByteArray());
  }

  /** Kafka's own windows in memory. */
  public static WindowBytesStoreSupplier windows() {
    return org.apache.kafka.streams.state.Stores.inMemoryWindowStore(
        "acme", Duration.ofMinutes(3), Duration.ofSeconds(10), false);
  }

  /** The same windows in their builder. */
  public static StoreBuilder<?> builtWindows() {
    return org.apache.kafka.streams.state.Stores.windowStoreBuilder(
        windows(), Serdes.Bytes(), Serdes.ByteArray());
  }

  /** The same windows in their builder, with timestamps. */
  public static StoreBuilder<?> builtWindowsWithTimestamps() {
    return org.apache.kafka.streams.state.Stores.timestampedWindowStoreBuilder(
        windows(), Serdes.Bytes(), Serdes.ByteArray());
  }

  /** Kafka's own sessions in memory, in their builder. */
  public static StoreBuilder<?> builtSessions() {
    return org.apache.kafka.streams.state.Stores.sessionStoreBuilder(
        org.apache.kafka.streams.state.Stores.inMemorySessionStore("acme", Duration.ofMinutes(3)),
        Serdes.Bytes(),
        Serdes.ByteArray());
  }

  /** A store that keeps an empty value where a row is deleted. */
  public static KeyValueBytesStoreSupplier lostTombstones() {
    return supplier(
        () ->
            new InMemoryKeyValueStore("acme") {
              @Override
              public synchronized void put(Bytes key, byte[] value) {
                super.put(key, value == null ? new byte[0] : value);
              }
            });
  }

  /** A store that prints what it does. */
  public static KeyValueBytesStoreSupplier babbling() {
    return supplier(
        () ->
            new InMemoryKeyValueStore("acme") {
              @Override
              public synchronized byte[] get(Bytes key) {
                System.out.println("get " + key);
                return super.get(key);
              }
            });
  }

  /** A store that ends the JVM. */
  public static KeyValueBytesStoreSupplier exiting() {
    return supplier(
        () ->
            new InMemoryKeyValueStore("acme") {
              @Override
              public synchronized byte[] get(Bytes key) {
                System.err.println("the store gives up");
                System.exit(7);
                return null;
              }
            });
  }

  public static KeyValueBytesStoreSupplier throwing() {
    throw new IllegalStateException("no license");
  }

  public static String noStore() {
    return "acme";
  }

  public KeyValueBytesStoreSupplier notStatic() {
    return right();
  }
}
