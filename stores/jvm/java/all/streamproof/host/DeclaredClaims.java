package streamproof.host;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * The claims that a user declares, because no method shows them: a static field with a map, as
 * {@code public static final Map<String, Object> CAPABILITIES = Map.of("transactional", true)}.
 */
final class DeclaredClaims {
  private static final String FIELD = "CAPABILITIES";

  /** The types and methods of the store show these, or the host cannot serve them. */
  private static final Set<String> NOT_DECLARED =
      Set.of(
          "kind",
          "timestamped",
          "explicit_transactions",
          "read_only_views",
          "metrics",
          "change_logging",
          "upgrades_from",
          "in_place_upgrade",
          "downgrade");

  private DeclaredClaims() {}

  /**
   * What the first of some classes declares; nothing if none declares anything.
   *
   * @param types the class that the user named, and that of the store
   * @throws UnusableStoreException a declaration is no map of claims
   */
  static Map<String, Object> of(Class<?>... types) throws UnusableStoreException {
    for (Class<?> type : types) {
      for (Field field : type.getFields()) {
        if (field.getName().equals(FIELD)) {
          return claims(type.getName() + "." + FIELD, valueOf(field));
        }
      }
    }
    return Map.of();
  }

  /** The value of a static field; null if it has none. */
  private static Object valueOf(Field field) {
    if (!Modifier.isStatic(field.getModifiers())) {
      return null;
    }
    try {
      // The class may be private to its package.
      field.setAccessible(true);
      return field.get(null);
    } catch (IllegalAccessException error) {
      throw new AssertionError(error);
    }
  }

  private static Map<String, Object> claims(String field, Object declared)
      throws UnusableStoreException {
    if (!(declared instanceof Map)) {
      throw new UnusableStoreException(
          field + " is no static Map. Declare it as: public static final Map<String, Object>.");
    }
    Map<String, Object> claims = new TreeMap<>();
    for (Map.Entry<?, ?> each : ((Map<?, ?>) declared).entrySet()) {
      String name = String.valueOf(each.getKey());
      if (NOT_DECLARED.contains(name)) {
        throw new UnusableStoreException(
            field + " declares " + name + ", which the store itself shows, or which no host in "
                + "Java can serve. Leave it out.");
      }
      claims.put(name, checked(field, name, each.getValue()));
    }
    return claims;
  }

  private static Object checked(String field, String name, Object value)
      throws UnusableStoreException {
    boolean isWhole = value instanceof Integer || value instanceof Long;
    if (isWhole || value instanceof Boolean || value instanceof String) {
      return value;
    }
    String type = value == null ? "null" : "of the type " + value.getClass().getName();
    throw new UnusableStoreException(
        field + ": the value of " + name + " is " + type + ". Give true, false, a text or a whole "
            + "number.");
  }
}
