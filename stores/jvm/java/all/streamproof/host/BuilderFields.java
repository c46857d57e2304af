package streamproof.host;

import java.lang.reflect.Field;

/** What a builder of Kafka keeps to itself: its supplier and its serdes. */
final class BuilderFields {
  private BuilderFields() {}

  /** The value of a field of a builder or of a class above; null if it has none of this type. */
  static <T> T valueOf(Object builder, String name, Class<T> type) {
    for (Class<?> each = builder.getClass(); each != null; each = each.getSuperclass()) {
      try {
        Field field = each.getDeclaredField(name);
        field.setAccessible(true);
        Object found = field.get(builder);
        return type.isInstance(found) ? type.cast(found) : null;
      } catch (NoSuchFieldException error) {
        // It may be that of a class above.
      } catch (IllegalAccessException error) {
        throw new IllegalStateException(error);
      }
    }
    return null;
  }
}
