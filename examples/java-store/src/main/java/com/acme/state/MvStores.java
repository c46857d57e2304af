package com.acme.state;

import java.util.function.Supplier;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;

/** The suppliers of stores that an application passes to {@code Materialized.as(…)}. */
public final class MvStores {
  private MvStores() {}

  /** A store whose rows and offsets are in one file. */
  public static KeyValueBytesStoreSupplier orders() {
    return supplier("orders", () -> new MvKeyValueStore("orders"));
  }

  /** A store with a mistake: its rows and offsets are in two files. */
  public static KeyValueBytesStoreSupplier ordersWithOffsetsApart() {
    return supplier("orders", () -> new OffsetsApartStore("orders"));
  }

  private static KeyValueBytesStoreSupplier supplier(
      String name, Supplier<KeyValueStore<Bytes, byte[]>> made) {
    return new KeyValueBytesStoreSupplier() {
      @Override
      public String name() {
        return name;
      }

      @Override
      public KeyValueStore<Bytes, byte[]> get() {
        return made.get();
      }

      @Override
      public String metricsScope() {
        return "mvstore";
      }
    };
  }
}
