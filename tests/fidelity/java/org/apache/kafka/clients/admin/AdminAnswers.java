package org.apache.kafka.clients.admin;

import java.util.Map;
import org.apache.kafka.clients.admin.internals.CoordinatorKey;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;

/** Makes answers of an admin client whose constructors are private to its package. */
public final class AdminAnswers {
  private AdminAnswers() {}

  /** The committed offsets of a group. */
  public static ListConsumerGroupOffsetsResult groupOffsets(
      String group, KafkaFuture<Map<TopicPartition, OffsetAndMetadata>> offsets) {
    return new ListConsumerGroupOffsetsResult(Map.of(CoordinatorKey.byGroupId(group), offsets));
  }
}
