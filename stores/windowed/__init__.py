"""Window and session stores: on RocksDB in segments, and in memory."""
