package streamproof.recorder.hooks;

import static net.bytebuddy.matcher.ElementMatchers.isConstructor;
import static net.bytebuddy.matcher.ElementMatchers.named;

import java.lang.instrument.Instrumentation;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiConsumer;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.dynamic.DynamicType;
import net.bytebuddy.matcher.ElementMatcher;
import net.bytebuddy.utility.JavaModule;

/**
 * Puts the calls of the recorder into the classes of Kafka when they are loaded. This class and
 * Byte Buddy have a loader of their own; the calls find the recorder by the loader of Kafka.
 */
public final class Installer {
  private static final String CONSTRUCTOR = "<init>";

  private Installer() {
  }

  /**
   * Install all hooks.
   *
   * @param table the hooks: name, class, method and place ({@code enter} or {@code exit}) of each
   * @param unfit is told the name of a hook that does not fit this release, and why
   */
  public static void install(
        Instrumentation instrumentation, String[][] table, BiConsumer<String, String> unfit) {
    Map<String, List<String[]>> byClass = new TreeMap<>();
    for (String[] each : table) {
      byClass.computeIfAbsent(each[1], type -> new ArrayList<>()).add(each);
    }
    AgentBuilder builder = new AgentBuilder.Default()
        .disableClassFormatChanges()
        .with(new Failures(byClass, unfit));
    for (Map.Entry<String, List<String[]>> each : byClass.entrySet()) {
      builder = builder.type(named(each.getKey())).transform(
        (made, type, loader, module, domain) -> transformed(made, type, each.getValue(), unfit));
    }
    builder.installOn(instrumentation);
  }

  private static DynamicType.Builder<?> transformed(
        DynamicType.Builder<?> made, TypeDescription type, List<String[]> hooks,
        BiConsumer<String, String> unfit) {
    DynamicType.Builder<?> builder = made;
    for (String[] each : hooks) {
      ElementMatcher.Junction<MethodDescription> method =
          each[2].equals(CONSTRUCTOR) ? isConstructor() : named(each[2]);
      if (type.getDeclaredMethods().filter(method).isEmpty()) {
        unfit.accept(each[0], type.getName() + " has no method " + each[2]);
        continue;
      }
      builder = builder.visit(
          Advice.withCustomMapping().bind(HookName.class, each[0])
            .to(advice(each[2], each[3])).on(method));
    }
    return builder;
  }

  private static Class<?> advice(String method, String place) {
    if (place.equals("enter")) {
      return EnterAdvice.class;
    }
    return method.equals(CONSTRUCTOR) ? MadeAdvice.class : ExitAdvice.class;
  }

  /** Tells of a class that could not be changed. */
  private static final class Failures extends AgentBuilder.Listener.Adapter {
    private final Map<String, List<String[]>> byClass;
    private final BiConsumer<String, String> unfit;

    Failures(Map<String, List<String[]>> byClass, BiConsumer<String, String> unfit) {
      this.byClass = byClass;
      this.unfit = unfit;
    }

    @Override
    public void onError(
          String type, ClassLoader loader, JavaModule module, boolean loaded, Throwable error) {
      for (String[] each : byClass.getOrDefault(type, List.of())) {
        unfit.accept(each[0], type + " cannot be changed: " + error);
      }
    }
  }
}
