"""A saved program is a test: it fails while its store is wrong, and passes once it is mended."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.program_text import NO_ANSWER, assertion, has_source
from streamproof.stores.api import IsolationLevel
from streamproof.stores.errors import StoreError
from streamproof.stores.windows import Window, Windowed

STORE = """
from streamproof.stores.memory import InMemoryKeyValueStore
from wrong_values import changed


class Store(InMemoryKeyValueStore):
    def get(self, key):
        return changed(super().get(key))


def make():
    return Store("store")
"""

MISTAKES = {
    "an answer": "return value and value + b'!'",
    "an error": "raise RuntimeError('lost')",
    "an answer of another type": "return value and bytearray(value)",
    "an answer without a source": "return value and memoryview(value)",
}


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A Python process in a directory."""
    return subprocess.run(
        [sys.executable, "-P", *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.fixture
def write_store(tmp_path: Path) -> Callable[[str], None]:
    """Writes a store of two modules, whose second one has the body of a function."""
    (tmp_path / "my_store.py").write_text(STORE)

    def write(body: str) -> None:
        (tmp_path / "wrong_values.py").write_text(f"def changed(value):\n    {body}\n")

    return write


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_program_fails_until_its_store_is_mended(
    mistake: str, tmp_path: Path, write_store: Callable[[str], None]
) -> None:
    """From the directory in which verify ran; the second module of the store is there."""
    write_store(mistake)
    options = ["--only", "KV-001,KV-002", "--profile", "smoke", "--seed", "1", "--no-bank"]
    ran = python("-m", "streamproof", "verify", "my_store:make", *options, cwd=tmp_path)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    programs = sorted((tmp_path / "streamproof-out" / "failures").glob("*/*.py"))
    assert programs
    for program in programs:
        done = python(str(program.relative_to(tmp_path)), cwd=tmp_path)
        assert done.returncode == 1, program.read_text()
        assert done.stderr.startswith("Traceback")
    write_store("return value")
    for program in programs:
        done = python(str(program.relative_to(tmp_path)), cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), program.read_text()


def test_a_program_can_be_pasted_into_a_test_function(
    tmp_path: Path, write_store: Callable[[str], None]
) -> None:
    write_store(MISTAKES["an answer"])
    options = ["--only", "KV-001", "--profile", "smoke", "--seed", "1", "--no-bank"]
    python("-m", "streamproof", "verify", "my_store:make", *options, cwd=tmp_path)
    (program,) = (tmp_path / "streamproof-out" / "failures").glob("*/KV-001*.py")
    test = f"def test_a_value() -> None:\n{textwrap.indent(program.read_text(), '    ')}"
    (tmp_path / "test_pasted.py").write_text(test)
    done = python("-m", "pytest", "-q", "test_pasted.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "1 failed" in done.stdout
    write_store("return value")
    done = python("-m", "pytest", "-q", "test_pasted.py", cwd=tmp_path)
    assert "1 passed" in done.stdout


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (b"1", "assert store.get() != b'1'  # why"),
        (None, "assert store.get() != None  # why"),
        (False, "assert store.get()  # why"),
        (True, "assert not (store.get())  # why"),
        ({CHANGELOG: 3}, "assert store.get() != {CHANGELOG: 3}  # why"),
        (
            [(Windowed(b"a", Window(0, 5)), b"1")],
            "assert store.get() != [(Windowed(b'a', Window(0, 5)), b'1')]  # why",
        ),
        (
            IsolationLevel.READ_COMMITTED,
            "assert store.get() != IsolationLevel.READ_COMMITTED  # why",
        ),
        (object, "print(store.get())  # why"),
        ([StoreError()], "print(store.get())  # why"),
        (NO_ANSWER, "print(store.get())  # why"),
    ],
)
def test_an_assertion_fails_with_the_wrong_answer(answer: object, line: str) -> None:
    assert assertion("store.get()", answer, "why") == line
    assert has_source(answer) is line.startswith("assert")


OTHER_TRANSACTION = """
from streamproof.stores.memory import InMemoryKeyValueStore


class Store(InMemoryKeyValueStore):
    def new_transaction(self):
        return InMemoryKeyValueStore("another")


def make():
    return Store("store")
"""


def test_a_line_that_names_an_object_stays_as_it_is(tmp_path: Path) -> None:
    """An object has no source, and an assignment no value that could be printed."""
    (tmp_path / "my_store.py").write_text(OTHER_TRANSACTION)
    options = ["--only", "TXN-012", "--profile", "smoke", "--seed", "1", "--no-bank"]
    python("-m", "streamproof", "verify", "my_store:make", *options, cwd=tmp_path)
    (program,) = (tmp_path / "streamproof-out" / "failures").glob("*/TXN-012*.py")
    last = program.read_text().splitlines()[-1]
    assert last.startswith("transaction = store.new_transaction()  # expected the store itself, ")
    assert python(str(program), cwd=tmp_path).returncode == 0
