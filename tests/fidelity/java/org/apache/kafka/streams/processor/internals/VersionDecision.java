package org.apache.kafka.streams.processor.internals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.streams.errors.TaskAssignmentException;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.StreamsAssignmentProtocolVersions;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;

/**
 * Asks a {@link StreamsPartitionAssignor} which metadata version its answer has, and which version
 * each member uses after it. {@link SubscriptionInfo} and {@link AssignmentInfo} encode and decode
 * reports and answers; a report that is newer than this release has only its two versions.
 */
public final class VersionDecision {
  private static final int LATEST = StreamsAssignmentProtocolVersions.LATEST_SUPPORTED_VERSION;
  private static final int UNKNOWN = StreamsAssignmentProtocolVersions.UNKNOWN;
  private static final ProcessId PROCESS = new ProcessId(new UUID(0, 0));

  private VersionDecision() {}

  /** The answer of the leader, and the next version of each member. */
  public static JsonNode answers(JsonNode history) throws ReflectiveOperationException {
    StreamsPartitionAssignor leader = assignor();
    int oldest = LATEST;
    int supported = LATEST;
    int future = UNKNOWN;
    // As StreamsPartitionAssignor#assign goes through the members.
    for (JsonNode each : history.get("members")) {
      SubscriptionInfo info = SubscriptionInfo.decode(report(each));
      oldest = (Integer) call(leader, "updateMinReceivedVersion", info.version(), oldest);
      supported =
          (Integer)
              call(leader, "updateMinSupportedVersion", info.latestSupportedVersion(), supported);
      if (info.version() > LATEST) {
        future = info.version();
      }
    }
    ObjectNode found = Surroundings.JSON.objectNode();
    found.put("latest", LATEST);
    try {
      found.put(
          "probing", (Boolean) call(leader, "checkMetadataVersions", oldest, supported, future));
    } catch (InvocationTargetException error) {
      if (error.getCause() instanceof TaskAssignmentException) {
        return found.put("refused", true);
      }
      throw error;
    }
    AssignmentInfo answer =
        AssignmentInfo.decode(
            new AssignmentInfo(oldest, supported, List.of(), Map.of(), Map.of(), Map.of(), 0)
                .encode());
    found.put("version", answer.version());
    found.put("commonly_supported", answer.commonlySupportedVersion());
    ArrayNode members = found.putArray("members");
    for (JsonNode each : history.get("members")) {
      StreamsPartitionAssignor member = assignor();
      member.usedSubscriptionMetadataVersion = each.get(0).asInt();
      boolean rejoins =
          member.maybeUpdateSubscriptionVersion(
              answer.version(), answer.commonlySupportedVersion());
      members.addArray().add(member.usedSubscriptionMetadataVersion).add(rejoins);
    }
    return found;
  }

  /** The report of a member, as bytes. */
  private static ByteBuffer report(JsonNode member) {
    int used = member.get(0).asInt();
    int supported = member.get(1).asInt();
    if (used > LATEST) {
      return ByteBuffer.allocate(2 * Integer.BYTES).putInt(used).putInt(supported);
    }
    return new SubscriptionInfo(used, supported, PROCESS, null, Map.of(), (byte) 0, 0, Map.of())
        .encode();
  }

  private static StreamsPartitionAssignor assignor() throws ReflectiveOperationException {
    StreamsPartitionAssignor assignor = new StreamsPartitionAssignor();
    Field log = StreamsPartitionAssignor.class.getDeclaredField("log");
    log.setAccessible(true);
    log.set(assignor, Surroundings.LOG.logger(StreamsPartitionAssignor.class));
    return assignor;
  }

  private static Object call(StreamsPartitionAssignor assignor, String name, Object... numbers)
      throws ReflectiveOperationException {
    Class<?>[] types = new Class<?>[numbers.length];
    Arrays.fill(types, int.class);
    Method method = StreamsPartitionAssignor.class.getDeclaredMethod(name, types);
    method.setAccessible(true);
    return method.invoke(assignor, numbers);
  }
}
