package org.apache.kafka.streams.processor.internals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.internals.MarkedOffsets;
import org.apache.kafka.streams.state.internals.OffsetCheckpoint;
import org.apache.kafka.streams.state.internals.ThreadCache;

/**
 * Opens, commits and closes tasks, and asks what is wiped, where restorations begin, and which
 * commits reach a store: {@link StreamTask}, {@link StandbyTask}, {@link ProcessorStateManager} and
 * {@link StateManagerUtil} decide. A kill forgets the task, and what its stores have not flushed.
 */
public final class OpeningDecision {
  private static final File STATE = temporaryDirectory();
  private static final Map<Boolean, StreamsConfig> CONFIGS =
      Map.of(
          false, config(StreamsConfig.AT_LEAST_ONCE),
          true, config(StreamsConfig.EXACTLY_ONCE_V2));
  private static final StateDirectory DIRECTORY =
      new StateDirectory(CONFIGS.get(false), Time.SYSTEM, true, false);

  private static final Set<TopicPartition> INPUTS = Set.of(Surroundings.partition("in"));

  private final boolean isExactlyOnce;
  private final boolean isActive;
  private final JsonNode declared;
  private final Map<String, Map<String, byte[]>> disks = new HashMap<>();
  private final Map<String, OpeningStore> stores = new HashMap<>();
  private final Map<TopicPartition, Long> written = new HashMap<>();
  private ProcessorStateManager manager;
  private AbstractTask task;

  private OpeningDecision(JsonNode history) {
    isExactlyOnce = history.get("exactly_once").asBoolean();
    isActive = history.get("active").asBoolean();
    declared = history.get("stores");
    for (Map.Entry<String, JsonNode> each : declared.properties()) {
      if (each.getValue().get("keeps_offsets").asBoolean()) {
        disks.put(each.getKey(), new HashMap<>());
      }
    }
  }

  private static File temporaryDirectory() {
    try {
      File made = Files.createTempDirectory("streamproof-decisions-").toFile();
      Runtime.getRuntime().addShutdownHook(new Thread(() -> delete(made)));
      return made;
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private static void delete(File directory) {
    try {
      Utils.delete(directory);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private static StreamsConfig config(String guarantee) {
    return Surroundings.config(
        Map.of(
            StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee,
            StreamsConfig.STATE_DIR_CONFIG, STATE.getPath()));
  }

  /** The answer to each step. */
  public static JsonNode answers(JsonNode history) throws IOException {
    OpeningDecision decision = new OpeningDecision(history);
    ArrayNode answers = Surroundings.JSON.arrayNode();
    try {
      for (JsonNode step : history.get("steps")) {
        ObjectNode answer = answers.addObject();
        decision.answer(step, answer);
        decision.tellCommits(answer);
      }
    } finally {
      DIRECTORY.unlock(Surroundings.TASK);
      delete(DIRECTORY.getOrCreateDirectoryForTask(Surroundings.TASK));
    }
    return answers;
  }

  private void answer(JsonNode step, ObjectNode answer) throws IOException {
    if (task != null && task.state() == Task.State.CLOSED && !step.get(0).asText().equals("open")) {
      // Its stores were corrupted, so what was to happen next does not.
      return;
    }
    switch (step.get(0).asText()) {
      case "open":
        open(answer);
        break;
      case "write":
        written.put(changelog(step.get(1).asText()), step.get(2).asLong());
        break;
      case "flush":
        stores.get(step.get(1).asText()).flushToDisk();
        break;
      case "restored":
        task.stateManager().updateChangelogOffsets(written);
        task.maybeCheckpoint();
        break;
      case "run":
        if (isActive) {
          task.completeRestoration(noResets -> {});
        }
        break;
      case "commit":
        task.prepareCommit(true);
        task.postCommit(false);
        break;
      case "close":
        close(step.get(1).asText());
        tellWiped(answer);
        break;
      case "kill":
        stores.clear();
        DIRECTORY.unlock(Surroundings.TASK);
        break;
      default:
        throw new IllegalArgumentException("No step is called " + step.get(0));
    }
  }

  private static TopicPartition changelog(String store) {
    return Surroundings.partition(store + "-changelog");
  }

  /** Open the task; tell first what there is, then what Kafka makes of it. */
  private void open(ObjectNode answer) throws IOException {
    written.clear();
    answer.put("empty", DIRECTORY.directoryForTaskIsEmpty(Surroundings.TASK));
    ObjectNode found = answer.putObject("found");
    for (Map.Entry<String, JsonNode> each : declared.properties()) {
      ObjectNode store = found.putObject(each.getKey());
      store.put("offset", offsetOf(each.getKey(), each.getValue()));
      Map<String, byte[]> disk = disks.get(each.getKey());
      store.put("unclean", disk != null && MarkedOffsets.isMarkedOpen(disk));
    }
    task = newTask();
    try {
      task.initializeIfNeeded();
    } catch (TaskCorruptedException corrupted) {
      answer.put("corrupted", true);
      close("corrupted");
      tellWiped(answer);
      return;
    }
    answer.put("corrupted", false);
    ObjectNode starts = answer.putObject("starts");
    manager
        .changelogOffsets()
        .forEach((changelog, next) -> starts.put(changelog.topic().split("-")[0], next));
  }

  /** The committed offset that the files of a store have, or null. */
  private Long offsetOf(String name, JsonNode store) throws IOException {
    Map<String, byte[]> disk = disks.get(name);
    if (disk != null) {
      return MarkedOffsets.offsetOn(disk, changelog(name));
    }
    if (!store.get("persistent").asBoolean()) {
      return null;
    }
    File directory = DIRECTORY.getOrCreateDirectoryForTask(Surroundings.TASK);
    return new OffsetCheckpoint(new File(directory, ".checkpoint_" + name))
        .read()
        .get(changelog(name));
  }

  private AbstractTask newTask() {
    StreamsConfig config = CONFIGS.get(isExactlyOnce);
    Map<String, String> changelogs = new HashMap<>();
    List<StateStore> all = new ArrayList<>();
    stores.clear();
    for (Map.Entry<String, JsonNode> each : declared.properties()) {
      String name = each.getKey();
      boolean isPersistent = each.getValue().get("persistent").asBoolean();
      OpeningStore store = new OpeningStore(name, isPersistent, isExactlyOnce, disks.get(name));
      stores.put(name, store);
      all.add(store);
      if (each.getValue().get("logged").asBoolean()) {
        changelogs.put(name, changelog(name).topic());
      }
    }
    SourceNode<?, ?> source =
        new SourceNode<>("in", new ByteArrayDeserializer(), new ByteArrayDeserializer());
    ProcessorTopology topology =
        new ProcessorTopology(
            List.of(source),
            Map.of("in", source),
            Map.of(),
            all,
            List.of(),
            changelogs,
            Set.of(),
            Map.of());
    manager =
        new ProcessorStateManager(
            Surroundings.TASK,
            isActive ? Task.TaskType.ACTIVE : Task.TaskType.STANDBY,
            isExactlyOnce,
            Surroundings.LOG,
            DIRECTORY,
            changelogs,
            Set.of());
    ThreadCache cache = new ThreadCache(Surroundings.LOG, 0, Surroundings.METRICS);
    ProcessorContextImpl context =
        new ProcessorContextImpl(
            Surroundings.TASK, config, manager, Surroundings.METRICS, cache);
    TopologyConfig.TaskConfig taskConfig = new TopologyConfig(config).getTaskConfig();
    if (!isActive) {
      return new StandbyTask(
          Surroundings.TASK,
          Set.of(),
          topology,
          taskConfig,
          Surroundings.METRICS,
          manager,
          DIRECTORY,
          cache,
          context);
    }
    return new StreamTask(
        Surroundings.TASK,
        INPUTS,
        topology,
        consumer(),
        taskConfig,
        Surroundings.METRICS,
        DIRECTORY,
        cache,
        Time.SYSTEM,
        manager,
        collector(),
        context,
        Surroundings.LOG,
        false);
  }

  private static Consumer<byte[], byte[]> consumer() {
    return Surroundings.stub(
        Consumer.class,
        (method, arguments) -> {
          switch (method) {
            case "committed":
              return Map.of();
            case "currentLag":
              return OptionalLong.empty();
            default:
              return Surroundings.refuse(method);
          }
        });
  }

  private RecordCollector collector() {
    return Surroundings.stub(
        RecordCollector.class,
        (method, arguments) -> method.equals("offsets") ? Map.copyOf(written) : null);
  }

  /** End the task, as {@link TaskManager} does it. */
  private void close(String how) {
    switch (how) {
      case "clean":
        task.prepareCommit(true);
        task.suspend();
        task.postCommit(true);
        task.closeClean();
        break;
      case "dirty":
        task.prepareCommit(false);
        task.suspend();
        task.closeDirty();
        break;
      case "corrupted":
        task.markChangelogAsCorrupted(task.changelogPartitions());
        task.prepareCommit(false);
        task.suspend();
        task.postCommit(true);
        task.closeDirty();
        break;
      default:
        throw new IllegalArgumentException("No task ends " + how);
    }
  }

  /** Tell whether the directory of the task is gone, and with it the files of its stores. */
  private void tellWiped(ObjectNode answer) {
    boolean isWiped = !new File(new File(STATE, "decisions"), "0_0").exists();
    answer.put("wiped", isWiped);
    if (isWiped) {
      disks.values().forEach(Map::clear);
    }
  }

  /** Tell which offsets were committed to which store during a step. */
  private void tellCommits(ObjectNode answer) {
    ObjectNode commits = answer.putObject("commits");
    stores.forEach(
        (name, store) -> {
          if (!store.commits.isEmpty()) {
            ArrayNode offsets = commits.putArray(name);
            store.commits.forEach(each -> offsets.add(each.get(changelog(name))));
            store.commits.clear();
          }
        });
  }
}
