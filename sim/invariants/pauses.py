"""A paused instance: it stays in the group, and does no work of the application (KIP-834)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["PausedInstancesDoNothing"]

_WORK = {
    "task.processed": "processes a record",
    "record.dropped": "leaves a record out",
    "task.punctuated": "punctuates",
}
"""What a task does, by kind of event."""

_RESTORATION = {"restore.batch": "restores", "update.batch": "updates its standby"}
"""What the state updater does with a task."""

_STARTS = ("restore.start", "update.start")
_ENDS = ("restore.end", "restore.suspended", "update.suspended")
"""When the state updater begins with a changelog, and when it has done with it."""

ROUND_MS = 1_000
"""How long a round of a thread of Kafka takes at most that has begun before a pause: a thread asks
only between its rounds whether it is paused."""


class PausedInstancesDoNothing(Invariant):
    """A paused instance processes no record, calls no punctuator, and restores nothing.

    A round of a simulated thread takes no time, so a round that had begun ends in the same
    millisecond. To apply a batch takes time, so the last one before a pause may end within it.
    """

    name = "a paused instance neither processes nor punctuates nor restores"
    requirement = "TASK-065"
    situation = "an instance with a running task was paused"
    drawn_from: ClassVar = {"topologies": ["punctuated-count"], "kinds": ["hold"]}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By paused process, the time since which it may do nothing.
        self._since: dict[str, int] = {}
        # By process, its running tasks.
        self._running: dict[str, set[str]] = {}
        # By process, the changelogs that it restores; and those of which a batch may be applied
        # since before the pause.
        self._restoring: dict[str, set[str]] = {}
        self._under_way: dict[str, set[str]] = {}
        self._round_ms = ROUND_MS if history.of_kafka else 0

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "instance.paused": self._paused,
            "instance.resumed": self._over,
            "instance.went_on": self._went_on,
            "instance.crashed": self._over,
            "instance.stopped": self._over,
            "task.state": self._state,
            **dict.fromkeys(_WORK, self._works),
            **dict.fromkeys(_STARTS, self._starts),
            **dict.fromkeys(_ENDS, self._ends),
            **dict.fromkeys(_RESTORATION, self._restores),
        }

    def _paused(self, event: Event) -> Iterator[str]:
        self._since[event.process] = event.time
        self.tried |= bool(self._running.get(event.process))
        self._under_way[event.process] = set(self._restoring.get(event.process, ()))
        yield from ()

    def _went_on(self, event: Event) -> Iterator[str]:
        # The process stood still in the middle of a round, which ends only now.
        if event.process in self._since:
            self._since[event.process] = event.time
        yield from ()

    def _over(self, event: Event) -> Iterator[str]:
        self._since.pop(event.process, None)
        if event.kind != "instance.resumed":
            self._running.pop(event.process, None)
            self._restoring.pop(event.process, None)
        yield from ()

    def _state(self, event: Event) -> Iterator[str]:
        running = self._running.setdefault(event.process, set())
        if event.attributes["after"] == "RUNNING":
            running.add(event.task)
        else:
            running.discard(event.task)
        yield from ()

    def _starts(self, event: Event) -> Iterable[str]:
        self._restoring.setdefault(event.process, set()).add(event.partition)
        return ()

    def _ends(self, event: Event) -> Iterable[str]:
        self._restoring.get(event.process, set()).discard(event.partition)
        return ()

    def _restores(self, event: Event) -> Iterable[str]:
        since = self._since.get(event.process)
        if since is None:
            return ()
        under_way = self._under_way[event.process]
        if event.partition in under_way:
            under_way.remove(event.partition)
            return ()
        return [self._found(event, _RESTORATION[event.kind], since)]

    def _works(self, event: Event) -> Iterable[str]:
        since = self._since.get(event.process) if self._since else None
        if since is None or event.time <= since + self._round_ms:
            return ()
        return [self._found(event, _WORK[event.kind], since)]

    def _found(self, event: Event, what: str, since: int) -> str:
        return f"task {event.task} {what}, but {event.process} is paused since {since} ms"
