"""Positions that are gone: a reset happens only then, and goes where the policy says.

The logs tell which offsets are there, which record of an input is next, and what was committed. So
nothing here depends on what the runtime says of its positions, but the position of a reset itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["GonePositionsStartOver", "InputsAreReadOn", "ResetsAreNeeded"]

NO_POSITION = -1

_Input = tuple[str, str, str]
"""A thread, one of its tasks, and an input."""


class _Positions(Invariant):
    """An invariant that follows the committed offsets of inputs, and the beginnings of tasks."""

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By input, its committed offsets, each with the number of its event.
        self._committed: dict[str, list[tuple[int, int]]] = {}
        # By thread and task, the number of the event with which it began to restore. The task asks
        # for its offsets after that.
        self._begun: dict[tuple[str, str], int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"offsets.committed": self._commit, "task.state": self._state}

    def _commit(self, event: Event) -> Iterable[str]:
        for partition, offset in event.attributes["offsets"].items():
            self._committed.setdefault(partition, []).append((event.sequence, offset))
        return ()

    def _state(self, event: Event) -> Iterable[str]:
        if event.attributes["after"] == "RESTORING":
            self._begun[event.actor, event.task] = event.sequence
        return ()


class ResetsAreNeeded(_Positions):
    """An input is reset only if its position is gone, and as ``auto.offset.reset`` says."""

    name = "an input is reset only where its position is gone, and to where the policy says"
    requirement = "TASK-069"
    situation = "the position of a task in an input was gone"
    drawn_from: ClassVar = {
        "kinds": ["crash", "pause"],
        "plan": {"activation": [0.5]},
        "settings": {"session_timeout_ms": [10_000]},
        "workload": {"retention_ms": [3_000], "max_pause_ms": [400]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._policy = "earliest"
        self._tables: set[str] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "application.started": self._start,
            "input.reset": self._reset,
        }

    def _start(self, event: Event) -> Iterator[str]:
        self._policy = event.attributes["auto_offset_reset"]
        # A table is read from its first record, so that it has what a restoration would bring.
        self._tables = set(event.attributes["sources"])
        yield from ()

    def _reset(self, event: Event) -> Iterator[str]:
        partition, position = event.partition, event.attributes["position"]
        start = self.history.forgotten.starts.get(partition, 0)
        if position == NO_POSITION:
            begun = self._begun.get((event.actor, event.task), 0)
            first, _ = self._committed.get(partition, [(begun, 0)])[0]
            if first < begun:
                yield (
                    f"{event.actor} reads {partition} from {event.offset} as if nothing were "
                    f"committed, but {self.history.committed[partition]} is"
                )
        elif start <= position <= self.history.log(partition).end:
            yield (
                f"{event.actor} reads {partition} from {event.offset} on, but its position "
                f"{position} is there: the log begins at {start}"
            )
        else:
            self.tried = True
        policy = "earliest" if partition in self._tables else self._policy
        is_right = event.offset == start if policy == "earliest" else self._is_latest(event)
        if not is_right:
            yield (
                f"{event.actor} reads {partition} from {event.offset} on, which is not the "
                f"{policy} offset: the log has {start} to {self.history.log(partition).end}"
            )

    def _is_latest(self, event: Event) -> bool:
        """Whether a reset goes to the end of the log, or to its last stable offset."""
        log = self.history.log(event.partition)
        if not self.history.exactly_once:
            return event.offset == log.end
        stable = min([log.end, *(each[0] for each in log.undecided.values() if each)])
        if event.offset >= stable:
            return event.offset == stable
        # A transaction that is decided is open for readers until its marker is there.
        first = next(iter(log.since(event.offset)), None)
        return first is not None and first.offset == event.offset and first.transactional


class InputsAreReadOn(_Positions):
    """A task reads each input on from its committed offset, record by record, until a reset.

    The next record is the next one that the guarantee makes visible.
    """

    name = "a task takes the record of an input that follows the committed offset or the last one"
    requirement = "TASK-070"
    situation = "a task read an input on that another task had committed"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By thread and task, since the task runs: by input, the next offset.
        self._next: dict[tuple[str, str], dict[str, int]] = {}
        # By thread, task and input, where resets go on once what was fetched before is processed.
        self._resets: dict[_Input, list[int]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "task.processed": self._process,
            "record.dropped": self._process,
            "input.reset": self._reset,
        }

    def _state(self, event: Event) -> Iterable[str]:
        self._next.pop((event.actor, event.task), None)
        if self._resets and event.attributes["after"] != "RUNNING":
            owner = event.actor, event.task
            self._resets = {at: each for at, each in self._resets.items() if at[:2] != owner}
        return super()._state(event)

    def _reset(self, event: Event) -> Iterator[str]:
        self._resets.setdefault((event.actor, event.task, event.partition), []).append(event.offset)
        yield from ()

    def _process(self, event: Event) -> Iterable[str]:
        positions = self._next.setdefault((event.actor, event.task), {})
        partition, offset = event.partition, event.offset
        start = positions.get(partition)
        starts = self._starts(event) if start is None else [start]
        self.tried |= start is None and starts[0] > 0
        positions[partition] = offset + 1
        start = starts[0]
        if self.history.compacted.get(partition, 0) > start:
            return ()
        if any(self._following(partition, each) == offset for each in starts):
            return ()
        following = self._following(partition, start)
        targets = self._resets.pop((event.actor, event.task, partition), [])
        for number, target in enumerate(targets, start=1):
            if self._following(partition, target) == offset:
                self._resets[event.actor, event.task, partition] = targets[number:]
                return ()
        what = "again" if offset < start else f"and not {following}"
        return [f"{event.actor} has to read {partition} on from {start}, but takes {offset} {what}"]

    def _starts(self, event: Event) -> list[int]:
        """The offsets that may have been committed when the task asked, the last one first.

        The task asks between the end of its restoration and its first record. A zombie may have
        asked long ago.
        """
        begun = self._begun.get((event.actor, event.task), 0)
        committed = self._committed.get(event.partition, [])
        before = next((offset for number, offset in reversed(committed) if number < begun), 0)
        since = [offset for number, offset in committed if number >= begun]
        return [*reversed(since), before]

    def _following(self, partition: str, start: int) -> int:
        """The offset of the first visible record from an offset on; -1 without one."""
        found = next(iter(self.history.visible(partition, start)), None)
        return -1 if found is None else found.offset


class GonePositionsStartOver(Invariant):
    """A store whose next record is gone starts over: from the start of the log, without offset.

    Under exactly-once it is empty then. Otherwise it keeps its rows, and all records that the log
    has are applied to them.
    """

    name = "a store whose next changelog record is gone starts over"
    requirement = "TASK-071"
    situation = "the next changelog record of a store was gone"
    drawn_from: ClassVar = {
        "topologies": ["windowed-count", "session-count"],
        "upgrades": [""],
        "kinds": ["crash", "bounce"],
        "plan": {"activation": [0.9], "persistent": [True], "safety_ms": [60_000]},
        "settings": {
            "topic_segment_ms": [1_000],
            "windowstore_changelog_additional_retention_ms": [0],
            "flush_probability": [0.05],
        },
        "workload": {"max_pause_ms": [400, 3_000]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By process, task and changelog, the offset that is gone.
        self._gone: dict[_Input, int] = {}
        # The same, of tasks that were closed because of that.
        self._over: dict[_Input, int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "restore.start": self._starts,
            "update.start": self._starts,
            "store.restored": self._restored,
            "store.running": self._restored,
            "task.closed": self._closed,
            "store.found": self._found,
            # A disk without space may keep the offset: the next restoration finds out again.
            "disk.full": self._ended,
            "instance.crashed": self._ended,
            "instance.stopped": self._ended,
        }

    def _starts(self, event: Event) -> Iterable[str]:
        start = event.attributes["start"]
        if start < self.history.forgotten.starts.get(event.partition, 0):
            self.tried = True
            self._gone[event.process, event.task, event.partition] = start
        return ()

    def _restored(self, event: Event) -> Iterable[str]:
        gone = self._gone.pop((event.process, event.task, event.partition), None)
        if gone is None:
            return ()
        where = f"the store of {event.partition} in task {event.task}"
        return [f"{where} goes on, although the record at {gone} that it needs next is gone"]

    def _closed(self, event: Event) -> Iterator[str]:
        for at in [each for each in self._gone if each[:2] == (event.process, event.task)]:
            gone = self._gone.pop(at)
            if event.attributes["closing"] == "CORRUPTED":
                self._over[at] = gone
        yield from ()

    def _found(self, event: Event) -> Iterator[str]:
        gone = self._over.pop((event.process, event.task, event.partition), None)
        if gone is None:
            return
        rows = event.attributes["rows"] if self.history.exactly_once else ()
        if event.offset >= 0 or rows:
            yield (
                f"the store of {event.partition} in task {event.task} lacked the record at {gone}, "
                f"but is kept with {len(rows)} rows and offset {event.offset}"
            )

    def _ended(self, event: Event) -> Iterable[str]:
        for kept in (self._gone, self._over):
            for at in [each for each in kept if each[0] == event.actor]:
                del kept[at]
        return ()
