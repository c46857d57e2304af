package streamproof.host;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.errors.TaskCorruptedException;

/** Answers as JSON. */
final class Answers {
  private Answers() {}

  static void write(JsonGenerator json, String field, Object answer) throws IOException {
    json.writeFieldName(field);
    write(json, answer);
  }

  private static void write(JsonGenerator json, Object answer) throws IOException {
    if (answer instanceof byte[]) {
      json.writeString(Base64.getEncoder().encodeToString((byte[]) answer));
    } else if (answer instanceof Map) {
      json.writeStartObject();
      for (Map.Entry<?, ?> entry : ((Map<?, ?>) answer).entrySet()) {
        write(json, (String) entry.getKey(), entry.getValue());
      }
      json.writeEndObject();
    } else if (answer instanceof List) {
      json.writeStartArray();
      for (Object each : (List<?>) answer) {
        write(json, each);
      }
      json.writeEndArray();
    } else if (answer instanceof Number) {
      json.writeNumber(((Number) answer).longValue());
    } else if (answer instanceof Boolean) {
      json.writeBoolean((Boolean) answer);
    } else {
      json.writeString((String) answer);
    }
  }

  static void writeError(JsonGenerator json, Throwable error) throws IOException {
    write(json, "error", Map.of("kind", kindOf(error), "message", messageOf(error)));
  }

  private static String kindOf(Throwable error) {
    if (error instanceof TaskCorruptedException) {
      return "state-corrupted";
    }
    if (error instanceof InvalidStateStoreException) {
      return "invalid-state";
    }
    if (error instanceof ProcessorStateException
        || error instanceof IOException
        || error instanceof UncheckedIOException) {
      return "io";
    }
    if (error instanceof NullPointerException) {
      return "null-argument";
    }
    if (error instanceof IllegalArgumentException) {
      return "invalid-argument";
    }
    if (error instanceof UnsupportedOperationException) {
      return "unsupported";
    }
    return error.getClass().getSimpleName();
  }

  /** The error, the place that raised it, and what caused it. */
  static String messageOf(Throwable error) {
    StringBuilder found = new StringBuilder(error.toString());
    if (error.getStackTrace().length > 0) {
      found.append(" at ").append(error.getStackTrace()[0]);
    }
    for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
      found.append("; caused by ").append(cause);
    }
    return found.toString();
  }
}
