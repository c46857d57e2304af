package streamproof.recorder;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Reads fields and calls methods by name. The recorder is compiled without Kafka, so that one jar
 * fits every release: a name that a release does not have is an error at the first use.
 */
final class Reflect {
  private static final Map<String, Field> FIELDS = new ConcurrentHashMap<>();
  private static final Map<String, Method> METHODS = new ConcurrentHashMap<>();

  private Reflect() {
  }

  /** The value of a field of an object, of its class or of one above it. */
  static Object field(Object object, String name) {
    Class<?> type = object.getClass();
    Field field = FIELDS.computeIfAbsent(key(type, name), key -> findField(type, name));
    try {
      return field.get(object);
    } catch (IllegalAccessException error) {
      throw new IllegalStateException(error);
    }
  }

  /** The value of a field that older releases have by another name. */
  static Object field(Object object, String name, String older) {
    return hasField(object, name) ? field(object, name) : field(object, older);
  }

  private static boolean hasField(Object object, String name) {
    for (Class<?> each = object.getClass(); each != null; each = each.getSuperclass()) {
      for (Field field : each.getDeclaredFields()) {
        if (field.getName().equals(name)) {
          return true;
        }
      }
    }
    return false;
  }

  /** All values of an object that have a type, which is named without its package, in an array. */
  static Object fields(Object object, String typeName) {
    List<Object> found = new ArrayList<>();
    for (Class<?> each = object.getClass(); each != null; each = each.getSuperclass()) {
      for (Field field : each.getDeclaredFields()) {
        if (field.getType().getSimpleName().equals(typeName)) {
          found.add(field(object, field.getName()));
        }
      }
    }
    if (found.isEmpty()) {
      throw new IllegalStateException(object.getClass().getName() + " has no " + typeName);
    }
    Object array = Array.newInstance(found.get(0).getClass(), found.size());
    for (int at = 0; at < found.size(); at++) {
      Array.set(array, at, found.get(at));
    }
    return array;
  }

  /** Whether an object has a method without parameters. */
  static boolean has(Object object, String method) {
    for (Class<?> each = object.getClass(); each != null; each = each.getSuperclass()) {
      for (Method one : each.getDeclaredMethods()) {
        if (one.getName().equals(method) && one.getParameterCount() == 0) {
          return true;
        }
      }
    }
    return false;
  }

  /** What a method of an object returns. */
  static Object call(Object object, String name, Object... arguments) {
    return invoke(object.getClass(), object, name, arguments);
  }

  /** What a static method of a class of Kafka returns; the loader is that of an object of Kafka. */
  static Object callStatic(Object neighbour, String type, String name, Object... arguments) {
    try {
      Class<?> found = Class.forName(type, true, neighbour.getClass().getClassLoader());
      return invoke(found, null, name, arguments);
    } catch (ClassNotFoundException error) {
      throw new IllegalStateException("There is no class " + type, error);
    }
  }

  private static Object invoke(Class<?> type, Object object, String name, Object... arguments) {
    String key = key(type, name + "/" + arguments.length);
    Method method = METHODS.computeIfAbsent(key, each -> findMethod(type, name, arguments));
    try {
      return method.invoke(object, arguments);
    } catch (ReflectiveOperationException error) {
      Throwable cause = error.getCause() == null ? error : error.getCause();
      throw new IllegalStateException(name + " failed: " + cause, cause);
    }
  }

  private static String key(Class<?> type, String name) {
    return System.identityHashCode(type) + type.getName() + "#" + name;
  }

  private static Field findField(Class<?> type, String name) {
    for (Class<?> each = type; each != null; each = each.getSuperclass()) {
      for (Field field : each.getDeclaredFields()) {
        if (field.getName().equals(name)) {
          field.setAccessible(true);
          return field;
        }
      }
    }
    throw new IllegalStateException(type.getName() + " has no field " + name);
  }

  private static Method findMethod(Class<?> type, String name, Object... arguments) {
    for (Class<?> each = type; each != null; each = each.getSuperclass()) {
      for (Method method : each.getDeclaredMethods()) {
        if (isMeant(method, name, arguments)) {
          method.setAccessible(true);
          return method;
        }
      }
    }
    for (Method method : type.getMethods()) {
      if (isMeant(method, name, arguments)) {
        method.setAccessible(true);
        return method;
      }
    }
    throw new IllegalStateException(type.getName() + " has no method " + name);
  }

  private static boolean isMeant(Method method, String name, Object... arguments) {
    if (!method.getName().equals(name) || method.isBridge()
        || method.getParameterCount() != arguments.length) {
      return false;
    }
    Class<?>[] wanted = method.getParameterTypes();
    for (int at = 0; at < arguments.length; at++) {
      if (arguments[at] != null && !wanted[at].isPrimitive()
          && !wanted[at].isInstance(arguments[at])) {
        return false;
      }
    }
    return true;
  }
}
