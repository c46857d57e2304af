package org.apache.kafka.clients.consumer.internals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.DisconnectException;
import org.apache.kafka.common.internals.ClusterResourceListeners;
import org.apache.kafka.common.message.ListOffsetsRequestData;
import org.apache.kafka.common.message.ListOffsetsResponseData;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponsePartition;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponseTopic;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.ListOffsetsRequest;
import org.apache.kafka.common.requests.ListOffsetsResponse;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.internals.Surroundings;

/**
 * Asks the {@link OffsetFetcher} of a classic consumer for its lag, which asks its {@link
 * SubscriptionState}. Requests go no further than {@link Requests}, where a history answers them.
 */
public final class LagDecision {
  private static final LogContext LOG = new LogContext("");
  private static final Node BROKER = new Node(0, "127.0.0.1", 9092);
  private static final TopicPartition PARTITION = Surroundings.partition("in");
  private static final MetadataResponse METADATA = metadataResponse();

  private final SubscriptionState subscriptions =
      new SubscriptionState(LOG, AutoOffsetResetStrategy.EARLIEST);
  private final Requests requests = new Requests();
  private final OffsetFetcher fetcher;

  private LagDecision(IsolationLevel isolation) {
    subscriptions.assignFromUser(Set.of(PARTITION));
    ConsumerMetadata metadata =
        new ConsumerMetadata(
            100, 1000, 300_000, false, false, subscriptions, LOG, new ClusterResourceListeners());
    metadata.updateWithCurrentRequestVersion(METADATA, false, 0);
    fetcher =
        new OffsetFetcher(
            LOG,
            requests,
            metadata,
            subscriptions,
            Time.SYSTEM,
            100,
            30_000,
            isolation,
            new ApiVersions());
  }

  private static MetadataResponse metadataResponse() {
    MetadataResponsePartition partition =
        new MetadataResponsePartition()
            .setPartitionIndex(0)
            .setLeaderId(0)
            .setReplicaNodes(List.of(0))
            .setIsrNodes(List.of(0));
    MetadataResponseTopic topic =
        new MetadataResponseTopic()
            .setName(PARTITION.topic())
            .setPartitions(List.of(partition));
    return MetadataResponse.prepareResponse(true, 0, List.of(BROKER), "id", 0, List.of(topic), 0);
  }

  /** The way to the brokers, which ends here: requests wait for their answers. */
  private static final class Requests extends ConsumerNetworkClient {
    private final Deque<RequestFuture<ClientResponse>> pending = new ArrayDeque<>();
    private IsolationLevel isolation;

    Requests() {
      super(LOG, null, null, Time.SYSTEM, 100, 30_000, 1_000);
    }

    @Override
    public RequestFuture<ClientResponse> send(Node node, AbstractRequest.Builder<?> builder) {
      ListOffsetsRequest.Builder request = (ListOffsetsRequest.Builder) builder;
      ListOffsetsRequestData data = request.build().data();
      isolation = IsolationLevel.forId(data.isolationLevel());
      pending.add(new RequestFuture<>());
      return pending.getLast();
    }

    @Override
    public boolean isUnavailable(Node node) {
      return false;
    }

    void answer(long end) {
      ListOffsetsResponseData data = new ListOffsetsResponseData();
      data.topics()
          .add(
              ListOffsetsResponse.singletonListOffsetsTopicResponse(
                  PARTITION, Errors.NONE, ListOffsetsResponse.UNKNOWN_TIMESTAMP, end, 0));
      ClientResponse response =
          new ClientResponse(
              null, null, "0", 0, 0, false, null, null, new ListOffsetsResponse(data));
      pending.remove().complete(response);
    }
  }

  /** The lag at each step that asks for it, and the isolation level of a request for the end. */
  public static JsonNode answers(JsonNode history) {
    LagDecision decision =
        new LagDecision(IsolationLevel.valueOf(history.get("isolation").asText().toUpperCase()));
    ArrayNode answers = Surroundings.JSON.arrayNode();
    for (JsonNode step : history.get("steps")) {
      ObjectNode answer = answers.addObject();
      decision.answer(step, answer);
    }
    return answers;
  }

  private void answer(JsonNode step, ObjectNode answer) {
    switch (step.get(0).asText()) {
      case "assign":
        subscriptions.assignFromUser(Set.of());
        subscriptions.assignFromUser(Set.of(PARTITION));
        break;
      case "seek":
        subscriptions.seek(PARTITION, step.get(1).asLong());
        break;
      case "lose":
        subscriptions.requestOffsetReset(PARTITION);
        break;
      case "fetched":
        // As FetchCollector does it, with an answer that has both ends.
        if (subscriptions.hasValidPosition(PARTITION)) {
          subscriptions.position(
              PARTITION,
              new SubscriptionState.FetchPosition(step.get(1).asLong()));
        }
        subscriptions.updateHighWatermark(PARTITION, step.get(2).asLong());
        subscriptions.updateLastStableOffset(PARTITION, step.get(3).asLong());
        break;
      case "answer":
        answer.put("pending", !requests.pending.isEmpty());
        if (!requests.pending.isEmpty()) {
          requests.answer(step.get(1).asLong());
        }
        break;
      case "fail":
        answer.put("pending", !requests.pending.isEmpty());
        if (!requests.pending.isEmpty()) {
          requests.pending.remove().raise(DisconnectException.INSTANCE);
        }
        break;
      case "lag":
        int before = requests.pending.size();
        OptionalLong lag = fetcher.currentLag(PARTITION);
        if (lag.isPresent()) {
          answer.put("lag", lag.getAsLong());
        }
        if (requests.pending.size() > before) {
          answer.put("asked", requests.isolation.toString());
        }
        break;
      default:
        throw new IllegalArgumentException("No step is called " + step.get(0));
    }
  }
}
