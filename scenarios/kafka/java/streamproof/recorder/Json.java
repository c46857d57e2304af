package streamproof.recorder;

import java.util.Base64;
import java.util.Map;

/** Writes values as JSON: texts, numbers, booleans, null, bytes in base64, lists and maps. */
final class Json {
  private Json() {
  }

  static void write(StringBuilder out, Object value) {
    if (value == null || value instanceof Boolean || value instanceof Number) {
      out.append(value);
    } else if (value instanceof byte[] bytes) {
      out.append('"').append(Base64.getEncoder().encodeToString(bytes)).append('"');
    } else if (value instanceof Map<?, ?> map) {
      out.append('{');
      String comma = "";
      for (Map.Entry<?, ?> each : map.entrySet()) {
        out.append(comma);
        comma = ",";
        text(out, String.valueOf(each.getKey()));
        out.append(':');
        write(out, each.getValue());
      }
      out.append('}');
    } else if (value instanceof Iterable<?> list) {
      out.append('[');
      String comma = "";
      for (Object each : list) {
        out.append(comma);
        comma = ",";
        write(out, each);
      }
      out.append(']');
    } else {
      text(out, String.valueOf(value));
    }
  }

  private static void text(StringBuilder out, String text) {
    out.append('"');
    for (int at = 0; at < text.length(); at++) {
      char each = text.charAt(at);
      if (each == '"' || each == '\\') {
        out.append('\\').append(each);
      } else if (each < ' ' || Character.isSurrogate(each)) {
        out.append(String.format("\\u%04x", (int) each));
      } else {
        out.append(each);
      }
    }
    out.append('"');
  }
}
