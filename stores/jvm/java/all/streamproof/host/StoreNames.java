package streamproof.host;

import java.io.File;
import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.internals.Internals;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.StoreSupplier;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedBytesStore;
import org.apache.kafka.streams.state.VersionedBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;

/** From the name of a store to the store: one of Kafka's own, or what a class of the user gives. */
final class StoreNames {
  /** The name of a store, unless another one is asked for. */
  static final String NAME = "store";

  /** The end of the name of a store of Kafka that is opened with transactions (KIP-892). */
  private static final String TRANSACTIONAL = "-transactional";

  /** Kafka makes a segment at least a minute long, so that this is three segments. */
  private static final Duration RETENTION = Duration.ofMinutes(3);

  private static final Duration WINDOW = Duration.ofSeconds(10);

  private static final Map<String, Function<String, StoreSupplier<?>>> OF_KAFKA =
      Map.of(
          "kafka:rocksdb", Stores::persistentKeyValueStore,
          "kafka:rocksdb-versioned",
              name -> Stores.persistentVersionedKeyValueStore(name, RETENTION),
          "kafka:rocksdb-timestamped", Stores::persistentTimestampedKeyValueStore,
          "kafka:rocksdb-window",
              name -> Stores.persistentWindowStore(name, RETENTION, WINDOW, false),
          "kafka:rocksdb-timestamped-window",
              name -> Stores.persistentTimestampedWindowStore(name, RETENTION, WINDOW, false),
          "kafka:rocksdb-session", name -> Stores.persistentSessionStore(name, RETENTION),
          "kafka:in-memory", Stores::inMemoryKeyValueStore,
          "kafka:in-memory-window",
              name -> Stores.inMemoryWindowStore(name, RETENTION, WINDOW, false),
          "kafka:in-memory-session", name -> Stores.inMemorySessionStore(name, RETENTION));

  private StoreNames() {}

  /**
   * Make a store that is not open, with the operations on it.
   *
   * @param name {@code kafka:NAME}, or {@code java:CLASS#METHOD}, or {@code java:CLASS}
   * @param layer what is around the store, as docs/jvm-stores.md lists it
   * @param storeName the name of the store itself
   */
  static Operations make(String name, String layer, String storeName)
      throws UnusableStoreException {
    Operations operations = made(name, layer, storeName);
    operations.within(layer);
    return operations;
  }

  private static Operations made(String name, String layer, String storeName)
      throws UnusableStoreException {
    boolean isTransactional = name.startsWith("kafka:") && name.endsWith(TRANSACTIONAL);
    String plain = isTransactional ? name.substring(0, name.lastIndexOf(TRANSACTIONAL)) : name;
    Function<String, StoreSupplier<?>> known = OF_KAFKA.get(plain);
    if (known != null) {
      StoreSupplier<?> supplier = known.apply(storeName);
      Operations operations = operations(supplier, stored(supplier, layer));
      operations.stageWrites(isTransactional);
      operations.takeNames(true);
      return operations;
    }
    requireRelease();
    String target = name.substring(name.indexOf(':') + 1);
    try {
      return ofUser(target, layer, storeName);
    } catch (LinkageError error) {
      throw new UnusableStoreException(
          target + " cannot be loaded: " + causeOf(error) + ". " + remedy(error));
    } catch (RuntimeException error) {
      throw new UnusableStoreException(target + " raised " + Answers.messageOf(error) + ".");
    }
  }

  /** The store of a supplier or builder, with the layers of a processor if these are asked for. */
  private static Object stored(Object given, String layer) throws UnusableStoreException {
    if (layer.equals("metered")) {
      if (given instanceof VersionedBytesStoreSupplier) {
        throw new UnusableStoreException(
            "A versioned store takes no cache, so it is not verified in the layer metered. Take "
                + "the layer bytes or task.");
      }
      return MeteredStores.of(given);
    }
    if (given instanceof StoreSupplier) {
      return ((StoreSupplier<?>) given).get();
    }
    return given instanceof StoreBuilder ? ((StoreBuilder<?>) given).build() : given;
  }

  private static Operations ofUser(String target, String layer, String storeName)
      throws UnusableStoreException {
    Class<?> type = named(target.split("#", 2)[0]);
    Executable maker = maker(type, target);
    Object given = given(maker, target, storeName);
    if (given instanceof StoreBuilder) {
      requireBytes(given, target);
    }
    Object store = stored(given, layer);
    Operations operations = operations(given, store);
    if (operations == null) {
      String by = given == store ? target : "The supplier of " + target;
      String what = store == null ? "null" : store.getClass().getName();
      throw new UnusableStoreException(
          by + " gives " + what + ", " + (windowed(store)
              ? "which does not say how long it keeps a record. Let it return a "
                  + "WindowBytesStoreSupplier, a SessionBytesStoreSupplier or a builder of Stores."
              : "which is no supplier of a store, and no builder or key-value store. Let it "
                  + "return a supplier, such as a KeyValueBytesStoreSupplier."));
    }
    operations.declare(DeclaredClaims.of(type, store.getClass()));
    operations.takeNames(maker.getParameterCount() == 1);
    return operations;
  }

  private static boolean windowed(Object store) {
    return store instanceof WindowStore || store instanceof SessionStore;
  }

  /** Refuse a builder of a store with other keys or values than those that the suite writes. */
  private static void requireBytes(Object builder, String target) throws UnusableStoreException {
    byte[] value = new byte[0];
    if (!takesOneOf(builder, "keySerde", Bytes.wrap(value))
        || !takesOneOf(builder, "valueSerde", value, ValueAndTimestamp.make(value, 0))) {
      throw new UnusableStoreException(
          target + " gives a builder of a store with other keys or values than Bytes and byte[]. "
              + "Build it with Serdes.Bytes() and Serdes.ByteArray(), or give its supplier.");
    }
  }

  /** Whether a serde of a builder of Kafka takes one of some objects; others may have none. */
  private static boolean takesOneOf(Object builder, String field, Object... objects) {
    Serde<?> serde = BuilderFields.valueOf(builder, field, Serde.class);
    return serde == null || Stream.of(objects).anyMatch(each -> takes(serde, each));
  }

  private static boolean takes(Serde<?> serde, Object object) {
    try {
      StoreNames.<Serde<Object>>bytes(serde).serializer().serialize(NAME, object);
      return true;
    } catch (ClassCastException error) {
      return false;
    }
  }

  /** The operations on a store; null if it is no store that can be served. */
  private static Operations operations(Object given, Object store) {
    if (store instanceof VersionedBytesStore) {
      return new VersionedOperations((VersionedBytesStore) store);
    }
    if (store instanceof KeyValueStore) {
      return new KeyValueOperations((KeyValueStore<?, ?>) store);
    }
    // A window or session store alone does not say how long it keeps a record: its supplier does.
    Object supplier = supplierOf(given);
    if (supplier instanceof WindowBytesStoreSupplier && store instanceof WindowStore) {
      return new WindowOperations((WindowBytesStoreSupplier) supplier, bytes(store));
    }
    if (supplier instanceof SessionBytesStoreSupplier && store instanceof SessionStore) {
      return new SessionOperations((SessionBytesStoreSupplier) supplier, bytes(store));
    }
    return null;
  }

  /** The supplier inside a builder of Kafka; what was given, if it is none. */
  private static Object supplierOf(Object given) {
    return given instanceof StoreBuilder
        ? BuilderFields.valueOf(given, "storeSupplier", StoreSupplier.class)
        : given;
  }

  /** A store or serde as what its supplier or builder says that it is. */
  @SuppressWarnings("unchecked")
  private static <S> S bytes(Object given) {
    return (S) given;
  }

  /** Refuse jars of another release of Kafka among those of the user, which come first. */
  private static void requireRelease() throws UnusableStoreException {
    String wanted = System.getProperty("streamproof.kafka");
    String found = Internals.release();
    // Whoever builds Kafka has a snapshot, which no name of a subject can ask for.
    if (wanted != null && !found.equals(wanted) && !found.endsWith("-SNAPSHOT")) {
      throw new UnusableStoreException(
          "The class path has jars of Kafka " + found + ", and the host is that of " + wanted
              + ". Leave those jars out, or ask for their release with --kafka " + found + ".");
    }
  }

  private static Class<?> named(String name) throws UnusableStoreException {
    try {
      return Class.forName(name);
    } catch (ClassNotFoundException error) {
      String missing = missingEntries();
      throw new UnusableStoreException(
          "There is no class " + name + ". "
              + (missing.isEmpty()
                  ? "Check its name and the class path."
                  : "The class path names what does not exist: " + missing + "."));
    }
  }

  /** The entries of the class path that do not exist. */
  private static String missingEntries() {
    return Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
        .filter(each -> !new File(each).exists())
        .collect(Collectors.joining(", "));
  }

  /** The static method or constructor of a target: without parameters, or else with a name. */
  private static Executable maker(Class<?> type, String target) throws UnusableStoreException {
    String[] parts = target.split("#", 2);
    try {
      return maker(type, parts);
    } catch (NoSuchMethodException unnamed) {
      try {
        return maker(type, parts, String.class);
      } catch (NoSuchMethodException error) {
        throw new UnusableStoreException(
            parts.length == 1
                ? target + " has no public constructor without parameters. Name a method: #METHOD."
                : "There is no public method " + target + " without parameters. Check its name.");
      }
    }
  }

  private static Executable maker(Class<?> type, String[] parts, Class<?>... parameters)
      throws NoSuchMethodException, UnusableStoreException {
    if (parts.length == 1) {
      return type.getConstructor(parameters);
    }
    Method method = type.getMethod(parts[1], parameters);
    if (!Modifier.isStatic(method.getModifiers())) {
      throw new UnusableStoreException(
          "The method " + String.join("#", parts)
              + " is not static. Name a static method without parameters.");
    }
    return method;
  }

  /** What a static method returns, or a new object of a class. */
  private static Object given(Executable maker, String target, String storeName)
      throws UnusableStoreException {
    Object[] arguments = maker.getParameterCount() == 1 ? new Object[] {storeName} : new Object[0];
    try {
      return maker instanceof Method
          ? ((Method) maker).invoke(null, arguments)
          : ((Constructor<?>) maker).newInstance(arguments);
    } catch (InvocationTargetException error) {
      if (error.getCause() instanceof LinkageError) {
        throw (LinkageError) error.getCause();
      }
      throw new UnusableStoreException(
          target + " raised " + Answers.messageOf(error.getCause()) + ".");
    } catch (ReflectiveOperationException error) {
      throw new UnusableStoreException(target + " cannot be called: " + error + ".");
    }
  }

  /** What went wrong while a class was loaded: an initializer only passes its error on. */
  private static Throwable causeOf(LinkageError error) {
    return error instanceof ExceptionInInitializerError ? error.getCause() : error;
  }

  private static String remedy(LinkageError error) {
    if (error instanceof UnsupportedClassVersionError) {
      int release = Runtime.version().feature();
      return "Compile it with --release " + release + ", or put a newer java in PATH.";
    }
    return "Check the class path.";
  }
}
