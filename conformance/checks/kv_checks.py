"""Point operations: get, put, delete and their relatives."""

from __future__ import annotations

from collections.abc import Callable

from streamproof.conformance.check_registry import check
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.trial import Handle, Trial


@check("KV-001", "KV-002", "KV-003")
def put_then_get(t: Trial) -> None:
    """Put a key, get it, overwrite it, and get another key."""
    store = t.open()
    t.claim("KV-002", "get a key that was never put")
    t.expect(store.get(b"a"), None)
    t.claim("KV-001", "put a key, then get it")
    store.put(b"a", b"1")
    t.expect(store.get(b"a"), b"1")
    t.claim("KV-003", "overwrite a key, then get it")
    store.put(b"a", b"2")
    t.expect(store.get(b"a"), b"2")
    t.claim("KV-002", "get a key that was never put")
    t.expect(store.get(b"b"), None)


@check("KV-004", "KV-005", "KV-006", "KV-007")
def delete_removes(t: Trial) -> None:
    """Delete keys that exist and keys that do not."""
    store = t.open()
    t.claim("KV-006", "delete an absent key")
    t.expect(store.delete(b"a"), None)
    store.put(b"a", b"1")
    t.claim("KV-005", "delete a key and look at the return value")
    t.expect(store.delete(b"a"), b"1")
    t.claim("KV-004", "delete a key, then get it")
    t.expect(store.get(b"a"), None)
    store.put(b"a", b"2")
    t.claim("KV-004", "put a deleted key again, then get it")
    t.expect(store.get(b"a"), b"2")
    t.claim("KV-007", "put None, then get")
    store.put(b"a", None)
    t.expect(store.get(b"a"), None)
    t.claim("KV-007", "put None for an absent key")
    store.put(b"b", None)
    t.expect(store.get(b"b"), None)


@check("KV-004")
def delete_survives_commits(t: Trial) -> None:
    """Delete a committed key, commit, and get it before and after a reopening."""
    t.claim("KV-004", "delete a committed key, commit, then get it")
    store = t.open()
    store.put(b"a", b"1")
    store.put(b"b", b"2")
    store.commit({CHANGELOG: 1})
    store.delete(b"a")
    t.expect(store.get(b"a"), None)
    store.commit({CHANGELOG: 2})
    t.expect(store.get(b"a"), None)
    t.expect(store.get(b"b"), b"2")
    if t.lab.subject.capabilities.persistent:
        store = t.reopen(store)
        t.expect(store.get(b"a"), None)
        t.expect(store.get(b"b"), b"2")


@check("KV-008")
def empty_value_is_a_value(t: Trial) -> None:
    """Put an empty value and read it."""
    t.claim("KV-008", "put an empty value, then get it")
    store = t.open()
    store.put(b"a", b"")
    t.expect(store.get(b"a"), b"")
    t.expect(store.put_if_absent(b"a", b"1"), b"")
    t.expect(store.delete(b"a"), b"")
    t.expect(store.get(b"a"), None)


@check("KV-009")
def put_if_absent(t: Trial) -> None:
    """Put a key only if it is absent."""
    t.claim("KV-009", "put_if_absent twice, then get")
    store = t.open()
    t.expect(store.put_if_absent(b"a", b"1"), None)
    t.expect(store.get(b"a"), b"1")
    t.expect(store.put_if_absent(b"a", b"2"), b"1")
    t.expect(store.get(b"a"), b"1")
    t.claim("KV-009", "put_if_absent after a delete")
    store.delete(b"a")
    t.expect(store.put_if_absent(b"a", b"3"), None)
    t.expect(store.get(b"a"), b"3")


@check("KV-010", given=lambda g: {"writes": g.writes(12)})
def put_all_in_order(t: Trial, writes: list[tuple[bytes, bytes | None]]) -> None:
    """Put a batch in which keys repeat and values may be None."""
    t.claim("KV-010", "put_all a batch, then get every key: the last entry of each key counts")
    store = t.open()
    store.put_all(writes)
    for key in dict(writes):
        t.expect(store.get(key), dict(writes)[key])


@check("KV-011", given=lambda g: {"entries": g.entries(10, min_size=1)})
def keys_are_exact(t: Trial, entries: list[tuple[bytes, bytes]]) -> None:
    """Put keys that are prefixes of each other or contain unusual bytes, and get each of them."""
    t.claim("KV-011", "put keys that resemble each other, then get each of them")
    store = t.open()
    for key, value in entries:
        store.put(key, value)
    content = dict(entries)
    for key, value in content.items():
        t.expect(store.get(key), value)
        for neighbour in (key + b"\x00", key[:-1], b"\x00" + key):
            if neighbour:
                t.expect(store.get(neighbour), content.get(neighbour))


@check("KV-012", "KV-001")
def empty_key(t: Trial) -> None:
    """Put the empty key and read it. A store may refuse the key, but not take and lose it."""
    t.claim("KV-012", "put the empty key")
    store = t.open()
    store.put(b"", b"1")
    store.put(b"\x00", b"2")
    t.claim("KV-001", "put the empty key, which the store takes, then get it")
    t.expect(store.get(b""), b"1")
    t.claim("KV-012", "delete the empty key")
    t.expect(store.delete(b""), b"1")
    t.expect(store.get(b""), None)
    t.expect(store.get(b"\x00"), b"2")


@check("KV-013")
def large_values(t: Trial) -> None:
    """Put a value with every byte, a large value and a large key."""
    t.claim("KV-013", "put a large value, then get it")
    store = t.open()
    every_byte = bytes(range(256))
    large = b"x" * (1024 * 1024)
    store.put(b"bytes", every_byte)
    store.put(b"large", large)
    # A store that cuts keys, or compares a part of them, takes the two for one.
    long_keys = {b"k" * size: b"%d" % size for size in (2_000, 2_001)}
    for key, value in long_keys.items():
        store.put(key, value)
    for _ in range(2):
        t.expect(store.get(b"bytes"), every_byte)
        t.expect_that(store.get(b"large") == large, "the 1 MiB that was put", "another value")
        for key, value in long_keys.items():
            t.expect(store.get(key), value)
            if t.has("range"):
                t.expect(store.scan("range", key, key), [(key, value)])
        store.commit({CHANGELOG: 3})
    first, second = long_keys
    t.expect(store.delete(first), long_keys[first])
    t.expect(store.get(first), None)
    t.expect(store.get(second), long_keys[second])


GROWN = "b'grown%d' % n"
"""The key of the n-th row of a store that grows, as source."""

GROWN_VALUE = "b'%d' % n * (1_500 if n % 2 else 10)"
"""Its value: some rows fill the buffers of a store, and the others add to their number."""

GROWN_BETWEEN_COMMITS = 100


@check("KV-018", weight=30)
def growing(t: Trial) -> None:
    """Write far more rows than fit into the buffers of a store, look for each, and delete some."""
    count = t.run.settings.limits.grown_rows
    t.claim("KV-018", f"write {count:,} rows, commit, and get each of them")
    store = t.open()
    t.note(f"for n in range({count}):")
    t.note(f"    store.put({GROWN}, {GROWN_VALUE})")
    t.note(f"    if n % {GROWN_BETWEEN_COMMITS} == {GROWN_BETWEEN_COMMITS - 1}:")
    t.note("        store.commit({CHANGELOG: n})")
    for start in range(0, count, GROWN_BETWEEN_COMMITS):
        with t.watching("a hundred put(…) and commit(…)"):
            for n in range(start, start + GROWN_BETWEEN_COMMITS):
                store.raw.put(grown_key(n), grown_value(n))
            store.raw.commit({CHANGELOG: n})
    expect_grown(t, store, count)
    if t.lab.subject.capabilities.persistent:
        store.flush()
        store = t.reopen(store)
        expect_grown(t, store, count)
    deleted = range(0, count, 3)
    t.claim("KV-018", f"delete every third of {count:,} rows, commit, and get each of them")
    t.note(f"for n in {deleted}: {store.label}.delete({GROWN})")
    for start in range(0, len(deleted), GROWN_BETWEEN_COMMITS):
        with t.watching("a hundred delete(…)"):
            for n in deleted[start : start + GROWN_BETWEEN_COMMITS]:
                store.raw.delete(grown_key(n))
    store.commit({CHANGELOG: count})
    expect_deleted(t, store, deleted)
    if t.lab.subject.capabilities.persistent:
        expect_deleted(t, t.reopen(store), deleted)


def grown_key(n: int) -> bytes:
    """The value of :data:`GROWN`."""
    return b"grown%d" % n


def grown_value(n: int) -> bytes:
    """The value of :data:`GROWN_VALUE`."""
    return b"%d" % n * (1_500 if n % 2 else 10)


def expect_grown(t: Trial, store: Handle, count: int) -> None:
    """Demand that a store has every row."""
    line = f"{store.label}.get({GROWN}) != {GROWN_VALUE}"
    expect_none(t, range(count), line, lambda n: store.raw.get(grown_key(n)) != grown_value(n))


def expect_deleted(t: Trial, store: Handle, rows: range) -> None:
    """Demand that a store has none of these rows."""
    line = f"{store.label}.get({GROWN}) is not None"
    expect_none(t, rows, line, lambda n: store.raw.get(grown_key(n)) is not None)


def expect_none(t: Trial, rows: range, line: str, is_wrong: Callable[[int], bool]) -> None:
    """Demand that no row is wrong; ``line`` is the source of ``is_wrong`` for the row ``n``."""
    wrong = 0
    for start in range(0, len(rows), GROWN_BETWEEN_COMMITS):
        with t.watching("a hundred get(…)"):
            wrong += sum(map(is_wrong, rows[start : start + GROWN_BETWEEN_COMMITS]))
    t.expect(t.asked(f"sum({line} for n in {rows})", wrong), 0)


@check("KV-014")
def entry_count(t: Trial) -> None:
    """Count the entries of a new store, then count them after five puts and a commit."""
    t.claim("KV-014", "read the number of entries of a new store")
    store = t.open()
    t.expect(store.approximate_num_entries(), 0)
    for number in range(5):
        store.put(b"%d" % number, b"x")
    store.commit({CHANGELOG: 5})
    t.claim("KV-014", "put five keys, commit, and read the number of entries")
    t.expect(store.approximate_num_entries(), 5)
