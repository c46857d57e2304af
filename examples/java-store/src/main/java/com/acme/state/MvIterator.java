package com.acme.state;

import java.util.NoSuchElementException;
import java.util.function.Predicate;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.h2.mvstore.Cursor;
import org.h2.mvstore.MVStore;

/**
 * The rows of a store as they were when the iterator was made: a cursor keeps the root of its map.
 */
final class MvIterator implements KeyValueIterator<Bytes, byte[]> {
  private final MvKeyValueStore store;
  private final MVStore file;
  private final MVStore.TxCounter version;
  private final Cursor<byte[], byte[]> cursor;
  private final Predicate<byte[]> isWanted;
  private KeyValue<Bytes, byte[]> next;
  private boolean isClosed;

  /** Goes through the rows of a cursor until the first key that is not wanted. */
  MvIterator(
      MvKeyValueStore store,
      MVStore file,
      Cursor<byte[], byte[]> cursor,
      Predicate<byte[]> isWanted) {
    this.store = store;
    this.file = file;
    // MVStore shall not reuse the space of the pages that this iterator has yet to read.
    this.version = file.registerVersionUsage();
    this.cursor = cursor;
    this.isWanted = isWanted;
    advance();
  }

  private void advance() {
    next = null;
    if (cursor.hasNext() && isWanted.test(cursor.next())) {
      next = KeyValue.pair(Bytes.wrap(cursor.getKey()), cursor.getValue());
    }
  }

  @Override
  public boolean hasNext() {
    store.requireOpen();
    return !isClosed && next != null;
  }

  @Override
  public Bytes peekNextKey() {
    requireNext();
    return next.key;
  }

  @Override
  public KeyValue<Bytes, byte[]> next() {
    requireNext();
    KeyValue<Bytes, byte[]> found = next;
    advance();
    return found;
  }

  private void requireNext() {
    if (!hasNext()) {
      throw new NoSuchElementException("The iterator has no more rows");
    }
  }

  @Override
  public void close() {
    if (!isClosed) {
      isClosed = true;
      file.deregisterVersionUsage(version);
    }
  }
}
