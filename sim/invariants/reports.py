"""The reports of members about the state that their processes have (KIP-1035, KIP-441).

The expected report is computed from the events of the stores: which offsets they were opened with,
which they committed, and how their tasks were closed. So a report is wrong if it is too high or too
low, if it lacks a task, or if it has a sum where the sentinel belongs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from streamproof.sim.decisions.lag import LATEST_OFFSET
from streamproof.sim.decisions.versions import OFFSET_SUM_VERSION
from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["OpenTasksAreReported", "WhatAnyThreadClosedIsReported", "WhatIsOnTheDiskIsReported"]

Place = tuple[str, str]
"""A process and a task."""

_OF_A_RELEASE = ("release", "manages_offsets", "upgrade_from", "formats")
"""The attributes of a started instance that tell releases and their configurations apart."""


def _of_process(places: Mapping[Place, Any], process: str) -> list[Place]:
    return [each for each in places if each[0] == process]


class _Closed:
    """The offsets of a task that its process has closed.

    Attributes:
        total: the sum of the committed next offsets of its persistent stores.
        closer: the thread that closed the task.
        release: the release of the process at that time.
        is_clean: whether the task was closed cleanly.
        is_older: whether the process was started again since.
    """

    def __init__(self, total: int, event: Event, release: list[Any]) -> None:
        self.total = total
        self.closer = event.actor
        self.release = release
        self.is_clean = event.attributes["closing"] == "CLEAN"
        self.is_older = False


class _ClosedTasks(Invariant):
    """An invariant of what members report of tasks that are closed.

    A thread of Kafka reports only tasks whose directories it could lock for the rebalance
    (TaskManager#tryToLockAllNonEmptyTaskDirectories). So one thread of a process speaks for all of
    them, and the leader takes the best report of a process.
    """

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._releases: dict[str, list[Any]] = {}
        # By open task and changelog of a persistent store, its committed next offset.
        self._committed: dict[Place, dict[str, int]] = {}
        self._closed: dict[Place, _Closed] = {}
        # The threads that end because of a store. Nobody knows the offset of a store that could not
        # be closed.
        self._dying: set[str] = set()
        # The processes whose disks are full: RocksDB does not tell that it could not write what it
        # had in memory when it was closed.
        self._full: set[str] = set()
        # By process that starts, the task whose stores it opens to learn their offsets.
        self._looked: dict[str, str] = {}
        # The closed tasks that a thread of their process has reported; and by thread and task, that
        # the thread has not, which is right if another one does.
        self._reported: set[Place] = set()
        self._missing: dict[Place, str] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "instance.started": self._started,
            "store.opened": self._opened,
            "store.committed": self._commit,
            "task.closed": self._close,
            **dict.fromkeys(("task.wiping", "task.wiped"), self._wiped),
            "state.cleaned": self._wiped,
            "thread.died": self._died,
            "thread.producer": self._replaced,
            "instance.crashed": self._gone,
            "instance.stopped": self._gone,
            "disk.power_lost": self._lost,
            "disk.filled": self._filled,
            "disk.emptied": self._emptied,
            "state.opened": self._look,
            "state.found": self._found,
            "disk.full": self._refused,
            "thread.subscribed": self._subscribed,
            "thread.assigned": self._assigned,
        }

    def _started(self, event: Event) -> Iterator[str]:
        release = [event.attributes[each] for each in _OF_A_RELEASE]
        self._releases[event.actor] = release
        self._looked.pop(event.actor, None)
        self._reported -= set(_of_process(self._closed, event.actor))
        prefix = f"{event.actor}/"
        self._missing = {
            here: each for here, each in self._missing.items() if not here[0].startswith(prefix)
        }
        for here in _of_process(self._closed, event.actor):
            self._closed[here].is_older = True
            # Another release may take the offsets over, and leave none for a return.
            if self._closed[here].release != release:
                del self._closed[here]
        yield from ()

    def _opened(self, event: Event) -> Iterator[str]:
        here = event.process, event.task
        self._closed.pop(here, None)
        self._reported.discard(here)
        # The thread that opens the task may have held its lock already when others reported.
        self._missing = {
            (thread, task): each
            for (thread, task), each in self._missing.items()
            if (thread.partition("/")[0], task) != here
        }
        offsets = self._committed.setdefault(here, {})
        if event.attributes["persistent"]:
            offsets[event.partition] = max(event.offset + 1, 0)
        yield from ()

    def _commit(self, event: Event) -> Iterator[str]:
        offsets = self._committed.get((event.process, event.task), {})
        if event.partition in offsets:
            offsets[event.partition] = max(event.offset + 1, 0)
        yield from ()

    def _close(self, event: Event) -> Iterator[str]:
        here = event.process, event.task
        offsets = self._committed.pop(here, {})
        is_known = event.attributes["closing"] != "CORRUPTED" and event.actor not in self._dying
        is_written = event.process not in self._full or not self.history.of_kafka
        if offsets and is_known and is_written:
            release = self._releases.get(event.process, [])
            self._closed[here] = _Closed(sum(offsets.values()), event, release)
        yield from ()

    def _filled(self, event: Event) -> Iterator[str]:
        self._full.add(event.actor)
        yield from ()

    def _emptied(self, event: Event) -> Iterator[str]:
        self._full.discard(event.actor)
        yield from ()

    def _look(self, event: Event) -> Iterator[str]:
        self._looked[event.actor] = event.task
        yield from ()

    def _found(self, event: Event) -> Iterator[str]:
        self._looked.pop(event.actor, None)
        yield from ()

    def _refused(self, event: Event) -> Iterator[str]:
        """A store that a starting process could not close again may have lost its offset."""
        task = self._looked.pop(event.actor, None)
        if task is not None:
            self._closed.pop((event.actor, task), None)
        yield from ()

    def _wiped(self, event: Event) -> Iterator[str]:
        here = event.process, event.task
        self._closed.pop(here, None)
        self._committed.pop(here, None)
        yield from ()

    def _died(self, event: Event) -> Iterator[str]:
        self._dying.add(event.actor)
        # The task that the thread could not open is still locked, and so nobody else reports it.
        yield from self._lost(event)

    def _replaced(self, event: Event) -> Iterator[str]:
        self._dying.discard(event.actor)
        yield from ()

    def _gone(self, event: Event) -> Iterator[str]:
        for here in _of_process(self._committed, event.actor):
            del self._committed[here]
        # The content of a store that was not closed cleanly may be lost with the process.
        for here in _of_process(self._closed, event.actor):
            if not self._closed[here].is_clean:
                del self._closed[here]
        yield from ()

    def _lost(self, event: Event) -> Iterator[str]:
        for here in _of_process(self._closed, event.process):
            del self._closed[here]
        yield from ()

    def _subscribed(self, event: Event) -> Iterator[str]:
        if event.attributes["used"] < OFFSET_SUM_VERSION:
            return
        for here in _of_process(self._closed, event.process):
            closed = self._closed[here]
            if self._is_meant(closed, event):
                self.tried |= self._is_telling(closed, event)
                yield from self._compare(event, here[1], closed.total)

    def _is_meant(self, closed: _Closed, event: Event) -> bool:
        """Whether the invariant judges the report of this task."""
        raise NotImplementedError

    def _is_telling(self, closed: _Closed, event: Event) -> bool:
        """Whether the report of this task has the situation of the requirement."""
        del event
        return closed.total > 0

    def _compare(self, event: Event, task: str, total: int) -> Iterator[str]:
        reported = event.attributes["sums"].get(task)
        if reported is None and total == 0:
            # The leader takes both for the same: the process lacks all of the task.
            return
        if reported is None:
            missing = f"{event.actor} does not report task {task}, whose stores have {total}"
            if self.history.of_kafka:
                self._missing[event.actor, task] = missing
            else:
                yield missing
            return
        self._reported.add((event.process, task))
        if reported != total:
            yield f"{event.actor} reports {reported} for task {task}, but its stores have {total}"

    def _assigned(self, event: Event) -> Iterator[str]:
        """All threads of the process have reported by now."""
        for here in [each for each in self._missing if each[0] == event.actor]:
            missing = self._missing.pop(here)
            if (event.process, here[1]) not in self._reported:
                yield missing


class WhatIsOnTheDiskIsReported(_ClosedTasks):
    """A process that starts opens the stores on its disk, and reports what they have (KIP-1035)."""

    name = "a process reports from its start what is on its disk"
    requirement = "ASSIGN-012"
    situation = "a process was started again and reported a task that it had closed before"
    drawn_from: ClassVar = {"kinds": ["bounce"], "plan": {"instances": [2, 3]}}

    def _is_meant(self, closed: _Closed, event: Event) -> bool:
        return closed.is_older


class WhatAnyThreadClosedIsReported(_ClosedTasks):
    """All threads of a process report the offsets of each store that one of them has closed."""

    name = "each thread reports what a thread of its process has closed"
    requirement = "ASSIGN-014"
    situation = (
        "a thread reported a task that another thread of its process had closed after an error"
    )
    # Long runs with many faults: a thread must lose a task with rows, and another one report it.
    drawn_from: ClassVar = {
        "upgrades": [""],
        "kinds": ["cut", "pause"],
        "plan": {
            "threads": [2],
            "partitions": [3],
            "persistent": [True],
            "activation": [0.5],
            "safety_ms": [60_000],
        },
        "settings": {"transactional": [True], "session_timeout_ms": [6_000]},
    }

    def _is_meant(self, closed: _Closed, event: Event) -> bool:
        return not closed.is_older

    def _is_telling(self, closed: _Closed, event: Event) -> bool:
        return closed.total > 0 and not closed.is_clean and closed.closer != event.actor


class OpenTasksAreReported(Invariant):
    """A running task is reported with the sentinel, and other open tasks with their offsets."""

    name = "a thread reports its open tasks by their state"
    requirement = "ASSIGN-013"
    situation = "a thread reported a running task and a task that it restored"
    drawn_from: ClassVar = {"plan": {"instances": [2, 3]}}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._states: dict[tuple[str, str], str] = {}
        # By open task and changelog, the offset after what its store has, also one in memory
        # (Kafka, ProcessorStateManager#changelogOffsets).
        self._offsets: dict[tuple[str, str], dict[str, int]] = {}
        self._seen: set[str] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "task.state": self._state,
            "store.opened": self._opened,
            "store.recycled": self._restored,
            "store.restored": self._restored,
            "task.wiped": self._wiped,
            "instance.crashed": self._gone,
            "instance.stopped": self._gone,
            "thread.subscribed": self._subscribed,
        }

    def _state(self, event: Event) -> Iterator[str]:
        here, after = (event.actor, event.task), event.attributes["after"]
        self._states[here] = after
        if after == "CLOSED":
            del self._states[here]
            self._offsets.pop(here, None)
        yield from ()

    def _opened(self, event: Event) -> Iterator[str]:
        offsets = self._offsets.setdefault((event.actor, event.task), {})
        offsets[event.partition] = max(event.offset + 1, 0)
        yield from ()

    def _restored(self, event: Event) -> Iterator[str]:
        for (actor, task), offsets in self._offsets.items():
            is_here = task == event.task and actor.partition("/")[0] == event.process
            if is_here and event.partition in offsets:
                offsets[event.partition] = max(event.offset + 1, 0)
        yield from ()

    def _wiped(self, event: Event) -> Iterator[str]:
        self._offsets.pop((event.actor, event.task), None)
        yield from ()

    def _gone(self, event: Event) -> Iterator[str]:
        prefix = f"{event.actor}/"
        for places in (self._states, self._offsets):
            for here in [each for each in places if each[0].startswith(prefix)]:
                del places[here]
        yield from ()

    def _subscribed(self, event: Event) -> Iterator[str]:
        if event.attributes["used"] < OFFSET_SUM_VERSION:
            return
        for (actor, task), state in self._states.items():
            offsets = self._offsets.get((actor, task))
            if actor != event.actor or offsets is None or state not in ("RUNNING", "RESTORING"):
                continue
            self._seen.add(state)
            self.tried |= len(self._seen) > 1
            wanted = LATEST_OFFSET if state == "RUNNING" else sum(offsets.values())
            reported = event.attributes["sums"].get(task)
            if reported != wanted:
                yield (
                    f"{actor} reports {reported} for task {task}, which is {state}, "
                    f"instead of {wanted}"
                )
