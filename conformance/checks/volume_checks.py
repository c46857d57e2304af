"""Volume: scans, views and transactions over hundreds of rows, and keys and values of many sizes.

Stores read in pages, and stage in buffers, of some hundred rows. What they do with a few rows says
nothing of the second page. So it is with sizes: many stores treat keys and values in another way
from some size on.
"""

from __future__ import annotations

from itertools import islice, pairwise
from random import Random

from streamproof.conformance.check_registry import check
from streamproof.conformance.checks.isolation_checks import reader_and_writer
from streamproof.conformance.lab import CHANGELOG, ChangelogRecord
from streamproof.conformance.many_rows import count_rows, for_each_row
from streamproof.conformance.program_text import brief_source
from streamproof.conformance.trial import SCAN_LIMIT, Entry, Handle, Trial
from streamproof.conformance.windowed_trial import Timed, claim
from streamproof.conformance.windows_oracle import WindowedContent

KEY = "b'%06d' % n"
"""The key of row ``n``, as source: the order of the keys is that of the numbers."""

FEWEST, MOST = 520, 1_300
"""How many rows there are. Pages and batches often have 500, 512 or 1,000."""


def key(n: int) -> bytes:
    """The value of :data:`KEY`."""
    return b"%06d" % n


def put_rows(t: Trial, store: Handle, rows: range, value: bytes) -> None:
    """Put one value into many rows."""
    line = f"{store.label}.put({KEY}, {value!r})"
    for_each_row(t, rows, line, lambda n: store.raw.put(key(n), value))


def delete_rows(t: Trial, store: Handle, rows: range) -> None:
    """Delete many rows."""
    line = f"{store.label}.put({KEY}, None)"
    for_each_row(t, rows, line, lambda n: store.raw.put(key(n), None))


def expect_rows(t: Trial, store: Handle, rows: range, value: bytes | None) -> None:
    """Demand that each of many rows has one value."""
    line = f"{store.label}.get({KEY}) != {value!r}"
    t.expect(count_rows(t, rows, line, lambda n: store.raw.get(key(n)) != value), 0)


def rows_of(rows: range, value: bytes) -> tuple[list[Entry], str]:
    """Rows with one value, and their source."""
    return [(key(n), value) for n in rows], f"[({KEY}, {value!r}) for n in {rows}]"


def expect_scan(
    t: Trial,
    store: Handle,
    expected: list[Entry],
    source: str,
    method: str = "all",
    *arguments: bytes | None,
) -> None:
    """Demand the rows of a scan, in the order of their keys; ``source`` is that of ``expected``.

    Windows may come by time, so they are sorted before.
    """
    found = store.scan(method, *arguments)
    read = t.last_line
    if t.lab.subject.capabilities.kind != "key-value":
        found, read = sorted(found), f"sorted({read[5:-1]})"
    # The program compares with a short expression, and not with the answer.
    t.reread(f"{read} == {source}", found == expected)
    t.expect_that(found == expected, f"these {len(expected):,} rows", f"{len(found):,} rows")


@check("RANGE-016", weight=5)
def many_rows_in_each_way(t: Trial) -> None:
    """Read hundreds of rows, of which the last ones are deleted, by each scan and within bounds."""
    random = Random(t.run.seed)
    count = random.randint(FEWEST, MOST)
    kept = count - random.randint(10, 100)
    t.claim("RANGE-016", f"put {count} rows, commit, delete some of the last, and scan in each way")
    store = t.open()
    put_rows(t, store, range(count), b"old")
    store.put(b"x", b"beyond")
    store.commit({CHANGELOG: count})
    delete_rows(t, store, range(kept, count, 2))
    store.put(b"y", b"beyond")
    last = [(b"x", b"beyond"), (b"y", b"beyond")]
    (early, early_source), (late, late_source) = (
        rows_of(rows, b"old") for rows in (range(kept), range(kept + 1, count, 2))
    )
    rows, source = [*early, *late], f"{early_source} + {late_source}"
    expect_scan(t, store, [*rows, *last], f"{source} + {last}")
    if t.has("reverse_all"):
        expect_scan(t, store, [*rows, *last][::-1], f"({source} + {last})[::-1]", "reverse_all")
    bounds = key(0), key(count)
    if t.has("range"):
        expect_scan(t, store, rows, source, "range", *bounds)
    if t.has("reverse_range"):
        expect_scan(t, store, rows[::-1], f"({source})[::-1]", "reverse_range", *bounds)
    if t.has("prefix_scan"):
        expect_scan(t, store, rows, source, "prefix_scan", b"00")


SIZES = (999, 1_000, 1_001, 1_024, 1_025, 1_500, 2_001)
"""Sizes of batches: stores and drivers split them at round numbers."""


@check("KV-010", weight=5)
def large_put_all(t: Trial) -> None:
    """Put batches of around a thousand rows, and get each row."""
    t.claim("KV-010", "put a batch of around a thousand rows, and get each of them")
    store = t.open()
    for number, size in enumerate(Random(t.run.seed).sample(SIZES, 2)):
        value = b"%d" % number
        t.note(f"{store.label}.put_all([({KEY}, {value!r}) for n in range({size})])")
        with t.watching("put_all(…)"):
            store.raw.put_all([(key(n), value) for n in range(size)])
        expect_rows(t, store, range(size), value)


@check("RESTORE-005", weight=5)
def large_batches(t: Trial) -> None:
    """Restore batches of around a thousand records, and get each row."""
    t.claim("RESTORE-005", "restore a batch of around a thousand records, and get each row")
    store = t.open()
    for number, size in enumerate(Random(t.run.seed).sample(SIZES, 2)):
        value, first = b"%d" % number, number * max(SIZES)
        record = f"ChangelogRecord({KEY}, {value!r}, {first} + n)"
        t.note(f"lab.restore({store.label}, [{record} for n in range({size})])")
        with t.watching("restore(…)"):
            records = [ChangelogRecord(key(n), value, first + n) for n in range(size)]
            t.lab.restore(store.raw, records)
        store.commit({CHANGELOG: first + size - 1})
        expect_rows(t, store, range(size), value)


@check("RANGE-010", "RANGE-011", weight=5)
def scan_while_many_rows_change(t: Trial) -> None:
    """Put, delete and commit hundreds of rows while an iterator over hundreds of rows is open."""
    random = Random(t.run.seed)
    count = random.randint(FEWEST, MOST)
    store = t.open()
    t.claim("RANGE-010", f"write while an iterator over {count} rows is open, then read its rest")
    put_rows(t, store, range(count), b"old")
    store.commit({CHANGELOG: count})
    iterator = store.iterate("all")
    t.expect(iterator.advance(), (key(0), b"old"))
    put_rows(t, store, range(0, count, 4), b"new")
    delete_rows(t, store, range(1, count, 4))
    if random.random() < 0.5:
        store.commit({CHANGELOG: 2 * count})
    put_rows(t, store, range(count, count + FEWEST), b"new")
    t.note(f"rest = list({iterator.label})")
    with t.watching(t.last_line):
        rest = list(islice(iterator.raw, SCAN_LIMIT))
    iterator.release()
    found = [(bytes(each), value) for each, value in rest]
    keys = [each for each, _ in found]
    t.expect_shown(
        "[key for key, _ in rest] == sorted({key for key, _ in rest})",
        keys == sorted({*keys}),
        "each key once, in order",
        next((pair for pair in pairwise(keys) if pair[0] >= pair[1]), None),
    )
    for start in (2, 3):
        rows, source = rows_of(range(start, count, 4), b"old")
        expected = f"{len(rows)} rows that nobody wrote meanwhile"
        is_there = {*rows} <= {*found}
        t.expect_shown(f"set({source}) <= set(rest)", is_there, expected, unlike(rows, found))
    if t.lab.subject.capabilities.iterator_view == "snapshot":
        t.claim("RANGE-011", f"write while an iterator over {count} rows is open, read its rest")
        rows, source = rows_of(range(1, count), b"old")
        expected = f"the {len(rows)} rows of the time at which the iterator was opened"
        t.expect_shown(f"rest == {source}", found == rows, expected, unlike(rows, found))


def unlike(wanted: list[tuple[bytes, bytes]], found: list[tuple[bytes, bytes]]) -> str:
    """How many rows are missing and how many are too many, with the first of each kind."""
    sides = {"missing": sorted({*wanted} - {*found}), "others": sorted({*found} - {*wanted})}
    told = [
        f"{len(some)} {how}, the first {brief_source(some[0])}"
        for how, some in sides.items()
        if some
    ]
    return "; ".join(told) or "the rows in another order"


@check("ISO-001", "ISO-002", "ISO-004", weight=5)
def many_staged_rows(t: Trial) -> None:
    """Stage hundreds of puts and deletes, and read each row as a committed reader."""
    store, reader, writer = reader_and_writer(t)
    count = Random(t.run.seed).randint(FEWEST, MOST)
    put_rows(t, store, range(0, count, 2), b"old")
    store.commit({CHANGELOG: count})
    if writer is not store:
        # The commit of the store has ended the transaction.
        writer = store.begin()
    put_rows(t, writer, range(1, count, 2), b"staged")
    delete_rows(t, writer, range(0, count, 4))
    t.claim("ISO-001", f"stage {count} puts and deletes, then get each row as a committed reader")
    expect_rows(t, reader, range(1, count, 2), None)
    t.claim("ISO-002", f"stage {count} puts and deletes, then get each row as a committed reader")
    expect_rows(t, reader, range(0, count, 2), b"old")
    t.claim("ISO-004", f"commit {count} puts and deletes, then get each row as a committed reader")
    writer.commit({CHANGELOG: 2 * count})
    expect_rows(t, reader, range(1, count, 2), b"staged")
    expect_rows(t, reader, range(0, count, 4), None)
    expect_rows(t, reader, range(2, count, 4), b"old")


@check("ISO-003", weight=5)
def scans_beside_many_staged_rows(t: Trial) -> None:
    """Stage hundreds of puts and deletes, and scan as a committed reader before and after."""
    t.claim("ISO-003", "stage hundreds of puts and deletes, then scan as a committed reader")
    _, reader, writer = reader_and_writer(t)
    count = Random(t.run.seed).randint(FEWEST, MOST)
    before = [(b"a", b"1"), (b"b", b"2")]
    put_rows(t, writer, range(count), b"staged")
    expect_scan(t, reader, before, repr(before))
    writer.commit({CHANGELOG: count})
    rows, source = rows_of(range(count), b"staged")
    expect_scan(t, reader, [*rows, *before], f"{source} + {before}")


@check("TXN-003", "TXN-004", "TXN-005", weight=5)
def large_transactions(t: Trial) -> None:
    """Put and delete hundreds of rows in a transaction, scan it, roll it back, or commit it."""
    count = Random(t.run.seed).randint(FEWEST, MOST)
    t.claim("TXN-004", f"put and delete {count} rows in a transaction, and close it")
    store = t.open()
    put_rows(t, store, range(0, count, 2), b"old")
    store.commit({CHANGELOG: 1})
    for is_committed in (False, True):
        transaction = store.begin()
        put_rows(t, transaction, range(1, count, 2), b"new")
        delete_rows(t, transaction, range(0, count, 2))
        if t.has("all"):
            t.claim("TXN-003", f"put and delete {count} rows in a transaction, and scan it")
            expect_scan(t, transaction, *rows_of(range(1, count, 2), b"new"))
        if is_committed:
            t.claim("TXN-005", f"put and delete {count} rows in a transaction, and commit it")
            transaction.commit({CHANGELOG: 3})
        else:
            t.claim("TXN-004", f"put and delete {count} rows in a transaction, and close it")
            transaction.close()
            # What a transaction has left behind may be written by the next commit.
            store.commit({CHANGELOG: 2})
        expect_rows(t, store, range(1, count, 2), b"new" if is_committed else None)
        expect_rows(t, store, range(0, count, 2), None if is_committed else b"old")


def sizes_of_values(random: Random) -> list[int]:
    """Sizes around powers of two from 64 bytes to 1 MiB, in any order."""
    sizes = [(1 << power) + more for power in range(6, 21) for more in (-1, 0, 1)]
    random.shuffle(sizes)
    return sizes


@check("KV-003", weight=10)
def values_change_their_size(t: Trial) -> None:
    """Overwrite a value by larger and smaller ones, and get it each time."""
    t.claim("KV-003", "overwrite a value by larger and smaller ones, and get it each time")
    random = Random(t.run.seed)
    store = t.open()
    for number, size in enumerate(sizes_of_values(random)):
        value = b"%c" % (65 + number % 26) * size
        store.put(b"a", value)
        t.expect(store.get(b"a"), value)
        if random.random() < 0.3:
            store.commit({CHANGELOG: number})
            t.expect(store.get(b"a"), value)
            if t.has("range"):
                t.expect(store.scan("range", b"a", b"a"), [(b"a", value)])


LENGTHS = (15, 31, 63, 127, 254, 255, 511, 1_023, 2_000)
"""Lengths below which stores may keep a key as it is."""


def long_keys() -> list[bytes]:
    """Long keys in order: of each length one, and two that continue it by one byte."""
    return [b"k" * length + end for length in LENGTHS for end in (b"", b"a", b"b")]


@check("KV-013", weight=5)
def long_keys_are_told_apart(t: Trial) -> None:
    """Put long keys that differ at their ends, and find each of them in each way."""
    t.claim("KV-013", "put long keys that differ at their ends, then get and scan each of them")
    store = t.open()
    content = {key: b"%d" % number for number, key in enumerate(long_keys())}
    store.put_all([*content.items()])
    for is_committed in (False, True):
        entries = sorted(content.items())
        for key, value in entries:
            t.expect(store.get(key), value)
            for method in ("range", "reverse_range"):
                if t.has(method):
                    t.expect(store.scan(method, key, key), [(key, value)])
            if t.has("prefix_scan"):
                expected = [each for each in entries if each[0].startswith(key)]
                t.expect(store.scan("prefix_scan", key), expected)
        if t.has("all"):
            t.expect(sorted(store.scan("all")), entries)
        if not is_committed:
            store.commit({CHANGELOG: 1})
            for key in long_keys()[1::3]:
                t.expect(store.delete(key), content.pop(key))


@check("WIN-017", "SESS-020", weight=5)
def long_keys_of_windows_are_told_apart(t: Trial) -> None:
    """Put windows or sessions of long keys that differ at their ends, and find each of them."""
    claim(t, "WIN-017", "SESS-020", "put windows of long keys that differ at their ends, then read")
    store = Timed(t)
    times, content = store.times, WindowedContent(store.times)
    for number, key in enumerate(long_keys()):
        for tick in (3, 15):
            store.put(key, b"%d" % number, times.at(tick))
            content.put(times.windowed(key, times.at(tick)), b"%d" % number)
    store.handle.commit({CHANGELOG: 1})
    for key in long_keys():
        expected = [entry for entry in content.entries() if entry[0].key == key]
        for windowed, value in expected:
            t.expect(store.get(key, times.time_of(windowed)), value)
        t.expect(sorted(store.of_key(key)), sorted(expected))
        if store.can.ranges:
            t.expect(sorted(store.of_keys(key, key)), sorted(expected))
    t.expect(sorted(store.all()), sorted(content.entries()))


MANY_KEYS = 300
"""Keys that a store may hash into few places."""


def numbered(n: int) -> bytes:
    """The n-th of many keys, and its value."""
    return b"%d" % n


@check("KV-016", weight=5)
def many_keys_in_another_order(t: Trial) -> None:
    """Put hundreds of keys into one store, put them in the opposite order into another one."""
    t.claim("KV-016", "put hundreds of keys, put them in the opposite order, and compare")
    one, other, rows = t.open("beside"), t.open(), range(MANY_KEYS)
    for store, order in ((one, rows), (other, rows[::-1])):
        put = store.raw.put
        line = f"{store.label}.put(b'%d' % n, b'%d' % n)"
        for_each_row(t, order, line, lambda n, put=put: put(numbered(n), numbered(n)))  # type: ignore[misc]
        store.commit({CHANGELOG: MANY_KEYS})
    line = f"{one.label}.get(b'%d' % n) != {other.label}.get(b'%d' % n)"
    differing = count_rows(
        t, rows, line, lambda n: bool(one.raw.get(numbered(n)) != other.raw.get(numbered(n)))
    )
    t.expect(differing, 0)
