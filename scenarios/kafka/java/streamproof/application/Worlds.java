package streamproof.application;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;

/**
 * Serves worlds that share a broker, so that none of them starts a client. Each world is a
 * directory, numbered from 0, with a file {@code topics}: the prefix of all its topics, and a line
 * for each input. Its sender serves in that directory until it is over; then all its topics go. On
 * a cluster that others started, the world is watched, and its groups go, too.
 */
final class Worlds {
  private static final int POLL_MS = 2;

  private Worlds() {
  }

  static void serve(Map<String, Object> cluster, Path directory, boolean isWatched)
        throws Exception {
    Files.createFile(directory.resolve("serving"));
    int number = 0;
    while (true) {
      Path world = directory.resolve(Integer.toString(number));
      if (!Files.exists(world.resolve("topics"))) {
        Thread.sleep(POLL_MS);
        continue;
      }
      Thread thread = new Thread(() -> serveOne(cluster, world, isWatched), "world-" + number);
      thread.setDaemon(true);
      thread.start();
      number++;
    }
  }

  private static void serveOne(Map<String, Object> cluster, Path world, boolean isWatched) {
    try (Admin admin = Admin.create(cluster)) {
      List<String> lines = Files.readAllLines(world.resolve("topics"));
      String prefix = lines.get(0);
      List<String> topics = lines.subList(1, lines.size());
      Clients.create(cluster, topics.stream().map(each -> prefix + each).toList());
      if (isWatched) {
        Thread watch = Watch.begin(cluster, world, prefix);
        Sender.serve(cluster, world, topics, prefix);
        watch.join();
        Watch.clean(admin, world, prefix);
      } else {
        Sender.serve(cluster, world, topics, prefix);
        admin.deleteTopics(Watch.topics(admin, prefix)).all().get();
      }
    } catch (Exception error) {
      error.printStackTrace();
    }
  }
}
