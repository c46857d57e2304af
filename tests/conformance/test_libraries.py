"""Libraries in C are compiled once, and the user's cache is no condition for it."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from streamproof.stores.syscalls.preloaded_libraries import CannotBuildError, build_library

SOURCE = "int answer(void) { return 42; }"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source that compiles."""
    path = tmp_path / "small.c"
    path.write_text(SOURCE)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "streamproof"


def test_a_library_is_compiled_once(source: Path, cache: Path, tmp_path: Path) -> None:
    """And it works, and nothing else is left in the cache."""
    built = build_library(source, tmp_path / "unused")
    assert list(cache.iterdir()) == [built]
    assert ctypes.CDLL(str(built)).answer() == 42
    before = built.stat()
    assert build_library(source, tmp_path / "unused") == built
    assert built.stat().st_ino == before.st_ino


def test_another_source_is_another_library(source: Path, cache: Path, tmp_path: Path) -> None:
    """So that a new version never runs what the one before compiled."""
    first = build_library(source, tmp_path)
    source.write_text(SOURCE.replace("42", "43"))
    second = build_library(source, tmp_path)
    assert {first, second} == set(cache.iterdir())
    assert ctypes.CDLL(str(second)).answer() == 43


def test_a_source_with_a_mistake_leaves_nothing(source: Path, cache: Path, tmp_path: Path) -> None:
    source.write_text("int answer(void) {")
    directory = tmp_path / "directory"
    directory.mkdir()
    with pytest.raises(CannotBuildError, match=r"the C compiler .* failed \(.*error"):
        build_library(source, directory)
    assert not list(directory.iterdir())
    assert not list(cache.iterdir())


@pytest.mark.parametrize("name", ["with space", "with:colon", "file/in the way"])
def test_a_cache_that_cannot_be_used(
    name: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What LD_PRELOAD could not name, or what cannot be made: the given directory serves."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    directory = tmp_path / "directory"
    directory.mkdir()
    built = build_library(source, directory)
    assert built.parent == directory


def test_without_a_compiler_the_remedy_is_told(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotBuildError) as told:
        build_library(source, tmp_path)
    expected = "no C compiler (cc, gcc or clang) was found; install gcc or clang"
    assert str(told.value) == expected


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("#!/bin/sh\necho 'cc: error: out of order' >&2; exit 1", "(cc: error: out of order)"),
        ("#!/bin/sh\nexit 4", "(exit code 4)"),
        ("#!/bin/sh\nexit 0", "(exit code 0)"),
        ("#!/nowhere/sh\n", "(No such file or directory)"),
    ],
)
def test_a_compiler_that_fails(
    script: str, text: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own words are told, and nobody is told to install another one."""
    compiler = tmp_path / "bin" / "cc"
    compiler.parent.mkdir()
    compiler.write_text(script)
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(compiler.parent))
    with pytest.raises(CannotBuildError) as told:
        build_library(source, tmp_path)
    remedy = "mend it, or put another one first on the PATH"
    assert str(told.value) == f"the C compiler {compiler} failed {text}; {remedy}"


def test_no_directory_can_hold_the_library(source: Path, cache: Path, tmp_path: Path) -> None:
    """The message names the directories, and says which variable chooses another one."""
    cache.parent.write_text("in the way")
    directory = tmp_path / "with space"
    directory.mkdir()
    with pytest.raises(CannotBuildError) as told:
        build_library(source, directory)
    remedy = "set XDG_CACHE_HOME to another directory"
    expected = (
        f"{cache} cannot be made (Not a directory); {remedy}; "
        f"{directory} has a space or a colon in its name; {remedy}"
    )
    assert str(told.value) == expected
