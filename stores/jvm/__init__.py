"""Stores of the JVM as subjects: Kafka's own, and those of a user's class path."""
