package streamproof.host;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;

/** What is around a store while it is open, and how it is committed, restored and closed there. */
public interface Layer {
  /** Open the store. */
  void open();

  /** From now on this input record is processed; null if there is none. */
  void processing(ProcessorRecordContext record) throws IOException;

  /** Apply records of the changelog. */
  void restore(List<ConsumerRecord<byte[], byte[]>> records);

  /** Commit what was written, with the offsets in the changelog that it reaches. */
  void commit(Map<TopicPartition, Long> offsets) throws IOException;

  /** The offset after which the store would be restored; null if from the start. */
  Long committedOffset(TopicPartition partition);

  /** What the store has sent to its changelog since the last call: key, value, timestamp. */
  default List<Object> takeLogged() {
    return List.of();
  }

  /** Close the store. */
  void close() throws IOException;
}
