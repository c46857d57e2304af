package streamproof.host;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.StoreSupplier;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/** From the name of a store to the store: one of Kafka's own, or what a class of the user gives. */
final class StoreNames {
  private static final String NAME = "store";

  /** Kafka makes a segment at least a minute long, so that this is three segments. */
  private static final Duration RETENTION = Duration.ofMinutes(3);

  private static final Duration WINDOW = Duration.ofSeconds(10);

  private static final Map<String, Supplier<StoreSupplier<?>>> OF_KAFKA =
      Map.of(
          "kafka:rocksdb", () -> Stores.persistentKeyValueStore(NAME),
          "kafka:rocksdb-timestamped", () -> Stores.persistentTimestampedKeyValueStore(NAME),
          "kafka:rocksdb-window",
              () -> Stores.persistentWindowStore(NAME, RETENTION, WINDOW, false),
          "kafka:rocksdb-timestamped-window",
              () -> Stores.persistentTimestampedWindowStore(NAME, RETENTION, WINDOW, false),
          "kafka:rocksdb-session", () -> Stores.persistentSessionStore(NAME, RETENTION),
          "kafka:in-memory", () -> Stores.inMemoryKeyValueStore(NAME),
          "kafka:in-memory-window", () -> Stores.inMemoryWindowStore(NAME, RETENTION, WINDOW, false),
          "kafka:in-memory-session", () -> Stores.inMemorySessionStore(NAME, RETENTION));

  private StoreNames() {}

  /**
   * Make a store that is not open, with the operations on it.
   *
   * @param name {@code kafka:NAME}, or {@code java:CLASS#METHOD}, or {@code java:CLASS}
   */
  static Operations make(String name) throws UnusableStoreException {
    Supplier<StoreSupplier<?>> known = OF_KAFKA.get(name);
    Object found = known != null ? known.get() : given(name.substring(name.indexOf(':') + 1));
    // A window or session store alone does not say how long it keeps a record: its supplier does.
    if (found instanceof WindowBytesStoreSupplier) {
      WindowBytesStoreSupplier supplier = (WindowBytesStoreSupplier) found;
      return new WindowOperations(supplier, supplier.get());
    }
    if (found instanceof SessionBytesStoreSupplier) {
      SessionBytesStoreSupplier supplier = (SessionBytesStoreSupplier) found;
      return new SessionOperations(supplier, supplier.get());
    }
    if (found instanceof StoreSupplier) {
      found = ((StoreSupplier<?>) found).get();
    } else if (found instanceof StoreBuilder) {
      found = ((StoreBuilder<?>) found).build();
    }
    if (found instanceof KeyValueStore) {
      return new KeyValueOperations((KeyValueStore<?, ?>) found);
    }
    String type = found == null ? "null" : found.getClass().getName();
    throw new UnusableStoreException(
        name + " gives " + type + ", which is no supplier of a store, and no builder or key-value "
            + "store. Let it return a supplier, such as a KeyValueBytesStoreSupplier.");
  }

  /** What a static method without parameters returns, or a new object of a class. */
  private static Object given(String target) throws UnusableStoreException {
    String[] parts = target.split("#", 2);
    Class<?> type;
    try {
      type = Class.forName(parts[0]);
    } catch (ClassNotFoundException error) {
      throw new UnusableStoreException(
          "There is no class " + parts[0] + ". Check its name, and name its jar in CLASSPATH.");
    } catch (LinkageError error) {
      throw new UnusableStoreException("Class " + parts[0] + " cannot be loaded: " + error + ".");
    }
    try {
      if (parts.length == 1) {
        return type.getConstructor().newInstance();
      }
      Method method = type.getMethod(parts[1]);
      if (!Modifier.isStatic(method.getModifiers())) {
        throw new UnusableStoreException(
            "The method " + target + " is not static. Name a static method without parameters.");
      }
      return method.invoke(null);
    } catch (NoSuchMethodException error) {
      throw new UnusableStoreException(
          parts.length == 1
              ? target + " has no public constructor without parameters. Name a method: #METHOD."
              : "There is no public method " + target + " without parameters. Check its name.");
    } catch (InvocationTargetException error) {
      throw new UnusableStoreException(target + " raised " + error.getCause() + ".");
    } catch (ReflectiveOperationException error) {
      throw new UnusableStoreException(target + " cannot be called: " + error + ".");
    }
  }
}
