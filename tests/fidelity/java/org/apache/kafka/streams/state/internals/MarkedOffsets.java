package org.apache.kafka.streams.state.internals;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.processor.internals.Surroundings;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.NoColumnFamily;
import org.rocksdb.RocksDBException;

/**
 * The offsets of a {@link RocksDBStore}, and the mark that it is open, as its {@link
 * AbstractColumnFamilyAccessor} keeps them; but the database is a map. What is written reaches the
 * disk with a flush, at the latest when the store is closed; a kill loses the rest.
 */
public final class MarkedOffsets {
  private static final ColumnFamilyHandle FAMILY = new NoColumnFamily();
  private static final String STATUS = Arrays.toString(bytes("status"));

  private final Map<String, byte[]> disk;
  private final Map<String, byte[]> memory;
  private final RocksDBStore.DBAccessor database;
  private final RocksDBStore.ColumnFamilyAccessor accessor;

  /** The offsets of a store, given what its disk has. */
  public MarkedOffsets(String name, Map<String, byte[]> disk) {
    this.disk = disk;
    memory = new HashMap<>(disk);
    database = Surroundings.stub(RocksDBStore.DBAccessor.class, this::call);
    accessor = new RocksDBStore(name, "scope").new SingleColumnFamilyAccessor(FAMILY, FAMILY);
  }

  private Object call(String method, Object[] arguments) {
    String key = Arrays.toString((byte[]) arguments[1]);
    switch (method) {
      case "get":
        return memory.get(key);
      case "put":
        return memory.put(key, (byte[]) arguments[2]);
      case "delete":
        return memory.remove(key);
      default:
        return Surroundings.refuse(method);
    }
  }

  private static byte[] bytes(String text) {
    try (StringSerializer serializer = new StringSerializer()) {
      return serializer.serialize(null, text);
    }
  }

  /** Whether what a disk has says that its store was not closed. */
  public static boolean isMarkedOpen(Map<String, byte[]> disk) {
    byte[] status = disk.get(STATUS);
    return status != null && status[status.length - 1] == 1;
  }

  /** The committed offset that a disk has, or null. */
  public static Long offsetOn(Map<String, byte[]> disk, TopicPartition partition) {
    return new MarkedOffsets("reader", disk).committedOffset(partition);
  }

  /** Open the store, as {@link RocksDBStore#openDB} does it. */
  public void open(boolean exactlyOnce) {
    try {
      accessor.open(database, !exactlyOnce);
    } catch (RocksDBException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Commit offsets; without any, forget all. */
  public void commit(Map<TopicPartition, Long> offsets) {
    if (offsets.isEmpty()) {
      memory.keySet().removeIf(key -> !key.equals(STATUS));
      return;
    }
    try {
      accessor.commit(database, offsets);
    } catch (RocksDBException error) {
      throw new IllegalStateException(error);
    }
  }

  /** The committed offset of a changelog, or null. */
  public Long committedOffset(TopicPartition partition) {
    try {
      return accessor.getCommittedOffset(database, partition);
    } catch (RocksDBException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Write to the disk what it lacks. */
  public void flush() {
    disk.clear();
    disk.putAll(memory);
  }

  /** Close the store, which flushes it. */
  public void close() {
    try {
      accessor.close(database);
    } catch (RocksDBException error) {
      throw new IllegalStateException(error);
    }
    flush();
  }
}
