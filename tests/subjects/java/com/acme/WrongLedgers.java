package com.acme;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Objects;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.query.Position;

/** Stores with one mistake each; {@link LedgerStore} is right in all of these points. */
public final class WrongLedgers {
  private WrongLedgers() {}

  private interface Part {
    void write(DataOutputStream out) throws IOException;
  }

  private static byte[] bytesOf(Part part) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    part.write(new DataOutputStream(bytes));
    return bytes.toByteArray();
  }

  private static DataInputStream reader(byte[] content) {
    return new DataInputStream(new ByteArrayInputStream(content));
  }

  /** Has the offsets in a file of their own. */
  private abstract static class TwoFiles extends LedgerStore {
    final void saveRows() throws IOException {
      replace("rows", bytesOf(this::writeRows));
    }

    final void saveOffsets(Map<TopicPartition, Long> renewed) throws IOException {
      byte[] content =
          bytesOf(
              out -> {
                writeOffsets(out, renewed);
                writePosition(out);
              });
      replace("offsets", content);
    }

    @Override
    protected final void load() throws IOException {
      byte[] found = read("offsets");
      if (found != null) {
        DataInputStream in = reader(found);
        readOffsets(in);
        readPosition(in);
      }
      byte[] saved = read("rows");
      if (saved != null) {
        readRows(reader(saved));
      }
    }
  }

  /** Writes the offsets before the rows: after a kill in between, rows are lost for ever. */
  public static final class OffsetsFirst extends TwoFiles {
    @Override
    protected void save(Map<TopicPartition, Long> renewed) throws IOException {
      saveOffsets(renewed);
      saveRows();
    }
  }

  /** Writes the rows before the offsets: after a kill in between, a commit is there by half. */
  public static final class RowsFirst extends TwoFiles {
    @Override
    protected void save(Map<TopicPartition, Long> renewed) throws IOException {
      saveRows();
      saveOffsets(renewed);
    }
  }

  /** Reads through a cache that the write of a batch passes by. */
  public static final class StaleCache extends LedgerStore {
    private final Map<Bytes, byte[]> cache = new HashMap<>();

    @Override
    public byte[] get(Bytes key) {
      requireOpen();
      return cache.computeIfAbsent(Objects.requireNonNull(key), rows::get);
    }

    @Override
    public void put(Bytes key, byte[] value) {
      super.put(key, value);
      cache.remove(key);
    }

    @Override
    public void putAll(List<KeyValue<Bytes, byte[]>> entries) {
      entries.forEach(each -> Objects.requireNonNull(each.key));
      entries.forEach(each -> super.put(each.key, each.value));
    }
  }

  /** Lets an open iterator see what is written after it was opened, and claims that it does not. */
  public static final class LiveIterator extends LedgerStore {
    @Override
    protected NavigableMap<Bytes, byte[]> seen(NavigableMap<Bytes, byte[]> found) {
      return found;
    }
  }

  /** Writes what was put, and forgets what was deleted: deleted rows come back. */
  public static final class LostTombstone extends LedgerStore {
    private final Map<Bytes, byte[]> written = new HashMap<>();

    @Override
    protected void load() throws IOException {
      super.load();
      written.putAll(rows);
    }

    @Override
    protected void writeRows(DataOutputStream out) throws IOException {
      written.putAll(rows);
      out.writeInt(written.size());
      for (Map.Entry<Bytes, byte[]> each : written.entrySet()) {
        writeBytes(out, each.getKey().get());
        writeBytes(out, each.getValue());
      }
    }
  }

  /** Leaves the upper bound of a range out. */
  public static final class WrongBound extends LedgerStore {
    @Override
    protected NavigableMap<Bytes, byte[]> between(
        NavigableMap<Bytes, byte[]> all, Bytes from, Bytes to) {
      return between(all, from, to, false);
    }
  }

  /** Looks at each key of a batch when it is due: a bad one leaves half of the batch. */
  public static final class HalfPutAll extends LedgerStore {
    @Override
    public void putAll(List<KeyValue<Bytes, byte[]>> entries) {
      entries.forEach(each -> put(each.key, each.value));
    }
  }

  /** Puts, whether there is a value or not. */
  public static final class PutIfAbsentOverwrites extends LedgerStore {
    @Override
    public byte[] putIfAbsent(Bytes key, byte[] value) {
      byte[] old = get(key);
      put(key, value);
      return old;
    }
  }

  /** Writes at its close what was never committed. */
  public static final class CommitsAtClose extends LedgerStore {
    @Override
    public void close() {
      if (open) {
        commit(Map.copyOf(offsets));
      }
      super.close();
    }
  }

  /** Lets an iterator go on after its close, and after that of the store. */
  public static final class AnswersClosed extends LedgerStore {
    @Override
    protected void requireUsable(boolean closed) {
      // The rows are still in memory.
    }
  }

  /** Ends a prefix scan at the next last byte, without a carry: after 0xFF nothing comes. */
  public static final class PrefixWithoutCarry extends LedgerStore {
    @Override
    protected Bytes endOf(Bytes prefix) {
      byte[] end = prefix.get().clone();
      if (end.length == 0) {
        return null;
      }
      end[end.length - 1]++;
      Bytes found = Bytes.wrap(end);
      return found.compareTo(prefix) < 0 ? prefix : found;
    }
  }

  /** Returns from a delete what the last commit had. */
  public static final class DeleteReturnsCommitted extends LedgerStore {
    private final Map<Bytes, byte[]> committed = new HashMap<>();

    @Override
    protected void load() throws IOException {
      super.load();
      committed.putAll(rows);
    }

    @Override
    public byte[] delete(Bytes key) {
      super.delete(key);
      return committed.get(key);
    }

    @Override
    protected void save(Map<TopicPartition, Long> renewed) throws IOException {
      super.save(renewed);
      committed.clear();
      committed.putAll(rows);
    }
  }

  /** Keeps the first 255 bytes of a key: the length has one byte. */
  public static final class CutKey extends LedgerStore {
    @Override
    protected void set(Bytes key, byte[] value) {
      byte[] cut = key.get();
      super.set(Bytes.wrap(cut.length < 256 ? cut : Arrays.copyOf(cut, 255)), value);
    }
  }

  /** Writes 65,535 bytes of a value at most: the length has two bytes. */
  public static final class TornValue extends LedgerStore {
    @Override
    protected void writeBytes(DataOutputStream out, byte[] bytes) throws IOException {
      super.writeBytes(out, bytes.length < 65_536 ? bytes : Arrays.copyOf(bytes, 65_535));
    }
  }

  /** Forgets the position when it is closed. */
  public static final class LostPosition extends LedgerStore {
    @Override
    protected void readPosition(DataInputStream in) throws IOException {
      super.readPosition(in);
      position = Position.emptyPosition();
    }
  }
}
