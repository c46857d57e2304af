package streamproof.decisions;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.clients.consumer.internals.LagDecision;
import org.apache.kafka.streams.processor.internals.CommitDecision;
import org.apache.kafka.streams.processor.internals.IdlingDecision;
import org.apache.kafka.streams.processor.internals.OpeningDecision;
import org.apache.kafka.streams.processor.internals.RestorationDecision;
import org.apache.kafka.streams.processor.internals.VersionDecision;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentDecision;

/**
 * Asks Kafka's own classes for decisions: reads a history a line, as JSON, and writes the answers a
 * line. A history names its decision, and has what happens before each question.
 */
public final class Decisions {
  private static final ObjectMapper JSON = new ObjectMapper();

  private static final Map<String, Decision> DECISIONS =
      Map.of(
          "idling", IdlingDecision::answers,
          "lag", LagDecision::answers,
          "commits", CommitDecision::answers,
          "assignment", AssignmentDecision::answers,
          "opening", OpeningDecision::answers,
          "restoration", RestorationDecision::answers,
          "versions", VersionDecision::answers);

  private Decisions() {}

  /** A class of Kafka that is asked. */
  @FunctionalInterface
  interface Decision {
    /** The answers to the questions of a history, in their order, or one answer to all of it. */
    JsonNode answers(JsonNode history) throws Exception;
  }

  /**
   * Answer until the standard input ends.
   *
   * @param arguments none
   */
  public static void main(String[] arguments) {
    int code = 1;
    try {
      serve();
      code = 0;
    } catch (Throwable error) {
      error.printStackTrace();
    } finally {
      // Threads of Kafka must not keep the process alive.
      System.exit(code);
    }
  }

  private static void serve() throws IOException {
    BufferedReader histories =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    BufferedWriter answers =
        new BufferedWriter(
            new OutputStreamWriter(
                new FileOutputStream(FileDescriptor.out), StandardCharsets.UTF_8));
    // What a class of Kafka prints must not be taken for an answer.
    System.setOut(System.err);
    for (String line = histories.readLine(); line != null; line = histories.readLine()) {
      answers.write(answered(line));
      answers.newLine();
      // Whoever waits for this answer sends no other history before it.
      if (!histories.ready()) {
        answers.flush();
      }
    }
    answers.flush();
  }

  /** The answer to a line; an error that Kafka does not decide by is an answer of its own kind. */
  private static String answered(String line) throws IOException {
    try {
      JsonNode history = JSON.readTree(line);
      JsonNode found = DECISIONS.get(history.get("decision").asText()).answers(history);
      return JSON.writeValueAsString(found);
    } catch (Exception | LinkageError error) {
      StackTraceElement[] trace = error.getStackTrace();
      String where = trace.length == 0 ? "" : " at " + trace[0];
      return JSON.writeValueAsString(Map.of("error", error + where));
    }
  }
}
