package streamproof.application;

/** The names of topics. Worlds that share a broker put a prefix of their own before all of them. */
final class Topics {
  private static final String PREFIX = System.getProperty("streamproof.topics", "");

  private Topics() {
  }

  static String named(String name) {
    return PREFIX + name;
  }
}
