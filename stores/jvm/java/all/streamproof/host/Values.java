package streamproof.host;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.TimestampedWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;

/** How a store takes and gives values: as bytes, with their timestamps in front, or as pairs. */
final class Values {
  /** What a store keeps of a value and its timestamp. */
  private interface Stamped {
    Object of(byte[] value, long timestamp);

    /** The value and the timestamp of what the store keeps. */
    List<Object> read(Object stored);
  }

  /** Eight bytes of timestamp before the value, as the metered store writes them. */
  private static final class InBytes implements Stamped {
    @Override
    public Object of(byte[] value, long timestamp) {
      return ByteBuffer.allocate(Long.BYTES + value.length).putLong(timestamp).put(value).array();
    }

    @Override
    public List<Object> read(Object stored) {
      byte[] all = (byte[]) stored;
      byte[] value = Arrays.copyOfRange(all, Long.BYTES, all.length);
      return Arrays.asList(value, ByteBuffer.wrap(all).getLong());
    }
  }

  /** Pairs, as a processor has them. */
  private static final class InPairs implements Stamped {
    @Override
    public Object of(byte[] value, long timestamp) {
      return ValueAndTimestamp.make(value, timestamp);
    }

    @Override
    public List<Object> read(Object stored) {
      ValueAndTimestamp<?> pair = (ValueAndTimestamp<?>) stored;
      return Arrays.asList(pair.value(), pair.timestamp());
    }
  }

  /** Null for a store without timestamps. */
  private final Stamped stamped;

  Values(StateStore store) {
    boolean isMetered =
        store instanceof TimestampedKeyValueStore || store instanceof TimestampedWindowStore;
    boolean isOfBytes = store instanceof TimestampedBytesStore;
    stamped = isMetered ? new InPairs() : isOfBytes ? new InBytes() : null;
  }

  /** Whether the store keeps timestamps. */
  boolean areStamped() {
    return stamped != null;
  }

  /** What the store is given. A store without timestamps is given the value alone. */
  Object stored(byte[] value, long timestamp) {
    return value == null || stamped == null ? value : stamped.of(value, timestamp);
  }

  /** The value in what the store gives, or the value with its timestamp. */
  Object answer(Object stored, boolean withTimestamp) {
    if (withTimestamp && stamped == null) {
      throw new UnsupportedOperationException("This store keeps no timestamps.");
    }
    if (stored == null || stamped == null) {
      return stored;
    }
    List<Object> read = stamped.read(stored);
    return withTimestamp ? read : read.get(0);
  }
}
