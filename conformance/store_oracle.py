"""The legal answers of a store to each of its readers, while writes wait for commits.

A *key* is what a put overwrites: the key of a key-value store, else a window or a session of a key.

A *cell* is the content of a key: a value, or a value with its timestamp, or ``None`` for no value.
A reader may get one of several cells of a key, because some promises leave a choice: a transaction
may read the content as of its begin, or that of later commits. Where only one answer is right, the
set has one cell.

Windows and sessions expire by the *stream time*, the largest time that was written. A reader knows
at least the time that it surely has seen, and at most the time of everything that it may see: what
expires between the two may be there or not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from streamproof.conformance.windows_oracle import Ageing

__all__ = ["Cell", "Choices", "Key", "Scan", "Staged", "StoreOracle"]

Key = Any
"""A key, or a window or a session of one."""

Cell = Any
"""A value, a tuple of a value and its timestamp, or ``None``."""

Choices = Callable[[Key], set[Cell]]
"""For each key, the cells that a reader may get."""

NEVER = -1
"""The stream time before the first write."""


@dataclass(eq=False)
class Staged:
    """The writes of one writer since its last commit.

    Attributes:
        cells: the last written cell of each key.
        earlier: for each key, the older cells that the writer may still read, because another
            writer has replaced them since this one began.
        time: the largest time among these writes.
        since: the stream time that the writer surely knew as it began.
    """

    cells: dict[Key, Cell] = field(default_factory=dict)
    earlier: dict[Key, set[Cell]] = field(default_factory=dict)
    time: int = NEVER
    since: int = NEVER

    def missed(self, key: Key, cell: Cell) -> None:
        """Note that another writer replaces ``cell``."""
        self.earlier.setdefault(key, set()).add(cell)

    def clear(self, since: int) -> None:
        """Begin anew, at a stream time."""
        self.cells.clear()
        self.earlier.clear()
        self.time, self.since = NEVER, since


class StoreOracle:
    """A committed dictionary, the writes over it, and the iterators that may see later writes.

    Args:
        stages: whether the store hides its own writes from others until their commit.
        ageing: the rules of expiry; ``None`` for a store that lets nothing expire.

    Attributes:
        own: the writes to the store itself.
        open: the writes of open transactions, oldest first.
        keys: every key that was ever written.
        scans: the open iterators, whose entries may expire.
        weak: those that may see later writes.
        known: the largest committed time that an open store surely knows.
        reached: the largest committed time.
    """

    def __init__(self, *, stages: bool, ageing: Ageing | None = None) -> None:
        self.stages = stages
        self.ageing = ageing
        self.known = self.reached = NEVER
        self.scans: list[Scan] = []
        self.committed: dict[Key, Cell] = {}
        self.own = Staged()
        self.open: list[Staged] = []
        self.keys: set[Key] = set()
        self.weak: list[Scan] = []

    # Writing.

    def write(self, staged: Staged, key: Key, cell: Cell) -> None:
        """Write one key, in the store or in a transaction."""
        if staged is self.own and not self.stages:
            for each in self.open:
                each.missed(key, self.live(key))
        self.keys.add(key)
        staged.cells[key] = cell
        self._may_show(key, cell)
        if self.ageing is not None:
            staged.time = max(staged.time, self.ageing.time_of(key))
            self._may_expire(self.ageing)

    def commit(self, staged: Staged) -> None:
        """Commit a transaction, or what was written to the store itself."""
        others = [each for each in (self.own, *self.open) if each is not staged]
        for key, cell in staged.cells.items():
            for each in others:
                each.missed(key, self.committed.get(key))
            self.committed[key] = cell
            self._may_show(key, cell)
        if not self.stages and staged is not self.own:
            # The writes to the store itself are below those of the transaction.
            for key in staged.cells:
                self.own.cells.pop(key, None)
        self.known, self.reached = (max(each, staged.time) for each in (self.known, self.reached))
        self.forget(staged)

    def forget(self, staged: Staged) -> None:
        """Drop what was staged, at the end of a transaction."""
        staged.clear(self.known)
        if staged is not self.own:
            self.open.remove(staged)

    def contested(self) -> dict[Key, set[Cell]]:
        """The keys that several writers have staged, and the cells that one commit may give."""
        found: dict[Key, list[Cell]] = {}
        for staged in (self.own, *self.open):
            for key, cell in staged.cells.items():
                found.setdefault(key, []).append(cell)
        return {key: set(cells) for key, cells in found.items() if len(set(cells)) > 1}

    def begin(self) -> Staged:
        """Open a transaction."""
        self.open.append(Staged(since=self.known))
        return self.open[-1]

    def close(self) -> None:
        """Discard everything that is staged, and all iterators. The stream time may be lost."""
        self.known = NEVER
        self.own.clear(NEVER)
        self.open.clear()
        self.weak.clear()
        self.scans.clear()

    # Expiry.

    def times_of(self, staged: Staged) -> tuple[int, int]:
        """The least and the largest stream time that a writer may know.

        No promise says whether a transaction follows the time that its store has staged before.
        """
        seen = self.known if staged is self.own and not self.stages else staged.since
        return max(seen, staged.time), max(self.reached, staged.time, self.own.time)

    def keeps(self, staged: Staged, key: Key) -> bool | None:
        """Whether a write is kept, or dropped as too late; ``None`` if it may be either."""
        if self.ageing is None:
            return True
        time = self.ageing.time_of(key)
        least, largest = (self.ageing.first_kept(max(each, time)) for each in self.times_of(staged))
        return True if time >= largest else False if time < least else None

    def lets_staged_expire(self, key: Key) -> bool:
        """Whether the time of a write would let something expire that is staged."""
        if self.ageing is None:
            return False
        first = self.ageing.first_readable(self.ageing.time_of(key))
        writers = (self.own, *self.open)
        return any(self.ageing.time_of(other) < first for each in writers for other in each.cells)

    def is_readable(self, key: Key) -> bool:
        """Whether a key has surely not expired in the store."""
        largest = self.times_of(self.own)[1]
        ageing = self.ageing
        return ageing is None or ageing.time_of(key) >= ageing.first_readable(largest)

    @property
    def staged_time(self) -> int:
        """The largest time that waits for a commit."""
        return max(each.time for each in (self.own, *self.open))

    def _aged(self, key: Key, cells: set[Cell], times: tuple[int, int]) -> set[Cell]:
        """The cells of a key that a reader may get, who knows the stream time between two times."""
        if self.ageing is None:
            return cells
        time = self.ageing.time_of(key)
        least, largest = map(self.ageing.first_readable, times)
        if time >= largest:
            return cells
        return {None} if time < least else {None, *cells}

    def _may_expire(self, ageing: Ageing) -> None:
        first = ageing.first_readable(max(self.reached, self.staged_time))
        for scan in self.scans:
            if first > scan.aged_to:
                scan.aged_to = first
                scan.may_miss(lambda key: ageing.time_of(key) < first)

    # Reading.

    def live(self, key: Key) -> Cell:
        """The cell after all writes to the store itself."""
        return self.own.cells.get(key, self.committed.get(key))

    def in_store(self, key: Key) -> set[Cell]:
        """What the store shows its owner."""
        if key in self.own.cells or not self.stages:
            cells = {self.live(key)}
        else:
            cells = {self.committed.get(key), *self.own.earlier.get(key, ())}
        return self._aged(key, cells, self.times_of(self.own))

    def in_transaction(self, staged: Staged) -> Choices:
        """What a transaction shows: its own writes, and committed cells since its begin.

        No promise says whether it sees uncommitted writes of a store that does not stage them.
        """

        def choices(key: Key) -> set[Cell]:
            if key in staged.cells:
                found = {staged.cells[key]}
            else:
                found = {self.committed.get(key), *staged.earlier.get(key, ())}
                found |= set() if self.stages else {self.live(key)}
            return self._aged(key, found, self.times_of(staged))

        return choices

    def in_committed_view(self, key: Key) -> set[Cell]:
        """What a READ_COMMITTED view of a store that stages its writes shows."""
        return self._aged(key, {self.committed.get(key)}, (self.known, self.reached))

    def in_any_view(self, key: Key) -> set[Cell]:
        """What a READ_UNCOMMITTED view of a store that stages its writes shows."""
        cells = {self.committed.get(key), *self.staged(key)}
        return self._aged(key, cells, (self.known, max(self.reached, self.staged_time)))

    def in_live_view(self, key: Key) -> set[Cell]:
        """What a view shows if the store does not stage its writes."""
        return self._aged(key, {self.live(key)}, self.times_of(self.own))

    def staged(self, key: Key) -> set[Cell]:
        """The cells of a key that wait for a commit."""
        writers = (self.own, *self.open)
        return {each.cells[key] for each in writers if key in each.cells}

    def _may_show(self, key: Key, cell: Cell) -> None:
        for scan in self.weak:
            scan.may_yield(key, cell)


class Scan:
    """The entries that an iterator may still yield.

    Args:
        keys: every key that was ever written.
        choices: the cells that the reader may get as the iterator is opened.
        within: whether a key is within the bounds of the scan.
        show: the part of a cell that the scan yields.
        rank: the place of a key in the order of scans; keys that tie may come in any order.
        backward: whether the scan yields the last key first.
        ordered: whether the scan yields keys in order.

    Attributes:
        backward: the same.
        ordered: the same.
        aged_to: the first time that had not expired when this scan last lost what may be gone.
    """

    def __init__(
        self,
        keys: Iterable[Key],
        choices: Choices,
        within: Callable[[Key], bool],
        show: Callable[[Cell], Any],
        *,
        backward: bool,
        ordered: bool,
        rank: Callable[[Key], Any] = lambda key: key,
    ) -> None:
        self._within = within
        self._show = show
        self._rank = rank
        self.backward = backward
        self.ordered = ordered
        self.aged_to = NEVER
        self._yielded: set[Key] = set()
        self._left: dict[Key, set[Any]] = {}
        for key in keys:
            cells = choices(key) if within(key) else {None}
            if cells != {None}:
                self._left[key] = {show(cell) for cell in cells}

    @property
    def certain(self) -> bool:
        """Whether only one set of entries is right."""
        return all(len(each) == 1 and None not in each for each in self._left.values())

    def next_keys(self) -> list[Key]:
        """The keys that may come, in the order of the scan."""
        return sorted(self._left, key=self._rank, reverse=self.backward)

    def entries(self) -> list[tuple[Key, Any]]:
        """The entries to come, if they are certain."""
        return [(key, next(iter(self._left[key]))) for key in self.next_keys()]

    def may_yield(self, key: Key, cell: Cell) -> None:
        """Note a later write, which the iterator may show."""
        if self._within(key) and key not in self._yielded and not self._passed(key):
            self._left.setdefault(key, {None}).add(self._show(cell))

    def may_miss(self, expired: Callable[[Key], bool]) -> None:
        """Note that some of the keys may be gone."""
        for key in filter(expired, self._left):
            self._left[key].add(None)

    def take(self, entries: Iterable[tuple[Key, Any]], *, to_end: bool) -> str:
        """Take entries that were yielded; what is wrong with them, or an empty text."""
        coming = deque(self.next_keys() if self.ordered else ())
        for key, value in entries:
            if value is None or value not in self._left.get(key, ()):
                return f"the entry {key!r}, {value!r}"
            if missed := self._missed_before(key, coming):
                return f"{key!r} before or without {missed[0]!r}"
            del self._left[key]
            self._yielded.add(key)
        missed = [key for key, values in self._left.items() if None not in values]
        return f"no entry of {missed[0]!r}" if to_end and missed else ""

    def _missed_before(self, key: Key, coming: deque[Key]) -> list[Key]:
        """The keys that had to come before ``key``. Those that did not have to come never will.

        ``coming`` has the keys that may come, in the order of the scan, and those taken since.
        """
        place = self._rank(key)
        missed = []
        while coming and self._is_before(self._rank(coming[0]), place):
            before = coming.popleft()
            if None not in self._left.pop(before, {None}):
                missed.append(before)
        return missed

    def _passed(self, key: Key) -> bool:
        """Whether an ordered scan is already beyond a key."""
        if not self.ordered or not self._yielded:
            return False
        reached = map(self._rank, self._yielded)
        last = min(reached) if self.backward else max(reached)
        return self._is_before(self._rank(key), last)

    def _is_before(self, one: Any, other: Any) -> bool:
        """Whether the scan yields what has one rank before what has the other."""
        return bool(one > other if self.backward else one < other)
