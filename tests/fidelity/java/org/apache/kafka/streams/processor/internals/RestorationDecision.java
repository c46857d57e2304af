package org.apache.kafka.streams.processor.internals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminAnswers;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.internals.KafkaFutureImpl;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.StandbyUpdateListener;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TaskId;

/**
 * Asks a {@link StoreChangelogReader} which records it restores, and where a restoration ends. The
 * changelogs of a history belong to one task. Its consumer gives the records that the history says,
 * and its admin client the ends and the committed offsets.
 */
public final class RestorationDecision {
  private static final StreamsConfig CONFIG =
      Surroundings.config(
          Map.of(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1_000L));
  private static final StateDirectory DIRECTORY =
      new StateDirectory(CONFIG, Time.SYSTEM, false, false);

  private final Map<String, List<Long>> applied = new TreeMap<>();
  private final Map<TopicPartition, Long> positions = new HashMap<>();
  private final Set<TopicPartition> assigned = new HashSet<>();
  private final Set<TopicPartition> paused = new HashSet<>();
  private final Map<String, JsonNode> ends = new HashMap<>();
  private final Map<String, Long> committed = new HashMap<>();
  private final ArrayNode events = Surroundings.JSON.arrayNode();
  private final ProcessorStateManager manager;
  private final StoreChangelogReader reader;
  private final Task task;
  private ObjectNode polled = Surroundings.JSON.objectNode();
  private boolean answers = true;
  private long now;

  private RestorationDecision(JsonNode history) {
    boolean isActive = history.get("active").asBoolean();
    Set<TopicPartition> sources = new HashSet<>();
    Map<String, String> changelogs = new HashMap<>();
    for (Map.Entry<String, JsonNode> each : history.get("changelogs").properties()) {
      changelogs.put("store-" + each.getKey(), each.getKey());
      if (each.getValue().get("is_source").asBoolean()) {
        sources.add(Surroundings.partition(each.getKey()));
      }
    }
    manager =
        new ProcessorStateManager(
            Surroundings.TASK,
            isActive ? Task.TaskType.ACTIVE : Task.TaskType.STANDBY,
            true,
            Surroundings.LOG,
            DIRECTORY,
            changelogs,
            sources);
    for (Map.Entry<String, JsonNode> each : history.get("changelogs").properties()) {
      Long offset = Surroundings.numberOrNull(each.getValue().get("offset"));
      manager.registerStore(
          store("store-" + each.getKey(), offset), callback(each.getKey()), null);
      positions.put(
          Surroundings.partition(each.getKey()), each.getValue().get("log_start").asLong());
    }
    manager.initializeStoreOffsets(true);
    reader =
        new StoreChangelogReader(
            time(), CONFIG, Surroundings.LOG, admin(), consumer(), listener(), standbyListener());
    task = task();
    manager.changelogPartitions().forEach(each -> reader.register(each, manager));
    if (!isActive) {
      reader.transitToUpdateStandby();
    }
  }

  private static StateStore store(String name, Long committedOffset) {
    return Surroundings.stub(
        StateStore.class,
        (method, arguments) -> {
          switch (method) {
            case "name":
              return name;
            case "persistent":
              return true;
            case "committedOffset":
              return committedOffset;
            case "hashCode":
              return name.hashCode();
            default:
              return Surroundings.refuse(method);
          }
        });
  }

  private RecordBatchingStateRestoreCallback callback(String topic) {
    applied.put(topic, new ArrayList<>());
    return records ->
        records.forEach(record -> applied.get(record.topic()).add(record.offset()));
  }

  private Time time() {
    return Surroundings.stub(
        Time.class,
        (method, arguments) -> method.equals("milliseconds") ? now : now * 1_000_000);
  }

  private Task task() {
    return Surroundings.stub(
        Task.class,
        (method, arguments) -> {
          switch (method) {
            case "id":
              return Surroundings.TASK;
            case "hashCode":
              return 0;
            case "equals":
              return true;
            default:
              // Metrics, and the clock of task.timeout.ms.
              return null;
          }
        });
  }

  private Admin admin() {
    return Surroundings.stub(
        Admin.class,
        (method, arguments) -> {
          switch (method) {
            case "listOffsets":
              return listOffsets(
                  ((Map<?, ?>) arguments[0]).keySet(), (ListOffsetsOptions) arguments[1]);
            case "listConsumerGroupOffsets":
              return listGroupOffsets(
                  ((Map<?, ?>) arguments[0]).keySet().iterator().next().toString(),
                  (ListConsumerGroupOffsetsOptions) arguments[1]);
            default:
              return Surroundings.refuse(method);
          }
        });
  }

  private ListOffsetsResult listOffsets(Set<?> partitions, ListOffsetsOptions options) {
    boolean isCommitted = options.isolationLevel() == IsolationLevel.READ_COMMITTED;
    Map<TopicPartition, KafkaFuture<ListOffsetsResultInfo>> found = new HashMap<>();
    for (Object each : partitions) {
      TopicPartition partition = (TopicPartition) each;
      long end = ends.get(partition.topic()).get(isCommitted ? 1 : 0).asLong();
      found.put(partition, future(new ListOffsetsResultInfo(end, -1, Optional.empty())));
    }
    return new ListOffsetsResult(found);
  }

  private Object listGroupOffsets(String group, ListConsumerGroupOffsetsOptions options) {
    if (!options.requireStable()) {
      throw new IllegalStateException("Offsets in open transactions were not asked for.");
    }
    Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
    committed.forEach(
        (topic, offset) ->
            found.put(
                Surroundings.partition(topic),
                offset == null ? null : new OffsetAndMetadata(offset)));
    return AdminAnswers.groupOffsets(group, future(found));
  }

  private <T> KafkaFuture<T> future(T value) {
    KafkaFutureImpl<T> future = new KafkaFutureImpl<>();
    if (answers) {
      future.complete(value);
    } else {
      future.completeExceptionally(new TimeoutException("The brokers are silent."));
    }
    return future;
  }

  @SuppressWarnings("unchecked")
  private Consumer<byte[], byte[]> consumer() {
    return Surroundings.stub(
        Consumer.class,
        (method, arguments) -> {
          switch (method) {
            case "assignment":
              return Set.copyOf(assigned);
            case "assign":
              assigned.clear();
              assigned.addAll((Collection<TopicPartition>) arguments[0]);
              return null;
            case "pause":
              paused.addAll((Collection<TopicPartition>) arguments[0]);
              return null;
            case "resume":
              paused.removeAll((Collection<TopicPartition>) arguments[0]);
              return null;
            case "seek":
              return positions.put((TopicPartition) arguments[0], (Long) arguments[1]);
            case "seekToBeginning":
              // The position of a partition is its beginning until it is sought elsewhere.
              return null;
            case "position":
              return positions.get((TopicPartition) arguments[0]);
            case "currentLag":
              // After a poll with records a consumer knows its lag; only listeners are told it.
              return OptionalLong.of(0);
            case "poll":
              return poll();
            default:
              return Surroundings.refuse(method);
          }
        });
  }

  /** The records that the history says, of those partitions that are read. */
  private ConsumerRecords<byte[], byte[]> poll() {
    Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> found = new HashMap<>();
    for (Map.Entry<String, JsonNode> each : polled.properties()) {
      TopicPartition partition = Surroundings.partition(each.getKey());
      if (!assigned.contains(partition) || paused.contains(partition)) {
        continue;
      }
      List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
      for (JsonNode offset : each.getValue().get(0)) {
        records.add(Surroundings.record(each.getKey(), offset.asLong(), 0));
      }
      if (!records.isEmpty()) {
        found.put(partition, records);
      }
      positions.put(partition, each.getValue().get(1).asLong());
    }
    return new ConsumerRecords<>(found, Map.of());
  }

  private StateRestoreListener listener() {
    return Surroundings.stub(
        StateRestoreListener.class,
        (method, arguments) -> {
          ArrayNode event = events.addArray().add(method);
          event.add(((TopicPartition) arguments[0]).topic());
          for (int number = 2; number < arguments.length; number++) {
            event.add(((Number) arguments[number]).longValue());
          }
          return null;
        });
  }

  private static StandbyUpdateListener standbyListener() {
    return Surroundings.stub(StandbyUpdateListener.class, (method, arguments) -> null);
  }

  /** The answer to each step. */
  public static JsonNode answers(JsonNode history) {
    RestorationDecision decision = new RestorationDecision(history);
    ArrayNode answers = Surroundings.JSON.arrayNode();
    for (JsonNode step : history.get("steps")) {
      answers.add(decision.answer(step));
    }
    return answers;
  }

  private JsonNode answer(JsonNode step) {
    switch (step.get(0).asText()) {
      case "ends":
        step.get(1).properties().forEach(each -> ends.put(each.getKey(), each.getValue()));
        return Surroundings.JSON.nullNode();
      case "committed":
        step.get(1)
            .properties()
            .forEach(
                each -> committed.put(each.getKey(), Surroundings.numberOrNull(each.getValue())));
        return Surroundings.JSON.nullNode();
      case "answers":
        answers = step.get(1).asBoolean();
        return Surroundings.JSON.nullNode();
      case "restore":
        now = step.get(1).asLong();
        polled = (ObjectNode) step.get(2);
        return restore();
      default:
        throw new IllegalArgumentException("No step is called " + step.get(0));
    }
  }

  private JsonNode restore() {
    Map<TaskId, Task> tasks = Map.of(Surroundings.TASK, task);
    ObjectNode found = Surroundings.JSON.objectNode();
    found.put("count", reader.restore(tasks));
    ObjectNode offsets = found.putObject("applied");
    applied.forEach(
        (topic, records) -> {
          ArrayNode list = offsets.putArray(topic);
          records.forEach(list::add);
          records.clear();
        });
    ArrayNode completed = found.putArray("completed");
    reader.completedChangelogs().stream()
        .map(TopicPartition::topic)
        .sorted()
        .collect(Collectors.toList())
        .forEach(completed::add);
    found.set("events", events.deepCopy());
    events.removeAll();
    return found;
  }
}
