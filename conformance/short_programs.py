"""Short programs of a store, which together use every rule that the subject supports.

They are not drawn: so even the shortest search uses every step at least once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from typing import Any

from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.generators import TICKS
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.program_kinds import Moment, ScanMethod, Spot, TimedKind, kind_of
from streamproof.conformance.store_program import (
    USES,
    StoreProgram,
    able,
    expires,
    overwrites,
    partitions_of,
    scans_of,
    stages,
    takes_records,
)

__all__ = ["ShortProgram", "short_programs"]

TWO_SPOTS = ((b"a", 0), (b"b", TICKS - 1))
"""Two keys, and the ticks of the clock at which they are put."""

MANY, MANY_EARLY = 1_400, 1_200
"""How many rows a program writes, and how many of them before it opens iterators over them. Stores
often read pages of 500 or 512 rows; of windows, one key has half of the rows."""

ShortProgram = Callable[[StoreProgram], None]
"""A program that is not drawn."""


def short_programs(run: CheckRun) -> list[ShortProgram]:
    """The short programs for a subject, the shortest first: what they find has short programs."""
    scans = kind_of(run.subject.capabilities).scans
    programs: list[ShortProgram] = [
        *(writes, refusals, views, ended_transactions, commits, times),
        *(partial(part, method) for part in (reads, closed_iterators) for method in scans),
        *(partial(rewritten, write) for write, has in WRITES.items() if has(run)),
        *(partial(edges, method) for method in scans),
    ]
    return [*programs, many_rows]


def writes(m: StoreProgram) -> None:
    """Write in every way."""
    if overwrites(m.run):
        m.restore([(b"a", b"1"), (b"b", b"2"), (b"b", None)])
    if takes_records(m.run):
        m.process(0, 5, 77)
    m.put(b"c", b"3")
    m.put_all([(b"e", b"5"), (b"d", b"4")])
    if overwrites(m.run):
        m.put_any(b"d", None)
        m.put_if_absent(b"a", b"6")
        m.put_if_absent(b"a", None)
        m.put_if_absent(b"b", None)
        m.delete(b"a")
    for key in (b"a", b"b", b"c", b"d", b"e"):
        m.get(key)
    if m.stage.can.timestamped:
        m.put_stamped(b"f", b"7", 5)
        m.get_stamped(b"f")
    if m.run.applies("POS-002"):
        m.ask_position()
    m.commit()


def refusals(m: StoreProgram) -> None:
    """Pass None for a key to every method: before the first write, after it, and in between."""
    if not m.run.applies("ERR-001"):
        return
    for number, method in enumerate(m.stage.kind.refusing):
        m.refuse(method, [(b"b", b"2")], at=number % 2)
    for method in m.stage.kind.refusing:
        m.put(b"a", method.encode())
        m.refuse(method, [(b"b", b"2")], at=1)
    m.commit()


def views(m: StoreProgram) -> None:
    """Read views beside staged writes."""
    m.put_all([(b"a", b"1"), (b"b", b"2")])
    m.commit(look=False)
    for number, _ in enumerate(m.stage.possible_views()):
        m.open_view(number)
    for number, _ in enumerate(m.stage.views):
        m.put(b"a", b"staged")
        m.get(b"a", 1 + number)


def reads(method: ScanMethod, m: StoreProgram) -> None:
    """Scan with a method, and read an iterator of it beside later writes."""
    places, bounds = m.stage.kind.samples()
    m.put_all([(place, b"%d" % number) for number, place in enumerate(places)])
    for low, high in bounds:
        m.scan(method, low, high)
    if scans_of(m.run):
        m.iterate(method, b"a", None)
        m.advance()
        m.write_before()
        m.commit(look=False)
        if expires(m.run):
            m.peek()
        m.finish(twice=True)


def edges(method: ScanMethod, m: StoreProgram) -> None:
    """Scan within bounds that are easy to get wrong: as the store, a view and a transaction."""
    places, bounds = m.stage.kind.edges()
    committed, staged = places[::2], places[1::2]
    m.put_all([(place, b"%d" % number) for number, place in enumerate(committed)])
    m.commit(look=False)
    for number, _ in enumerate(m.stage.possible_views()):
        m.open_view(number)
    rewrite(m, committed, staged)
    for which in range(1 + len(m.stage.views)):
        scan_each(m, method, bounds, which)
    if stages(m.run):
        m.commit(look=False)
        m.begin()
        rewrite(m, staged, committed, 1)
        scan_each(m, method, bounds, 1)


def rewrite(m: StoreProgram, present: Sequence[Any], absent: Sequence[Any], which: int = 0) -> None:
    """Put what is absent, and overwrite and delete a part of what is present."""
    for number, place in enumerate(absent):
        m.put_any(place, b"new %d" % number, which)
    if overwrites(m.run):
        for number, place in enumerate(present[::2]):
            m.put_any(place, b"over %d" % number if number % 2 else None, which)


def scan_each(
    m: StoreProgram, method: ScanMethod, bounds: Iterable[tuple[Any, Any]], which: int
) -> None:
    """Scan within each of these bounds, once for the same arguments."""
    done = set()
    for low, high in bounds:
        arguments = m.stage.bounds(method, low, high).arguments
        if arguments not in done:
            done.add(arguments)
            m.scan(method, low, high, which)


def many_rows(m: StoreProgram) -> None:
    """Write hundreds of rows while iterators over hundreds are open: one of each scan."""
    if not scans_of(m.run):
        return
    places, bounds = m.stage.kind.many(MANY)
    early, late = places[:MANY_EARLY], places[MANY_EARLY:]
    for place in early:
        m.put_any(place, b"old")
    m.commit(look=False)
    for method in m.stage.kind.scans:
        m.iterate(method, *bounds)
    for number, _ in enumerate(m.stage.iterators):
        m.advance(number)
    rewrite(m, early[::2], late)
    m.commit(look=False)
    while m.stage.iterators:
        m.finish()


WRITES: dict[str, Callable[[CheckRun], bool]] = {
    "put": lambda _: True,
    "put_none": overwrites,
    "delete": overwrites,
    "put_if_absent": overwrites,
    "put_all": lambda run: not expires(run),
    "put_stamped": able("timestamped"),
    "restore": overwrites,
}
"""The ways to write, and whether the subject has them."""


def rewritten(write: str, m: StoreProgram) -> None:
    """Read in one way, write, and read in another way: no cache may miss the write."""
    held, free, *_ = m.stage.kind.samples()[0]
    ways: list[str | ScanMethod] = ["get", *m.stage.kind.scans]
    for number, (before, after) in enumerate(product(ways, repeat=2)):
        m.put(held, b"held %d" % number)
        if overwrites(m.run):
            m.delete(free)
        if write == "restore" or number % len(ways) == 0:
            m.commit(look=False)
        m.read(before, held, free)
        m.write(write, held, free)
        m.read(after, held, free)


def ended_transactions(m: StoreProgram) -> None:
    """End transactions in every way, and use them."""
    if not m.run.applies("TXN-015"):
        return
    m.put_all([(b"a", b"1"), (b"b", b"2")])
    m.commit(look=False)
    ends: tuple[Callable[[], None], ...] = (m.roll_back, m.commit_transaction, m.commit)
    for end in ends:
        m.begin()
        m.begin()
        m.put(b"a", b"staged", 1)
        m.put(b"c", b"beside", 2)
        m.get(b"a", 1)
        if scans_of(m.run):
            m.iterate(m.stage.kind.scans[0], None, None, 1)
            m.advance()
        end()
        for method in USES:
            m.use_ended(method, b"a")


def commits(m: StoreProgram) -> None:
    """Commit with and without writes, forget offsets, flush and reopen."""
    every = partitions_of(m.run)
    # The first commit of a store names the lower partition, and later the higher one.
    for partitions in (*every, *every[::-1]):
        m.put(b"a", b"1")
        m.commit(partitions, look=False)
        m.commit(partitions)
    m.flush()
    if m.run.applies("OFFSET-006"):
        m.forget_one(CHANGELOG)
    if m.run.applies("OFFSET-005"):
        m.forget_all()
    if scans_of(m.run):
        m.iterate(m.stage.kind.scans[0], None, None)
        m.abandon()
        m.iterate(m.stage.kind.scans[0], None, None)
    if m.stage.can.manages_offsets and m.stage.can.persistent:
        m.ask_offsets()
    if m.stage.can.persistent and overwrites(m.run):
        m.reopen()


def closed_iterators(method: ScanMethod, m: StoreProgram) -> None:
    """Read an iterator of a scan after its store was closed."""
    if m.run.applies(m.stage.kind.promises.closed):
        places, bounds = m.stage.kind.samples()
        m.put_all([(place, b"%d" % number) for number, place in enumerate(places)])
        arguments = m.stage.bounds(method, *bounds[0]).arguments
        iterator = m.stage.store.iterate(method.name, *arguments)
        m.stage.store.call("close")
        m.read_closed(iterator)


def times(m: StoreProgram) -> None:
    """Let what was committed expire in a transaction and in a view, and then in the store."""
    kind = m.stage.kind
    if not isinstance(kind, TimedKind):
        return
    first, last = (Spot(key, Moment("tick", at), Moment("tick", at)) for key, at in TWO_SPOTS)
    far = Spot(b"b", Moment("retention"), Moment("retention"))
    m.put(first, b"1")
    m.put(last, b"2")
    m.commit(look=False)
    if stages(m.run):
        for spots in ((far,), (far, last), (last, far)):
            m.begin()
            for spot in spots:
                m.put(spot, b"staged", 1)
            m.get(first)
            m.roll_back()
    if m.stage.possible_views():
        m.open_view()
        m.put(far, b"far")
        m.get(first, 1)
    m.put(far, b"far")
    m.put(first, b"late")
    m.count()
    for method in kind.scans:
        m.scan(method, b"a", None)
    m.commit()
    m.count()
