"""The stores in Java that tests judge, compiled."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE, class_path_of

__all__ = ["RIGHT_JAVA_STORES", "compile_right_stores", "compile_subjects"]

ROOT = Path(__file__).resolve().parents[1]

RIGHT_JAVA_STORES = ("java:com.acme.LedgerStore", "java:com.acme.state.MvStores#orders")
"""The store of the tests and that of ``examples/java-store``: both keep their promises."""


def compile_subjects(place: Path) -> Path:
    """Compile the Java files of ``tests/subjects``.

    Args:
        place: an empty directory for the classes and the names of the jars.

    Returns:
        The directory of the classes.
    """
    classes, jars = place / "classes", place / "jars"
    jars.mkdir()
    found = ":".join(map(str, class_path_of(DEFAULT_RELEASE, jars)))
    sources = sorted((ROOT / "tests" / "subjects" / "java").rglob("*.java"))
    command = ["javac", "-nowarn", "-d", str(classes), "-cp", found, *map(str, sources)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    return classes


def compile_right_stores(place: Path) -> str:
    """The class path of all ``RIGHT_JAVA_STORES``, compiled into an empty directory."""
    project, found = place / "java-store", place / "jars-of-the-example"
    shutil.copytree(ROOT / "examples" / "java-store", project)
    goals = ["compile", "dependency:build-classpath", "-DincludeScope=runtime"]
    command = ["mvn", "--quiet", "--batch-mode", *goals, f"-Dmdep.outputFile={found}"]
    subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=600)
    parts = [str(compile_subjects(place)), str(project / "target" / "classes"), found.read_text()]
    return os.pathsep.join(parts)
