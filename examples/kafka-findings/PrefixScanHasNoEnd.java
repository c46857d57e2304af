import java.util.function.Function;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * A prefix scan goes beyond the keys with the prefix, if the prefix ends in the byte 0xFF.
 *
 * <p>The upper bound of the scan is the prefix plus one, and the carry of 0xFF is lost.
 */
public final class PrefixScanHasNoEnd {
  public static void main(String[] arguments) {
    for (var supplier :
        new KeyValueBytesStoreSupplier[] {
          Stores.persistentKeyValueStore("rocksdb"), Stores.inMemoryKeyValueStore("in-memory")
        }) {
      var builder = Stores.keyValueStoreBuilder(supplier, Serdes.Bytes(), Serdes.Bytes());
      for (byte[] prefix : new byte[][] {{'a', -1}, {-1}}) {
        Function<KeyValueStore<Bytes, Bytes>, Object> scan =
            store -> {
              store.put(Bytes.wrap(new byte[] {'b'}), Bytes.wrap(new byte[0]));
              try (var rows = store.prefixScan(prefix, new ByteArraySerializer())) {
                return rows.hasNext() ? rows.next().key : "nothing";
              }
            };
        String what = supplier.name() + ", with the key b, scan of the prefix ";
        OneStore.ask(what + Bytes.wrap(prefix), builder, arguments[0], scan);
      }
    }
  }
}
