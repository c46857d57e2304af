"""The names of stores of the JVM: ``kafka:rocksdb@4.3.1`` and ``java:com.acme.Stores#supplier``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from streamproof.errors import UsageError
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE, require_release

__all__ = [
    "CLASS_PATH",
    "KAFKA",
    "class_path_for",
    "class_path_options",
    "command_of",
    "is_of_the_jvm",
    "take_class_path",
    "with_release",
]

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

ARCHIVES = (".jar", ".zip")
"""How the names of the files in a class path end; all other entries are directories."""


def is_of_the_jvm(name: str) -> bool:
    """Whether a subject of this name is a store of the JVM."""
    return name.startswith(("kafka:", JAVA))


def with_release(names: Iterable[str], release: str) -> list[str]:
    """The names of subjects; a store of the JVM without a release gets this one.

    Raises:
        UsageError: no store of the JVM is among them.
    """
    found = list(names)
    if release and not any(map(is_of_the_jvm, found)):
        raise UsageError("--kafka is for stores of the JVM: name one, such as kafka:rocksdb.")
    return [f"{each}@{release}" if release and _lacks_release(each) else each for each in found]


def _lacks_release(name: str) -> bool:
    return is_of_the_jvm(name) and "@" not in name


def take_class_path(names: Iterable[str], class_path: str) -> None:
    """Look for the classes of the user here, in this process and in those that it starts.

    Args:
        names: the names of the subjects.
        class_path: jars and directories; empty to leave the environment as it is.

    Raises:
        UsageError: no subject is a class of the user.
    """
    if not class_path:
        return
    if not any(each.startswith(JAVA) for each in names):
        raise UsageError("--classpath is for stores of your own: name one, as java:CLASS#METHOD.")
    os.environ[CLASS_PATH] = class_path


def class_path_for(name: str) -> str:
    """The class path that a subject of this name is found in; empty if it needs none."""
    return os.environ.get(CLASS_PATH, "") if name.startswith(JAVA) else ""


def class_path_options(names: Iterable[str]) -> list[str]:
    """The options of a command line that finds these subjects wherever it is typed."""
    path = next(filter(None, map(class_path_for, names)), "")
    return ["--classpath", path] if path else []


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
        path = _require_class_path(name)
        return host_command(release or DEFAULT_RELEASE, store, path)
    if store not in KAFKA:
        raise UsageError(f"Subject {name!r}: Kafka's stores are {', '.join(KAFKA)}.")
    return host_command(release or DEFAULT_RELEASE, store)


def _require_class_path(name: str) -> list[str]:
    """The class path of the user.

    A directory may be missing: build tools name directories that a project does not have. If a
    class is not found, the host names those that are missing.

    Raises:
        UsageError: it is empty, or one of its jars is not there.
    """
    path = class_path_for(name)
    if not path:
        raise UsageError(
            f"Subject {name!r} needs your classes: name their jars and directories, as in "
            f"--classpath target/classes or {CLASS_PATH}=target/classes."
        )
    entries = path.split(os.pathsep)
    for each in entries:
        if each.endswith(ARCHIVES) and not Path(each).is_file():
            raise UsageError(f"There is no jar {each!r}. Correct the class path, or build the jar.")
    return entries
