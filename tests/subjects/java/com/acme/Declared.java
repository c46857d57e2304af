package com.acme;

import java.util.Map;
import org.apache.kafka.streams.state.internals.InMemoryKeyValueStore;

/** Stores that declare claims. */
public class Declared extends InMemoryKeyValueStore {
  public static final Map<String, Object> CAPABILITIES =
      Map.of("position", false, "transactional", true, "iterator_view", "snapshot");

  public Declared() {
    super("acme");
  }

  /** A store of Kafka with claims of the class that makes it. */
  public static final class OfSupplier {
    public static final Map<String, Object> CAPABILITIES = Map.of("disposable_files", "LOCK");

    private OfSupplier() {}

    public static InMemoryKeyValueStore store() {
      return new Declared();
    }
  }

  /** A name that is no claim. */
  public static final class UnknownName extends Declared {
    public static final Map<String, Object> CAPABILITIES = Map.of("transaction", true);
  }

  /** A value that the claim does not have. */
  public static final class WrongValue extends Declared {
    public static final Map<String, Object> CAPABILITIES = Map.of("durability", "forever");
  }

  /** A value of a type that no claim has. */
  public static final class WrongType extends Declared {
    public static final Map<String, Object> CAPABILITIES = Map.of("transactional", 0.5);
  }

  /** A claim that the store shows by itself. */
  public static final class NotDeclarable extends Declared {
    public static final Map<String, Object> CAPABILITIES = Map.of("kind", "window");
  }

  /** A declaration that is no map. */
  public static final class NoMap extends Declared {
    public static final String CAPABILITIES = "transactional";
  }
}
