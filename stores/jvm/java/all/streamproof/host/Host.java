package streamproof.host;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.StreamReadConstraints;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * Serves stores of the JVM, one after the other: reads a request a line, calls the store, and
 * writes an answer a line. The page docs/store-host.md describes the lines.
 *
 * <p>The arguments name the store, as {@link StoreNames} takes it, and the layer that is served.
 */
public final class Host {
  /** Values of up to 2 MiB in base64, many of them in a line. */
  private static final int LONGEST_STRING = 64 * 1024 * 1024;

  private static final JsonFactory JSON =
      JsonFactory.builder()
          .streamReadConstraints(
              StreamReadConstraints.builder().maxStringLength(LONGEST_STRING).build())
          .build();

  /** The descriptor of the answers, which whoever starts the host has made. */
  private static final String ANSWERS = "/proc/self/fd/3";

  /** The exit code of a host that cannot serve its store; the last line of its errors says why. */
  private static final int UNUSABLE = 3;

  private final String name;
  private final String layer;
  private Operations operations;
  private String storeName = StoreNames.NAME;

  private Host(String name, String layer, Operations operations) {
    this.name = name;
    this.layer = layer;
    this.operations = operations;
  }

  /**
   * Serve a store until the standard input ends.
   *
   * @param arguments the name of the store, and the layer
   */
  public static void main(String[] arguments) {
    int code = 1;
    try {
      code = serve(arguments);
    } catch (Throwable error) {
      // A store that has used up the memory gets here, too: the last line has to say so.
      System.err.println(Answers.messageOf(error));
    } finally {
      // Threads of the store must not keep the process alive, and nothing is to be cleaned up.
      Runtime.getRuntime().halt(code);
    }
  }

  /** Serve, and return the exit code. */
  private static int serve(String[] arguments) throws IOException {
    // What the store prints must not be taken for an answer, and it must not read a request.
    OutputStream answers = new FileOutputStream(ANSWERS);
    InputStream requests = new FileInputStream(FileDescriptor.in);
    System.setOut(new PrintStream(new FileOutputStream(FileDescriptor.err), true));
    System.setIn(InputStream.nullInputStream());
    if (arguments.length != 2) {
      System.err.println("Name a store and a layer, such as kafka:rocksdb bytes.");
      return 2;
    }
    Operations operations;
    try {
      operations = StoreNames.make(arguments[0], arguments[1], StoreNames.NAME);
    } catch (UnusableStoreException error) {
      System.err.println(error.getMessage());
      return UNUSABLE;
    }
    new Host(arguments[0], arguments[1], operations).serve(requests, answers);
    return 0;
  }

  private void serve(InputStream requests, OutputStream answers) throws IOException {
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(requests, StandardCharsets.UTF_8));
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
      if ("open".equals(request.text("op"))) {
        prepare(request.text("name"));
      }
      Object answer = operations.perform(request);
      return written(request, json -> Answers.write(json, "ok", answer));
    } catch (OutOfMemoryError error) {
      // What is left of the store answers nothing that counts.
      throw error;
    } catch (Throwable error) {
      return written(request, json -> Answers.writeError(json, error));
    }
  }

  /** Make another store in place of one that is closed, or that has another name. */
  private void prepare(String asked) throws UnusableStoreException {
    String wanted = asked == null ? StoreNames.NAME : asked;
    if (operations.isOver() || operations.isUnused() && !wanted.equals(storeName)) {
      operations = StoreNames.make(name, layer, wanted);
      storeName = wanted;
    }
  }

  private interface Body {
    void write(JsonGenerator json) throws IOException;
  }

  private byte[] written(Request request, Body body) throws IOException {
    List<Object> logged = operations.takeLogged();
    ByteArrayOutputStream line = new ByteArrayOutputStream();
    try (JsonGenerator json = JSON.createGenerator(line)) {
      json.writeStartObject();
      json.writeNumberField("id", request.id());
      body.write(json);
      if (!logged.isEmpty()) {
        Answers.write(json, "logged", logged);
      }
      json.writeEndObject();
    }
    line.write('\n');
    return line.toByteArray();
  }
}
