package org.apache.kafka.streams.processor.internals.assignment;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.Surroundings;

/**
 * Asks the {@link HighAvailabilityTaskAssignor} where tasks go, and a {@link ClientState} for the
 * lag of each client, which the assignor takes.
 */
public final class AssignmentDecision {
  private static final long PROBING_INTERVAL_MS = 600_000;

  private AssignmentDecision() {}

  /** The tasks and the lags of each client, in their order, and whether the group looks again. */
  public static JsonNode answers(JsonNode history) {
    Map<TaskId, Long> ends = numbers(history.get("ends"));
    Map<ProcessId, ClientState> clients = new LinkedHashMap<>();
    for (JsonNode each : history.get("clients")) {
      ProcessId process = new ProcessId(new UUID(0, clients.size()));
      clients.put(process, client(process, each, ends));
    }
    Set<TaskId> all = new HashSet<>(ends.keySet());
    history.get("stateless").forEach(each -> all.add(TaskId.parse(each.asText())));
    AssignmentConfigs configs =
        new AssignmentConfigs(
            history.get("acceptable_recovery_lag").asLong(),
            history.get("max_warmup_replicas").asInt(),
            history.get("num_standby_replicas").asInt(),
            PROBING_INTERVAL_MS,
            List.of());
    boolean probing =
        new HighAvailabilityTaskAssignor()
            .assign(clients, all, ends.keySet(), withoutRacks(configs), configs);
    ObjectNode found = Surroundings.JSON.objectNode();
    found.put("probing", probing);
    ArrayNode shares = found.putArray("clients");
    for (ClientState each : clients.values()) {
      ObjectNode share = shares.addObject();
      ArrayNode active = share.putArray("active");
      each.activeTasks().forEach(task -> active.add(task.toString()));
      ArrayNode standby = share.putArray("standby");
      each.standbyTasks().forEach(task -> standby.add(task.toString()));
      ObjectNode lags = share.putObject("lags");
      ends.keySet().forEach(task -> lags.put(task.toString(), each.lagFor(task)));
    }
    return found;
  }

  private static ClientState client(ProcessId process, JsonNode each, Map<TaskId, Long> ends) {
    ClientState client = new ClientState(process, Map.of());
    for (int thread = 0; thread < each.get("threads").asInt(); thread++) {
      client.incrementCapacity();
    }
    client.addPreviousTasksAndOffsetSums("consumer", numbers(each.get("sums")));
    client.initializePrevTasks(Map.of(), false);
    client.computeTaskLags(process, ends);
    return client;
  }

  private static Map<TaskId, Long> numbers(JsonNode byTask) {
    Map<TaskId, Long> found = new TreeMap<>();
    for (Map.Entry<String, JsonNode> each : byTask.properties()) {
      found.put(TaskId.parse(each.getKey()), each.getValue().asLong());
    }
    return found;
  }

  private static RackAwareTaskAssignor withoutRacks(AssignmentConfigs configs) {
    return new RackAwareTaskAssignor(
        Cluster.empty(), Map.of(), Map.of(), Map.of(), Map.of(), null, configs, Time.SYSTEM);
  }
}
