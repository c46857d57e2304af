package org.apache.kafka.streams.processor.internals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.CumulativeCount;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.streams.errors.LogAndFailExceptionHandler;
import org.apache.kafka.streams.processor.FailOnInvalidTimestamp;

/** Asks {@link PartitionGroup} whether a task may process, and which record is next. */
public final class IdlingDecision {
  private static final Metrics METRICS = new Metrics();
  private static final Sensor LATENESS = METRICS.sensor("lateness");
  private static final Sensor ENFORCED = METRICS.sensor("enforced");
  private static final ProcessorContextImpl CONTEXT =
      new ProcessorContextImpl(
          Surroundings.TASK,
          Surroundings.config(Map.of()),
          null,
          Surroundings.METRICS,
          null);

  static {
    ENFORCED.add(METRICS.metricName("enforced", "decisions"), new CumulativeCount());
  }

  private final Map<TopicPartition, Long> lags = new HashMap<>();
  private final Map<TopicPartition, RecordQueue> queues = new HashMap<>();
  private final PartitionGroup group;

  private IdlingDecision(JsonNode history) {
    for (JsonNode each : history.get("partitions")) {
      TopicPartition partition = Surroundings.partition(each.asText());
      queues.put(partition, queue(partition));
    }
    group =
        new PartitionGroup(
            Surroundings.LOG,
            queues,
            this::lag,
            LATENESS,
            ENFORCED,
            history.get("max_task_idle_ms").asLong());
  }

  private static RecordQueue queue(TopicPartition partition) {
    return new RecordQueue(
        partition,
        new SourceNode<>(
            partition.topic(), new ByteArrayDeserializer(), new ByteArrayDeserializer()),
        new FailOnInvalidTimestamp(),
        new LogAndFailExceptionHandler(),
        CONTEXT,
        Surroundings.LOG);
  }

  private OptionalLong lag(TopicPartition partition) {
    Long lag = lags.get(partition);
    return lag == null ? OptionalLong.empty() : OptionalLong.of(lag);
  }

  /**
   * The order in which Kafka walks over the inputs, which is that of a hash map, and the answer to
   * each step.
   */
  public static JsonNode answers(JsonNode history) throws ReflectiveOperationException {
    IdlingDecision decision = new IdlingDecision(history);
    ObjectNode found = Surroundings.JSON.objectNode();
    ArrayNode order = found.putArray("order");
    decision.queues.keySet().forEach(each -> order.add(each.topic()));
    ArrayNode answers = found.putArray("answers");
    for (JsonNode step : history.get("steps")) {
      answers.add(decision.answer(step));
    }
    return found;
  }

  private JsonNode answer(JsonNode step) throws ReflectiveOperationException {
    String topic = step.get(1) == null ? "" : step.get(1).asText();
    switch (step.get(0).asText()) {
      case "add":
        group.addRawRecords(
            Surroundings.partition(topic), Surroundings.records(topic, step.get(2)));
        break;
      case "lags":
        lags.clear();
        for (Map.Entry<String, JsonNode> each : step.get(1).properties()) {
          lags.put(
              Surroundings.partition(each.getKey()), Surroundings.numberOrNull(each.getValue()));
        }
        group.updateLags();
        break;
      case "time":
        group.setPartitionTime(Surroundings.partition(topic), step.get(2).asLong());
        break;
      case "clear":
        group.clear();
        break;
      case "process":
        return process(step.get(1).asLong());
      default:
        throw new IllegalArgumentException("No step is called " + step.get(0));
    }
    return Surroundings.JSON.nullNode();
  }

  /** Process the next record if the task may, as {@link StreamTask#process} does. */
  private JsonNode process(long now) throws ReflectiveOperationException {
    double enforcedBefore = enforced();
    AbstractPartitionGroup.ReadyToProcessResult ready = group.readyToProcess(now);
    ObjectNode found = Surroundings.JSON.objectNode();
    found.put("ready", ready.isReady());
    found.put("enforced", enforced() > enforcedBefore);
    ready.getLogMessage().ifPresent(message -> found.put("reason", reason(message)));
    Map<TopicPartition, Long> deadlines =
        Surroundings.privateField(group, "idlePartitionDeadlines");
    ObjectNode until = found.putObject("deadlines");
    deadlines.forEach((partition, deadline) -> until.put(partition.topic(), deadline));
    if (ready.isReady()) {
      AbstractPartitionGroup.RecordInfo info = new AbstractPartitionGroup.RecordInfo();
      StampedRecord record = group.nextRecord(info, now);
      if (record != null) {
        found.put("partition", info.partition().topic());
        found.put("offset", record.offset());
      }
    }
    found.put("stream_time", group.streamTime());
    ObjectNode inputs = found.putObject("inputs");
    for (TopicPartition each : queues.keySet()) {
      inputs
          .putArray(each.topic())
          .add(group.numBuffered(each))
          .add(group.partitionTimestamp(each))
          .add(group.headRecordOffset(each));
    }
    return found;
  }

  private static double enforced() {
    return (Double) METRICS.metric(METRICS.metricName("enforced", "decisions")).metricValue();
  }

  /** The last partition of the message is the one that the task waits for. */
  private static String reason(String message) {
    Map<String, String> reasons = new LinkedHashMap<>();
    reasons.put("Waiting to fetch data for", "lag unknown");
    reasons.put("but no data is buffered locally", "data on the broker");
    reasons.put("for configured idle time", "idling");
    reasons.put("No partitions were buffered locally", "nothing buffered");
    for (Map.Entry<String, String> each : reasons.entrySet()) {
      if (message.contains(each.getKey())) {
        return each.getValue();
      }
    }
    return message;
  }
}
