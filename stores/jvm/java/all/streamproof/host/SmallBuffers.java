package streamproof.host;

import java.util.Map;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.rocksdb.Options;

/**
 * Bounds the memory in which RocksDB keeps writes, so that flushes happen in short programs.
 *
 * <p>Without this class, Kafka's memtables of 16 MiB would hold whatever a check writes.
 */
public final class SmallBuffers implements RocksDBConfigSetter {
  /** The configuration with the largest size in bytes; Kafka's default if it is not there. */
  static final String BYTES = "streamproof.rocksdb.write.buffer.bytes";

  @Override
  public void setConfig(String store, Options options, Map<String, Object> configs) {
    Object bytes = configs.get(BYTES);
    if (bytes != null) {
      options.setWriteBufferSize((Long) bytes);
    }
  }

  @Override
  public void close(String store, Options options) {
    // Nothing was made that has to be closed.
  }
}
