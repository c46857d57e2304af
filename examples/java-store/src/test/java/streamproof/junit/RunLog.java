package streamproof.junit;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.opentest4j.AssertionFailedError;
import org.opentest4j.TestAbortedException;

/**
 * The run log of streamproof: one JSON object on each line, which its page docs/run-log.md
 * describes.
 *
 * <p>A log without a footer is a run that died. It is never a pass.
 */
final class RunLog {
  /** Maven shows a message in a terminal of 80 columns. */
  private static final int WIDTH = 78;

  private static final int INDENT = 12;

  private final List<Result> results;
  private final JsonNode footer;

  private RunLog(List<Result> results, JsonNode footer) {
    this.results = results;
    this.footer = footer;
  }

  /**
   * Reads a log to its end.
   *
   * @param path the file
   * @param exitCode how the command ended
   * @param printed what the command printed
   */
  static RunLog read(Path path, int exitCode, String printed) throws IOException {
    if (!Files.exists(path)) {
      throw noAnswer("streamproof has verified nothing (exit code " + exitCode + "): " + printed);
    }
    List<JsonNode> records = records(path);
    JsonNode last = records.isEmpty() ? null : records.get(records.size() - 1);
    if (last == null || !isA("footer", last)) {
      throw noAnswer(
          "The run log " + path + " is incomplete: streamproof ended early, with exit code "
              + exitCode + ". Run the test again; output.txt beside the log has what it printed.");
    }
    List<Result> results =
        records.stream()
            .filter(record -> isA("result", record))
            .map(record -> new Result(record, failuresOf(record, records)))
            .toList();
    return new RunLog(results, last);
  }

  private static List<JsonNode> failuresOf(JsonNode result, List<JsonNode> records) {
    JsonNode id = result.get("requirement");
    return records.stream()
        .filter(record -> isA("failure", record) && record.get("requirement").equals(id))
        .toList();
  }

  private static List<JsonNode> records(Path path) throws IOException {
    ObjectMapper json = new ObjectMapper();
    List<JsonNode> records = new ArrayList<>();
    for (String line : Files.readAllLines(path)) {
      try {
        records.add(json.readTree(line));
      } catch (JsonProcessingException error) {
        // Only the last line of a run that died can be cut off; then there is no footer.
        return records;
      }
    }
    return records;
  }

  private static boolean isA(String type, JsonNode record) {
    return record.get("type").textValue().equals(type);
  }

  /** An error with a message for the user, and without a stack trace that would hide it. */
  static IllegalStateException noAnswer(String message) {
    IllegalStateException error = new IllegalStateException(message);
    error.setStackTrace(new StackTraceElement[0]);
    return error;
  }

  List<Result> results() {
    return results;
  }

  /** Skips unless the run tried everything, and fails if the suite itself did not work. */
  void checkVerdict() {
    String summary = footer.get("verdicts").path(0).path("summary").asText();
    switch (footer.get("verdict").textValue()) {
      case "error" -> throw failure("streamproof has no verdict: " + summary);
      case "partial" -> throw new TestAbortedException(summary);
      default -> {
        // Success, or a failure that a test of its own tells.
      }
    }
  }

  private static AssertionFailedError failure(String message) {
    AssertionFailedError error = new AssertionFailedError(message);
    error.setStackTrace(new StackTraceElement[0]);
    return error;
  }

  /** The result of one requirement, and the ways in which the requirement is broken. */
  record Result(JsonNode record, List<JsonNode> failures) {
    String area() {
      return text("requirement").split("-")[0];
    }

    String name() {
      return text("requirement") + " " + text("title");
    }

    /** Passes, fails or is skipped, as the status says. */
    void check(Path out) {
      switch (text("status")) {
        case "pass" -> {
          // Kept.
        }
        case "fail" -> throw failure(message(out));
        case "error" -> throw failure(name() + " got no answer: " + text("reason"));
        default -> throw new TestAbortedException(text("status") + ": " + text("reason"));
      }
    }

    private String text(String field) {
      return record.path(field).asText();
    }

    private String message(Path out) {
      JsonNode failure = failures.get(0);
      StringBuilder message = new StringBuilder();
      message.append(text("requirement")).append(" (").append(text("level")).append(") ");
      message.append(text("title")).append("\n\n");
      for (String field : List.of("promise", "tried", "expected", "found")) {
        message.append(wrapped(field, failure.path(field).asText()));
      }
      message.append("\n  This program in Python shows it:\n\n");
      message.append(failure.path("program").asText().strip().indent(4));
      message.append("\n  This command finds it again:\n\n");
      message.append("    ");
      message.append(failure.path("reproduce").asText().replace(" --", " \\\n      --"));
      message.append("\n\n  Cause and cure, as a rule: streamproof requirements ");
      message.append(text("requirement"));
      message.append("\n  Report: ").append(out.resolve("report.html")).append("\n");
      return message.toString();
    }

    /** A field and its text, in lines that fit into a terminal. */
    private static String wrapped(String field, String text) {
      StringBuilder lines = new StringBuilder("  " + field);
      int column = lines.length();
      for (String word : text.split("\\s+")) {
        boolean isFirst = column < INDENT;
        if (isFirst || column + 1 + word.length() > WIDTH) {
          lines.append(isFirst ? "" : "\n" + " ".repeat(INDENT));
          lines.append(isFirst ? " ".repeat(INDENT - column) : "").append(word);
          column = INDENT + word.length();
        } else {
          lines.append(' ').append(word);
          column += 1 + word.length();
        }
      }
      return lines.append('\n').toString();
    }
  }
}
