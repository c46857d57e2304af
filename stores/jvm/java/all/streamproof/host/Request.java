package streamproof.host;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Bytes;

/** One request: the fields of one line. */
final class Request {
  private final Map<String, Object> fields;

  Request() {
    this(Map.of());
  }

  private Request(Map<String, Object> fields) {
    this.fields = fields;
  }

  /** Read a request: objects become maps, arrays lists, numbers longs. */
  static Request read(JsonParser json) throws IOException {
    if (json.nextToken() != JsonToken.START_OBJECT) {
      throw new IllegalArgumentException("A request is one JSON object on one line.");
    }
    return new Request(object(json));
  }

  private static Map<String, Object> object(JsonParser json) throws IOException {
    Map<String, Object> found = new LinkedHashMap<>();
    while (json.nextToken() != JsonToken.END_OBJECT) {
      String name = json.currentName();
      json.nextToken();
      found.put(name, value(json));
    }
    return found;
  }

  private static Object value(JsonParser json) throws IOException {
    switch (json.currentToken()) {
      case START_OBJECT:
        return object(json);
      case START_ARRAY:
        List<Object> found = new ArrayList<>();
        while (json.nextToken() != JsonToken.END_ARRAY) {
          found.add(value(json));
        }
        return found;
      case VALUE_NUMBER_INT:
        return json.getLongValue();
      case VALUE_TRUE:
      case VALUE_FALSE:
        return json.getBooleanValue();
      case VALUE_NULL:
        return null;
      default:
        return json.getText();
    }
  }

  long id() {
    return fields.get("id") instanceof Long ? (Long) fields.get("id") : -1;
  }

  String text(String name) {
    return (String) fields.get(name);
  }

  int number(String name) {
    return Math.toIntExact((Long) fields.get(name));
  }

  /** A time in milliseconds. */
  long time(String name) {
    return (Long) fields.get(name);
  }

  /** A time in milliseconds; another one if the field is null. */
  long time(String name, long otherwise) {
    return fields.get(name) == null ? otherwise : time(name);
  }

  byte[] value(String name) {
    return bytes(fields.get(name));
  }

  Bytes key(String name) {
    return Bytes.wrap(value(name));
  }

  @SuppressWarnings("unchecked")
  Map<String, Object> map(String name) {
    return (Map<String, Object>) fields.getOrDefault(name, Map.of());
  }

  /** An array of arrays; empty if the field is not there. */
  @SuppressWarnings("unchecked")
  List<List<Object>> rows(String name) {
    return (List<List<Object>>) fields.getOrDefault(name, List.of());
  }

  /** An array; null if the field is not there. */
  List<?> list(String name) {
    return (List<?>) fields.get(name);
  }

  /** The bytes of a base64 text; null of null. */
  static byte[] bytes(Object text) {
    return text == null ? null : Base64.getDecoder().decode((String) text);
  }
}
