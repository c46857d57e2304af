"""The durable and the volatile part of each store during a run: a crash loses the volatile part.

:mod:`streamproof.scenarios.state.fold` gives the state at each moment. This module records its
changes, with two things that only pictures need: the spans in which a lane is in use, and how far
the writes to a store have reached its changelog.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.scenarios.state.fold import take_in
from streamproof.sim.invariants.log_history import GROUP_TARGET
from streamproof.sim.run_state import Moment, process_of
from streamproof.sim.trace import Event

__all__ = ["Holding", "Level", "OpenSpan", "Stock", "follow"]

NOWHERE = -1
"""The offset of a store that has none."""


class Holding(NamedTuple):
    """The content of one store, from one event on.

    Attributes:
        sequence: the number of the event.
        is_open: whether a process has the store open.
        on_disk: the number of rows on the disk.
        in_memory: the number of written rows that are not flushed.
        staged: the number of written rows that wait for a commit.
        disk_offset: the offset on the disk; -1 if there is none.
        offset: the last changelog offset that the store contains; -1 if there is none.
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


class OpenSpan(NamedTuple):
    """A span of a run in which a process is up, or a task or a store is open.

    Attributes:
        lane: the key of the lane.
        start: the number of the event with which it begins.
        end: the number of the event with which it ends.
        is_volatile: whether a crash would lose something.
    """

    lane: str
    start: int
    end: int
    is_volatile: bool


class Stock(NamedTuple):
    """The contents of all stores and logs during a run.

    Attributes:
        holdings: by store, its content after each event that changes it.
        ends: by partition, the end of its log.
        committed: by input, the committed offset.
        spans: the spans in which processes are up, and tasks and stores are open.
    """

    holdings: dict[str, list[Holding]]
    ends: dict[str, list[Level]]
    committed: dict[str, list[Level]]
    spans: list[OpenSpan]


def follow(played: RecordedRun, origins: Mapping[int, Event]) -> Stock:
    """Follow all stores through a run.

    Args:
        played: the run.
        origins: by the number of the event of a record in a changelog, the write to the store.
    """
    follower = _Follower(played.defects, origins)
    for each in played.events:
        follower.see(each)
    follower.end()
    return follower.stock


class _Follower:
    """Folds the events of a run, and records the changes.

    Args:
        defects: the defects that are switched on in the runtime.
        origins: as of :func:`follow`.
    """

    def __init__(self, defects: tuple[str, ...], origins: Mapping[int, Event]) -> None:
        self.stock = Stock({}, {}, {}, [])
        self._moment = Moment(defects)
        self._origins = origins
        # The lanes of the stores that were ever found, by process and changelog.
        self._stores: dict[tuple[str, str], str] = {}
        # By open store, the last record that it wrote: events tell its offset only at a commit.
        self._written: dict[tuple[str, str], int] = {}
        # By lane, when its present span began, and whether that is volatile.
        self._open: dict[str, tuple[int, bool]] = {}

    def see(self, event: Event) -> None:
        """Take an event in."""
        take_in(self._moment, event)
        match event.kind:
            case "log.appended" | "transaction.marker":
                self._logged(event)
            case "offsets.committed":
                for partition in event.attributes["offsets"]:
                    levels = self.stock.committed.setdefault(partition, [])
                    levels.append(Level(event.sequence, self._moment.committed[partition]))
            case "instance.started":
                self._span(event.actor, event.sequence, is_volatile=False)
            case "instance.stopped" | "instance.crashed":
                self._ended(event.actor)
            case "task.state":
                is_there = (event.actor, event.task) in self._moment.tasks
                lane = f"{process_of(event.actor)}/{event.task}"
                self._span(lane, event.sequence, is_volatile=False if is_there else None)
            case "task.closed" | "task.wiped" | "state.cleaned" | "disk.power_lost":
                self._note_all(process_of(event.actor))
            # A store that is opened is shown once its rows are known, in the next event.
            case kind if kind.startswith("store.") and kind != "store.opened":
                self._stored(event)

    def end(self) -> None:
        """End all spans with the run."""
        for lane in list(self._open):
            self._span(lane, self._moment.sequence + 1, None)

    def _span(self, lane: str, sequence: int, is_volatile: bool | None) -> None:
        """Begin a span of a lane, and end the one before; ``None`` only ends it."""
        before = self._open.get(lane)
        if before is not None:
            start, was_volatile = before
            if was_volatile == is_volatile:
                return
            self.stock.spans.append(OpenSpan(lane, start, sequence, was_volatile))
            del self._open[lane]
        if is_volatile is not None:
            self._open[lane] = (sequence, is_volatile)

    def _ended(self, process: str) -> None:
        """End the spans of a process and of everything that it had open."""
        for lane in [each for each in self._open if process_of(each) == process]:
            self._span(lane, self._moment.sequence, None)
        self._note_all(process)

    def _logged(self, event: Event) -> None:
        """Record the new end of a log. A store that wrote the record is as new as the record."""
        if event.partition.startswith(GROUP_TARGET):
            return
        end = Level(event.sequence, self._moment.log(event.partition).end)
        self.stock.ends.setdefault(event.partition, []).append(end)
        origin = self._origins.get(event.sequence)
        if origin is not None:
            where = process_of(origin.actor), origin.partition
            self._written[where] = event.offset
            self._note(where)

    def _stored(self, event: Event) -> None:
        """Record the change of a store."""
        process = process_of(event.actor)
        where = process, event.partition
        self._stores[where] = f"{process}/{event.task}/{event.partition}"
        task = self._moment.tasks.get((event.actor, event.task))
        if event.kind == "store.put" and task is not None and event.partition in task.processed:
            # The changelog of the store is the input itself.
            self._written[where] = task.processed[event.partition] - 1
        self._note(where)

    def _note_all(self, process: str) -> None:
        """Record the contents of the stores of a process."""
        for where in self._stores:
            if where[0] == process:
                self._note(where)

    def _note(self, where: tuple[str, str]) -> None:
        """Record the content of a store, unless its lane was never used."""
        lane, sequence = self._stores.get(where), self._moment.sequence
        if lane is None:
            return
        store = self._moment.stores.get(where)
        is_open = store is not None and store.is_open
        if not is_open:
            self._written.pop(where, None)
        if store is None:
            holding = Holding(sequence, is_open, 0, 0, 0, NOWHERE, NOWHERE)
        else:
            holding = Holding(
                sequence,
                is_open,
                len(store.disk),
                len(store.memory),
                len(store.staged),
                max(store.flushed_offset, NOWHERE),
                max(store.offset, self._written.get(where, NOWHERE)),
            )
        holdings = self.stock.holdings.setdefault(lane, [])
        if not holdings or holdings[-1][1:] != holding[1:]:
            holdings.append(holding)
        is_volatile = store is not None and store.is_volatile
        self._span(lane, sequence, is_volatile if is_open else None)
