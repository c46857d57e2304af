"""Bad input: the store raises an error and loses nothing that was readable."""

from __future__ import annotations

import contextlib
import inspect
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from streamproof.conformance.check_registry import check
from streamproof.conformance.lab import CHANGELOG, Lab
from streamproof.conformance.program_text import render
from streamproof.conformance.trial import Handle, Trial
from streamproof.conformance.violations import Skipped, SubjectRaised, brief


@check("ERR-001", "ERR-006")
def null_keys(t: Trial) -> None:
    """Pass None for a key."""
    store = t.open()
    t.claim("ERR-001", "pass None for the key")
    t.expect_raises(lambda: store.get(None), "get(None) raises")
    t.expect_raises(lambda: store.put(None, b"1"), "put(None, …) raises")
    t.expect_raises(lambda: store.delete(None), "delete(None) raises")
    t.expect_raises(lambda: store.put_if_absent(None, b"1"), "put_if_absent(None, …) raises")
    t.claim("ERR-006", "use the store after it refused bad input")
    store.put(b"a", b"1")
    t.expect(store.get(b"a"), b"1")
    store.commit({CHANGELOG: 0})
    t.expect(store.get(b"a"), b"1")


class Once:
    """Entries that can be read once, like those of a generator."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = entries
        self._rest = iter(entries)

    def __iter__(self) -> Iterator[Any]:
        return self._rest

    def __repr__(self) -> str:
        return f"iter({render(self._entries)})"


@check("ERR-002")
def null_key_in_batch(t: Trial) -> None:
    """Pass None for one key of a batch, which is a list or can be read once."""
    store = t.open()
    store.put(b"a", b"0")
    entries = [(b"a", b"1"), (None, b"2"), (b"c", b"3")]
    for batch in (entries, Once(entries)):
        t.claim("ERR-002", "put_all a batch in which one key is None")
        call = partial(store.put_all, batch)
        t.expect_raises(call, "put_all with a None key raises")
        t.claim("ERR-002", "read after a refused batch: none of its entries must be there")
        t.expect((store.get(b"a"), store.get(b"c")), (b"0", None))


NOT_OFFSETS = (1 << 70, "5", [5])
"""Values that no store can keep as an offset, or that some store can."""


@check("ERR-012")
def failed_commit(t: Trial) -> None:
    """Let a commit fail because of a bad offset, then commit what was staged."""
    t.claim("ERR-012", "stage writes, let a commit fail because of a bad offset, and commit again")
    store = t.open()
    store.put(b"a", b"1")
    store.put(b"b", b"1")
    store.commit({CHANGELOG: 1})
    store.put(b"a", b"staged")
    store.delete(b"b")
    store.put(b"c", b"staged")
    fails = (t.raises(partial(store.commit, {CHANGELOG: each})) for each in NOT_OFFSETS)
    if not any(fails):
        raise Skipped("the store accepts every offset, so no commit fails")
    if t.raises(lambda: store.commit({CHANGELOG: 4})):
        t.held()
        return
    t.expect([store.get(key) for key in (b"a", b"b", b"c")], [b"staged", None, b"staged"])
    if t.lab.subject.capabilities.persistent:
        store.flush()
        store = t.reopen(store)
        t.expect([store.get(key) for key in (b"a", b"b", b"c")], [b"staged", None, b"staged"])


@check("ERR-003")
def damaged_files(t: Trial) -> None:
    """Overwrite the files of a closed store with garbage, then open it."""
    t.claim("ERR-003", "overwrite every file of a closed store with garbage, then open it")
    store = t.open()
    for number in range(50):
        store.put(b"key%d" % number, b"value%d" % number)
    store.commit({CHANGELOG: 49})
    store.close()
    overwrite_files(t)
    with contextlib.suppress(SubjectRaised):
        store = t.open()
        with t.unless_refused():
            offset = store.committed_offset(CHANGELOG)
            missing = [n for n in range(50) if store.get(b"key%d" % n) != b"value%d" % n]
            t.expect_that(
                offset is None or not missing,
                "an error, or no committed offset",
                f"the committed offset {offset}, with {len(missing)} of 50 keys lost",
            )
    t.held()


def overwrite_files(t: Trial) -> None:
    """Overwrite every file of the task that is not empty with garbage."""
    t.note('for each in lab.directory.rglob("*"):')
    t.note("    size = each.stat().st_size if each.is_file() else 0")
    t.note("    if size: each.write_bytes(b'\\xde\\xad\\xbe\\xef' * (size // 4 + 1))")
    for path in sorted(t.lab.directory.rglob("*")):
        size = path.stat().st_size if path.is_file() else 0
        if size:
            path.write_bytes(b"\xde\xad\xbe\xef" * (size // 4 + 1))


@check("ERR-004")
def unusable_directory(t: Trial) -> None:
    """Open a store whose task directory is a file."""
    t.claim("ERR-004", "open a store whose task directory is a file")
    t.lab.directory.rmdir()
    t.lab.directory.write_bytes(b"not a directory")
    t.note("lab.directory.rmdir()")
    t.note('lab.directory.write_bytes(b"not a directory")')
    t.expect_raises(t.open, "init raises")


def living(lab: Lab) -> Iterator[None]:
    """The process that has the store open: it goes on while another one opens the directory."""
    store = lab.rows()
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 5})
    yield
    store.put(b"c", b"3")
    store.commit({CHANGELOG: 6})
    yield
    store.put(b"d", b"4")
    store.commit({CHANGELOG: 8})
    store.close()
    yield


def second(lab: Lab) -> Iterator[None]:
    """The process that opens the directory as well."""
    store = lab.rows()
    store.put(b"b", b"2")
    yield
    store.commit({CHANGELOG: 7})
    store.close()
    yield


@check("ERR-005")
def second_process(t: Trial) -> None:
    """Let two processes write to one directory, and commit in turn."""
    t.claim("ERR-005", "open a directory that another living process has open, and commit in both")
    for line in inspect.getsource(living).splitlines() + inspect.getsource(second).splitlines():
        t.note(f"# {line}".rstrip())
    t.note("# Two processes run these programs: living, second, living, second, living.")
    first, other = Stepwise(t, living), Stepwise(t, second)
    try:
        expect_no_harm(t, first.step("init(…), commit(…) and put(…)"))
        refusal = other.step("a second init(…) and put(…)")
        expect_no_harm(t, first.step("put(…) and commit(…)"))
        refusal = refusal or other.step("commit(…) and close() of the second process")
        expect_no_harm(t, first.step("put(…), commit(…) and close()"))
    finally:
        first.end()
        other.end()
    store = t.open()
    # The commit at offset 8 covers the one at offset 7, if that one has returned.
    keys = (b"a", b"c", b"d") if refusal else (b"a", b"b", b"c", b"d")
    written = {b"a": b"1", b"b": b"2", b"c": b"3", b"d": b"4"}
    t.expect([store.get(key) for key in keys], [written[key] for key in keys])
    t.expect(store.committed_offset(CHANGELOG), 8)


def expect_no_harm(t: Trial, error: str) -> None:
    """Demand that the process that had the store open goes on without an error."""
    t.expect_that(not error, "no error in the process that had the store open", error)


class Stepwise:
    """A process that runs a program step by step: up to its next ``yield`` at each call."""

    def __init__(self, t: Trial, program: Callable[[Lab], Iterator[None]]) -> None:
        orders, self._order = os.pipe()
        self._answers, answer = os.pipe()
        self._status = t.run.status
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._order)
                _obey(program(t.lab), orders, answer)
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        os.close(orders)
        os.close(answer)

    def step(self, what: str) -> str:
        """Run the next step; return its error, or an empty text."""
        os.write(self._order, b".")
        with self._status.operation(f"{what} in another process"):
            told = os.read(self._answers, MOST_OF_AN_ERROR)
        return told.decode().rstrip("\n") if told else "the process died"

    def end(self) -> None:
        """Kill the process, whatever it does."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._order)
        os.close(self._answers)


MOST_OF_AN_ERROR = 1000
"""The bytes of an error that a process tells the other one."""


def _obey(program: Iterator[None], orders: int, answer: int) -> None:
    """Run one step of a program for each byte of orders, and answer with a line."""
    while os.read(orders, 1):
        try:
            next(program)
            error = ""
        except BaseException as raised:
            error = brief(raised)
        os.write(answer, f"{error}\n".encode()[-MOST_OF_AN_ERROR:])


@check("ERR-007")
def iterator_after_close(t: Trial) -> None:
    """Use an iterator after its store was closed."""
    t.claim("ERR-007", "read an iterator whose store was closed")
    store = t.open()
    store.put_all([(b"%d" % number, b"x") for number in range(10)])
    iterator: Handle = store.iterate("all")
    iterator.advance()
    store.close()
    try:
        found = iterator.remaining()
    except SubjectRaised:
        t.held()
        return
    t.expect_or_error(found, [])
