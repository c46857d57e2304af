package org.apache.kafka.streams.processor.internals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.TopologyConfig.TaskConfig;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.state.internals.ThreadCache;

/**
 * Asks a {@link StreamTask} which offsets and times it commits. If it has a store, this is a table
 * of its first input, which is the changelog as well; then it is asked for the store's offset, too.
 */
public final class CommitDecision {
  private static final Map<List<Object>, StreamsConfig> CONFIGS = new HashMap<>();
  private static final StateDirectory DIRECTORY =
      new StateDirectory(Surroundings.config(Map.of()), Time.SYSTEM, false, false);

  private final Map<TopicPartition, Long> positions = new HashMap<>();
  private final Map<TopicPartition, OffsetAndMetadata> committed = new HashMap<>();
  private final Set<String> paused = new TreeSet<>();
  private final String table;
  private final StreamTask task;
  private Long committedToTable;

  private CommitDecision(JsonNode history) {
    boolean exactlyOnce = history.get("exactly_once").asBoolean();
    StreamsConfig config =
        CONFIGS.computeIfAbsent(
            List.of(
                exactlyOnce,
                history.get("max_task_idle_ms").asLong(),
                history.get("buffered_most").asInt()),
            CommitDecision::config);
    Map<String, SourceNode<?, ?>> sources = new HashMap<>();
    Set<TopicPartition> inputs = new HashSet<>();
    for (JsonNode each : history.get("partitions")) {
      inputs.add(Surroundings.partition(each.asText()));
      sources.put(
          each.asText(),
          new SourceNode<>(
              each.asText(), new ByteArrayDeserializer(), new ByteArrayDeserializer()));
    }
    for (Map.Entry<String, JsonNode> each : history.get("committed").properties()) {
      TopicPartition partition = Surroundings.partition(each.getKey());
      positions.put(partition, each.getValue().get(0).asLong());
      committed.put(
          partition, offset(each.getValue().get(0).asLong(), each.getValue().get(1).asLong()));
    }
    table = history.get("table").asBoolean() ? history.get("partitions").get(0).asText() : null;
    task = task(exactlyOnce, config, sources, inputs);
    task.initializeIfNeeded();
    task.completeRestoration(noResets -> {});
  }

  private StreamTask task(
      boolean exactlyOnce,
      StreamsConfig config,
      Map<String, SourceNode<?, ?>> sources,
      Set<TopicPartition> inputs) {
    Map<String, String> changelogs = table == null ? Map.of() : Map.of("table", table);
    ProcessorTopology topology =
        new ProcessorTopology(
            List.copyOf(sources.values()),
            sources,
            Map.of(),
            table == null ? List.of() : List.of(tableStore()),
            List.of(),
            changelogs,
            Set.of(),
            Map.of());
    ProcessorStateManager manager =
        new ProcessorStateManager(
            Surroundings.TASK,
            Task.TaskType.ACTIVE,
            exactlyOnce,
            Surroundings.LOG,
            DIRECTORY,
            changelogs,
            inputs);
    ThreadCache cache = new ThreadCache(Surroundings.LOG, 0, Surroundings.METRICS);
    TaskConfig taskConfig = new TopologyConfig(config).getTaskConfig();
    return new StreamTask(
        Surroundings.TASK,
        inputs,
        topology,
        consumer(),
        taskConfig,
        Surroundings.METRICS,
        DIRECTORY,
        cache,
        Time.SYSTEM,
        manager,
        collector(),
        new ProcessorContextImpl(
            Surroundings.TASK, config, manager, Surroundings.METRICS, cache),
        Surroundings.LOG,
        false);
  }

  private static StreamsConfig config(List<Object> settings) {
    Map<String, Object> all = new HashMap<>();
    if ((Boolean) settings.get(0)) {
      all.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    }
    all.put(StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, settings.get(1));
    all.put(StreamsConfig.BUFFERED_RECORDS_PER_PARTITION_CONFIG, settings.get(2));
    return Surroundings.config(all);
  }

  private static OffsetAndMetadata offset(long offset, long time) {
    return new OffsetAndMetadata(
        offset, new TopicPartitionMetadata(time, new ProcessorMetadata()).encode());
  }

  /** A consumer of which a task needs only positions, committed offsets and pauses. */
  @SuppressWarnings("unchecked")
  private Consumer<byte[], byte[]> consumer() {
    return Surroundings.stub(
        Consumer.class,
        (method, arguments) -> {
          switch (method) {
            case "position":
              return positions.get((TopicPartition) arguments[0]);
            case "committed":
              return committed;
            case "currentLag":
              return OptionalLong.of(0);
            case "pause":
              ((Collection<TopicPartition>) arguments[0]).forEach(each -> paused.add(each.topic()));
              return null;
            case "resume":
              ((Collection<TopicPartition>) arguments[0])
                  .forEach(each -> paused.remove(each.topic()));
              return null;
            default:
              return Surroundings.refuse(method);
          }
        });
  }

  @SuppressWarnings("unchecked")
  private StateStore tableStore() {
    return Surroundings.stub(
        StateStore.class,
        (method, arguments) -> {
          switch (method) {
            case "name":
              return "table";
            case "persistent":
            case "managesOffsets":
              return true;
            case "hashCode":
              return 0;
            case "init":
              ((StateStoreContext) arguments[0])
                  .register((StateStore) arguments[1], (key, value) -> {}, null);
              return null;
            case "commit":
              committedToTable = ((Map<TopicPartition, Long>) arguments[0]).get(
                  Surroundings.partition(table));
              return null;
            default:
              // It has no offset, and its changelog no records.
              return null;
          }
        });
  }

  private static RecordCollector collector() {
    return Surroundings.stub(
        RecordCollector.class,
        (method, arguments) -> {
          switch (method) {
            case "initialize":
            case "flush":
              return null;
            case "offsets":
              return Map.of();
            default:
              return Surroundings.refuse(method);
          }
        });
  }

  /** The answer to each step. */
  public static JsonNode answers(JsonNode history) throws ReflectiveOperationException {
    CommitDecision decision = new CommitDecision(history);
    ArrayNode answers = Surroundings.JSON.arrayNode();
    for (JsonNode step : history.get("steps")) {
      ObjectNode answer = answers.addObject();
      decision.committedToTable = null;
      decision.answer(step, answer);
      answer.put("table", decision.committedToTable);
      ArrayNode paused = answer.putArray("paused");
      decision.paused.forEach(paused::add);
    }
    return answers;
  }

  private void answer(JsonNode step, ObjectNode answer) throws ReflectiveOperationException {
    switch (step.get(0).asText()) {
      case "poll":
        task.resumePollingForPartitionsWithAvailableSpace();
        poll(step);
        break;
      case "process":
        if (task.process(step.get(1).asLong())) {
          AbstractPartitionGroup.RecordInfo info = Surroundings.privateField(task, "recordInfo");
          answer.put("processed", info.partition().topic());
        }
        break;
      case "commit":
        commit(answer);
        break;
      case "end":
        commit(answer);
        task.suspend();
        task.postCommit(true);
        break;
      default:
        throw new IllegalArgumentException("No step is called " + step.get(0));
    }
  }

  /** A poll brings records of some inputs, and positions, which also pass markers. */
  private void poll(JsonNode step) {
    for (Map.Entry<String, JsonNode> each : step.get(1).properties()) {
      TopicPartition partition = Surroundings.partition(each.getKey());
      JsonNode records = each.getValue().get(0);
      if (!records.isEmpty()) {
        task.addRecords(partition, Surroundings.records(each.getKey(), records));
      }
      long next = each.getValue().get(1).asLong();
      positions.put(partition, next);
      task.updateNextOffsets(partition, new OffsetAndMetadata(next, ""));
    }
    task.updateLags();
  }

  /** A periodic commit, as {@link TaskExecutor} makes it. */
  private void commit(ObjectNode answer) {
    boolean isNeeded = task.commitNeeded();
    answer.put("needed", isNeeded);
    ObjectNode offsets = answer.putObject("offsets");
    if (!isNeeded) {
      return;
    }
    task.prepareCommit(true)
        .forEach(
            (partition, each) ->
                offsets
                    .putArray(partition.topic())
                    .add(each.offset())
                    .add(TopicPartitionMetadata.decode(each.metadata()).partitionTime()));
    task.postCommit(false);
  }
}
