package streamproof.application;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends records as long as it lives: for each file {@code send-N} that appears in a directory, it
 * makes {@code sent-N}, which has an error unless it is empty. Files without a transaction are sent
 * one after the other, and files with one at a time.
 *
 * <p>A file {@code place} takes all topics but those of the coordinators off the second of two
 * brokers; {@code placed} answers, with an error unless it is empty. A file {@code over} ends it.
 *
 * <p>The first line says how a transaction around the records ends ({@code commit}, {@code abort}
 * or nothing), and how many milliseconds it stays open. Each other line has a topic, a partition, a
 * timestamp in ms, a key and a value.
 */
final class Sender {
  private static final int POLL_MS = 2;

  private static final AtomicInteger IDS = new AtomicInteger();

  private final Map<String, Object> cluster;
  private final KafkaProducer<byte[], byte[]> plain;
  private final String prefix;

  private Sender(
        Map<String, Object> cluster, KafkaProducer<byte[], byte[]> plain, String prefix) {
    this.cluster = cluster;
    this.plain = plain;
    this.prefix = prefix;
  }

  /** Each topic has a number of partitions; all of their names begin with a prefix. */
  static void serve(
        Map<String, Object> cluster, Path directory, List<String> topics, String prefix)
        throws Exception {
    ExecutorService inOrder = Executors.newSingleThreadExecutor();
    ExecutorService atOnce = Executors.newCachedThreadPool();
    try (KafkaProducer<byte[], byte[]> plain = producer(cluster, "")) {
      Sender sender = new Sender(cluster, plain, prefix);
      // The first metadata take a while, and nobody waits for them later.
      topics.forEach(each -> plain.partitionsFor(prefix + each.split("\t")[0]));
      Files.createFile(directory.resolve("serving"));
      sender.loop(directory, inOrder, atOnce);
    } finally {
      inOrder.shutdownNow();
      atOnce.shutdownNow();
    }
  }

  private void loop(Path directory, ExecutorService inOrder, ExecutorService atOnce)
        throws Exception {
    int number = 0;
    while (!Files.exists(directory.resolve("over"))) {
      if (Files.deleteIfExists(directory.resolve("place"))) {
        answer(() -> Placement.onFirst(cluster), directory.resolve("placed"));
      }
      Path wanted = directory.resolve("send-" + number);
      if (!Files.exists(wanted)) {
        Thread.sleep(POLL_MS);
        continue;
      }
      Path answer = directory.resolve("sent-" + number);
      boolean isPlain = Files.readAllLines(wanted).get(0).startsWith("\t");
      (isPlain ? inOrder : atOnce).execute(
          () -> answer(() -> send(Files.readAllLines(wanted)), answer));
      number++;
    }
  }

  /** What is asked of the sender. */
  private interface Act {
    void run() throws Exception;
  }

  private static void answer(Act act, Path answer) {
    try {
      String error = "";
      try {
        act.run();
      } catch (Exception raised) {
        error = raised.toString();
      }
      Path unfinished = answer.resolveSibling(answer.getFileName() + ".new");
      Files.writeString(unfinished, error, StandardCharsets.UTF_8);
      Files.move(unfinished, answer, StandardCopyOption.ATOMIC_MOVE);
    } catch (java.io.IOException raised) {
      throw new java.io.UncheckedIOException(raised);
    }
  }

  private void send(List<String> lines) throws Exception {
    String[] transaction = lines.get(0).split("\t");
    if (transaction[0].isEmpty()) {
      write(plain, lines);
      return;
    }
    try (KafkaProducer<byte[], byte[]> own =
              producer(cluster, prefix + "timeline-" + IDS.incrementAndGet())) {
      own.initTransactions();
      own.beginTransaction();
      write(own, lines);
      Thread.sleep(Long.parseLong(transaction[1]));
      if (transaction[0].equals("commit")) {
        own.commitTransaction();
      } else {
        own.abortTransaction();
      }
    }
  }

  private void write(KafkaProducer<byte[], byte[]> producer, List<String> lines)
        throws Exception {
    List<Future<?>> sent = new ArrayList<>();
    for (String line : lines.subList(1, lines.size())) {
      String[] words = line.split("\t");
      sent.add(producer.send(new ProducerRecord<>(
          prefix + words[0], Integer.parseInt(words[1]), Long.parseLong(words[2]),
          Clients.decoded(words[3]), Clients.decoded(words[4]))));
    }
    producer.flush();
    for (Future<?> each : sent) {
      each.get();
    }
  }

  private static KafkaProducer<byte[], byte[]> producer(Map<String, Object> cluster, String id) {
    Map<String, Object> config = new HashMap<>(cluster);
    if (!id.isEmpty()) {
      config.put("transactional.id", id);
    }
    ByteArraySerializer bytes = new ByteArraySerializer();
    return new KafkaProducer<>(config, bytes, bytes);
  }
}
