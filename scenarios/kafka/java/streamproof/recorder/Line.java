package streamproof.recorder;

import java.util.LinkedHashMap;
import java.util.Map;

/** One event, without its time; docs/events.md says what is in it. */
record Line(
    String actor, String kind, String task, String partition, long offset,
    Map<String, Object> attributes) {

  static Line of(String actor, String kind) {
    return new Line(actor, kind, "", "", -1, new LinkedHashMap<>());
  }

  Line task(Object name) {
    return new Line(actor, kind, String.valueOf(name), partition, offset, attributes);
  }

  Line partition(Object name) {
    return new Line(actor, kind, task, String.valueOf(name), offset, attributes);
  }

  Line offset(long number) {
    return new Line(actor, kind, task, partition, number, attributes);
  }

  Line with(String name, Object value) {
    attributes.put(name, value);
    return this;
  }
}
