"""Scans and iterators."""

from __future__ import annotations

from streamproof.conformance.check_registry import check
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.trial import Handle, Trial

Entries = list[tuple[bytes, bytes]]


def filled(t: Trial, entries: Entries, *, commit_at: int = 0) -> Handle:
    """A store with entries. The first ``commit_at`` of them are committed."""
    store = t.open()
    for number, (key, value) in enumerate(entries):
        if commit_at and number == commit_at:
            store.commit({CHANGELOG: number})
        store.put(key, value)
    return store


def between(content: dict[bytes, bytes], low: bytes | None, high: bytes | None) -> Entries:
    """The entries within inclusive bounds, ascending."""
    return [
        (key, content[key])
        for key in sorted(content)
        if (low is None or key >= low) and (high is None or key <= high)
    ]


EDGES: tuple[tuple[bytes | None, bytes | None], ...] = (
    (b"b", b"b"),
    (b"bb", b"bb"),
    (b"\xff", b"\xff"),
    (b"\xff\xff", b"\xff\xff"),
    (b"a\x00", b"b"),
    (b"a", b"b\x00"),
    (b"", b"a"),
    (b"c", b"a"),
    (b"b", b""),
    (None, b""),
    (b"", None),
    (None, b"b"),
    (b"b", None),
    (b"\xff", None),
    (b"\xff\xff", None),
    (None, b"\xff"),
)
"""Bounds of ranges over the keys ``a``, ``b``, ``c`` and ``0xFF`` that are easy to get wrong."""


@check("RANGE-001", given=lambda g: {"writes": g.writes(14)})
def scan_is_complete(t: Trial, writes: list[tuple[bytes, bytes | None]]) -> None:
    """Put and delete, then read everything with all()."""
    t.claim("RANGE-001", "put and delete, then read everything with all()")
    store = t.open()
    content: dict[bytes, bytes] = {}
    for number, (key, value) in enumerate(writes):
        store.put(key, value)
        content.pop(key, None)
        if value is not None:
            content[key] = value
        if number == len(writes) // 2:
            store.commit({CHANGELOG: number})
    t.expect(sorted(store.scan("all")), sorted(content.items()))


@check(
    "RANGE-002",
    "RANGE-003",
    "RANGE-004",
    "RANGE-005",
    given=lambda g: {"entries": g.entries(10), "low": g.bounds(), "high": g.bounds()},
)
def bounds(t: Trial, entries: Entries, low: bytes | None, high: bytes | None) -> None:
    """Read a range and compare it with the sorted content."""
    store = filled(t, entries, commit_at=len(entries) // 2)
    content = dict(entries)
    if low is not None and high is not None and low > high:
        t.claim("RANGE-005", "read a range whose lower bound is above the upper one")
    elif low is None or high is None:
        t.claim("RANGE-004", "read a range that is open on one side")
    else:
        t.claim("RANGE-003", "read a range between two bounds")
    found = store.scan("range", low, high)
    expected = between(content, low, high)
    if found != expected and sorted(found) == expected:
        t.claim("RANGE-002", "read a range: its entries must come in order of their keys")
    t.expect(found, expected)
    t.claim("RANGE-002", "read everything in order")
    everything = store.scan("all") if t.has("all") else store.scan("range", None, None)
    t.expect(everything, between(content, None, None))


@check("RANGE-003", "RANGE-004", "RANGE-005", "RANGE-006")
def bounds_by_example(t: Trial) -> None:
    """Read ranges that end at, before and after existing keys."""
    entries = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"\xff", b"4")]
    store = filled(t, entries)
    t.claim("RANGE-003", "read ranges that end exactly at existing keys")
    t.expect(store.scan("range", b"a", b"c"), entries[:3])
    t.expect(store.scan("range", b"b", b"\xff"), entries[1:])
    t.expect(store.scan("range", b"", b"a"), entries[:1])
    t.claim("RANGE-004", "read ranges that are open on one side")
    t.expect(store.scan("range", None, b"b"), entries[:2])
    t.expect(store.scan("range", b"b", None), entries[1:])
    t.expect(store.scan("range", None, None), entries)
    t.claim("RANGE-006", "read a range of one key")
    for key, value in entries:
        t.expect(store.scan("range", key, key), [(key, value)])
    t.expect(store.scan("range", b"bb", b"bb"), [])
    t.claim("RANGE-005", "read an inverted range")
    t.expect(store.scan("range", b"c", b"a"), [])
    t.claim("RANGE-003", "read ranges at the edges of their bounds")
    for low, high in EDGES:
        t.expect(store.scan("range", low, high), between(dict(entries), low, high))


@check("RANGE-007")
def deleted_keys_are_hidden(t: Trial) -> None:
    """Delete committed and uncommitted keys, then scan."""
    t.claim("RANGE-007", "delete keys before and after a commit, then scan")
    store = filled(t, [(b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"d", b"4")])
    store.commit({CHANGELOG: 4})
    store.delete(b"b")
    store.put(b"e", b"5")
    store.delete(b"e")
    store.put(b"c", None)
    expected = [(b"a", b"1"), (b"d", b"4")]
    for _ in range(2):
        t.expect(store.scan("range", b"a", b"z"), expected)
        if t.has("all"):
            t.expect(store.scan("all"), expected)
        store.commit({CHANGELOG: 8})


@check(
    "RANGE-008", given=lambda g: {"entries": g.entries(10), "low": g.bounds(), "high": g.bounds()}
)
def reverse_is_the_reverse(
    t: Trial, entries: Entries, low: bytes | None, high: bytes | None
) -> None:
    """Read a range forward and backward."""
    t.claim("RANGE-008", "read a range backward")
    store = filled(t, entries, commit_at=len(entries) // 2)
    content = dict(entries)
    t.expect(store.scan("reverse_range", low, high), between(content, low, high)[::-1])
    t.expect(store.scan("reverse_all"), between(content, None, None)[::-1])


@check("RANGE-008")
def reverse_bounds_by_example(t: Trial) -> None:
    """Read ranges backward whose bounds are equal, open, inverted, empty, or just past a key."""
    t.claim("RANGE-008", "read ranges backward at the edges of their bounds")
    content = {b"a": b"1", b"b": b"2", b"c": b"3", b"\xff": b"4"}
    store = filled(t, list(content.items()))
    for low, high in EDGES:
        t.expect(store.scan("reverse_range", low, high), between(content, low, high)[::-1])


@check("RANGE-009", given=lambda g: {"entries": g.entries(10), "prefix": g.prefixes()})
def prefix_scan(t: Trial, entries: Entries, prefix: bytes) -> None:
    """Scan for a prefix."""
    t.claim("RANGE-009", "scan for a prefix")
    store = filled(t, entries, commit_at=len(entries) // 2)
    content = dict(entries)
    expected = [(key, content[key]) for key in sorted(content) if key.startswith(prefix)]
    t.expect(store.scan("prefix_scan", prefix), expected)


@check("RANGE-009")
def prefix_scan_by_example(t: Trial) -> None:
    """Scan for prefixes whose upper bound is hard to compute."""
    entries = [(b"a", b"1"), (b"a\xff", b"2"), (b"b", b"3"), (b"\xfe", b"4"), (b"\xff", b"5")]
    store = filled(t, [*entries, (b"\xff\xff", b"6")])
    t.claim("RANGE-009", "scan for a prefix that ends in 0xFF")
    t.expect(store.scan("prefix_scan", b"a\xff"), [(b"a\xff", b"2")])
    t.expect(store.scan("prefix_scan", b"\xff"), [(b"\xff", b"5"), (b"\xff\xff", b"6")])
    t.expect(store.scan("prefix_scan", b"a"), [(b"a", b"1"), (b"a\xff", b"2")])
    t.expect(store.scan("prefix_scan", b"c"), [])
    t.expect(store.scan("prefix_scan", b"\xff\xff\xff"), [])
    t.expect(store.scan("prefix_scan", b"a\x00"), [])
    t.claim("RANGE-009", "scan for the empty prefix, with which every key starts")
    t.expect(store.scan("prefix_scan", b""), sorted([*entries, (b"\xff\xff", b"6")]))


@check("RANGE-010", "RANGE-011")
def writes_while_iterating(t: Trial) -> None:
    """Write to a store while an iterator over it is open."""
    entries = [(b"a", b"1"), (b"c", b"3"), (b"e", b"5")]
    store = filled(t, entries)
    t.claim("RANGE-010", "put and delete while an iterator is open")
    iterator = store.iterate("all")
    first = iterator.advance()
    store.put(b"b", b"new")
    store.put(b"c", b"changed")
    store.delete(b"e")
    store.put(b"f", b"new")
    rest = iterator.remaining()
    iterator.release()
    t.held()
    if t.lab.subject.capabilities.iterator_view == "snapshot":
        t.claim(
            "RANGE-011",
            "put and delete while an iterator is open, then read its rest",
        )
        t.expect([first, *rest], [*entries])


@check("RANGE-011")
def snapshot_across_commit(t: Trial) -> None:
    """Commit while an iterator is open, then read the rest of the iterator."""
    t.claim(
        "RANGE-011",
        "commit more writes while an iterator is open, then read its rest",
    )
    entries = [(b"a", b"1"), (b"c", b"3")]
    store = filled(t, entries)
    store.commit({CHANGELOG: 1})
    iterator = store.iterate("all")
    store.put(b"b", b"new")
    store.put(b"c", b"changed")
    store.commit({CHANGELOG: 3})
    found = iterator.remaining()
    iterator.release()
    t.expect(found, entries)


@check("RANGE-012")
def exhausted_iterators(t: Trial) -> None:
    """Read an iterator beyond its end, and close it twice."""
    t.claim("RANGE-012", "read an iterator beyond its end")
    store = filled(t, [(b"a", b"1")])
    iterator = store.iterate("all")
    t.expect(iterator.advance(), (b"a", b"1"))
    t.expect(iterator.advance(), None)
    t.expect(iterator.advance(), None)
    iterator.release()
    iterator.release()
    t.expect(store.get(b"a"), b"1")


@check("RANGE-013")
def open_iterators_do_not_block(t: Trial) -> None:
    """Close a store while an iterator over it is open, and open it again."""
    t.claim("RANGE-013", "close a store with an open iterator, then reopen it")
    store = filled(t, [(b"a", b"1"), (b"b", b"2")])
    store.commit({CHANGELOG: 2})
    iterator = store.iterate("all")
    iterator.advance()
    store = t.reopen(store)
    t.expect(store.get(b"a"), b"1")


@check("RANGE-014")
def only_user_keys(t: Trial) -> None:
    """Commit offsets, then scan: metadata must not appear among the data."""
    t.claim("RANGE-014", "commit offsets, then scan")
    store = filled(t, [(b"a", b"1")])
    store.commit({CHANGELOG: 1})
    t.expect(store.scan("all"), [(b"a", b"1")])
    store.delete(b"a")
    store.commit({CHANGELOG: 2})
    t.expect(store.scan("all"), [])
    if t.lab.subject.capabilities.persistent:
        store = t.reopen(store)
        t.expect(store.scan("all"), [])
