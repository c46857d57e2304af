package com.acme.orders;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Makes the notices by a consumer and a producer of its own, with transactions, as it should. The
 * mistake: without {@code isolation.level=read_committed}, the consumer also returns totals of
 * transactions that are aborted later.
 */
final class UncommittedReader extends Thread {
  private final Map<String, Object> cluster;

  UncommittedReader(String bootstrap) {
    cluster = Map.of("bootstrap.servers", bootstrap);
    setDaemon(true);
  }

  @Override
  public void run() {
    Map<String, Object> reads = new HashMap<>(cluster);
    reads.put("group.id", "notices");
    reads.put("auto.offset.reset", "earliest");
    reads.put("enable.auto.commit", "false");
    reads.put("session.timeout.ms", "3000");
    reads.put("heartbeat.interval.ms", "500");
    Map<String, Object> writes = new HashMap<>(cluster);
    writes.put("transactional.id", "notices-" + ProcessHandle.current().pid());
    // Others wait as long for a transaction that a killed process has left open.
    writes.put("transaction.timeout.ms", "10000");
    StringDeserializer read = new StringDeserializer();
    StringSerializer write = new StringSerializer();
    while (true) {
      // A client that has fallen out of its group begins again after what is committed.
      try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reads, read, read);
          KafkaProducer<String, String> producer = new KafkaProducer<>(writes, write, write)) {
        producer.initTransactions();
        consumer.subscribe(List.of(Orders.TOTALS));
        while (true) {
          tell(consumer, producer);
        }
      } catch (KafkaException error) {
        System.err.println("The reader begins again: " + error);
      }
    }
  }

  private static void tell(
        KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer) {
    ConsumerRecords<String, String> totals = consumer.poll(Duration.ofMillis(100));
    if (totals.isEmpty()) {
      return;
    }
    Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
    producer.beginTransaction();
    for (ConsumerRecord<String, String> each : totals) {
      producer.send(new ProducerRecord<>("notices", each.key(), "ordered " + each.value()));
      next.put(
          new TopicPartition(each.topic(), each.partition()),
          new OffsetAndMetadata(each.offset() + 1));
    }
    producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
    producer.commitTransaction();
  }
}
