"""The simulated world around a store; this release holds no simulator yet."""
