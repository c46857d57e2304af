package com.acme;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.concurrent.ConcurrentNavigableMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.zip.CRC32;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.internals.StoreQueryUtils;

/**
 * A right store: it keeps its rows in memory, and a commit writes them whole, with the offsets and
 * the position, into a new file that then takes the place of the old one.
 */
public class LedgerStore implements KeyValueStore<Bytes, byte[]> {
  public static final Map<String, Object> CAPABILITIES =
      Map.of(
          "transactional", true,
          "durability", "process",
          "iterator_view", "snapshot",
          "disposable_files", "LOCK");

  protected ConcurrentNavigableMap<Bytes, byte[]> rows = new ConcurrentSkipListMap<>();
  protected Map<TopicPartition, Long> offsets = new HashMap<>();
  protected Position position = Position.emptyPosition();
  protected volatile boolean open;
  protected Path directory;
  private StateStoreContext context;
  private FileChannel lock;

  @Override
  public String name() {
    return "ledger";
  }

  @Override
  public boolean persistent() {
    return true;
  }

  @Override
  public boolean isOpen() {
    return open;
  }

  @Override
  public void init(StateStoreContext context, StateStore root) {
    this.context = context;
    directory = new File(context.stateDir(), name()).toPath();
    try {
      Files.createDirectories(directory);
      lock();
      load();
    } catch (IOException error) {
      throw new ProcessorStateException("The files of the ledger cannot be read", error);
    }
    open = true;
    context.register(root, (key, value) -> set(Bytes.wrap(key), value));
  }

  private void lock() throws IOException {
    lock =
        FileChannel.open(
            directory.resolve("LOCK"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
    try {
      if (lock.tryLock() != null) {
        return;
      }
    } catch (OverlappingFileLockException taken) {
      // Another store in this process has it.
    }
    lock.close();
    throw new ProcessorStateException("The ledger is open elsewhere");
  }

  @Override
  public void close() {
    if (!open) {
      return;
    }
    open = false;
    try {
      lock.close();
    } catch (IOException error) {
      throw new ProcessorStateException("The ledger cannot be closed", error);
    }
  }

  protected final void requireOpen() {
    if (!open) {
      throw new InvalidStateStoreException("The ledger is not open");
    }
  }

  // Reading.

  @Override
  public byte[] get(Bytes key) {
    requireOpen();
    return rows.get(Objects.requireNonNull(key));
  }

  @Override
  public KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to) {
    requireOpen();
    return new Rows(between(rows, from, to), false);
  }

  @Override
  public KeyValueIterator<Bytes, byte[]> reverseRange(Bytes from, Bytes to) {
    requireOpen();
    return new Rows(between(rows, from, to), true);
  }

  @Override
  public KeyValueIterator<Bytes, byte[]> all() {
    return range(null, null);
  }

  @Override
  public KeyValueIterator<Bytes, byte[]> reverseAll() {
    return reverseRange(null, null);
  }

  @Override
  public <S extends Serializer<P>, P> KeyValueIterator<Bytes, byte[]> prefixScan(
      P prefix, S serializer) {
    requireOpen();
    Bytes first = Bytes.wrap(serializer.serialize(null, prefix));
    Bytes end = endOf(first);
    NavigableMap<Bytes, byte[]> tail = rows.tailMap(first, true);
    return new Rows(end == null ? tail : between(tail, null, end, false), false);
  }

  /** The first key behind those with a prefix; null if there is none. */
  protected Bytes endOf(Bytes prefix) {
    byte[] end = prefix.get().clone();
    for (int last = end.length - 1; last >= 0; last--) {
      end[last]++;
      if (end[last] != 0) {
        return Bytes.wrap(Arrays.copyOf(end, last + 1));
      }
    }
    return null;
  }

  @Override
  public long approximateNumEntries() {
    requireOpen();
    return rows.size();
  }

  protected NavigableMap<Bytes, byte[]> between(
      NavigableMap<Bytes, byte[]> all, Bytes from, Bytes to) {
    return between(all, from, to, true);
  }

  protected final NavigableMap<Bytes, byte[]> between(
      NavigableMap<Bytes, byte[]> all, Bytes from, Bytes to, boolean inclusive) {
    if (from != null && to != null && from.compareTo(to) > 0) {
      return new ConcurrentSkipListMap<>();
    }
    NavigableMap<Bytes, byte[]> tail = from == null ? all : all.tailMap(from, true);
    return to == null ? tail : tail.headMap(to, inclusive);
  }

  /** What an iterator walks through. */
  protected NavigableMap<Bytes, byte[]> seen(NavigableMap<Bytes, byte[]> found) {
    return new ConcurrentSkipListMap<>(found);
  }

  /** Refuse an iterator that is closed, or whose ledger is. */
  protected void requireUsable(boolean closed) {
    if (closed || !open) {
      throw new InvalidStateStoreException("The iterator or its ledger is closed");
    }
  }

  private final class Rows implements KeyValueIterator<Bytes, byte[]> {
    private final Iterator<Map.Entry<Bytes, byte[]>> entries;
    private Map.Entry<Bytes, byte[]> next;
    private boolean closed;

    Rows(NavigableMap<Bytes, byte[]> found, boolean backward) {
      NavigableMap<Bytes, byte[]> seen = seen(found);
      entries = (backward ? seen.descendingMap() : seen).entrySet().iterator();
    }

    @Override
    public boolean hasNext() {
      requireUsable(closed);
      if (next == null && entries.hasNext()) {
        next = entries.next();
      }
      return next != null;
    }

    @Override
    public KeyValue<Bytes, byte[]> next() {
      Bytes key = peekNextKey();
      byte[] value = next.getValue();
      next = null;
      return KeyValue.pair(key, value);
    }

    @Override
    public Bytes peekNextKey() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      return next.getKey();
    }

    @Override
    public void close() {
      closed = true;
    }
  }

  // Writing.

  @Override
  public void put(Bytes key, byte[] value) {
    requireOpen();
    set(Objects.requireNonNull(key), value);
    StoreQueryUtils.updatePosition(position, context);
  }

  @Override
  public byte[] putIfAbsent(Bytes key, byte[] value) {
    byte[] old = get(key);
    if (old == null) {
      put(key, value);
    }
    return old;
  }

  @Override
  public void putAll(List<KeyValue<Bytes, byte[]>> entries) {
    requireOpen();
    entries.forEach(each -> Objects.requireNonNull(each.key));
    entries.forEach(each -> put(each.key, each.value));
  }

  @Override
  public byte[] delete(Bytes key) {
    byte[] old = get(key);
    put(key, null);
    return old;
  }

  protected void set(Bytes key, byte[] value) {
    if (value == null) {
      rows.remove(key);
    } else {
      rows.put(key, value);
    }
  }

  // Committing.

  @Override
  public boolean managesOffsets() {
    return true;
  }

  @Override
  public Long committedOffset(TopicPartition partition) {
    requireOpen();
    return offsets.get(partition);
  }

  @Override
  public Position getPosition() {
    return position;
  }

  @Override
  public void flush() {
    // A commit writes everything.
  }

  @Override
  public void commit(Map<TopicPartition, Long> changelogOffsets) {
    requireOpen();
    Map<TopicPartition, Long> renewed = new HashMap<>();
    // An empty map forgets all offsets, and null forgets that of one partition.
    if (!changelogOffsets.isEmpty()) {
      renewed.putAll(offsets);
      renewed.putAll(changelogOffsets);
      renewed.values().removeIf(Objects::isNull);
    }
    try {
      save(renewed);
    } catch (IOException error) {
      throw new ProcessorStateException("The ledger cannot be written", error);
    }
    offsets = renewed;
  }

  protected void save(Map<TopicPartition, Long> renewed) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    writeOffsets(out, renewed);
    writePosition(out);
    writeRows(out);
    replace("ledger", bytes.toByteArray());
  }

  protected void load() throws IOException {
    byte[] content = read("ledger");
    if (content != null) {
      DataInputStream in = new DataInputStream(new ByteArrayInputStream(content));
      readOffsets(in);
      readPosition(in);
      readRows(in);
    }
  }

  protected void writeOffsets(DataOutputStream out, Map<TopicPartition, Long> renewed)
      throws IOException {
    out.writeInt(renewed.size());
    for (Map.Entry<TopicPartition, Long> each : renewed.entrySet()) {
      out.writeUTF(each.getKey().topic());
      out.writeInt(each.getKey().partition());
      out.writeLong(each.getValue());
    }
  }

  protected void readOffsets(DataInputStream in) throws IOException {
    for (int left = in.readInt(); left > 0; left--) {
      offsets.put(new TopicPartition(in.readUTF(), in.readInt()), in.readLong());
    }
  }

  protected void writePosition(DataOutputStream out) throws IOException {
    out.writeInt(position.getTopics().size());
    for (String topic : position.getTopics()) {
      Map<Integer, Long> found = position.getPartitionPositions(topic);
      out.writeUTF(topic);
      out.writeInt(found.size());
      for (Map.Entry<Integer, Long> each : found.entrySet()) {
        out.writeInt(each.getKey());
        out.writeLong(each.getValue());
      }
    }
  }

  protected void readPosition(DataInputStream in) throws IOException {
    for (int topics = in.readInt(); topics > 0; topics--) {
      String topic = in.readUTF();
      for (int left = in.readInt(); left > 0; left--) {
        position.withComponent(topic, in.readInt(), in.readLong());
      }
    }
  }

  protected void writeRows(DataOutputStream out) throws IOException {
    out.writeInt(rows.size());
    for (Map.Entry<Bytes, byte[]> each : rows.entrySet()) {
      writeBytes(out, each.getKey().get());
      writeBytes(out, each.getValue());
    }
  }

  protected void readRows(DataInputStream in) throws IOException {
    for (int left = in.readInt(); left > 0; left--) {
      rows.put(Bytes.wrap(readBytes(in)), readBytes(in));
    }
  }

  protected void writeBytes(DataOutputStream out, byte[] bytes) throws IOException {
    out.writeInt(bytes.length);
    out.write(bytes);
  }

  protected byte[] readBytes(DataInputStream in) throws IOException {
    return in.readNBytes(in.readInt());
  }

  /** Let a file with a checksum take the place of an older one, whole or not at all. */
  protected final void replace(String name, byte[] content) throws IOException {
    Path building = directory.resolve(name + ".new");
    try (FileChannel file =
        FileChannel.open(
            building,
            StandardOpenOption.CREATE,
            StandardOpenOption.TRUNCATE_EXISTING,
            StandardOpenOption.WRITE)) {
      CRC32 checksum = new CRC32();
      checksum.update(content);
      ByteBuffer whole = ByteBuffer.allocate(Long.BYTES + content.length);
      whole.putLong(checksum.getValue()).put(content).flip();
      while (whole.hasRemaining()) {
        file.write(whole);
      }
      file.force(true);
    }
    Files.move(building, directory.resolve(name), StandardCopyOption.ATOMIC_MOVE);
  }

  /** The content of a file; null if it was never written. */
  protected final byte[] read(String name) throws IOException {
    Path path = directory.resolve(name);
    if (!Files.exists(path)) {
      return null;
    }
    ByteBuffer whole = ByteBuffer.wrap(Files.readAllBytes(path));
    if (whole.remaining() < Long.BYTES) {
      throw new IOException("The file " + name + " is cut off");
    }
    long wanted = whole.getLong();
    byte[] content = new byte[whole.remaining()];
    whole.get(content);
    CRC32 checksum = new CRC32();
    checksum.update(content);
    if (checksum.getValue() != wanted) {
      throw new IOException("The file " + name + " is damaged");
    }
    return content;
  }
}
