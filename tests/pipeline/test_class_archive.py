"""The archive of Spark's classes: a JVM makes it, the next one uses it, and none is needed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from streamproof.reports.pipeline import class_archive

JAVA = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
SPARK = "4.0 somewhere"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, in a directory whose name has a space."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "the cache"))
    monkeypatch.delenv("CI", raising=False)
    return tmp_path / "the cache" / "streamproof"


def archive_options(java: str, spark: str, *, makes: bool = True) -> str:
    """The options of a JVM that may make an archive."""
    return class_archive.archive_options(java, spark, makes=makes)


def run_java(*options: str) -> str:
    """What a JVM with the options of the archive prints."""
    words = ["java", *shlex.split(archive_options(JAVA, SPARK)), *options, "-version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def test_a_jvm_makes_what_the_next_one_uses(cache: Path) -> None:
    """Neither says a word about it."""
    assert run_java() == JAVA
    (made,) = cache.iterdir()
    assert made.name.endswith(f".{os.getpid()}.made")
    assert run_java() == JAVA
    (archive,) = cache.iterdir()
    assert archive.name.endswith(f".{archive.stat().st_size}.jsa")
    words = ("-XX:+UnlockDiagnosticVMOptions", "-XX:+PrintSharedArchiveAndExit", "-Xlog:class+path")
    assert "archive is valid" in run_java(*words)


def test_another_java_or_spark_has_an_archive_of_its_own() -> None:
    run_java()
    assert "SharedArchiveFile" in archive_options(JAVA, SPARK)
    assert "SharedArchiveFile" not in archive_options(JAVA, "4.1 somewhere")
    assert "SharedArchiveFile" not in archive_options(f"{JAVA} ", SPARK)


def test_one_of_two_that_were_made_side_by_side_is_kept(cache: Path) -> None:
    run_java()
    (made,) = cache.iterdir()
    shutil.copy(made, made.with_name(made.name.replace(str(os.getpid()), "1")))
    run_java()
    (archive,) = cache.iterdir()
    assert archive.suffix == ".jsa"


def test_what_is_not_whole_is_not_used_and_is_deleted_later(cache: Path) -> None:
    """A JVM that is killed while it writes leaves a file without its first bytes."""
    run_java()
    (made,) = cache.iterdir()
    made.chmod(0o600)
    made.write_bytes(bytes(4) + made.read_bytes()[4:])
    assert "SharedArchiveFile" not in archive_options(JAVA, SPARK)
    assert made.exists()
    os.utime(made, (0, 0))
    archive_options(JAVA, SPARK)
    assert not made.exists()


def test_an_archive_that_was_cut_off_is_made_again(cache: Path) -> None:
    """Java itself would crash with it."""
    run_java()
    run_java()
    (archive,) = cache.iterdir()
    archive.chmod(0o600)
    archive.write_bytes(archive.read_bytes()[:1000])
    assert run_java() == JAVA
    assert "SharedArchiveFile" in archive_options(JAVA, SPARK)


def test_nothing_is_written_where_it_would_be_in_vain(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a job of CI, on another virtual machine, or where the cache cannot be."""
    assert archive_options("Eclipse OpenJ9 VM", SPARK) == ""
    monkeypatch.setenv("CI", "true")
    assert archive_options(JAVA, SPARK) == ""
    monkeypatch.delenv("CI")
    assert archive_options(JAVA, SPARK, makes=False) == ""
    assert archive_options(JAVA, SPARK) != ""
    cache.rmdir()
    cache.touch()
    assert archive_options(JAVA, SPARK) == ""
