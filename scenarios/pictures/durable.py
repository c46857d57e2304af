"""What is on the disk, and what is in memory only: what a crash takes away, store by store.

Events tell what stores hold when they are found and closed, and each write, commit and flush in
between. What a store writes by itself is not told, so what is said to be in memory may be on the
disk already; that it is found there says the event of the next opening.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from streamproof.sim.trace import Event

__all__ = ["Level", "Moment", "Shelf", "Span", "Stock", "follow"]

NOWHERE = -1
"""The offset of a store that has none."""


class Moment(NamedTuple):
    """What there is of one store, from one event on.

    Attributes:
        sequence: the number of the event.
        is_open: whether a process has it open.
        on_disk: how many rows are on the disk.
        in_memory: how many rows were written and not flushed.
        staged: how many rows were written and belong to no commit yet.
        disk_offset: the offset that is on the disk; -1 if there is none.
        offset: the last offset of its changelog that is in it; -1 if there is none.
    """

    sequence: int
    is_open: bool
    on_disk: int
    in_memory: int
    staged: int
    disk_offset: int
    offset: int


class Level(NamedTuple):
    """An offset that holds from one event on."""

    sequence: int
    offset: int


class Span(NamedTuple):
    """A part of a lane in which there is somebody, or something.

    Attributes:
        lane: its key.
        start: the number of the event with which it begins.
        end: the number of the event with which it ends.
        is_volatile: whether a crash would take something away.
    """

    lane: str
    start: int
    end: int
    is_volatile: bool


@dataclass
class Shelf:
    """What is in one store now.

    Attributes:
        disk: the rows on the disk.
        memory: what was written since the last flush; ``None`` is a deletion.
        staged: what was written since the last commit, if it stages its writes.
        disk_offset: the offset on the disk.
        committed: the offset of the last commit.
        offset: the last offset that is in it.
        is_open: whether a process has it open.
        is_persistent: whether it is on the disk at all.
    """

    disk: dict[bytes, bytes | None] = field(default_factory=dict)
    memory: dict[bytes, bytes | None] = field(default_factory=dict)
    staged: dict[bytes, bytes | None] = field(default_factory=dict)
    disk_offset: int = NOWHERE
    committed: int = NOWHERE
    offset: int = NOWHERE
    is_open: bool = False
    is_persistent: bool = True

    @property
    def is_volatile(self) -> bool:
        """Whether a crash would take something away."""
        return self.is_open and bool(
            self.memory or self.staged or self.disk_offset != self.committed
        )

    def flush(self) -> None:
        """What is in memory is on the disk from now on, with the offset of the last commit."""
        if self.is_persistent:
            self.disk |= self.memory
            self.disk_offset = self.committed
            self.memory.clear()

    def lose_memory(self) -> None:
        """The process is dead."""
        self.memory.clear()
        self.staged.clear()
        if not self.is_persistent:
            self.disk_offset = NOWHERE
        self.offset = self.committed = self.disk_offset
        self.is_open = False

    def at(self, sequence: int) -> Moment:
        """What there is, from an event on."""
        return Moment(
            sequence,
            self.is_open,
            sum(value is not None for value in self.disk.values()),
            len(self.memory),
            len(self.staged),
            self.disk_offset,
            self.offset,
        )


class Stock(NamedTuple):
    """What is where, during a whole run.

    Attributes:
        moments: by store, what there is of it from each event on that changes it.
        ends: by partition, where its log ends.
        committed: by input, the committed offset.
        spans: the parts of the lanes in which there is somebody, or something.
    """

    moments: dict[str, list[Moment]]
    ends: dict[str, list[Level]]
    committed: dict[str, list[Level]]
    spans: list[Span]


def follow(events: Iterable[Event], origins: Mapping[int, Event], *, transactional: bool) -> Stock:
    """Follow all stores through a run.

    Args:
        events: of the run.
        origins: by the number of the event of a record in a changelog, the write to the store.
        transactional: whether stores stage their writes.
    """
    follower = _Follower(origins, transactional=transactional)
    last = 0
    for each in events:
        follower.see(each)
        last = each.sequence
    follower.end(last)
    return follower.stock


class _Follower:
    """Takes the events of a run in, one after the other."""

    def __init__(self, origins: Mapping[int, Event], *, transactional: bool) -> None:
        self.stock = Stock({}, {}, {}, [])
        self._transactional = transactional
        self._shelves: defaultdict[str, Shelf] = defaultdict(Shelf)
        # The records of each log, for what a restored batch brings.
        self._records: defaultdict[str, list[tuple[int, bytes, bytes | None]]] = defaultdict(list)
        self._origins = origins
        # The offset of the record that a task is at, by actor and input.
        self._at: dict[tuple[str, str], int] = {}
        # By lane, when its present span began, and whether that is volatile.
        self._open: dict[str, tuple[int, bool]] = {}
        self._ways: dict[str, Callable[[Event], None]] = {
            "log.appended": self._appended,
            "offsets.committed": self._committed,
            "transaction.marker": self._marked,
            "task.processed": self._processed,
            "task.state": self._changed,
            "task.closed": self._closed,
            "instance.started": self._started,
            "instance.stopped": self._died,
            "instance.crashed": self._died,
            "disk.power_lost": self._died,
            "task.wiped": self._wiped,
            "state.cleaned": self._wiped,
            "store.opened": self._opened,
            "store.found": self._found,
            "store.put": self._put,
            "store.restored": self._restored,
            "store.committed": self._stored,
            "store.flushed": self._flushed,
            "store.closing": self._closing,
        }

    def see(self, event: Event) -> None:
        """Take an event in."""
        way = self._ways.get(event.kind)
        if way is not None:
            way(event)

    def end(self, last: int) -> None:
        """The run is over."""
        for lane in list(self._open):
            self._span(lane, last + 1, None)

    # Lanes.

    def _span(self, lane: str, sequence: int, is_volatile: bool | None) -> None:
        """From this event on a lane is like this; ``None`` is empty."""
        before = self._open.get(lane)
        if before is not None:
            start, was_volatile = before
            if was_volatile == is_volatile:
                return
            self.stock.spans.append(Span(lane, start, sequence, was_volatile))
            del self._open[lane]
        if is_volatile is not None:
            self._open[lane] = (sequence, is_volatile)

    def _note(self, place: str, sequence: int) -> None:
        shelf = self._shelves[place]
        moments = self.stock.moments.setdefault(place, [])
        moments.append(shelf.at(sequence))
        self._span(place, sequence, shelf.is_volatile if shelf.is_open else None)

    def _started(self, event: Event) -> None:
        self._span(event.actor, event.sequence, is_volatile=False)

    def _died(self, event: Event) -> None:
        host = f"{event.actor}/"
        for lane in [each for each in self._open if each == event.actor or each.startswith(host)]:
            if lane not in self._shelves:
                self._span(lane, event.sequence, None)
        for place, shelf in self._shelves.items():
            if place.startswith(host) and shelf.is_open:
                shelf.lose_memory()
                self._note(place, event.sequence)

    def _changed(self, event: Event) -> None:
        ended = event.attributes.get("after") in {"CREATED", "CLOSED"}
        self._span(_task(event), event.sequence, None if ended else False)

    # Logs.

    def _appended(self, event: Event) -> None:
        more = event.attributes
        key, value = more.get("key", b""), more.get("value")
        self._level(self.stock.ends, event.partition, event, event.offset + 1)
        self._records[event.partition].append((event.offset, key, value))
        origin = self._origins.get(event.sequence)
        if origin is not None and self._shelves[_store(origin)].is_open:
            self._shelves[_store(origin)].offset = event.offset
            self._note(_store(origin), event.sequence)

    def _marked(self, event: Event) -> None:
        if event.offset >= 0:
            self._level(self.stock.ends, event.partition, event, event.offset + 1)

    def _committed(self, event: Event) -> None:
        for partition, offset in event.attributes.get("offsets", {}).items():
            self._level(self.stock.committed, partition, event, offset)

    def _level(
        self, levels: dict[str, list[Level]], partition: str, event: Event, offset: int
    ) -> None:
        levels.setdefault(partition, []).append(Level(event.sequence, offset))

    def _processed(self, event: Event) -> None:
        self._at[event.actor, event.partition] = event.offset

    # Stores.

    def _opened(self, event: Event) -> None:
        persistent = event.attributes.get("persistent", True)
        self._shelves[_store(event)].is_persistent = persistent

    def _found(self, event: Event) -> None:
        place = _store(event)
        shelf = self._shelves[place]
        shelf.memory.clear()
        shelf.staged.clear()
        shelf.disk = _rows(event)
        shelf.offset = shelf.committed = shelf.disk_offset = event.offset
        shelf.is_open = True
        self._note(place, event.sequence)

    def _put(self, event: Event) -> None:
        place, more = _store(event), event.attributes
        shelf = self._shelves[place]
        key, value = more.get("key", b""), more.get("value")
        (shelf.staged if self._transactional else shelf.memory)[key] = value
        at = self._at.get((event.actor, event.partition))
        if at is not None:
            # Its changelog is the input that it comes from.
            shelf.offset = at
        self._note(place, event.sequence)

    def _restored(self, event: Event) -> None:
        place = _store(event)
        shelf = self._shelves[place]
        batch: dict[bytes, bytes | None] = {}
        for offset, key, value in reversed(self._records[event.partition]):
            if offset <= shelf.offset:
                break
            if offset <= event.offset:
                batch.setdefault(key, value)
        shelf.memory |= batch
        shelf.offset = event.offset
        self._note(place, event.sequence)

    def _stored(self, event: Event) -> None:
        place = _store(event)
        shelf = self._shelves[place]
        shelf.memory |= shelf.staged
        shelf.staged.clear()
        shelf.committed = event.offset
        self._note(place, event.sequence)

    def _flushed(self, event: Event) -> None:
        self._shelves[_store(event)].flush()
        self._note(_store(event), event.sequence)

    def _closing(self, event: Event) -> None:
        place = _store(event)
        shelf = self._shelves[place]
        shelf.disk = _rows(event)
        shelf.memory.clear()
        shelf.staged.clear()
        shelf.disk_offset = shelf.committed
        self._note(place, event.sequence)

    def _closed(self, event: Event) -> None:
        corrupted = event.attributes.get("closing") == "CORRUPTED"
        for place, shelf in self._shelves.items():
            if place.startswith(f"{_task(event)}/") and shelf.is_open:
                shelf.committed = NOWHERE if corrupted else shelf.committed
                # To close a store is to flush it; only what is staged is dropped.
                shelf.flush()
                shelf.lose_memory()
                self._note(place, event.sequence)

    def _wiped(self, event: Event) -> None:
        for place in self._shelves:
            if place.startswith(f"{_task(event)}/"):
                persistent = self._shelves[place].is_persistent
                self._shelves[place] = Shelf(is_persistent=persistent)
                self._note(place, event.sequence)


def _task(event: Event) -> str:
    """The lane of a task in a process."""
    return f"{event.actor.partition('/')[0]}/{event.task}"


def _store(event: Event) -> str:
    """The lane of a store in a process."""
    return f"{_task(event)}/{event.partition}"


def _rows(event: Event) -> dict[bytes, bytes | None]:
    return {row[0]: row[1] for row in event.attributes.get("rows", ())}
