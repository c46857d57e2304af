"""Compiles our own sources in Java against a release of Kafka."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from zipfile import ZipFile

from streamproof.errors import UsageError
from streamproof.stores.jvm.kafka_jars import require_tool

__all__ = ["COMPILER_TIMEOUT_S", "JAVA_REMEDY", "compile_java"]

JAVA_REMEDY = "Install a JDK from 17 on, for example with: apt-get install openjdk-17-jdk-headless"

COMPILER_TIMEOUT_S = 120.0
"""The compiler takes a few seconds."""


def compile_java(
    sources: Mapping[str, str], class_path: Sequence[Path], building: Path, jar_name: str
) -> None:
    """Compile sources of our own into a jar.

    Args:
        sources: their texts, by the path below the root of their packages.
        class_path: the jars that they need.
        building: the directory for the jar.
        jar_name: the name of the jar.

    Raises:
        UsageError: there is no compiler, or the sources do not fit this release of Kafka.
    """
    compiler = require_tool("javac", JAVA_REMEDY)
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
        for path in sorted(classes.rglob("*.class")):
            jar.write(path, path.relative_to(classes))
    shutil.rmtree(classes)
