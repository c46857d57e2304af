package org.rocksdb;

/** A column family of no database: its name is a key of a map. */
public final class NoColumnFamily extends ColumnFamilyHandle {
  public NoColumnFamily() {
    super(1);
    disOwnNativeHandle();
  }

  @Override
  public void close() {
    // There is nothing of RocksDB to be released.
  }
}
