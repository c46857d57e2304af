package streamproof.recorder;

import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;

/** What is written to the logs of a broker. A broker must be recorded from its first start. */
final class Logs {
  private static final String OFFSETS = "__consumer_offsets";
  private static final String TRANSACTIONS = "__transaction_state";
  private static final AtomicBoolean BEGUN = new AtomicBoolean();

  private Logs() {
  }

  static void made(Seen call) {
    if (BEGUN.compareAndSet(false, true)) {
      Events.begin(Hooks.BROKERS, call.self(), Map.of());
    }
    Object partition = Reflect.call(call.self(), "topicPartition");
    Map<String, Object> details = new LinkedHashMap<>();
    details.put("partition", partition.toString());
    details.put("end", Reflect.call(call.self(), "logEndOffset"));
    Events.tell("log", details);
  }

  static void appended(Seen call) {
    if (!call.succeeded()) {
      return;
    }
    Object partition = Reflect.call(call.self(), "topicPartition");
    String topic = (String) Reflect.call(partition, "topic");
    for (Object argument : call.arguments()) {
      if (argument != null && argument.getClass().getSimpleName().equals("MemoryRecords")) {
        for (Object batch : (Iterable<?>) Reflect.call(argument, "batches")) {
          take(topic, partition.toString(), batch);
        }
      }
    }
  }

  private static void take(String topic, String partition, Object batch) {
    boolean isControl = (Boolean) Reflect.call(batch, "isControlBatch");
    long producer = (Long) Reflect.call(batch, "producerId");
    boolean isTransactional = (Boolean) Reflect.call(batch, "isTransactional");
    Map<String, Map<String, Object>> offsets = new LinkedHashMap<>();
    for (Object record : (Iterable<?>) batch) {
      byte[] key = bytes(Reflect.call(record, "key"));
      byte[] value = bytes(Reflect.call(record, "value"));
      long offset = (Long) Reflect.call(record, "offset");
      if (isControl && producer < 0) {
        // The controllers write such records into their own log.
        continue;
      } else if (isControl) {
        Transactions.marker(partition, topic.equals(OFFSETS), offset, producer, isCommit(key));
      } else if (topic.equals(OFFSETS)) {
        InternalRecords.offset(key, value, offsets);
      } else if (topic.equals(TRANSACTIONS)) {
        InternalRecords.transaction(key, value);
      } else if (!topic.startsWith("__")) {
        Events.emit(Line.of("brokers", "log.appended").partition(partition).offset(offset)
            .with("key", key == null ? new byte[0] : key).with("value", value)
            .with("timestamp", Reflect.call(record, "timestamp"))
            .with("producer", producer)
            .with("transactional", isTransactional));
      }
    }
    offsets.forEach((group, each) -> Transactions.offsets(
        group, each, isTransactional ? producer : -1));
  }

  static void deleted(Seen call) {
    Object partition = Reflect.call(call.self(), "topicPartition");
    if (call.succeeded() && Boolean.TRUE.equals(call.returned())
        && !partition.toString().startsWith("__")) {
      boolean isRequest = call.argument(1).toString().contains("client");
      Events.emit(Line.of("brokers", "log.deleted").partition(partition)
          .offset((Long) call.argument(0)).with("reason", isRequest ? "request" : "retention"));
    }
  }

  static void compacted(Seen call) {
    if (!call.succeeded()) {
      return;
    }
    Object partition = Reflect.call(call.argument(0), "topicPartition");
    boolean isPair = call.returned() instanceof Map.Entry<?, ?>;
    Object end = Reflect.call(call.returned(), isPair ? "getKey" : "_1");
    Object done = Reflect.call(call.returned(), isPair ? "getValue" : "_2");
    long read = (Long) Reflect.field(done, "messagesRead");
    long written = (Long) Reflect.field(done, "messagesWritten");
    if (!partition.toString().startsWith("__")) {
      Events.emit(Line.of("brokers", "log.compacted").partition(partition)
          .offset(((Number) end).longValue()).with("removed", read - written));
    }
  }

  /** Whether a control record is a commit: its key has a version and a type, of two bytes each. */
  private static boolean isCommit(byte[] key) {
    return ByteBuffer.wrap(key).getShort(2) == 1;
  }

  private static byte[] bytes(Object buffer) {
    if (buffer == null) {
      return null;
    }
    ByteBuffer source = ((ByteBuffer) buffer).duplicate();
    byte[] found = new byte[source.remaining()];
    source.get(found);
    return found;
  }
}
