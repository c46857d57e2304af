package streamproof.host;

/** A name that gives no store. The message is one sentence, and says what to do. */
final class UnusableStoreException extends Exception {
  private static final long serialVersionUID = 1;

  UnusableStoreException(String message) {
    super(message);
  }
}
