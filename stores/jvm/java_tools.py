"""The commands of a JDK: how every JVM is started, and how our own sources are compiled."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from zipfile import ZipFile

from streamproof.errors import UsageError
from streamproof.stores.jvm.kafka_jars import require_tool

__all__ = [
    "CLASSES",
    "COMPILER_TIMEOUT_S",
    "compile_java",
    "java_command",
    "require_java",
    "shared_classes",
]

JAVA_REMEDY = "Install a JDK from 17 on, for example with: apt-get install openjdk-17-jdk-headless"

COMPILER_TIMEOUT_S = 120.0
"""The compiler takes a few seconds."""

FAST_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xmx512m")
"""Most JVMs of a run live for less than a second: what pays off later only costs."""

CRASHES_TOLD = ("-XX:+ErrorFileToStderr", "-XX:-CreateCoredumpOnCrash")
"""A JVM that crashes leaves neither a report nor a core in the current directory."""

CLASSES = "classes.jsa"
"""The archive of the classes that a JVM has loaded: another JVM maps it into its memory."""


def require_java(name: str = "java") -> str:
    """The path of a program of the JDK.

    Raises:
        UsageError: it is not installed.
    """
    return require_tool(name, JAVA_REMEDY)


def java_command(class_path: Sequence[Path | str], *options: str) -> list[str]:
    """The beginning of a command that starts a JVM, up to the main class.

    Args:
        class_path: jars and directories.
        options: options of the JVM besides ours.

    Raises:
        UsageError: Java is not installed.
    """
    path = ":".join(map(str, class_path))
    return [require_java(), *FAST_START, *CRASHES_TOLD, *options, "-cp", path]


def shared_classes(built: Path) -> list[str]:
    """The options for the archive of classes in a directory, if there is one."""
    archive = built / CLASSES
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"] if archive.is_file() else []


def compile_java(
    sources: Mapping[str, str],
    class_path: Sequence[Path],
    building: Path,
    jar_name: str,
    manifest: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Compile sources of our own into a jar.

    Args:
        sources: their texts, by the path below the root of their packages.
        class_path: the jars that they need.
        building: the directory for the jar.
        jar_name: the name of the jar.
        manifest: what the manifest of the jar has, by attribute; without any, there is none.

    Raises:
        UsageError: there is no compiler, or the sources do not fit this release of Kafka.
    """
    compiler = require_java("javac")
    folder, classes = building / "sources", building / "classes"
    for name, text in sources.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    # Without the option each JVM leaves a directory among the temporary files.
    command = [
        compiler,
        "-J-XX:-UsePerfData",
        "-nowarn",
        "-d",
        str(classes),
        "-cp",
        ":".join(map(str, class_path)),
    ]
    done = subprocess.run(
        [*command, *(str(folder / name) for name in sources)],
        capture_output=True,
        text=True,
        check=False,
        timeout=COMPILER_TIMEOUT_S,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise UsageError(
            f"{jar_name} does not compile against this release of Kafka: "
            f"{said[0] if said else 'the compiler did not say why'}. Take another release."
        )
    # The archive of classes takes jars alone.
    with ZipFile(building / jar_name, "w") as jar:
        if manifest:
            lines = [f"{name}: {value}\n" for name, value in manifest.items()]
            jar.writestr("META-INF/MANIFEST.MF", "".join(["Manifest-Version: 1.0\n", *lines]))
        for path in sorted(classes.rglob("*.class")):
            jar.write(path, path.relative_to(classes))
    shutil.rmtree(classes)
