package com.acme.state;

import java.io.File;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.h2.mvstore.MVMap;
import org.h2.mvstore.MVStore;
import org.h2.mvstore.MVStoreException;
import org.h2.mvstore.type.ByteArrayDataType;

/**
 * A key-value store on H2's MVStore that keeps its own changelog offsets (KIP-1035).
 *
 * <p>Rows, offsets and the position are three maps of one file. A commit of MVStore appends the
 * changes of all maps in one piece with a checksum: after a crash the piece counts as a whole or
 * not at all. So the offsets always belong to the rows.
 */
class MvKeyValueStore implements KeyValueStore<Bytes, byte[]> {
  private final String name;
  private StateStoreContext context;
  private MVStore file;
  private MVMap<byte[], byte[]> rows;
  private MVMap<String, Long> offsets;
  private MVMap<String, Long> positions;
  private Position position;
  private volatile boolean isOpen;

  MvKeyValueStore(String name) {
    this.name = name;
  }

  // What the runtime calls.

  @Override
  public String name() {
    return name;
  }

  @Override
  public void init(StateStoreContext context, StateStore root) {
    this.context = context;
    file = openFile(context.stateDir());
    rows =
        file.openMap(
            "rows",
            new MVMap.Builder<byte[], byte[]>()
                .keyType(ByteArrayDataType.INSTANCE)
                .valueType(ByteArrayDataType.INSTANCE));
    offsets = file.openMap("offsets");
    positions = file.openMap("positions");
    position = Position.emptyPosition();
    positions.forEach(this::addToPosition);
    isOpen = true;
    context.register(root, (key, value) -> write(key, value));
  }

  /** The file, which MVStore writes at a commit and at no other time. */
  MVStore openFile(File stateDir) {
    return MvFiles.open(stateDir, name, MVStore.Builder::autoCommitDisabled);
  }

  @Override
  public void commit(Map<TopicPartition, Long> changelogOffsets) {
    requireOpen();
    try {
      stage(changelogOffsets, offsets);
      position.getTopics().forEach(this::stagePosition);
      file.commit();
      // A later commit builds on this one. After a loss of power it must not be there alone.
      file.sync();
    } catch (MVStoreException error) {
      throw new ProcessorStateException("Store " + name + " cannot write its file", error);
    }
  }

  /** Since Kafka 4.3 an empty map forgets all offsets, and null forgets that of one partition. */
  static void stage(Map<TopicPartition, Long> changelogOffsets, Map<String, Long> offsets) {
    if (changelogOffsets.isEmpty()) {
      offsets.clear();
    }
    changelogOffsets.forEach(
        (partition, offset) -> offsets.compute(partition.toString(), (name, old) -> offset));
  }

  @Override
  public Long committedOffset(TopicPartition partition) {
    requireOpen();
    return offsets.get(partition.toString());
  }

  @Override
  public void close() {
    if (isOpen) {
      isOpen = false;
      // MVStore would commit rows that the runtime has not committed: take them back.
      file.rollback();
      file.close();
    }
  }

  @Override
  public boolean persistent() {
    return true;
  }

  // Kafka 4.3 asks this of every store, and plans to ask no longer.
  @Override
  @SuppressWarnings("deprecation")
  public boolean managesOffsets() {
    return true;
  }

  @Override
  public boolean isOpen() {
    return isOpen;
  }

  @Override
  public Position getPosition() {
    return position;
  }

  // What a processor calls.

  @Override
  public byte[] get(Bytes key) {
    requireOpen();
    return rows.get(bytesOf(key));
  }

  @Override
  public void put(Bytes key, byte[] value) {
    requireOpen();
    write(bytesOf(key), value);
    followInput();
  }

  @Override
  public byte[] putIfAbsent(Bytes key, byte[] value) {
    byte[] found = get(key);
    if (found == null) {
      put(key, value);
    }
    return found;
  }

  @Override
  public void putAll(List<KeyValue<Bytes, byte[]>> entries) {
    requireOpen();
    // A key of null shall leave nothing behind of the entries before it.
    entries.forEach(entry -> bytesOf(entry.key));
    entries.forEach(entry -> put(entry.key, entry.value));
  }

  @Override
  public byte[] delete(Bytes key) {
    byte[] found = get(key);
    put(key, null);
    return found;
  }

  @Override
  public KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to) {
    return scan(from, to, false);
  }

  @Override
  public KeyValueIterator<Bytes, byte[]> reverseRange(Bytes from, Bytes to) {
    return scan(to, from, true);
  }

  @Override
  public KeyValueIterator<Bytes, byte[]> all() {
    return scan(null, null, false);
  }

  @Override
  public KeyValueIterator<Bytes, byte[]> reverseAll() {
    return scan(null, null, true);
  }

  @Override
  public <S extends Serializer<P>, P> KeyValueIterator<Bytes, byte[]> prefixScan(
      P prefix, S serializer) {
    requireOpen();
    byte[] start = serializer.serialize(null, prefix);
    // An upper bound would not do: there is none for the prefix 0xFF.
    return new MvIterator(
        this, file, rows.cursor(start, null, false), key -> startsWith(key, start));
  }

  @Override
  public long approximateNumEntries() {
    requireOpen();
    return rows.sizeAsLong();
  }

  private KeyValueIterator<Bytes, byte[]> scan(Bytes first, Bytes last, boolean reverse) {
    requireOpen();
    byte[] start = first == null ? null : first.get();
    byte[] end = last == null ? null : last.get();
    return new MvIterator(this, file, rows.cursor(start, end, reverse), key -> true);
  }

  private static boolean startsWith(byte[] key, byte[] prefix) {
    return key.length >= prefix.length
        && Arrays.equals(key, 0, prefix.length, prefix, 0, prefix.length);
  }

  private void write(byte[] key, byte[] value) {
    if (value == null) {
      rows.remove(key);
    } else {
      rows.put(key, value);
    }
  }

  /** The position follows the input record that is being processed. */
  private void followInput() {
    context.recordMetadata().ifPresent(this::follow);
  }

  private void follow(RecordMetadata input) {
    position.withComponent(input.topic(), input.partition(), input.offset());
  }

  private void stagePosition(String topic) {
    position
        .getPartitionPositions(topic)
        .forEach((partition, offset) -> positions.put(topic + "-" + partition, offset));
  }

  private void addToPosition(String partition, long offset) {
    int dash = partition.lastIndexOf('-');
    position.withComponent(
        partition.substring(0, dash), Integer.parseInt(partition.substring(dash + 1)), offset);
  }

  private static byte[] bytesOf(Bytes key) {
    return Objects.requireNonNull(key, "the key is null").get();
  }

  final void requireOpen() {
    if (!isOpen) {
      throw new InvalidStateStoreException("Store " + name + " is not open");
    }
  }
}
