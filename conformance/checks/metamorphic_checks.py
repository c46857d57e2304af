"""Two ways to the same content: no model knows the right answer, but both ways must agree.

Each check runs one program in two ways, each on its own store, and compares the contents. The
report shows both sides, and its last line shows the keys in which they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from streamproof.conformance.check_registry import check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.lab import CHANGELOG, ChangelogRecord, Lab
from streamproof.conformance.trial import Entry, Handle, Trial
from streamproof.conformance.windowed_trial import Timed, claim

Writes = list[tuple[bytes, bytes | None]]

ENDS: Writes = [(b"\x00", b"first"), (b"\xff\xff", b"last")]
"""Keys at both ends of the order, where range bugs show."""

PUTTING: tuple[tuple[str, str], ...] = (
    ("KV-016", "write the same values with the keys in another order, and compare"),
    ("KV-010", "write with put_all on one side and with put on the other, and compare"),
    ("KV-007", "delete on one side and put None on the other, and compare"),
)
"""Ways to write the same content."""

REPLAYS: tuple[tuple[str, str], ...] = (
    ("RESTORE-016", "put on one side and restore on the other, and compare"),
    ("RESTORE-004", "put on one side and restore twice on the other, and compare"),
    ("RESTORE-005", "put on one side and restore in batches on the other, and compare"),
)
"""Ways to restore the same content."""


def agree(t: Trial, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> None:
    """Demand that two sides are equal, and report the keys in which they differ."""
    keys = [*one, *(key for key in other if key not in one)]
    differing = [key for key in keys if one.get(key) != other.get(key)]
    t.expect({key: other.get(key) for key in differing}, {key: one.get(key) for key in differing})


def same_content(t: Trial, one: Handle, other: Handle, writes: Writes) -> None:
    """Demand that two stores give the same answers to gets and scans."""
    keys = sorted({key for key, _ in writes})
    agree(t, {key: one.get(key) for key in keys}, {key: other.get(key) for key in keys})
    if t.lab.subject.capabilities.scan:
        agree(t, entries(one.scan("all")), entries(other.scan("all")))


def entries(found: list[Entry]) -> dict[Any, Any]:
    """The entries of a scan by key. A key that appears twice has a list of values."""
    by_key: dict[Any, Any] = {}
    for key, value in found:
        by_key[key] = [by_key[key], value] if key in by_key else value
    return by_key


def write(store: Handle, writes: Writes) -> None:
    """Put the writes one after the other."""
    for key, value in writes:
        store.put(key, value)


def cut(items: Sequence[Any], at: set[int]) -> list[Sequence[Any]]:
    """A list in pieces, none of them empty."""
    ends = sorted({0, len(items), *(each + 1 for each in at if each < len(items))})
    return [items[start:end] for start, end in pairwise(ends)]


def plain(t: Trial, writes: Writes) -> Handle:
    """One side, in its own directory: put the writes one after the other and commit at the end."""
    t.note("# One side.")
    store = t.open("one")
    write(store, writes)
    store.commit({CHANGELOG: len(writes)})
    return store


def other_side(t: Trial) -> Handle:
    """The other side, in the task directory, where it can be restored and reopened."""
    t.note("# The other side.")
    return t.open()


def in_each_way(
    run: CheckRun,
    ways: Sequence[tuple[str, str]],
    compare: Callable[..., None],
    strategies: dict[str, SearchStrategy[Any]],
) -> None:
    """Run one property for each way, which names the requirement, with examples of its own."""
    for way in ways:
        if run.applies(way[0]):
            run.run_property(partial(compare, way), strategies)


# Positions of commits, flushes and reopenings.


@check("COMMIT-009", given=lambda g: {"writes": g.writes(10), "at": g.cuts()})
def commits_do_not_matter(t: Trial, writes: Writes, at: set[int]) -> None:
    """Commit at the end only on one side, and several times in between on the other."""
    one = plain(t, writes)
    t.claim("COMMIT-009", "commit several times on one side and once on the other, and compare")
    other = other_side(t)
    for number, piece in enumerate(cut(writes, at), start=1):
        write(other, list(piece))
        other.commit({CHANGELOG: number})
    same_content(t, one, other, writes)


@check(
    "COMMIT-010",
    given=lambda g: {
        "writes": g.writes(10),
        "at": g.cuts(),
        "pauses": st.lists(st.booleans(), min_size=6, max_size=6),
    },
)
def reopening_does_not_matter(t: Trial, writes: Writes, at: set[int], pauses: list[bool]) -> None:
    """Flush, or close and reopen, after commits on one side, and compare with the other side."""
    one = plain(t, writes)
    t.claim("COMMIT-010", "flush or reopen after commits on one side only, and compare")
    other = other_side(t)
    for number, (piece, reopen) in enumerate(zip(cut(writes, at), pauses, strict=False), start=1):
        write(other, list(piece))
        other.commit({CHANGELOG: number})
        if reopen:
            other = t.reopen(other)
        elif callable(getattr(other.raw, "flush", None)):
            other.flush()
    same_content(t, one, other, writes)


# Ways to restore.


@check("RESTORE-016", "RESTORE-004", "RESTORE-005", raw=True)
def restored_as_put(run: CheckRun) -> None:
    """Restore the changelog of a store in several ways, and compare the two stores."""
    g = run.generators()
    # Every restoration goes the plain way, so it is tried twice as often as the others.
    ways = (*REPLAYS, REPLAYS[0])
    in_each_way(run, ways, compare_restored, {"writes": g.writes(12), "at": g.cuts()})


def compare_restored(way: tuple[str, str], t: Trial, writes: Writes, at: set[int]) -> None:
    """Put on one side, restore in one way on the other, and compare."""
    one = plain(t, writes)
    t.claim(*way)
    other = other_side(t)
    records = [ChangelogRecord(key, value, offset) for offset, (key, value) in enumerate(writes)]
    batches = cut(records, at) if way[0] == "RESTORE-005" else [records]
    for batch in batches * (2 if way[0] == "RESTORE-004" else 1):
        t.restore(other, list(batch))
    other.commit({CHANGELOG: len(writes)})
    same_content(t, one, other, writes)


# Ways to write.


@check("KV-016", "KV-010", "KV-007", raw=True)
def written_in_other_ways(run: CheckRun) -> None:
    """Write the same content in several ways, and compare the two stores."""
    in_each_way(run, PUTTING, compare_written, {"writes": run.generators().writes(12)})


def compare_written(way: tuple[str, str], t: Trial, writes: Writes) -> None:
    """Write one after the other on one side, in another way on the other, and compare."""
    one = plain(t, writes)
    t.claim(*way)
    other = other_side(t)
    if way[0] == "KV-010":
        other.put_all(writes)
    elif way[0] == "KV-007":
        for key, value in writes:
            other.put(key, value) if value is not None else other.delete(key)
    else:
        # The sort keeps the order of the writes to each key.
        write(other, sorted(writes, key=lambda each: each[0], reverse=True))
    other.commit({CHANGELOG: len(writes)})
    same_content(t, one, other, writes)


@check("TXN-018", given=lambda g: {"writes": g.writes(10), "at": g.cuts()})
def transactions_write_the_same(t: Trial, writes: Writes, at: set[int]) -> None:
    """Write on the store and in explicit transactions, and compare the two stores."""
    one = plain(t, writes)
    t.claim("TXN-018", "write on the store on one side, in transactions on the other, and compare")
    other = other_side(t)
    for number, piece in enumerate(cut(writes, at), start=1):
        transaction = other.begin()
        write(transaction, list(piece))
        transaction.commit({CHANGELOG: number})
    same_content(t, one, other, writes)


CALLS = ("put", "delete", "put_if_absent", "get")


@check(
    "KV-017",
    given=lambda g: {
        "writes": g.writes(12),
        "calls": st.lists(st.sampled_from(CALLS), min_size=12, max_size=12),
    },
)
def answers_as_in_memory(t: Trial, writes: Writes, calls: list[str]) -> None:
    """Make the same calls on the store and on the suite's in-memory store, and compare."""
    t.claim("KV-017", "compare each answer with that of the in-memory store")
    one = in_memory(t)
    other = other_side(t)
    for call, (key, value) in zip(calls, writes, strict=False):
        arguments = (key, value) if call.startswith("put") else (key,)
        expected = one.call(call, *arguments)
        found = other.call(call, *arguments)
        if call != "put":
            t.expect(found, expected)
    one.commit({CHANGELOG: 0})
    other.commit({CHANGELOG: 0})
    same_content(t, one, other, writes)


def in_memory(t: Trial) -> Handle:
    """The suite's in-memory store."""
    label = t.label_for("memory")
    t.note(f"{label} = Lab('in-memory').open()")
    lab = Lab("in-memory", guarantee=t.lab.guarantee, directory=t.lab.directory)
    return Handle(t, lab.open(), label)


# Ways to read.


Bounds = tuple[bytes | None, bytes | None]


def ranges_of(keys: list[bytes], drawn: Bounds) -> list[Bounds]:
    """Ranges to read: the drawn range, and ranges that begin or end at an existing key."""
    return list(dict.fromkeys((drawn, (keys[0], None), (None, keys[-1]))))


def is_within(key: bytes, bounds: Bounds) -> bool:
    """Whether a key is in a range."""
    low, high = bounds
    return (low is None or low <= key) and (high is None or key <= high)


@check(
    "RANGE-016",
    given=lambda g: {"writes": g.writes(12), "bounds": g.key_ranges(), "prefix": g.prefixes()},
)
def all_ways_of_reading_agree(t: Trial, writes: Writes, bounds: Bounds, prefix: bytes) -> None:
    """Read by range, backward, by prefix and key by key, and compare with all()."""
    t.claim("RANGE-016", "compare each way of reading with the matching part of all()")
    can, keys = t.lab.subject.capabilities, sorted({key for key, _ in [*ENDS, *writes]})
    store = t.open()
    write(store, [*ENDS, *writes])
    store.commit({CHANGELOG: 0})
    # One part is committed and one is not, for stores in which that makes a difference.
    write(store, writes[: len(writes) // 2])
    whole = store.scan("all")
    for key in keys:
        t.expect(store.get(key), dict(whole).get(key))
    for each in ranges_of(keys, bounds):
        part = [entry for entry in whole if is_within(entry[0], each)]
        t.expect(store.scan("range", *each), part)
        if can.reverse:
            t.expect(store.scan("reverse_range", *each), part[::-1])
    if can.reverse:
        t.expect(store.scan("reverse_all"), whole[::-1])
    if can.prefix_scan:
        t.expect(store.scan("prefix_scan", prefix), [e for e in whole if e[0].startswith(prefix)])


@check("WIN-053", "SESS-048", given=lambda g: {"puts": g.windows(), "bounds": g.key_ranges()})
def all_ways_of_fetching_agree(t: Trial, puts: list[tuple[bytes, int]], bounds: Bounds) -> None:
    """Fetch by key, by range and at one time, and compare with a fetch of everything."""
    claim(
        t,
        "WIN-053",
        "SESS-048",
        "compare each way of fetching with the matching part of all entries",
    )
    store, keys = Timed(t), sorted({key for key, _ in puts})
    for number, (key, tick) in enumerate(puts):
        store.put(key, b"%d" % number, store.times.at(tick))
    whole = store.all()
    for key in keys:
        of_key = [entry for entry in whole if entry[0].key == key]
        t.expect(store.of_key(key), of_key)
        if store.can.reverse:
            t.expect(sorted(store.of_key(key, backward=True)), sorted(of_key))
    for each in ranges_of(keys, bounds) if store.can.ranges else ():
        within = [entry for entry in whole if is_within(entry[0].key, each)]
        t.expect(store.of_keys(*each), within)
        if store.can.reverse:
            t.expect(sorted(store.of_keys(*each, backward=True)), sorted(within))
    for key, tick in dict.fromkeys(puts):
        time = store.times.at(tick)
        found = [value for where, value in whole if where == store.times.windowed(key, time)]
        t.expect(store.get(key, time), found[0] if found else None)


@check("WIN-054", "SESS-049", given=lambda g: {"puts": g.windows()})
def the_order_of_times_does_not_matter(t: Trial, puts: list[tuple[bytes, int]]) -> None:
    """Put the same entries forward and backward in time, while nothing expires."""
    claim(
        t,
        "WIN-054",
        "SESS-049",
        "put forward in time on one side, backward on the other, and compare",
    )
    values = {each: b"%d" % number for number, each in enumerate(puts)}
    forward = sorted(values, key=lambda each: each[1])
    found: list[dict[Any, Any]] = []
    for order in (forward, forward[::-1]):
        t.note("# One side." if not found else "# The other side.")
        store = Timed(t)
        for key, tick in order:
            store.put(key, values[key, tick], store.times.at(tick))
        found.append(entries(store.all()))
        if len(found) == 1:
            store.handle.close()
            t.wipe()
    agree(t, found[0], found[1])
