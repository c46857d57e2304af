"""Position: the input offsets that the content of a store reflects (KIP-796, KIP-1035)."""

from __future__ import annotations

from random import Random

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.checks.crash_checks import campaign
from streamproof.conformance.crash.program import PARTITIONS, ProgramBuilder, random_program
from streamproof.conformance.lab import CHANGELOG, ChangelogRecord
from streamproof.conformance.trial import Trial

INPUT = ("input", 0)


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


@check("POS-005", "POS-006")
def every_kind_of_write(t: Trial) -> None:
    """Delete, put a batch and put if absent, with and without an input record."""
    store = t.open()
    t.claim("POS-005", "delete, put_all and put_if_absent while records are being processed")
    t.processing(1)
    store.put(b"a", b"1")
    t.processing(2)
    store.delete(b"a")
    t.expect(store.position(), {INPUT: 2})
    t.processing(3)
    store.put_all([(b"b", b"2"), (b"c", None)])
    t.expect(store.position(), {INPUT: 3})
    t.processing(4)
    store.put_if_absent(b"d", b"3")
    t.expect(store.position(), {INPUT: 4})
    t.claim("POS-006", "put while no record is being processed")
    t.idle()
    store.put(b"e", b"4")
    t.expect(store.position(), {INPUT: 4})


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
