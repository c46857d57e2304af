package streamproof.host;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;

/**
 * An open iterator of a store, and how its rows are answered.
 *
 * @param <K> the type of the keys
 */
final class Rows<K> {
  /** A key as the protocol has it. */
  interface KeyAsAnswer<K> {
    Object of(K key);
  }

  private final KeyValueIterator<K, ?> iterator;
  private final KeyAsAnswer<K> asAnswer;
  private final boolean stamped;
  private final Values values;

  Rows(
      KeyValueIterator<K, ?> iterator,
      KeyAsAnswer<K> asAnswer,
      boolean stamped,
      Values values) {
    this.iterator = iterator;
    this.asAnswer = asAnswer;
    this.stamped = stamped;
    this.values = values;
  }

  static Object bytes(Bytes key) {
    return key.get();
  }

  /** A window or session and its key. */
  static Object windowed(Windowed<Bytes> key) {
    return List.of(key.key().get(), List.of(key.window().start(), key.window().end()));
  }

  /** Up to so many rows. The iterator is not asked for more: a row is read when it is due. */
  Object next(int limit) {
    List<Object> rows = new ArrayList<>();
    while (rows.size() < limit && iterator.hasNext()) {
      KeyValue<K, ?> entry = iterator.next();
      rows.add(Arrays.asList(asAnswer.of(entry.key), values.answer(entry.value, stamped)));
    }
    return Map.of("rows", rows, "done", rows.size() < limit);
  }

  /** The key of the next row; null if there is none. */
  Object peekNextKey() {
    try {
      return asAnswer.of(iterator.peekNextKey());
    } catch (NoSuchElementException end) {
      return null;
    }
  }

  void close() {
    iterator.close();
  }
}
