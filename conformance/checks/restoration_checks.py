"""Restoration: rebuilding the content from the changelog."""

from __future__ import annotations

from collections.abc import Callable

from streamproof.conformance.check_registry import check
from streamproof.conformance.lab import CHANGELOG, ChangelogRecord
from streamproof.conformance.oracle import Write, fold
from streamproof.conformance.trial import Handle, Trial

Writes = list[tuple[bytes, bytes | None]]


def records(writes: Writes) -> list[ChangelogRecord]:
    """Changelog records with consecutive offsets."""
    return [ChangelogRecord(key, value, offset) for offset, (key, value) in enumerate(writes)]


def content(writes: Writes) -> dict[bytes, bytes]:
    """The content that the writes give."""
    return fold(Write(CHANGELOG, offset, *write) for offset, write in enumerate(writes))


def expect_fold(t: Trial, store: Handle, writes: Writes) -> None:
    """Demand that the store holds the content that the writes give."""
    expected = content(writes)
    for key in sorted({key for key, _ in writes}):
        t.expect(store.get(key), expected.get(key))
    if t.lab.subject.capabilities.scan:
        t.expect(sorted(store.scan("all")), sorted(expected.items()))


@check("RESTORE-001", given=lambda g: {"writes": g.writes(12)})
def restore_into_empty(t: Trial, writes: Writes) -> None:
    """Restore a changelog into an empty store."""
    t.claim("RESTORE-001", "restore a changelog in one batch")
    store = t.open()
    t.restore(store, records(writes))
    expect_fold(t, store, writes)


@check("RESTORE-002", "RESTORE-003")
def tombstones_and_order(t: Trial) -> None:
    """Restore batches in which a key is put, deleted and put again."""
    store = t.open()
    t.claim("RESTORE-002", "restore a put and a tombstone")
    t.restore(store, records([(b"a", b"1"), (b"b", b"2")]))
    t.restore(store, records([(b"a", None)]))
    t.expect((store.get(b"a"), store.get(b"b")), (None, b"2"))
    t.claim("RESTORE-003", "restore a delete and a put of one key in one batch")
    t.restore(store, records([(b"b", None), (b"b", b"3"), (b"c", b"1"), (b"c", None)]))
    t.expect((store.get(b"b"), store.get(b"c")), (b"3", None))


@check("RESTORE-004", given=lambda g: {"writes": g.writes(10)})
def replaying_twice(t: Trial, writes: Writes) -> None:
    """Restore the same changelog twice."""
    t.claim("RESTORE-004", "restore the same changelog twice")
    store = t.open()
    t.restore(store, records(writes))
    t.restore(store, records(writes))
    expect_fold(t, store, writes)


@check("RESTORE-005", given=lambda g: {"writes": g.writes(12), "at": g.cuts()})
def batches_do_not_matter(t: Trial, writes: Writes, at: set[int]) -> None:
    """Restore a changelog in batches."""
    t.claim("RESTORE-005", "restore a changelog in batches")
    store = t.open()
    batch: list[ChangelogRecord] = []
    for number, record in enumerate(records(writes)):
        batch.append(record)
        if number in at:
            t.restore(store, batch)
            batch = []
    t.restore(store, batch)
    expect_fold(t, store, writes)


@check("RESTORE-008", given=lambda g: {"writes": g.writes(10)})
def restored_content_is_kept(t: Trial, writes: Writes) -> None:
    """Restore, commit, close and reopen."""
    t.claim("RESTORE-008", "restore, commit, close, and read with a new store")
    store = t.open()
    t.restore(store, records(writes))
    store.commit({CHANGELOG: len(writes) - 1})
    store = t.reopen(store)
    expect_fold(t, store, writes)
    if t.lab.subject.capabilities.manages_offsets:
        t.expect(store.committed_offset(CHANGELOG), len(writes) - 1)


@check("RESTORE-009")
def restored_is_committed(t: Trial) -> None:
    """Restore records, and read them as a committed reader."""
    t.claim("RESTORE-009", "restore records, then read them as a committed reader")
    store = t.open()
    t.restore(store, records([(b"a", b"1"), (b"b", b"2")]))
    transaction = store.begin()
    t.expect((transaction.get(b"a"), transaction.get(b"b")), (b"1", b"2"))
    transaction.close()


@check("RESTORE-011")
def values_are_opaque(t: Trial) -> None:
    """Restore values that start like a timestamp, then write and commit something else."""
    t.claim("RESTORE-011", "restore a value that starts with eight bytes like a timestamp")
    unknown = b"\xff" * 8
    in_2023 = (1_700_000_000_000).to_bytes(8, "big")
    store = t.open()
    writes: Writes = [(b"a", unknown + b"value"), (b"b", in_2023 + b"value")]
    t.restore(store, records(writes))
    store.put(b"other", b"1")
    for _ in range(2):
        for key, value in writes:
            t.expect(store.get(key), value)
        store.commit({CHANGELOG: len(writes)})


@check("RESTORE-010", given=lambda g: {"writes": g.writes(8), "more": g.writes(6)})
def live_writes_after_restore(t: Trial, writes: Writes, more: Writes) -> None:
    """Restore a changelog, then write as usual."""
    t.claim("RESTORE-010", "restore a changelog, then write and read")
    store = t.open()
    t.restore(store, records(writes))
    for key, value in more:
        store.put(key, value)
    expect_fold(t, store, writes + more)


@check("RESTORE-012", given=lambda g: {"writes": g.writes(8)})
def logged_by_the_commit(t: Trial, writes: Writes) -> None:
    """Write and commit, and compare the changelog with the content."""
    t.claim("RESTORE-012", "write, commit, and restore another store from the changelog")
    store = t.open()
    for key, value in writes:
        store.put(key, value)
    store.commit({CHANGELOG: len(writes) - 1})
    expect_fold(t, store, writes)
    t.expect(content(t.logged()), content(writes))


@check("RESTORE-013")
def deletes_are_logged(t: Trial) -> None:
    """Delete a key that other stores of the task may still hold."""
    t.claim("RESTORE-013", "put, commit, delete, commit, and read the changelog")
    store = t.open()
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 0})
    store.delete(b"a")
    store.commit({CHANGELOG: 1})
    t.expect(t.logged()[-1], (b"a", None))


@check("RESTORE-014")
def restoring_is_not_logged(t: Trial) -> None:
    """Restore records, and look for new records in the changelog."""
    t.claim("RESTORE-014", "restore records, commit, and read the changelog")
    store = t.open()
    t.restore(store, records([(b"a", b"1"), (b"b", None)]))
    store.commit({CHANGELOG: 1})
    t.expect(t.logged(), [])


@check("RESTORE-017")
def every_mutator_logs(t: Trial) -> None:
    """Write with each method that writes, commit after each, and compare the changelog."""
    t.claim("RESTORE-017", "write with each method, commit, and read the changelog")
    store = t.open()
    key_of: Callable[[bytes], bytes] = getattr(store.raw, "changelog_key", lambda key: key)
    last: dict[bytes, bytes | None] = {}
    calls: list[tuple[Callable[[], object], dict[bytes, bytes | None]]] = [
        (lambda: store.put(b"a", b"1"), {b"a": b"1"}),
        (lambda: store.put_if_absent(b"b", b"1"), {b"b": b"1"}),
        (lambda: store.put_if_absent(b"b", b"2"), {}),
        (lambda: store.put_all([(b"c", b"1"), (b"a", b"2")]), {b"c": b"1", b"a": b"2"}),
        (lambda: store.put_all([(b"d", b"1"), (b"c", None)]), {b"d": b"1", b"c": None}),
        (lambda: store.delete(b"a"), {b"a": None}),
        (lambda: store.put(b"b", None), {b"b": None}),
    ]
    for number, (call, written) in enumerate(calls):
        call()
        store.commit({CHANGELOG: number})
        last |= {key_of(key): value for key, value in written.items()}
        t.expect(dict(t.logged()), last)
