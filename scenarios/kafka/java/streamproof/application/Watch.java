package streamproof.application;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Looks at the topics and groups of one world on a cluster whose brokers are not recorded. The file
 * {@code watched} has the monotonic time in ns when a look began, and a line for each partition:
 * its name without the prefix, its end, the offset behind its last visible record, and the
 * committed offset.
 */
final class Watch {
  private static final int PAUSE_MS = 50;

  private static final Duration POLL = Duration.ofMillis(20);

  /** A group has members until their sessions have ended. */
  private static final long EMPTY_NS = 30_000_000_000L;

  private final Admin admin;
  private final KafkaConsumer<byte[], byte[]> consumer;
  private final Path directory;
  private final String prefix;
  private final Map<TopicPartition, Long> visible = new HashMap<>();

  private Watch(
        Admin admin, KafkaConsumer<byte[], byte[]> consumer, Path directory, String prefix) {
    this.admin = admin;
    this.consumer = consumer;
    this.directory = directory;
    this.prefix = prefix;
  }

  /** Look again and again, in a thread of its own, until the world is over. */
  static Thread begin(Map<String, Object> cluster, Path directory, String prefix) {
    Thread thread = new Thread(() -> run(cluster, directory, prefix), "watch-" + prefix);
    thread.setDaemon(true);
    thread.start();
    return thread;
  }

  private static void run(Map<String, Object> cluster, Path directory, String prefix) {
    Map<String, Object> config = new HashMap<>(cluster);
    config.put("isolation.level", "read_committed");
    ByteArrayDeserializer bytes = new ByteArrayDeserializer();
    try (Admin admin = Admin.create(cluster);
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, bytes, bytes)) {
      Watch watch = new Watch(admin, consumer, directory, prefix);
      while (!Files.exists(directory.resolve("over"))) {
        try {
          watch.look();
        } catch (ExecutionException error) {
          // A topic or a group that is just being made; the next look sees it.
        }
        Thread.sleep(PAUSE_MS);
      }
    } catch (Exception error) {
      error.printStackTrace();
    }
  }

  private void look() throws Exception {
    final long begun = System.nanoTime();
    List<TopicPartition> partitions = new ArrayList<>();
    for (TopicDescription each : admin.describeTopics(topics(admin, prefix)).allTopicNames().get()
        .values()) {
      each.partitions().forEach(one ->
          partitions.add(new TopicPartition(each.name(), one.partition())));
    }
    consumer.assign(partitions);
    List<TopicPartition> added = partitions.stream()
        .filter(each -> visible.putIfAbsent(each, 0L) == null).toList();
    consumer.seekToBeginning(added);
    final Map<TopicPartition, Long> committed = new HashMap<>();
    for (String group : groups(admin, prefix)) {
      for (Map.Entry<TopicPartition, OffsetAndMetadata> each :
          admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().entrySet()) {
        if (each.getValue() != null) {
          committed.put(each.getKey(), each.getValue().offset());
        }
      }
    }
    ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
    while (!records.isEmpty()) {
      for (ConsumerRecord<byte[], byte[]> each : records) {
        visible.put(new TopicPartition(each.topic(), each.partition()), each.offset() + 1);
      }
      records = consumer.poll(POLL);
    }
    Map<TopicPartition, OffsetSpec> latest = new HashMap<>();
    partitions.forEach(each ->
        latest.put(each, OffsetSpec.latest()));
    StringBuilder text = new StringBuilder().append(begun).append('\n');
    admin.listOffsets(latest).all().get().forEach((each, end) -> text
        .append(each.toString().substring(prefix.length())).append('\t')
        .append(end.offset()).append('\t')
        .append(visible.get(each)).append('\t')
        .append(committed.getOrDefault(each, 0L)).append('\n'));
    write(directory, "watched", text.toString());
  }

  /** Delete all that the world has made, and tell in the file {@code deleted} what is left. */
  static void clean(Admin admin, Path directory, String prefix) throws IOException {
    String error = "";
    long giveUp = System.nanoTime() + EMPTY_NS;
    do {
      try {
        admin.deleteTopics(topics(admin, prefix)).all().get();
        admin.deleteConsumerGroups(groups(admin, prefix)).all().get();
        error = "";
        break;
      } catch (Exception raised) {
        error = raised.toString();
      }
      try {
        Thread.sleep(PAUSE_MS);
      } catch (InterruptedException raised) {
        break;
      }
    } while (System.nanoTime() < giveUp);
    write(directory, "deleted", error);
  }

  static List<String> topics(Admin admin, String prefix) throws Exception {
    return admin.listTopics().names().get().stream()
        .filter(each -> each.startsWith(prefix)).toList();
  }

  private static List<String> groups(Admin admin, String prefix) throws Exception {
    return admin.listConsumerGroups().all().get().stream()
        .map(ConsumerGroupListing::groupId).filter(each -> each.startsWith(prefix)).toList();
  }

  private static void write(Path directory, String name, String text) throws IOException {
    Path unfinished = directory.resolve(name + ".new");
    Files.writeString(unfinished, text);
    Files.move(unfinished, directory.resolve(name), StandardCopyOption.ATOMIC_MOVE);
  }
}
