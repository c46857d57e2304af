package com.acme;

import static org.apache.kafka.streams.state.Stores.keyValueStoreBuilder;
import static org.apache.kafka.streams.state.Stores.timestampedKeyValueStoreBuilder;
import static org.apache.kafka.streams.state.Stores.windowStoreBuilder;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.InMemoryKeyValueStore;
import org.apache.kafka.streams.state.internals.InMemoryWindowBytesStoreSupplier;

/** Stores that misbehave as programs do, each made without arguments. */
public final class BadStores {
  private BadStores() {}

  public static KeyValueStore<Bytes, byte[]> needsParameter(int number) {
    return new InMemoryKeyValueStore("store-" + number);
  }

  public static KeyValueStore<Bytes, byte[]> givesNull() {
    return null;
  }

  public static KeyValueBytesStoreSupplier suppliesNull() {
    return Stores.supplier(() -> null);
  }

  public static KeyValueBytesStoreSupplier throwingLater() {
    return Stores.supplier(
        () -> {
          throw new IllegalStateException("no space");
        });
  }

  public static WindowBytesStoreSupplier suppliesNullWindows() {
    return new InMemoryWindowBytesStoreSupplier("acme", 180_000, 10_000, false) {
      @Override
      public WindowStore<Bytes, byte[]> get() {
        return null;
      }
    };
  }

  public static StoreBuilder<?> buildsText() {
    return keyValueStoreBuilder(Stores.right(), Serdes.String(), Serdes.String());
  }

  public static StoreBuilder<?> buildsTextWithTimestamps() {
    return timestampedKeyValueStoreBuilder(Stores.right(), Serdes.Bytes(), Serdes.String());
  }

  public static StoreBuilder<?> buildsTextWindows() {
    return windowStoreBuilder(Stores.windows(), Serdes.Bytes(), Serdes.String());
  }

  /** Windows that say to nobody how long they keep a record. */
  public static WindowStore<Bytes, byte[]> windowsAlone() {
    return Stores.windows().get();
  }

  /** What the other stores are made of. */
  public abstract static class Usual extends InMemoryKeyValueStore {
    Usual() {
      super("acme");
    }
  }

  /** Ends the JVM when it is written. */
  public static final class ExitsInPut extends Usual {
    @Override
    public synchronized void put(Bytes key, byte[] value) {
      System.err.println("no license for writes");
      System.exit(5);
    }
  }

  /** Crashes the JVM when it is written, as native code may do. */
  public static final class Crashes extends Usual {
    @Override
    public synchronized void put(Bytes key, byte[] value) {
      try {
        Class<?> type = Class.forName("sun.misc.Unsafe");
        java.lang.reflect.Field field = type.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        type.getMethod("putAddress", long.class, long.class).invoke(field.get(null), 0L, 0L);
      } catch (ReflectiveOperationException error) {
        throw new IllegalStateException(error);
      }
    }
  }

  /** Ends the JVM when it is made. */
  public static final class ExitsAtOnce extends Usual {
    public ExitsAtOnce() {
      System.err.println("no license at all");
      System.exit(5);
    }
  }

  /** Needs more memory than there is. */
  public static final class Hoards extends Usual {
    @Override
    public synchronized void put(Bytes key, byte[] value) {
      List<byte[]> hoard = new ArrayList<>();
      while (true) {
        hoard.add(new byte[1 << 26]);
      }
    }
  }

  /** Waits for what never comes. */
  public static final class HangsInInit extends Usual {
    @Override
    public void init(StateStoreContext context, StateStore root) {
      try {
        new CountDownLatch(1).await();
      } catch (InterruptedException error) {
        throw new IllegalStateException(error);
      }
    }
  }

  /** Leaves a thread with each opening. Nothing else is wrong with it. */
  public static final class LeavesThreads extends Usual {
    @Override
    public void init(StateStoreContext context, StateStore root) {
      super.init(context, root);
      Thread thread = new Thread(this::rest);
      thread.setDaemon(false);
      thread.start();
    }

    private void rest() {
      try {
        new CountDownLatch(1).await();
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Reads what was meant for the host. Nothing else is wrong with it. */
  public static final class ReadsInput extends Usual {
    @Override
    public synchronized byte[] get(Bytes key) {
      try {
        System.in.read();
      } catch (java.io.IOException error) {
        throw new java.io.UncheckedIOException(error);
      }
      return super.get(key);
    }
  }

  /** Cannot be loaded: its initializer raises. */
  public static final class RaisesAtLoading extends Usual {
    static final Map<String, String> SETTINGS = settings();

    private static Map<String, String> settings() {
      throw new IllegalStateException("no settings");
    }
  }
}
