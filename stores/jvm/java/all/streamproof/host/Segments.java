package streamproof.host;

import java.util.Map;

/** What the windows and sessions of Kafka claim: those on RocksDB have segments. */
final class Segments {
  private Segments() {}

  static void addClaims(
      Map<String, Object> claims, boolean persistent, long retention, long interval) {
    claims.put("retention_ms", retention);
    claims.put("segment_interval_ms", persistent ? interval : 0);
    claims.put("expiry", persistent ? "segment" : "record");
    claims.put("scan_order", persistent ? "segment" : "time");
    claims.put("closed_iterator", "ends");
    // An iterator opens one segment after the other, and so sees what is written meanwhile. In
    // memory it walks through a map that others change.
    claims.put("iterator_view", "weak");
    // The interfaces have neither of them.
    claims.put("prefix_scan", false);
    claims.put("entry_count", false);
  }
}
