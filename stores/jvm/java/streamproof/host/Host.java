package streamproof.host;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.StreamReadConstraints;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * Serves stores of the JVM, one after the other: reads a request a line, calls the store, and writes
 * an answer a line. The page docs/store-host.md describes the lines.
 *
 * <p>The only argument names the store, as {@link StoreNames} takes it.
 */
public final class Host {
  /** Values of up to 2 MiB in base64, many of them in a line. */
  private static final int LONGEST_STRING = 64 * 1024 * 1024;

  private static final JsonFactory JSON =
      JsonFactory.builder()
          .streamReadConstraints(
              StreamReadConstraints.builder().maxStringLength(LONGEST_STRING).build())
          .build();

  private final String name;
  private Operations operations;

  private Host(String name, Operations operations) {
    this.name = name;
    this.operations = operations;
  }

  /**
   * Serve a store until the standard input ends.
   *
   * @param arguments the name of the store
   * @throws IOException the standard streams are broken
   */
  public static void main(String[] arguments) throws IOException {
    // What the store prints must not be taken for an answer.
    OutputStream answers = new FileOutputStream(FileDescriptor.out);
    System.setOut(new PrintStream(new FileOutputStream(FileDescriptor.err), true));
    if (arguments.length != 1) {
      System.err.println("Name one store, such as kafka:rocksdb.");
      System.exit(2);
    }
    Operations operations;
    try {
      operations = StoreNames.make(arguments[0]);
    } catch (UnusableStoreException error) {
      System.err.println(error.getMessage());
      System.exit(3);
      return;
    }
    new Host(arguments[0], operations).serve(answers);
    // Threads of the store must not keep the process alive, and nothing is to be cleaned up.
    Runtime.getRuntime().halt(0);
  }

  private void serve(OutputStream answers) throws IOException {
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      answers.write(answer(line));
      answers.flush();
    }
  }

  private byte[] answer(String line) throws IOException {
    Request request = new Request();
    try {
      try (JsonParser parser = JSON.createParser(line)) {
        request = Request.read(parser);
      }
      if (operations.isOver() && "open".equals(request.text("op"))) {
        operations = StoreNames.make(name);
      }
      Object answer = operations.perform(request);
      return written(request, json -> Answers.write(json, "ok", answer));
    } catch (Exception | LinkageError error) {
      return written(request, json -> Answers.writeError(json, error));
    }
  }

  private interface Body {
    void write(JsonGenerator json) throws IOException;
  }

  private static byte[] written(Request request, Body body) throws IOException {
    ByteArrayOutputStream line = new ByteArrayOutputStream();
    try (JsonGenerator json = JSON.createGenerator(line)) {
      json.writeStartObject();
      json.writeNumberField("id", request.id());
      body.write(json);
      json.writeEndObject();
    }
    line.write('\n');
    return line.toByteArray();
  }
}
