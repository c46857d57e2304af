"""A saved program is a test: it fails while its store is wrong, and passes once it is mended."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from streamproof.conformance import program_runs
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.program_ending import ProgramEnding, unless_refused
from streamproof.conformance.program_runs import made_sure
from streamproof.conformance.program_text import (
    END_OF_SHOWN,
    NO_ANSWER,
    ONLY_SHOWN,
    assertion,
    fails_by_itself,
    has_source,
    render_program,
)
from streamproof.exit_codes import ExitCode
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


NOTED = ["store = lab.open()", "store.get(b'a')", "store.name"]
"""The lines of a program."""


def ended(noted: dict[int, Any], compared: tuple[Any, Any], *, allows_error: bool = False) -> str:
    """The last lines of a program whose lines had these answers."""
    answers = {number: (NOTED[number], answer) for number, answer in noted.items()}
    ending = ProgramEnding(NOTED, answers, compared=2)
    lines = ending.concluded("changed-answer", compared, "why", allows_error=allows_error)
    assert lines[:2] == NOTED[:2]
    return "\n".join(lines[2:])


@pytest.mark.parametrize(
    ("noted", "compared", "allows_error", "end"),
    [
        ({2: "b"}, ("a", "b"), False, "assert store.name == 'a'  # found 'b'"),
        # The check compared something that is not the answer of the line.
        ({2: "b"}, ("A", "B"), False, "assert store.name != 'b'  # why"),
        # The promise names no value, or only a program that asserts less passes with right stores.
        ({2: "b"}, (NO_ANSWER, "b"), False, "assert store.name != 'b'  # why"),
        ({2: object()}, (1, object()), False, "print(store.name)  # why\nraise SystemExit(2)"),
        (
            {2: "b"},
            (None, "b"),
            True,
            (
                "found = None\nwith suppress(Exception): found = store.name\n"
                "assert found == None  # found 'b', and no error"
            ),
        ),
    ],
)
def test_the_end_of_a_program(
    noted: dict[int, Any], compared: tuple[Any, Any], allows_error: bool, end: str
) -> None:
    assert ended(noted, compared, allows_error=allows_error) == end


def test_a_program_that_cannot_show_the_failure_says_so() -> None:
    """In its first line; it never ends with 0, as if the store were mended."""
    program = render_program("rocksdb", "exactly-once", [*NOTED, END_OF_SHOWN])

    assert program.splitlines()[0] == ONLY_SHOWN
    assert not fails_by_itself(program)
    assert fails_by_itself(render_program("rocksdb", "exactly-once", NOTED))


@pytest.mark.parametrize(
    ("end", "is_sure"),
    [("assert store.get(b'a') != None", True), ("assert store.get(b'a') == None", False)],
)
@pytest.mark.parametrize(
    "before",
    [["def doomed():", "    lab.open().put(b'a', b'1')", "lab.crash(doomed)"], []],
    ids=["killed", "not killed"],
)
def test_a_program_is_run_before_it_is_believed(
    before: list[str], end: str, is_sure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_runs, "_has_threads", lambda: False)
    program = render_program("in-memory", "exactly-once", [*before, *NOTED[:1], end])
    (tmp_path / "t1" / "task").mkdir(parents=True)
    sure = made_sure(program, tmp_path / "t1" / "task")

    assert fails_by_itself(sure) is is_sure
    assert sure == (program if is_sure else f"{ONLY_SHOWN}\n{program}{END_OF_SHOWN}\n")
    assert not (tmp_path / "t1").exists()


@pytest.mark.parametrize(("end", "is_sure"), [("assert False", True), ("assert True", False)])
def test_a_process_with_threads_is_not_forked_for_a_program(
    end: str, is_sure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new interpreter runs it."""
    monkeypatch.delattr(program_runs, "fails")
    program = render_program("in-memory", "exactly-once", [*NOTED[:1], end])
    (tmp_path / "task").mkdir()
    done = Event()
    thread = Thread(target=done.wait)
    thread.start()
    try:
        sure = made_sure(program, tmp_path / "task")
    finally:
        done.set()
        thread.join()

    assert fails_by_itself(sure) is is_sure


def test_a_program_with_a_store_host_is_run_if_it_kills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, in a new interpreter: a fork would share the hosts of the check."""
    monkeypatch.delattr(program_runs, "fails")
    killed = ["def doomed():", "    lab.open()", "lab.crash(doomed)", *NOTED[:1]]
    for number, (lines, is_sure) in enumerate(
        [([*killed, "assert False"], True), ([*killed, "assert True"], False), (NOTED[:1], True)]
    ):
        directory = tmp_path / f"t{number}" / "task"
        directory.mkdir(parents=True)
        program = render_program("in-memory", "exactly-once", lines)
        assert fails_by_itself(made_sure(program, directory, is_remote=True)) is is_sure


@pytest.mark.parametrize("is_sure", [True, False])
def test_a_program_that_records_system_calls_is_run(is_sure: bool, tmp_path: Path) -> None:
    """A store that keeps its promise makes it unsure; it begins with the recording anew."""
    guarded = "assert store.get(b'a') != " + ("None" if is_sure else "b'1'")
    lines = [
        "def doomed():",
        "    store = lab.open()",
        "    store.put(b'a', b'1')",
        "    store.commit({CHANGELOG: 0})",
        "lab.power_loss(doomed)",
        "store = lab.open()",
        guarded,
    ]
    program = render_program("rocksdb", "exactly-once", lines)
    (tmp_path / "t1" / "task").mkdir(parents=True)
    sure = made_sure(program, tmp_path / "t1" / "task")

    assert "Lab.record_system_calls()" in program
    assert fails_by_itself(sure) is is_sure


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        ("mystore.py:make", "There is no file 'mystore.py' to load a subject from. "),
        ("mystore:make", "no module named 'mystore'; "),
    ],
)
def test_a_program_in_a_wrong_directory_says_so(subject: str, told: str, tmp_path: Path) -> None:
    """In one sentence, and it does not end as if the store were wrong."""
    (tmp_path / "program.py").write_text(render_program(subject, "exactly-once", NOTED))
    ended = python("program.py", cwd=tmp_path)

    assert ended.returncode == ExitCode.USAGE
    assert told in ended.stderr
    assert ended.stderr.endswith(f"`streamproof verify` ran; this one runs in {tmp_path}.\n")
    assert ended.stderr.count("\n") == 1


def test_a_call_that_may_be_refused_makes_a_program_pass() -> None:
    lines = unless_refused("older = lab.open_older()", "assert older.get(b'a') == b'1'")
    variables: dict[str, Any] = {"lab": None}
    exec("\n".join(lines), variables)  # noqa: S102 - a program of this test

    assert lines[-1] == "    assert older.get(b'a') == b'1'"
