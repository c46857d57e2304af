package streamproof.host;

import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;

/**
 * How a store of bytes keeps a value with its timestamp: eight bytes of timestamp before the value.
 * In an application the metered store around it does the same (ValueAndTimestampSerializer).
 */
final class Values {
  private final boolean stamped;

  Values(StateStore store) {
    stamped = store instanceof TimestampedBytesStore;
  }

  /** Whether the store keeps timestamps. */
  boolean areStamped() {
    return stamped;
  }

  /** The bytes that the store keeps. A store without timestamps keeps the value as it is. */
  byte[] stored(byte[] value, long timestamp) {
    if (value == null || !stamped) {
      return value;
    }
    return ByteBuffer.allocate(Long.BYTES + value.length).putLong(timestamp).put(value).array();
  }

  /** The value in what the store keeps, or the value with its timestamp. */
  Object answer(byte[] stored, boolean withTimestamp) {
    if (withTimestamp && !stamped) {
      throw new UnsupportedOperationException("This store keeps no timestamps.");
    }
    if (stored == null || !stamped) {
      return stored;
    }
    byte[] value = Arrays.copyOfRange(stored, Long.BYTES, stored.length);
    return withTimestamp ? Arrays.asList(value, ByteBuffer.wrap(stored).getLong()) : value;
  }
}
