package streamproof.host;

import java.util.List;
import java.util.Optional;
import java.util.function.LongUnaryOperator;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;

/** Records of one partition of the changelog in a request, as a consumer gives them. */
final class RestoredRecords {
  private RestoredRecords() {}

  static List<ConsumerRecord<byte[], byte[]>> of(Request request) {
    return of(request, timestamp -> timestamp);
  }

  /** The records, each with a timestamp that is made of its own. */
  static List<ConsumerRecord<byte[], byte[]>> of(Request request, LongUnaryOperator timestamp) {
    return request.rows("entries").stream()
        .map(row -> record(request.text("topic"), request.number("partition"), row, timestamp))
        .collect(Collectors.toList());
  }

  private static ConsumerRecord<byte[], byte[]> record(
      String topic, int partition, List<Object> row, LongUnaryOperator timestamp) {
    byte[] key = Request.bytes(row.get(0));
    byte[] value = Request.bytes(row.get(1));
    RecordHeaders headers = new RecordHeaders();
    for (Object each : (List<?>) row.get(4)) {
      List<?> header = (List<?>) each;
      headers.add((String) header.get(0), Request.bytes(header.get(1)));
    }
    return new ConsumerRecord<>(
        topic,
        partition,
        (Long) row.get(2),
        timestamp.applyAsLong((Long) row.get(3)),
        TimestampType.CREATE_TIME,
        key.length,
        value == null ? 0 : value.length,
        key,
        value,
        headers,
        Optional.empty());
  }
}
