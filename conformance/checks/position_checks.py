"""Position: the input offsets that the content of a store reflects (KIP-796, KIP-1035)."""

from __future__ import annotations

from random import Random
from typing import Any

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.checks.crash_checks import campaign
from streamproof.conformance.crash.program import PARTITIONS, ProgramBuilder, random_program
from streamproof.conformance.lab import CHANGELOG, ChangelogRecord
from streamproof.conformance.similar_partitions import LARGE_OFFSET, SIMILAR
from streamproof.conformance.trial import Handle, Trial
from streamproof.conformance.violations import Skipped
from streamproof.stores.api import TopicPartition
from streamproof.stores.timestamps import ValueAndTimestamp

INPUT = ("input", 0)

POSITION_FILES = "*.position"
"""The files that hold positions before KIP-1035: ``<store>.position`` and ``.position``."""


@check("POS-001", "POS-002", "POS-003", "POS-004")
def follows_the_records(t: Trial) -> None:
    """Write while input records of several partitions are being processed."""
    store = t.open()
    t.claim("POS-001", "read the position of an empty store")
    t.expect(store.position(), {})
    t.claim("POS-002", "put while an input record is being processed")
    t.processing(5)
    store.put(b"a", b"1")
    t.expect(store.position(), {INPUT: 5})
    t.claim("POS-003", "put while an earlier record of the same partition is being processed")
    t.processing(3)
    store.put(b"b", b"2")
    t.expect(store.position(), {INPUT: 5})
    t.claim("POS-004", "put while records of other partitions and topics are being processed")
    t.processing(1, partition=7)
    store.put(b"c", b"3")
    t.processing(0, topic="other")
    store.put(b"c", b"4")
    t.expect(store.position(), {INPUT: 5, ("input", 7): 1, ("other", 0): 0})


@check("POS-004", "POS-007")
def similar_partitions_are_told_apart(t: Trial) -> None:
    """Write while records of partitions with similar names and large offsets are processed."""
    t.claim("POS-004", "put while records of similar partitions are being processed")
    store = t.open()
    expected: dict[tuple[str, int], int] = {}
    for number, (topic, partition) in enumerate(SIMILAR):
        t.processing(LARGE_OFFSET + number, topic=topic, partition=partition)
        store.put(b"a", b"%d" % number)
        expected[topic, partition] = LARGE_OFFSET + number
    t.expect(store.position(), expected)
    if not t.run.applies("POS-007"):
        return
    t.claim("POS-007", "commit, close, and read the position of similar partitions")
    t.idle()
    store.commit({CHANGELOG: 1})
    store = t.reopen(store)
    t.expect(store.position(), expected)


@check("POS-005", "POS-006")
def every_kind_of_write(t: Trial) -> None:
    """Write by every method, with and without an input record."""
    store = t.open()
    ways = every_write(t)
    for offset, (method, arguments) in enumerate(ways):
        t.claim("POS-005", f"call {method} while a record is being processed")
        t.processing(offset)
        store.call(method, *arguments)
        t.expect(store.position(), {INPUT: offset})
    t.claim("POS-006", "put while no record is being processed")
    t.idle()
    store.put(b"e", b"4")
    t.expect(store.position(), {INPUT: len(ways) - 1})


def every_write(t: Trial) -> list[tuple[str, tuple[Any, ...]]]:
    """Calls of every method that writes. Each of them changes the content of the store."""
    ways: list[tuple[str, tuple[Any, ...]]] = [
        ("put", (b"a", b"1")),
        ("delete", (b"a",)),
        ("put_all", ([(b"b", b"2"), (b"c", None)],)),
        ("put_if_absent", (b"d", b"3")),
        ("put", (b"d", None)),
    ]
    pair = ValueAndTimestamp(b"2", 5)
    if t.lab.subject.capabilities.timestamped:
        ways += [
            ("put_with_timestamp", (b"f", b"1", 5)),
            ("delete_with_timestamp", (b"f",)),
            ("put_all_with_timestamp", ([(b"g", pair)],)),
            ("put_if_absent_with_timestamp", (b"h", b"1", 5)),
            ("put_with_timestamp", (b"g", None, 5)),
        ]
    if t.run.applies("TS-022"):
        ways += [
            ("put_value_and_timestamp", (b"i", pair)),
            ("put_value_and_timestamp_if_absent", (b"j", pair)),
        ]
    return ways


@check("POS-007")
def outlives_a_restart(t: Trial) -> None:
    """Commit, close and reopen, twice."""
    t.claim("POS-007", "commit, close, and read the position with a new store")
    store = t.open()
    t.processing(5)
    store.put(b"a", b"1")
    t.processing(9, topic="other-topic", partition=2)
    store.put(b"b", b"2")
    store.commit({CHANGELOG: 1})
    expected = {INPUT: 5, ("other-topic", 2): 9}
    for _ in range(2):
        store = t.reopen(store)
        t.expect(store.position(), expected)
    t.processing(6)
    store.put(b"a", b"3")
    t.expect(store.position(), expected | {INPUT: 6})


@check("POS-008")
def restoring(t: Trial) -> None:
    """Restore changelog records, and read the position."""
    t.claim("POS-008", "restore records, and read the position")
    store = t.open()
    t.restore(store, [ChangelogRecord(b"a", b"1", 17), ChangelogRecord(b"b", b"2", 18)])
    t.expect(store.position(), {})


@check("POS-009")
def discarded_writes(t: Trial) -> None:
    """Close without a commit, and read the position with a new store."""
    t.claim("POS-009", "write without a commit, close, and read the position with a new store")
    store = t.open()
    t.processing(1)
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 0})
    t.processing(2)
    store.put(b"a", b"2")
    store = t.reopen(store)
    t.expect((store.position(), store.get(b"a")), ({INPUT: 1}, b"1"))


@check("POS-010")
def discarded_transaction(t: Trial) -> None:
    """Write in a transaction, discard it, and read the position."""
    t.claim("POS-010", "write in a transaction, close it, and read the position of the store")
    store = t.open()
    t.processing(1)
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 0})
    transaction = store.begin()
    t.processing(2)
    transaction.put(b"a", b"2")
    transaction.close()
    t.idle()
    t.expect(store.position(), {INPUT: 1})
    transaction = store.begin()
    t.processing(3)
    transaction.put(b"a", b"3")
    t.idle()
    transaction.commit({CHANGELOG: 1})
    t.expect(store.position(), {INPUT: 3})


@check("POS-011")
def read_is_a_copy(t: Trial) -> None:
    """Change a position that was read, and read it again."""
    t.claim("POS-011", "change a position that was read, and read it again")
    store = t.open()
    t.processing(1)
    store.put(b"a", b"1")
    t.note(f'{store.label}.position.update("input", 0, 99)')
    with t.watching("position.update()"):
        store.raw.position.update("input", 0, 99)
    t.expect(store.position(), {INPUT: 1})


@check("POS-013")
def position_file_is_taken_over(t: Trial) -> None:
    """Open a store next to the .position file of an older version, twice."""
    t.claim("POS-013", "open a store next to a .position file, and look for the file")
    older = t.open_older()
    write_at(t, older, 5)
    older.close()
    if not position_files(t):
        raise Skipped("The older store keeps its position in no file of its own.")
    store = t.open()
    expect_taken_over(t, store, 5)
    store = t.reopen(store)
    t.expect(store.position(), {INPUT: 5})
    if t.run.settings.guarantee == "exactly-once":
        # Under exactly-once, files without an offset are those of a crash.
        return
    store.close()
    t.claim("POS-013", "open a store without a changelog next to a .position file")
    t.wipe()
    older = t.open_older()
    write_at(t, older, 5, {})
    older.close()
    if position_files(t):
        expect_taken_over(t, t.open(), 5)


@check("POS-014")
def position_file_of_a_downgrade_is_taken_over(t: Trial) -> None:
    """Close a store with upgrade.from, and upgrade at once, and after the older store wrote."""
    t.claim("POS-014", "close with upgrade.from, open without, and look for a .position file")
    store = t.open_before_downgrade()
    write_at(t, store, 5)
    store.close()
    if not position_files(t):
        raise Skipped("The store leaves its position in no file of its own.")
    store = t.open()
    expect_taken_over(t, store, 5)
    write_at(t, store, 6)
    store = t.reopen(store)
    expect_taken_over(t, store, 6)
    store.close()
    t.claim("POS-014", "write with the older store after a downgrade, and upgrade again")
    store = t.open_before_downgrade()
    write_at(t, store, 7)
    store.close()
    older = t.open_older()
    write_at(t, older, 8)
    older.close()
    store = t.open()
    expect_taken_over(t, store, 8)
    store = t.reopen(store)
    t.expect(store.position(), {INPUT: 8})


def write_at(
    t: Trial,
    store: Handle,
    offset: int,
    offsets: dict[TopicPartition, int] | None = None,
) -> None:
    """Put while an input record of this offset is being processed, and commit.

    ``offsets`` are those of the commit; by default, the changelog has the same offset.
    """
    t.processing(offset)
    store.put(b"a", b"%d" % offset)
    t.idle()
    store.commit({CHANGELOG: offset} if offsets is None else offsets)


def position_files(t: Trial) -> list[str]:
    """The files of the task that have a position in them, by name."""
    return sorted(path.name for path in t.lab.directory.rglob(POSITION_FILES))


def expect_taken_over(t: Trial, store: Handle, offset: int) -> None:
    """Demand this position, and that no file has it any more."""
    t.expect(store.position(), {INPUT: offset})
    left = position_files(t)
    gone = f"not list(lab.directory.rglob({POSITION_FILES!r}))"
    t.expect_shown(gone, not left, "no file with a position", left)


@check("POS-012", raw=True, weight=70)
def position_after_a_crash(run: CheckRun) -> None:
    """Kill the process around commits, and compare the position with the offsets."""
    crashes = campaign(run)
    random = Random(run.seed)
    # Under exactly-once, a store without transactions opens only after a clean close.
    crashes.boundaries(ProgramBuilder().put(b"a", b"1").commit().then("close").build())
    flushed = ProgramBuilder().put(b"a", b"1").commit().put(b"b", b"2").then("flush")
    crashes.boundaries(flushed.put(b"a", b"3").commit().then("flush").build())
    for _ in range(2):
        crashes.boundaries(random_program(random, commits=3, partitions=PARTITIONS))
    builder = ProgramBuilder().put(b"a", b"1").put(b"b", b"2").commit().then("flush")
    builder.put(b"a", b"3").put(b"b", None).commit().then("flush")
    program = builder.put(b"a", b"uncommitted").then("close").build()
    crashes.syscalls(program, 5, span=len(program) - 5, share=0.5)
    crashes.lines(program, 7)
