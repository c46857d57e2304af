package streamproof.host;

import java.util.Arrays;
import java.util.stream.Stream;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.internals.WrappedStateStore;

/** Whether a store has a method of its own where its interface only raises. */
final class Overrides {
  private Overrides() {}

  /** Whether the store has the method, and each store that it wraps. */
  static boolean everywhere(StateStore store, String method, Class<?>... parameters) {
    boolean isWrapper = store instanceof WrappedStateStore;
    return has(store, method, parameters)
        && !(isWrapper
            && !everywhere(((WrappedStateStore<?, ?, ?>) store).wrapped(), method, parameters));
  }

  /** Whether the class, or a class above it, has the method. */
  static boolean has(Object store, String method, Class<?>... parameters) {
    // Several interfaces may have the method, and each with a default.
    return Stream.of(store.getClass().getMethods())
        .filter(each -> each.getName().equals(method) && !each.getDeclaringClass().isInterface())
        .anyMatch(each -> Arrays.equals(each.getParameterTypes(), parameters));
  }
}
