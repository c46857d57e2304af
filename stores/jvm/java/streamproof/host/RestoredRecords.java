package streamproof.host;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.apache.kafka.streams.state.internals.RecordConverter;
import org.apache.kafka.streams.state.internals.RecordConverters;

/** Records of one partition of the changelog, as the runtime hands them to a store. */
final class RestoredRecords {
  private final String topic;
  private final int partition;
  private final RecordConverter converter;
  private final List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();

  RestoredRecords(Request request, StateStore store) {
    topic = request.text("topic");
    partition = request.number("partition");
    // The changelog has plain values. The runtime puts the timestamp of the record before each.
    converter =
        store instanceof TimestampedBytesStore
            ? RecordConverters.rawValueToTimestampedValue()
            : RecordConverters.identity();
    request.rows("entries").forEach(row -> records.add(converter.convert(record(row))));
  }

  List<ConsumerRecord<byte[], byte[]>> records() {
    return records;
  }

  /** The same as pairs, for stores that want no more. */
  List<KeyValue<byte[], byte[]>> pairs() {
    List<KeyValue<byte[], byte[]>> pairs = new ArrayList<>();
    records.forEach(record -> pairs.add(KeyValue.pair(record.key(), record.value())));
    return pairs;
  }

  private ConsumerRecord<byte[], byte[]> record(List<Object> row) {
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
        (Long) row.get(3),
        TimestampType.CREATE_TIME,
        key.length,
        value == null ? 0 : value.length,
        key,
        value,
        headers,
        Optional.empty());
  }
}
