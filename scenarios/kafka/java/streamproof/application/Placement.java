package streamproof.application;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;

/** Which of two brokers has which log. */
final class Placement {
  private static final int FIRST = 1;
  private static final int POLL_MS = 10;

  private Placement() {
  }

  /** Take all logs but those of internal topics of the brokers off the second broker. */
  static void onFirst(Map<String, Object> cluster) throws Exception {
    try (Admin admin = Admin.create(cluster)) {
      Set<String> topics = admin.listTopics().names().get();
      Map<TopicPartition, Optional<NewPartitionReassignment>> wanted = new HashMap<>();
      for (TopicDescription topic : admin.describeTopics(topics).allTopicNames().get().values()) {
        for (TopicPartitionInfo each : topic.partitions()) {
          wanted.put(
              new TopicPartition(topic.name(), each.partition()),
              Optional.of(new NewPartitionReassignment(List.of(FIRST))));
        }
      }
      admin.alterPartitionReassignments(wanted).all().get();
      while (!admin.listPartitionReassignments().reassignments().get().isEmpty()) {
        Thread.sleep(POLL_MS);
      }
    }
  }
}
