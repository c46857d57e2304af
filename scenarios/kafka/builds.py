"""Our own Java, compiled once, in the user's cache: the applications and the recorder."""

from __future__ import annotations

import shutil
from importlib import resources
from pathlib import Path

from streamproof.errors import UsageError
from streamproof.scenarios import kafka
from streamproof.stores.jvm.cached_builds import built_once
from streamproof.stores.jvm.host_build import unpack_native_library
from streamproof.stores.jvm.java_tools import compile_java, require_java
from streamproof.stores.jvm.kafka_jars import (
    APPLICATION,
    DEFAULT_RELEASE,
    class_path_of,
    release_numbers,
)

__all__ = ["NATIVE", "built_application", "built_recorder", "recorder_option"]

BYTE_BUDDY = "net.bytebuddy:byte-buddy:1.15.11"
"""Changes classes while they are loaded; it knows those of Java 24, and runs on Java 8."""

NATIVE = "native"
"""The directory with the native library of RocksDB, beside the applications."""

ALL_TOPOLOGIES = [3, 3]
"""The first release that can run all topologies."""

RECORDER = "recorder.jar"

MANIFEST = {
    "Premain-Class": "streamproof.recorder.Agent",
    "Main-Class": "streamproof.recorder.Hooks",
}


def built_application(release: str) -> Path:
    """The directory with the applications for a release, which is built unless it is there."""
    sources = _sources("application")
    if release_numbers(release) < ALL_TOPOLOGIES:
        # These take the place of topologies that need methods which the release lacks.
        sources |= _sources("application", "java-to-3.2")

    def make(building: Path) -> None:
        jars = class_path_of(release, building, APPLICATION)
        compile_java(sources, jars, building, "application.jar")
        unpack_native_library(jars, building / NATIVE)

    depends_on = [require_java("javac"), NATIVE, *sources, *sources.values()]
    return built_once(f"kafka-{release}-application", depends_on, make)


def built_recorder() -> Path:
    """The jar of the recorder, which is built unless it is there. It fits every release."""
    sources = _sources("recorder")

    def make(building: Path) -> None:
        jars = class_path_of(DEFAULT_RELEASE, building, [BYTE_BUDDY])
        compile_java(sources, jars, building, RECORDER, MANIFEST)
        # The recorder loads it apart from the classes of the application.
        shutil.copy(jars[0], building / "byte-buddy.jar")

    depends_on = [require_java("javac"), BYTE_BUDDY, *sources, *sources.values()]
    return built_once("kafka-recorder", depends_on, make) / RECORDER


def recorder_option(directory: Path, name: str = "") -> str:
    """The option of Java with which a process is recorded.

    Args:
        directory: where the recording goes.
        name: the name of the instance; by default, each state directory is one.

    Raises:
        UsageError: the recorder cannot be built here, or cannot be told of the directory.
    """
    given = f"out={directory}" + (f",name={name}" if name else "")
    if given.count(",") != bool(name) or any(each.isspace() for each in given):
        raise UsageError(
            f"The recorder takes no comma and no space in {given!r}. Choose another directory or "
            "name."
        )
    return f"-javaagent:{built_recorder()}={given}"


def _sources(package: str, root: str = "java") -> dict[str, str]:
    """The sources of one of our packages, by their paths below the root of all packages."""
    with resources.as_file(resources.files(kafka) / root) as folder:
        return {
            str(path.relative_to(folder)): path.read_text("utf-8")
            for path in sorted((folder / "streamproof" / package).rglob("*.java"))
        }
