"""The names of stores of the JVM: ``kafka:rocksdb`` and ``java:com.acme.Stores#supplier``.

A layer may follow, and then a release of Kafka, as in ``kafka:rocksdb:task@4.2.1``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, cast

from streamproof.errors import UsageError
from streamproof.near_names import near_names
from streamproof.stores.jvm.kafka_jars import (
    DEFAULT_RELEASE,
    TRANSACTIONS_IN_STORES,
    release_numbers,
    require_release,
)
from streamproof.stores.jvm.layers import LAYERS, Layer, default_layer, require_layer

__all__ = [
    "CLASS_PATH",
    "KAFKA",
    "class_path_for",
    "class_path_options",
    "command_of",
    "description_of",
    "is_of_the_jvm",
    "prepare",
    "take_class_path",
    "with_layer",
    "with_release",
]

TRANSACTIONAL = "-transactional"
"""The end of the name of a store of Kafka that stages its writes until a commit (KIP-892)."""

_PLAIN = {
    "kafka:rocksdb": "Kafka's RocksDBStore, as Stores.persistentKeyValueStore gives it.",
    "kafka:rocksdb-timestamped": "Kafka's RocksDBTimestampedStore, with record timestamps.",
    "kafka:rocksdb-versioned": "Kafka's RocksDBVersionedStore: the latest version of each key.",
    "kafka:rocksdb-window": "Kafka's RocksDBWindowStore: windows of 10 s, kept for 180 s.",
    "kafka:rocksdb-timestamped-window": "Kafka's RocksDBTimestampedWindowStore.",
    "kafka:rocksdb-session": "Kafka's RocksDBSessionStore: sessions, kept for 180 s.",
    "kafka:in-memory": "Kafka's InMemoryKeyValueStore, as Stores.inMemoryKeyValueStore gives it.",
    "kafka:in-memory-window": "Kafka's InMemoryWindowStore: windows of 10 s, kept for 180 s.",
    "kafka:in-memory-session": "Kafka's InMemorySessionStore: sessions, kept for 180 s.",
}

KAFKA = _PLAIN | {
    f"{name}{TRANSACTIONAL}": (
        f"{name} with transactions (KIP-892), from Kafka {TRANSACTIONS_IN_STORES} on."
    )
    for name in _PLAIN
    if "versioned" not in name
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


class _Name(NamedTuple):
    """The parts of a name; a layer or release that it does not say is empty."""

    store: str
    layer: str
    release: str

    def __str__(self) -> str:
        layer = f":{self.layer}" if self.layer else ""
        return f"{self.store}{layer}@{self.release}".removesuffix("@")


def _parts_of(name: str) -> _Name:
    """The parts of the name of a store of the JVM."""
    rest, _, release = name.partition("@")
    store, _, layer = rest.rpartition(":")
    # A class may have the name of a layer: what follows the first colon names the store.
    if layer in LAYERS and ":" in store:
        return _Name(store, layer, release)
    return _Name(rest, "", release)


def with_release(names: Iterable[str], release: str) -> list[str]:
    """The names of subjects; a store of the JVM without a release gets this one.

    Raises:
        UsageError: no store of the JVM is among them.
    """
    return _filled(names, "release", release, "--kafka")


def with_layer(names: Iterable[str], layer: str) -> list[str]:
    """The names of subjects; a store of the JVM without a layer gets this one.

    Raises:
        UsageError: there is no such layer, or no store of the JVM is among the subjects.
    """
    if layer and layer not in LAYERS:
        raise UsageError(f"--layer: there is no layer {layer!r}. Choose from: {', '.join(LAYERS)}.")
    return _filled(names, "layer", layer, "--layer")


def _filled(names: Iterable[str], part: str, value: str, option: str) -> list[str]:
    """The names of subjects, with this part where the name of a store of the JVM lacks it."""
    found = list(names)
    if not value:
        return found
    if not any(map(is_of_the_jvm, found)):
        raise UsageError(f"{option} is for stores of the JVM: name one, such as kafka:rocksdb.")
    return [_with(each, part, value) if is_of_the_jvm(each) else each for each in found]


def _with(name: str, part: str, value: str) -> str:
    parts = _parts_of(name)
    return name if getattr(parts, part) else str(parts._replace(**{part: value}))


def description_of(name: str) -> str:
    """What a store of Kafka is, in a sentence; empty for any other name."""
    return KAFKA.get(_parts_of(name).store, "")


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


def prepare(name: str) -> None:
    """Build what a subject of this name needs, if it is a store of the JVM; minutes at first use.

    Raises:
        UsageError: as in :func:`command_of`.
    """
    if is_of_the_jvm(name):
        command_of(name)


def command_of(name: str) -> str:
    """The command of the host that serves a store of the JVM.

    Raises:
        UsageError: the name or the release does not exist, or Java, Maven or a jar is missing.
    """
    # Most runs have no store of the JVM, and start faster without this import.
    from streamproof.stores.jvm.host_build import host_command

    store, named, release = _parts_of(name)
    if "@" in name:
        require_release(release)
    release = release or DEFAULT_RELEASE
    layer = cast(Layer, named) if named else default_layer(release)
    if not store.startswith(JAVA) and store not in KAFKA:
        near = near_names(store, KAFKA)
        hint = f"Did you mean {near}? " if near else ""
        raise UsageError(
            f"Kafka has no store {store!r}. {hint}`streamproof subjects` lists its stores. A layer "
            f"({', '.join(LAYERS)}) may follow behind another colon."
        )
    require_layer(layer, release)
    if _is_transactional(store) and release_numbers(release) < release_numbers(
        TRANSACTIONS_IN_STORES
    ):
        raise UsageError(
            f"Subject {name!r}: Kafka {release} has no transactional stores. Take a release from "
            f"{TRANSACTIONS_IN_STORES} on."
        )
    path = _require_class_path(name) if store.startswith(JAVA) else []
    return host_command(release, store, layer, path)


def _is_transactional(store: str) -> bool:
    return store in KAFKA and store.endswith(TRANSACTIONAL)


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
