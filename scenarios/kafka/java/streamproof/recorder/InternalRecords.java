package streamproof.recorder;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * Reads the records of the internal topics of a broker, as Kafka's schemas OffsetCommitKey,
 * OffsetCommitValue, TransactionLogKey and TransactionLogValue have them.
 */
final class InternalRecords {
  private static final int NEWEST_OFFSET_KEY = 1;
  private static final int PREPARED_TO_COMMIT = 2;
  private static final int PREPARED_TO_ABORT = 3;
  private static final int FLEXIBLE = 1;

  private InternalRecords() {
  }

  /** Add the offset in a record to those of its group; other records of a group say nothing. */
  static void offset(byte[] key, byte[] value, Map<String, Map<String, Object>> offsets) {
    ByteBuffer name = ByteBuffer.wrap(key);
    if (name.getShort() > NEWEST_OFFSET_KEY || value == null) {
      return;
    }
    String group = text(name, name.getShort());
    String partition = text(name, name.getShort()) + "-" + name.getInt();
    long offset = ByteBuffer.wrap(value).getLong(Short.BYTES);
    offsets.computeIfAbsent(group, each -> new LinkedHashMap<>()).put(partition, offset);
  }

  /** Take in the state of a transaction, if the record says that it was decided. */
  static void transaction(byte[] key, byte[] value) {
    if (value == null) {
      return;
    }
    ByteBuffer name = ByteBuffer.wrap(key);
    if (name.getShort() != 0) {
      return;
    }
    String id = text(name, name.getShort());
    ByteBuffer state = ByteBuffer.wrap(value);
    int version = state.getShort();
    long producer = state.getLong();
    state.position(state.position() + Short.BYTES + Integer.BYTES);
    int status = state.get();
    if (status == PREPARED_TO_COMMIT || status == PREPARED_TO_ABORT) {
      boolean isFlexible = version >= FLEXIBLE;
      Transactions.decided(
          id, producer, status == PREPARED_TO_COMMIT, partitions(state, isFlexible));
    }
  }

  private static Set<String> partitions(ByteBuffer state, boolean isFlexible) {
    Set<String> found = new TreeSet<>();
    int topics = length(state, isFlexible);
    for (int topic = 0; topic < topics; topic++) {
      String name = text(state, isFlexible ? varint(state) - 1 : state.getShort());
      int partitions = length(state, isFlexible);
      for (int each = 0; each < partitions; each++) {
        found.add(name + "-" + state.getInt());
      }
      if (isFlexible) {
        skipTags(state);
      }
    }
    return found;
  }

  private static int length(ByteBuffer buffer, boolean isFlexible) {
    return isFlexible ? varint(buffer) - 1 : buffer.getInt();
  }

  private static void skipTags(ByteBuffer buffer) {
    int tags = varint(buffer);
    for (int each = 0; each < tags; each++) {
      varint(buffer);
      int size = varint(buffer);
      buffer.position(buffer.position() + size);
    }
  }

  private static int varint(ByteBuffer buffer) {
    int value = 0;
    int shift = 0;
    while (true) {
      int next = buffer.get();
      value |= (next & 0x7f) << shift;
      if (next >= 0) {
        return value;
      }
      shift += 7;
    }
  }

  private static String text(ByteBuffer buffer, int length) {
    byte[] bytes = new byte[length];
    buffer.get(bytes);
    return new String(bytes, StandardCharsets.UTF_8);
  }
}
