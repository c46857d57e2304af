package streamproof.application;

import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Acts on a cluster from outside: {@code Clients ADDRESS COMMAND FILE ARGUMENT...}. */
public final class Clients {
  private static final Duration PATIENCE = Duration.ofSeconds(20);

  private Clients() {
  }

  public static void main(String[] arguments) throws Exception {
    Map<String, Object> cluster = Map.of("bootstrap.servers", arguments[0]);
    Path file = Path.of(arguments[2]);
    List<String> rest = Arrays.asList(arguments).subList(3, arguments.length);
    switch (arguments[1]) {
      case "create" -> create(cluster, Files.readAllLines(file));
      case "send" -> send(cluster, Files.readAllLines(file));
      case "serve" -> {
        List<String> ids = new ArrayList<>();
        create(cluster, rest).forEach((topic, id) -> ids.add(topic + "\t" + id));
        Files.write(file.resolve("ids"), ids);
        Sender.serve(cluster, file, rest, "");
      }
      case "serve-worlds" -> Worlds.serve(cluster, file, rest.contains("watched"));
      case "read" -> read(cluster, file, rest.get(0), rest.subList(1, rest.size()));
      default -> throw new IllegalArgumentException("There is no command " + arguments[1] + ".");
    }
  }

  /**
   * Each line has a topic, its number of partitions and, of some, the numbers of its brokers.
   *
   * @return the ids of the topics
   */
  static Map<String, Uuid> create(Map<String, Object> cluster, List<String> lines)
        throws Exception {
    List<NewTopic> topics = new ArrayList<>();
    for (String line : lines) {
      String[] words = line.split("\t");
      if (words.length > 2) {
        // A topic of coordinators, with the policy that Kafka gives such a topic.
        topics.add(new NewTopic(words[0], Map.of(0, numbers(words[2])))
            .configs(Map.of("cleanup.policy", "compact")));
        continue;
      }
      // Times of scenarios begin at 0, so no record may be too old.
      topics.add(new NewTopic(words[0], Optional.of(Integer.parseInt(words[1])), Optional.empty())
          .configs(Map.of("retention.ms", "-1")));
    }
    Map<String, Uuid> ids = new HashMap<>();
    try (Admin admin = Admin.create(cluster)) {
      CreateTopicsResult created = admin.createTopics(topics);
      for (String each : created.values().keySet()) {
        ids.put(each, created.topicId(each).get());
      }
    }
    return ids;
  }

  private static List<Integer> numbers(String text) {
    return Arrays.stream(text.split(",")).map(Integer::valueOf).toList();
  }

  /** Each line has a topic, a partition, a timestamp in ms, a key and a value. */
  private static void send(Map<String, Object> cluster, List<String> lines) throws Exception {
    ByteArraySerializer bytes = new ByteArraySerializer();
    List<Future<?>> sent = new ArrayList<>();
    try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(cluster, bytes, bytes)) {
      for (String line : lines) {
        String[] words = line.split("\t");
        sent.add(producer.send(new ProducerRecord<>(
            words[0], Integer.parseInt(words[1]), Long.parseLong(words[2]),
            decoded(words[3]), decoded(words[4]))));
      }
    }
    for (Future<?> each : sent) {
      each.get();
    }
  }

  /** Write all records of some topics: partition, offset, timestamp, key and value. */
  private static void read(
        Map<String, Object> cluster, Path file, String isolation, List<String> topics)
        throws Exception {
    ByteArrayDeserializer bytes = new ByteArrayDeserializer();
    Map<String, Object> config = Map.of(
        "bootstrap.servers", cluster.get("bootstrap.servers"), "isolation.level", isolation);
    try (KafkaConsumer<byte[], byte[]> consumer =
              new KafkaConsumer<>(config, bytes, bytes);
        PrintWriter out = new PrintWriter(file.toFile(), StandardCharsets.UTF_8)) {
      List<TopicPartition> partitions = new ArrayList<>();
      for (String topic : topics) {
        consumer.partitionsFor(topic)
            .forEach(each -> partitions.add(new TopicPartition(topic, each.partition())));
      }
      consumer.assign(partitions);
      consumer.seekToBeginning(partitions);
      Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
      long giveUp = System.nanoTime() + PATIENCE.toNanos();
      while (ends.entrySet().stream().anyMatch(e ->
              consumer.position(e.getKey()) < e.getValue())) {
        if (System.nanoTime() > giveUp) {
          throw new IllegalStateException("The ends of the partitions never came.");
        }
        for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(100))) {
          out.println(String.join("\t",
              each.topic() + "-" + each.partition(), Long.toString(each.offset()),
              Long.toString(each.timestamp()), encoded(each.key()), encoded(each.value())));
        }
      }
    }
  }

  private static String encoded(byte[] bytes) {
    return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
  }

  static byte[] decoded(String text) {
    return text.equals("-") ? null : Base64.getDecoder().decode(text);
  }
}
