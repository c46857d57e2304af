"""Commit: what a commit changes, and what it must not change."""

from __future__ import annotations

from streamproof.conformance.check_registry import check
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.oracle import Write, fold
from streamproof.conformance.trial import Handle, Trial

Writes = list[tuple[bytes, bytes | None]]


def content_of(store: Handle, writes: Writes) -> dict[bytes, bytes]:
    """The value that get returns for every written key."""
    found = {key: store.get(key) for key in sorted({key for key, _ in writes})}
    return {key: value for key, value in found.items() if value is not None}


def folded(writes: Writes) -> dict[bytes, bytes]:
    """The content that writes give."""
    return fold(Write(CHANGELOG, offset, *write) for offset, write in enumerate(writes))


@check("COMMIT-001", given=lambda g: {"writes": g.writes(10)})
def commit_changes_no_content(t: Trial, writes: Writes) -> None:
    """Read before and after a commit."""
    t.claim("COMMIT-001", "read every key before and after a commit")
    store = t.open()
    for key, value in writes:
        store.put(key, value)
    t.expect(content_of(store, writes), folded(writes))
    store.commit({CHANGELOG: len(writes)})
    t.expect(content_of(store, writes), folded(writes))


@check("COMMIT-002", "COMMIT-006", given=lambda g: {"writes": g.writes(12), "at": g.cuts()})
def committed_content_survives(t: Trial, writes: Writes, at: set[int]) -> None:
    """Commit several times and at the end, close, reopen and read."""
    t.claim("COMMIT-002", "commit, close, and read with a new store")
    store = t.open()
    for number, (key, value) in enumerate(writes):
        store.put(key, value)
        if number in at and number < len(writes) - 1:
            store.commit({CHANGELOG: number})
    store.commit({CHANGELOG: len(writes)})
    store = t.reopen(store)
    t.expect(content_of(store, writes), folded(writes))
    if t.lab.subject.capabilities.manages_offsets:
        t.claim("COMMIT-006", "commit several times, close, and compare offset and content")
        t.expect(store.committed_offset(CHANGELOG), len(writes))


@check("COMMIT-003")
def commit_of_nothing(t: Trial) -> None:
    """Commit an untouched store, and commit the same offsets twice."""
    t.claim("COMMIT-003", "commit without writes, twice")
    store = t.open()
    store.commit({CHANGELOG: 0})
    store.commit({CHANGELOG: 0})
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 1})
    store.commit({CHANGELOG: 1})
    t.expect(store.get(b"a"), b"1")


@check("COMMIT-004", given=lambda g: {"writes": g.writes(6), "lost": g.writes(6)})
def close_discards_uncommitted(t: Trial, writes: Writes, lost: Writes) -> None:
    """Close a transactional store with uncommitted writes."""
    t.claim("COMMIT-004", "close with uncommitted writes, then read with a new store")
    store = t.open()
    for key, value in writes:
        store.put(key, value)
    store.commit({CHANGELOG: len(writes)})
    for key, value in lost:
        store.put(key, value)
    store = t.reopen(store)
    t.expect(content_of(store, writes + lost), folded(writes))
    if t.lab.subject.capabilities.manages_offsets:
        t.expect(store.committed_offset(CHANGELOG), len(writes))


@check("COMMIT-005")
def flush_does_not_commit(t: Trial) -> None:
    """Flush uncommitted writes of a transactional store, close, reopen."""
    t.claim("COMMIT-005", "flush uncommitted writes, close, then read with a new store")
    store = t.open()
    store.put(b"a", b"1")
    store.commit({CHANGELOG: 0})
    store.put(b"a", b"2")
    store.put(b"b", b"3")
    if callable(getattr(store.raw, "flush", None)):
        store.flush()
    t.expect(store.get(b"a"), b"2")
    store = t.reopen(store)
    t.expect((store.get(b"a"), store.get(b"b")), (b"1", None))


@check("COMMIT-007")
def many_commits(t: Trial) -> None:
    """Write and commit more data than one write buffer holds."""
    t.claim("COMMIT-007", "commit 200 times, 1 KiB each, with small write buffers")
    store = t.open()
    for number in range(200):
        store.put(b"key%03d" % (number % 50), b"%d" % number + b"." * 1000)
        store.commit({CHANGELOG: number})
    for reopened in (False, True):
        if reopened and not t.lab.subject.capabilities.persistent:
            break
        store = t.reopen(store) if reopened else store
        for number in range(150, 200):
            value = store.get(b"key%03d" % (number % 50)) or b""
            t.expect(value.partition(b".")[0], b"%d" % number)
