"""The jars of a user come last only where that changes nothing."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from streamproof.stores.jvm.class_paths import may_come_last


def a_jar(path: Path, *names: str, manifest: str = "") -> Path:
    """A jar with empty files of these names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with ZipFile(path, "w") as jar:
        if manifest:
            jar.writestr("META-INF/MANIFEST.MF", manifest)
        for each in names:
            jar.writestr(each, b"")
    return path


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    """A jar of Kafka."""
    return a_jar(
        tmp_path / "m2" / "kafka-1.jar", "kafka/A.class", "kafka/version.properties", "LICENSE"
    )


def test_a_class_that_is_in_both(tmp_path: Path, kafka: Path) -> None:
    """In a jar of another build, in a directory, behind a wildcard, or named by a manifest."""
    other = a_jar(tmp_path / "lib" / "kafka-2.jar", "kafka/A.class", "kafka/B.class")
    (tmp_path / "classes" / "kafka").mkdir(parents=True)
    (tmp_path / "classes" / "kafka" / "A.class").touch()
    long = "Manifest-Version: 1.0\r\nClass-Path: none.jar li\r\n b/kafka-2.jar\r\n"
    naming = a_jar(tmp_path / "naming.jar", manifest=long)

    version = a_jar(tmp_path / "version.jar", "kafka/version.properties")

    for entry in (other, tmp_path / "classes", tmp_path / "lib" / "*", naming, version):
        assert not may_come_last([str(entry)], [kafka])


def test_no_class_that_is_in_both(tmp_path: Path, kafka: Path) -> None:
    """The same jar may be there again, and an entry may be missing."""
    same = tmp_path / "lib" / "kafka-1.jar"
    same.parent.mkdir()
    same.write_bytes(kafka.read_bytes())
    mine = a_jar(tmp_path / "lib" / "mine.jar", "com/Mine.class", "LICENSE")

    assert may_come_last([], [kafka])
    assert may_come_last([str(same), str(mine), str(tmp_path / "none")], [kafka])
    assert may_come_last([str(tmp_path / "lib" / "*")], [kafka])


def test_what_is_no_jar(tmp_path: Path, kafka: Path) -> None:
    """The JVM is left to say so."""
    (tmp_path / "no.jar").write_text("no jar")

    assert not may_come_last([str(tmp_path / "no.jar")], [kafka])
