"""Commit: what a commit changes, and what it must not change."""

from __future__ import annotations

import re
from pathlib import Path

from streamproof.conformance.check_registry import check
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.oracle import Write, fold
from streamproof.conformance.trial import Handle, Trial
from streamproof.conformance.violations import Skipped
from streamproof.stores.api import IsolationLevel

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


@check("COMMIT-004")
def close_discards_much(t: Trial) -> None:
    """Close a transactional store with many uncommitted bytes, and with many uncommitted rows."""
    store = t.open()
    store.put(b"kept", b"1")
    store.commit({CHANGELOG: 0})
    for count, size, what in ((200, 1_000, "200 rows of 1 kB"), (3_000, 1, "3,000 small rows")):
        t.claim("COMMIT-004", f"close with {what} uncommitted, then read with a new store")
        lost: Writes = [(b"lost%04d" % number, b"." * size) for number in range(count)]
        for key, value in lost:
            store.put(key, value)
        store = t.reopen(store)
        t.expect(content_of(store, [(b"kept", None), *lost]), {b"kept": b"1"})
        if t.lab.subject.capabilities.manages_offsets:
            t.expect(store.committed_offset(CHANGELOG), 0)


@check("COMMIT-005")
def flush_does_not_commit(t: Trial) -> None:
    """Flush staged writes, and read them as queries, after a kill and after a close."""
    can = t.lab.subject.capabilities
    t.claim("COMMIT-005", "flush staged writes, and read what is committed")
    store = t.open()
    store.put_all([(b"a", b"1"), (b"gone", b"1")])
    store.commit({CHANGELOG: 0})
    if can.durability == "close":
        # A kill may take what no close has followed.
        store = t.reopen(store)
    store.put(b"a", b"2")
    store.put(b"b", b"3")
    store.delete(b"gone")
    if callable(getattr(store.raw, "flush", None)):
        store.flush()
    staged, committed = (b"2", b"3", None), (b"1", None, b"1")
    t.expect(_get(store), staged)
    if can.read_only_views:
        t.expect(_get(store.view(IsolationLevel.READ_COMMITTED)), committed)
    if can.persistent:
        t.claim("COMMIT-005", "flush staged writes, and read what a kill or a close leaves")
        t.expect(_get(t.open_copy()), committed)
        store = t.reopen(store)
        t.expect(_get(store), committed)
    if can.manages_offsets:
        t.expect(store.committed_offset(CHANGELOG), 0)


def _get(store: Handle) -> tuple[bytes | None, ...]:
    return tuple(store.get(key) for key in (b"a", b"b", b"gone"))


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


@check("COMMIT-011")
def commit_flushes_no_memtable(t: Trial) -> None:
    """Commit small writes many times, and count the files that RocksDB has flushed.

    Only a store on RocksDB is tried. A store that keeps its offsets in a file has to flush.
    """
    t.claim("COMMIT-011", "commit small writes ten times, and look for new files of RocksDB")
    store = t.open()
    keys = [b"key%d" % number for number in range(8)]
    store.put_all([(key, b"0") for key in keys])
    store.commit({CHANGELOG: 0})
    # The first commit may have made a segment for each key, and its files.
    store.put_all([(key, b"1") for key in keys])
    store.commit({CHANGELOG: 1})
    before = _tables(t)
    t.note('tables = set(lab.directory.rglob("*.sst"))')
    for number in range(2, 12):
        store.put_all([(key, b"%d" % number) for key in keys])
        store.commit({CHANGELOG: number})
    names = {path.name for path in t.lab.directory.rglob("*")}
    if "CURRENT" not in names or any(name.startswith(".checkpoint") for name in names):
        raise Skipped("the store is not one on RocksDB that manages its offsets")
    new = sorted(path.name for path in _tables(t) - before)
    none = 'set(lab.directory.rglob("*.sst")) <= tables'
    t.expect_shown(none, not new, "no new file of RocksDB", f"{len(new)} new files")


@check("COMMIT-013")
def offsets_have_a_column_family(t: Trial) -> None:
    """Commit offsets, close, and read the options that RocksDB keeps beside its files.

    Only a store on RocksDB is tried, and not one that keeps its offsets in a file.
    """
    t.claim("COMMIT-013", "commit, close, and read the options of each database of RocksDB")
    store = t.open()
    store.put_all([(b"key%d" % number, b"1") for number in range(8)])
    store.commit({CHANGELOG: 0})
    store.close()
    options = _options(t)
    if not options or any(t.lab.directory.rglob(".checkpoint*")):
        raise Skipped("the store is not one on RocksDB that keeps its offsets there")
    families = {name: _FAMILIES.findall(text) for name, text in options.items()}
    has_own = any("offsets" in each for each in families.values())
    t.note('files = sorted(lab.directory.rglob("OPTIONS-*"))')
    t.note('options = {each.parent: each.read_text("utf-8", "replace") for each in files}.values()')
    own = "any('[CFOptions \"offsets\"]' in each for each in options)"
    t.expect_shown(own, has_own, "a column family 'offsets'", f"the column families {families}")
    apart = [
        name
        for name, text in options.items()
        if len(families[name]) > 1 and "atomic_flush=true" not in text
    ]
    at_once = "all('atomic_flush=true' in each for each in options if each.count('[CFOptions') > 1)"
    expected = "atomic_flush=true in each database"
    t.expect_shown(at_once, not apart, expected, f"atomic_flush=false in {apart}")


_FAMILIES = re.compile(r'^\[CFOptions "(.+)"\]$', re.MULTILINE)
"""The line of a file of options that names a column family."""


def _options(t: Trial) -> dict[str, str]:
    """By the name of each database of RocksDB below the directory of the task, its options."""
    newest: dict[Path, Path] = {}
    for path in sorted(t.lab.directory.rglob("OPTIONS-*")):
        newest[path.parent] = path
    return {parent.name: path.read_text("utf-8", "replace") for parent, path in newest.items()}


@check("COMMIT-012", given=lambda g: {"writes": g.writes(8)})
def commit_writes_the_files(t: Trial, writes: Writes) -> None:
    """Commit twice, and each time read a copy of the files while the store is still open."""
    t.claim("COMMIT-012", "commit, and read a copy of the files that a kill would leave")
    store = t.open()
    for end, (key, value) in enumerate(writes, start=1):
        store.put(key, value)
        if end in (len(writes) // 2, len(writes)):
            store.commit({CHANGELOG: end})
            t.expect(content_of(t.open_copy(), writes), folded(writes[:end]))


def _tables(t: Trial) -> set[Path]:
    """The files that RocksDB has flushed memtables to, below the directory of the task."""
    return set(t.lab.directory.rglob("*.sst"))
