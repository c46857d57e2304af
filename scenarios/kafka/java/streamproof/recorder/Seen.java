package streamproof.recorder;

/** A call of a hooked method: the object, the arguments, and at the end also what came of it. */
record Seen(Object self, Object[] arguments, Object returned, Throwable thrown) {

  Object argument(int at) {
    return arguments[at];
  }

  boolean succeeded() {
    return thrown == null;
  }
}
