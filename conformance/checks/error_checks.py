"""Bad input: the store raises an error and loses nothing that was readable."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from streamproof.conformance.check_registry import check
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.trial import Handle, Trial
from streamproof.conformance.violations import SubjectRaised


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


@check("ERR-002")
def null_key_in_batch(t: Trial) -> None:
    """Pass None for one key of a batch."""
    t.claim("ERR-002", "put_all a batch in which one key is None")
    store = t.open()
    store.put(b"a", b"0")
    batch = [(b"a", b"1"), (None, b"2"), (b"c", b"3")]
    t.expect_raises(lambda: store.put_all(batch), "put_all with a None key raises")
    t.claim("ERR-002", "read after a refused batch: none of its entries must be there")
    t.expect((store.get(b"a"), store.get(b"c")), (b"0", None))


@check("ERR-003")
def damaged_files(t: Trial) -> None:
    """Overwrite the files of a closed store with garbage, then open it."""
    t.claim("ERR-003", "overwrite every file of a closed store with garbage, then open it")
    store = t.open()
    for number in range(50):
        store.put(b"key%d" % number, b"value%d" % number)
    store.commit({CHANGELOG: 49})
    store.close()
    for path in files_below(t.lab.directory):
        size = path.stat().st_size
        path.write_bytes(b"\xde\xad\xbe\xef" * (size // 4 + 1))
    t.note("# Every file in lab.directory is overwritten with garbage here.")
    try:
        store = t.open()
        offset = store.committed_offset(CHANGELOG)
        missing = [n for n in range(50) if store.get(b"key%d" % n) != b"value%d" % n]
    except SubjectRaised:
        t.held()
        return
    t.expect_that(
        offset is None or not missing,
        "an error, or no committed offset",
        f"the committed offset {offset}, with {len(missing)} of 50 keys lost",
    )


def files_below(directory: Path) -> list[Path]:
    """Every regular file below a directory."""
    return sorted(path for path in directory.rglob("*") if path.is_file() and path.stat().st_size)


@check("ERR-004")
def unusable_directory(t: Trial) -> None:
    """Open a store whose task directory is a file."""
    t.claim("ERR-004", "open a store whose task directory is a file")
    t.lab.directory.rmdir()
    t.lab.directory.write_bytes(b"not a directory")
    t.note("# lab.directory is a file here.")
    t.expect_raises(t.open, "init raises")


@check("ERR-005")
def second_process(t: Trial) -> None:
    """Open a directory from a second process while the first has it open."""
    t.claim("ERR-005", "open a directory that another living process has open")
    holder = Holder(t)
    try:
        t.note("# Another living process has the store open here and has put (b'a', b'1').")
        try:
            intruder = t.open()
            intruder.put(b"a", b"intruder")
            intruder.close()
        except SubjectRaised:
            t.held()
    finally:
        holder.finish()
    store = t.open()
    value = store.get(b"a")
    offset = store.committed_offset(CHANGELOG)
    t.expect_that(
        (value, offset) == (b"1", 5),
        "the value b'1' and the offset 5 of the process that had the store open",
        f"{value!r} and {offset!r}",
    )


class Holder:
    """A process that keeps a store open until ``finish`` tells it to commit and close."""

    def __init__(self, t: Trial) -> None:
        ready, self._ready = os.pipe()
        self._finish, finish = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                store = t.lab.rows()
                store.put(b"a", b"1")
                os.write(self._ready, b".")
                os.read(self._finish, 1)
                store.commit({CHANGELOG: 5})
                store.close()
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        os.close(self._ready)
        self._status = t.run.status
        with self._status.operation("init(…) and put(…) in another process"):
            os.read(ready, 1)
        os.close(ready)
        self._told = finish

    def finish(self) -> None:
        """Let the process commit, close and end."""
        os.write(self._told, b".")
        os.close(self._told)
        os.close(self._finish)
        with self._status.operation("commit(…) and close() in another process"):
            os.waitpid(self._pid, 0)


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
    t.expect_that(found == [], "an exception, or no more entries", found)
