package streamproof.application;

import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Deserializer;

/** Reads values as they are, but for those that a scenario calls unreadable. */
final class ValueReader implements Deserializer<byte[]> {
  private static final String UNREADABLE = "unreadable:";

  @Override
  public byte[] deserialize(String topic, byte[] value) {
    if (value != null && Texts.text(value).startsWith(UNREADABLE)) {
      throw new SerializationException("The value cannot be read.");
    }
    return value;
  }
}
