package streamproof.recorder;

import java.lang.instrument.Instrumentation;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.function.BiConsumer;

/**
 * The entry of the recorder: {@code java -javaagent:recorder.jar=out=DIRECTORY,name=NAME}.
 *
 * <p>Byte Buddy is loaded apart from the application, which may have another version of it.
 */
public final class Agent {
  private Agent() {
  }

  public static void premain(String options, Instrumentation instrumentation) throws Exception {
    Map<String, String> given = read(options == null ? "" : options);
    if (!given.containsKey("out")) {
      throw new IllegalArgumentException(
          "The recorder needs a directory: -javaagent:recorder.jar=out=DIRECTORY");
    }
    Path directory = Path.of(given.get("out"));
    Events.open(new Recording(directory), given);
    Slowness.serve(directory);
    if (given.containsKey("name")) {
      Commands.serve(directory, given.get("name"));
    }
    Path self = Path.of(Agent.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    URL[] apart = {self.toUri().toURL(), self.resolveSibling("byte-buddy.jar").toUri().toURL()};
    ClassLoader loader = new URLClassLoader(apart, ClassLoader.getPlatformClassLoader());
    BiConsumer<String, String> unfit = Events::unfit;
    loader.loadClass("streamproof.recorder.hooks.Installer")
        .getMethod("install", Instrumentation.class, String[][].class, BiConsumer.class)
        .invoke(null, instrumentation, Hooks.table(), unfit);
  }

  private static Map<String, String> read(String options) {
    Map<String, String> found = new HashMap<>();
    for (String each : options.split(",")) {
      int at = each.indexOf('=');
      if (at > 0) {
        found.put(each.substring(0, at), each.substring(at + 1));
      }
    }
    return found;
  }
}
