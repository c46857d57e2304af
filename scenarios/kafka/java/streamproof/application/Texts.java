package streamproof.application;

import java.nio.charset.StandardCharsets;

/** Keys and values are texts, and travel as bytes. */
final class Texts {
  private static final String REFUSED = "refused:";

  private Texts() {
  }

  static String text(byte[] bytes) {
    return new String(bytes, StandardCharsets.UTF_8);
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  /** Raise at a value that a scenario calls refused. */
  static void refuse(byte[] value) {
    if (value != null && text(value).startsWith(REFUSED)) {
      throw new IllegalArgumentException("The value is refused.");
    }
  }

  /** The count after this one; without one, it is 1. */
  static byte[] more(byte[] count) {
    return bytes(Integer.toString((count == null ? 0 : Integer.parseInt(text(count))) + 1));
  }

  /** The result of a left join. */
  static byte[] joined(byte[] left, byte[] row) {
    return bytes(text(left) + "|" + (row == null ? "-" : text(row)));
  }
}
