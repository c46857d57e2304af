"""The names of stores of the JVM: ``kafka:rocksdb@4.3.1`` and ``java:com.acme.Stores#supplier``."""

from __future__ import annotations

import os

from streamproof.errors import UsageError
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE, require_release

__all__ = ["CLASS_PATH", "KAFKA", "command_of", "is_of_the_jvm"]

KAFKA = {
    "kafka:rocksdb": "Kafka's RocksDBStore, as Stores.persistentKeyValueStore gives it.",
    "kafka:rocksdb-timestamped": "Kafka's RocksDBTimestampedStore, with record timestamps.",
    "kafka:rocksdb-window": "Kafka's RocksDBWindowStore: windows of 10 s, kept for 180 s.",
    "kafka:rocksdb-timestamped-window": "Kafka's RocksDBTimestampedWindowStore.",
    "kafka:rocksdb-session": "Kafka's RocksDBSessionStore: sessions, kept for 180 s.",
    "kafka:in-memory": "Kafka's InMemoryKeyValueStore, as Stores.inMemoryKeyValueStore gives it.",
    "kafka:in-memory-window": "Kafka's InMemoryWindowStore: windows of 10 s, kept for 180 s.",
    "kafka:in-memory-session": "Kafka's InMemorySessionStore: sessions, kept for 180 s.",
}
"""Kafka's own stores by name."""

JAVA = "java:"
"""The prefix of a class of the user, with or without a static method."""

CLASS_PATH = "CLASSPATH"
"""The environment variable with the jars and directories of the user's stores."""


def is_of_the_jvm(name: str) -> bool:
    """Whether a subject of this name is a store of the JVM."""
    return name.startswith(("kafka:", JAVA))


def command_of(name: str) -> str:
    """The command of the host that serves a store of the JVM.

    Raises:
        UsageError: the name or the release does not exist, or Java, Maven or a jar is missing.
    """
    # Most runs have no store of the JVM, and start faster without this import.
    from streamproof.stores.jvm.host_build import host_command

    store, at, release = name.partition("@")
    if at:
        require_release(release)
    if store.startswith(JAVA):
        path = os.environ.get(CLASS_PATH, "")
        if not path:
            raise UsageError(
                f"Subject {name!r}: the environment variable {CLASS_PATH} is empty. Let it name "
                "the jars and directories with your classes, as in CLASSPATH=target/classes."
            )
        return host_command(release or DEFAULT_RELEASE, store, path.split(os.pathsep))
    if store not in KAFKA:
        raise UsageError(f"Subject {name!r}: Kafka's stores are {', '.join(KAFKA)}.")
    return host_command(release or DEFAULT_RELEASE, store)
