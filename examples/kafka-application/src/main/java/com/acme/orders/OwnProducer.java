package com.acme.orders;

import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.processor.api.Record;

/** The mistake: receipts go out by a producer of the application, outside of the transaction. */
final class OwnProducer extends Orders.Adder {
  private final KafkaProducer<String, String> producer;

  OwnProducer(String bootstrap) {
    producer = new KafkaProducer<>(
        Map.of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer());
  }

  @Override
  void write(Record<String, String> receipt) {
    producer.send(new ProducerRecord<>("receipts", receipt.key(), receipt.value()));
  }

  @Override
  public void close() {
    producer.close();
  }
}
