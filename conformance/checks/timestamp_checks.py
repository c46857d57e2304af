"""Timestamps: stores that keep a timestamp with each value (KIP-258)."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from streamproof.conformance.check_registry import check
from streamproof.conformance.generators import Generators
from streamproof.conformance.lab import CHANGELOG, ChangelogRecord
from streamproof.conformance.trial import Handle, Trial
from streamproof.stores.api import NO_TIMESTAMP
from streamproof.stores.timestamps import ValueAndTimestamp

Timed = tuple[bytes, int] | None

EDGES = (NO_TIMESTAMP, 0, 1, 255, 256, 2**31, 1_700_000_000_000, 2**63 - 1)
"""Timestamps that an encoding may get wrong."""

LIKE_TIMESTAMPS = (
    b"\xff" * 8 + b"value",
    (1_700_000_000_000).to_bytes(8, "big") + b"value",
    (1_700_000_000_000).to_bytes(8, "big"),
    b"\x00" * 8,
    b"\x00" * 16,
)
"""Values that begin like a stored timestamp."""


def timestamps() -> SearchStrategy[int]:
    """A timestamp, in milliseconds; small ones collide."""
    return st.one_of(st.sampled_from(EDGES), st.integers(0, 2**40))


def writes(g: Generators) -> SearchStrategy[list[tuple[bytes, bytes | None, int]]]:
    """Puts and, with the value ``None``, deletes, with timestamps."""
    keys = st.sampled_from(g.edge_keys[:6])
    return st.lists(
        st.tuples(keys, st.one_of(st.none(), g.values()), timestamps()), min_size=1, max_size=8
    )


def timed(answer: Any) -> Timed:
    """An answer of the subject as a plain pair."""
    return None if answer is None else (answer[0], answer[1])


def expect_timed(t: Trial, store: Handle, key: bytes, expected: Timed) -> None:
    """Demand a value and its timestamp."""
    t.expect(timed(store.get_with_timestamp(key)), expected)


def folded(writes: list[tuple[bytes, bytes | None, int]]) -> dict[bytes, Timed]:
    """The content that the last write of each key leaves."""
    return {key: None if value is None else (value, at) for key, value, at in writes}


@check("TS-001", "TS-002", given=lambda g: {"writes": writes(g)})
def round_trip(t: Trial, writes: list[tuple[bytes, bytes | None, int]]) -> None:
    """Put values with timestamps, and read them."""
    store = t.open()
    for key, value, at in writes:
        store.put_with_timestamp(key, value, at)
    for key, expected in folded(writes).items():
        t.claim("TS-001", "put a value with a timestamp, and read both")
        expect_timed(t, store, key, expected)
        t.claim("TS-002", "put a value with a timestamp, and read the value without it")
        t.expect(store.get(key), None if expected is None else expected[0])


@check("TS-003", "TS-004")
def plain_put(t: Trial) -> None:
    """Put without a timestamp, during the processing of an input record and outside it."""
    store = t.open()
    t.claim("TS-003", "put while a record with a timestamp is being processed")
    t.processing(1, timestamp=1_234)
    store.put(b"a", b"1")
    expect_timed(t, store, b"a", (b"1", 1_234))
    t.processing(2, timestamp=1_200)
    store.put(b"a", b"2")
    expect_timed(t, store, b"a", (b"2", 1_200))
    t.claim("TS-004", "put while no record is being processed")
    t.idle()
    store.put(b"b", b"3")
    expect_timed(t, store, b"b", (b"3", NO_TIMESTAMP))


@check("TS-005", "TS-006")
def overwrite_and_delete(t: Trial) -> None:
    """Overwrite with older and newer timestamps, and delete."""
    store = t.open()
    t.claim("TS-005", "overwrite a value with an older and with a newer timestamp")
    for value, at in ((b"1", 100), (b"2", 50), (b"2", 200), (b"2", 10)):
        store.put_with_timestamp(b"a", value, at)
        expect_timed(t, store, b"a", (value, at))
    t.claim("TS-006", "put None with a timestamp")
    store.put_with_timestamp(b"a", None, 300)
    expect_timed(t, store, b"a", None)
    t.expect(store.get(b"a"), None)
    store.put_with_timestamp(b"never", None, 300)
    expect_timed(t, store, b"never", None)


@check("TS-007")
def put_if_absent(t: Trial) -> None:
    """Put with timestamps only if the key is absent."""
    t.claim("TS-007", "put_if_absent_with_timestamp on an absent and on a present key")
    store = t.open()
    t.expect(timed(store.put_if_absent_with_timestamp(b"a", b"1", 10)), None)
    t.expect(timed(store.put_if_absent_with_timestamp(b"a", b"2", 20)), (b"1", 10))
    expect_timed(t, store, b"a", (b"1", 10))


@check("TS-008")
def delete(t: Trial) -> None:
    """Delete, and read the returned value and timestamp."""
    t.claim("TS-008", "delete_with_timestamp on a present and on an absent key")
    store = t.open()
    store.put_with_timestamp(b"a", b"1", 10)
    t.expect(timed(store.delete_with_timestamp(b"a")), (b"1", 10))
    t.expect(timed(store.delete_with_timestamp(b"a")), None)
    expect_timed(t, store, b"a", None)


@check("TS-009")
def put_all(t: Trial) -> None:
    """Put several values with timestamps at once."""
    t.claim("TS-009", "put_all_with_timestamp, with a delete among the entries")
    store = t.open()
    store.put_with_timestamp(b"b", b"old", 1)
    store.put_all_with_timestamp(
        [(b"a", ValueAndTimestamp(b"1", 10)), (b"b", None), (b"c", ValueAndTimestamp(b"3", 30))]
    )
    for key, expected in ((b"a", (b"1", 10)), (b"b", None), (b"c", (b"3", 30))):
        expect_timed(t, store, key, expected)


@check("TS-010")
def null_keys(t: Trial) -> None:
    """Pass None for a key."""
    t.claim("TS-010", "pass None for a key with a timestamp")
    store = t.open()
    store.put_with_timestamp(b"a", b"1", 10)
    t.expect_raises(lambda: store.get_with_timestamp(None), "get_with_timestamp(None) raises")
    t.expect_raises(lambda: store.put_with_timestamp(None, b"1", 1), "put with key None raises")
    bad = [(b"a", ValueAndTimestamp(b"2", 20)), (None, ValueAndTimestamp(b"3", 30))]
    t.expect_raises(lambda: store.put_all_with_timestamp(bad), "put_all with key None raises")
    expect_timed(t, store, b"a", (b"1", 10))


@check("TS-011", "TS-012", given=lambda g: {"writes": writes(g)})
def scans(t: Trial, writes: list[tuple[bytes, bytes | None, int]]) -> None:
    """Scan with and without timestamps."""
    store = t.open()
    for key, value, at in writes:
        store.put_with_timestamp(key, value, at)
    expected = sorted((key, pair) for key, pair in folded(writes).items() if pair is not None)
    low, high = b"a", b"b"
    between = [(key, pair) for key, pair in expected if low <= key <= high]
    t.claim("TS-011", "scan with timestamps")
    for method, arguments, wanted in (
        ("all_with_timestamp", (), expected),
        ("range_with_timestamp", (low, high), between),
        ("range_with_timestamp", (None, high), [e for e in expected if e[0] <= high]),
    ):
        found = store.scan(method, *arguments)
        t.expect([(key, timed(value)) for key, value in found], wanted)
    t.claim("TS-012", "scan without timestamps")
    t.expect(store.scan("all"), [(key, pair[0]) for key, pair in expected])
    t.expect(store.scan("range", low, high), [(key, pair[0]) for key, pair in between])


@check("TS-013", given=lambda g: {"writes": writes(g)})
def reopened(t: Trial, writes: list[tuple[bytes, bytes | None, int]]) -> None:
    """Commit, close and reopen, then read the timestamps."""
    t.claim("TS-013", "put values with timestamps, commit, close, and read with a new store")
    store = t.open()
    for key, value, at in writes:
        store.put_with_timestamp(key, value, at)
    store.commit({CHANGELOG: len(writes) - 1})
    store = t.reopen(store)
    for key, expected in folded(writes).items():
        expect_timed(t, store, key, expected)


@check("TS-014", "TS-015", given=lambda g: {"writes": writes(g)})
def restored(t: Trial, writes: list[tuple[bytes, bytes | None, int]]) -> None:
    """Restore plain values whose records have timestamps."""
    t.claim("TS-014", "restore records with timestamps")
    store = t.open()
    records = [ChangelogRecord(key, value, n, at) for n, (key, value, at) in enumerate(writes)]
    t.restore(store, records)
    for key, expected in folded(writes).items():
        expect_timed(t, store, key, expected)
    t.claim("TS-015", "restore the records once more, and read the values")
    t.restore(store, records)
    for key, expected in folded(writes).items():
        t.expect(store.get(key), None if expected is None else expected[0])


@check("TS-016")
def values_are_opaque(t: Trial) -> None:
    """Put and restore values that begin like a stored timestamp."""
    t.claim("TS-016", "put, commit and restore values that look like timestamps")
    store = t.open()
    for number, value in enumerate(LIKE_TIMESTAMPS):
        store.put_with_timestamp(b"put%d" % number, value, 7)
    records = [
        ChangelogRecord(b"restored%d" % number, value, number, 8)
        for number, value in enumerate(LIKE_TIMESTAMPS)
    ]
    t.restore(store, records)
    for _ in range(2):
        for number, value in enumerate(LIKE_TIMESTAMPS):
            expect_timed(t, store, b"put%d" % number, (value, 7))
            expect_timed(t, store, b"restored%d" % number, (value, 8))
        store.commit({CHANGELOG: 9})


@check("TS-017")
def discarded(t: Trial) -> None:
    """Overwrite a committed value in a transaction, and discard the transaction."""
    t.claim("TS-017", "overwrite in a transaction, close it, and read value and timestamp")
    store = t.open()
    store.put_with_timestamp(b"a", b"1", 10)
    store.commit({CHANGELOG: 0})
    transaction = store.begin()
    transaction.put_with_timestamp(b"a", b"2", 20)
    t.expect(timed(transaction.get_with_timestamp(b"a")), (b"2", 20))
    transaction.put_with_timestamp(b"b", b"3", 30)
    transaction.close()
    expect_timed(t, store, b"a", (b"1", 10))
    expect_timed(t, store, b"b", None)


@check("TS-018")
def committed_in_a_transaction(t: Trial) -> None:
    """Commit values with timestamps in a transaction."""
    t.claim("TS-018", "write in a transaction, commit it, and read value and timestamp")
    store = t.open()
    transaction = store.begin()
    transaction.put_with_timestamp(b"a", b"1", 10)
    transaction.delete_with_timestamp(b"a")
    transaction.put_with_timestamp(b"a", b"2", 5)
    transaction.commit({CHANGELOG: 2})
    expect_timed(t, store, b"a", (b"2", 5))
    store = t.reopen(store)
    expect_timed(t, store, b"a", (b"2", 5))
