"""Builds the store host for a release of Kafka, once, in the user's cache.

Internal packages of Kafka move between releases, so each release has a host of its own. Three
things make it start fast: the native library of RocksDB lies beside it, it asks no other program
for the kind of libc, and an archive has the classes as the JVM keeps them in memory.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from zipfile import ZipFile

from streamproof.stores import jvm
from streamproof.stores.jvm.cached_builds import built_once
from streamproof.stores.jvm.class_paths import may_come_last
from streamproof.stores.jvm.java_tools import (
    CLASSES,
    COMPILER_TIMEOUT_S,
    compile_java,
    java_command,
    require_java,
    shared_classes,
)
from streamproof.stores.jvm.kafka_jars import class_path_of, release_numbers
from streamproof.stores.jvm.layers import Layer, default_layer

__all__ = ["NO_SEARCH", "host_command", "unpack_native_library"]

MAIN = "streamproof.host.Host"

EVERY_RELEASE = "all"
"""The folder with the sources for every release; others are for those up to or from a release on,
such as ``to-4.2`` and ``from-4.3``."""

ANSWERS_APART = ("sh", "-c", 'exec "$@" 3>&1 1>&2', "sh")
"""The answers have a descriptor of their own: the JVM and native code use the standard output."""

NO_SEARCH = {"ROCKSDB_MUSL_LIBC": "false"}
"""The environment in which RocksDB starts no process to find out which libc there is."""

_NATIVE = {"x86_64": "linux64", "aarch64": "linux-aarch64"}
"""The names that RocksDB gives to machines."""


def host_command(release: str, store: str, layer: Layer, class_path: Sequence[str] = ()) -> str:
    """The command that starts the host of a store; everything it needs is made first.

    Args:
        release: the release of Kafka.
        store: the name of the store, as the host takes it.
        layer: what is around the store.
        class_path: jars and directories of the user, which come before those of Kafka, unless
            that makes no difference.

    Raises:
        UsageError: something is missing here; the message says what, and what to do.
    """
    require_java()
    built = _built(release)
    jars = [built / "host.jar", *class_path_of(release, built)]
    is_last = may_come_last(class_path, jars)
    path: list[Path | str] = [*jars, *class_path] if is_last else [*class_path, *jars]
    options = shared_classes(built) if is_last else []
    options += [f"-Dstreamproof.kafka={release}", f"-Djava.library.path={built / 'native'}"]
    environment = [f"{name}={value}" for name, value in NO_SEARCH.items()]
    words = [*ANSWERS_APART, "env", *environment, *java_command(path, *options)]
    return shlex.join([*words, MAIN, store, layer])


def _built(release: str) -> Path:
    """The directory with the host for a release, which is built unless it is there."""
    compiler = require_java("javac")
    sources = _sources(release)

    def make(building: Path) -> None:
        jars = class_path_of(release, building)
        compile_java(sources, jars, building, "host.jar")
        unpack_native_library(jars, building / "native")

    depends_on = [compiler, *sources, *sources.values()]
    return built_once(
        f"kafka-{release}", depends_on, make, lambda made: _archive_classes(release, made)
    )


def _sources(release: str) -> dict[str, str]:
    """The sources of the host for a release, by their paths below the folder of their range."""
    found = {}
    with resources.as_file(resources.files(jvm) / "java") as folder:
        for path in sorted(folder.rglob("*.java")):
            range_, *names = path.relative_to(folder).parts
            if _is_within(release, range_):
                found["/".join(names)] = path.read_text("utf-8")
    return found


def _is_within(release: str, range_: str) -> bool:
    """Whether a release is within a range: ``to-4.2``, ``in-4.3``, ``from-4.4`` and the like.

    4.2.1 is a release of 4.2.
    """
    if range_ == EVERY_RELEASE:
        return True
    way, _, bound = range_.partition("-")
    end = release_numbers(bound)
    numbers = release_numbers(release)[: len(end)]
    return {"to": numbers <= end, "in": numbers == end, "from": numbers >= end}[way]


def unpack_native_library(jars: list[Path], folder: Path) -> None:
    """Unpack RocksDB's library once: each JVM that is killed would leave its own copy.

    Args:
        jars: those of RocksDB are among them.
        folder: where it goes; it does not exist yet.
    """
    folder.mkdir()
    name = f"librocksdbjni-{_NATIVE.get(platform.machine(), '')}.so"
    for path in jars:
        if path.name.startswith("rocksdbjni-"):
            with ZipFile(path) as jar:
                if name in jar.namelist():
                    jar.extract(name, folder)


SESSION = b"""{"id": 0, "op": "hello", "protocol": 2}
{"id": 1, "op": "open", "directory": "%s", "task": "0_0", \
"changelog": ["log", 0], "guarantee": "exactly-once", "config": {}}
{"id": 2, "op": "put", "key": "YQ==", "value": "MQ==", "record": ["input", 0, 7, 1000]}
{"id": 3, "op": "put_all", "entries": [["Yg==", "Mg=="], ["Yw==", null]]}
{"id": 4, "op": "commit", "offsets": [["log", 0, 2]]}
{"id": 5, "op": "restore", "topic": "log", "partition": 0, \
"entries": [["Yw==", "Mw==", 3, 0, []]]}
{"id": 6, "op": "range", "from": null, "to": null}
{"id": 7, "op": "next", "iterator": 1, "limit": 9}
{"id": 8, "op": "close_iterator", "iterator": 1}
{"id": 9, "op": "position"}
{"id": 10, "op": "close"}
"""
"""A session that loads the classes that most stores need."""


def _archive_classes(release: str, target: Path) -> None:
    """Let a JVM write the classes that it has loaded. Without the archive a start takes longer."""
    words = shlex.split(host_command(release, "kafka:rocksdb", default_layer(release)))
    made = target / f"classes-{os.getpid()}.jsa"
    at = words.index("-cp")
    words[at:at] = [f"-XX:ArchiveClassesAtExit={made}"]
    with tempfile.TemporaryDirectory(prefix="streamproof-jvm-") as state:
        subprocess.run(
            words,
            input=SESSION % state.encode(),
            capture_output=True,
            check=False,
            timeout=COMPILER_TIMEOUT_S,
        )
    if made.is_file():
        made.rename(target / CLASSES)
