"""Restorations as listeners and metrics show them, and the limits of standbys and purges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isclose
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.network import REQUEST_TIMEOUT_MS
from streamproof.sim.trace import Event
from streamproof.sim.updater_metrics import RATIOS

__all__ = [
    "MetricsAddUp",
    "PurgedWasCommitted",
    "StandbyIsNotAhead",
    "UpdatingIsPaired",
]


_STANDBY_PATIENCE_MS = 10_000
"""How long a standby may take beyond a commit interval: it waits 5 s for a record, and asks."""


class UpdatingIsPaired(Invariant):
    """Each start of a standby's updates is followed by one suspension (KIP-988).

    Its reason is true: a standby that was promoted becomes active with its stores open, and one
    that has migrated does not. A state updater that dies does not know what becomes of its tasks.
    """

    name = "the updates of a standby that start are suspended once"
    requirement = "LISTEN-102"
    situation = "the updates of a standby were suspended"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._started: set[tuple[str, str]] = set()
        # By process and task, the last reason, until the task has its new role or is closed.
        self._reasons: dict[tuple[str, str], str] = {}
        # The state updaters that have died, and were not started again.
        self._dead: set[str] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "updater.died": self._died,
            "updater.started": self._began,
            "update.start": self._start,
            "update.batch": self._batch,
            "update.suspended": self._suspended,
            "task.recycled": self._recycled,
            "task.closed": self._closed,
            "instance.crashed": self._gone,
        }

    def _died(self, event: Event) -> Iterable[str]:
        self._dead.add(event.actor)
        return ()

    def _began(self, event: Event) -> Iterable[str]:
        self._dead.discard(event.actor)
        return ()

    def _start(self, event: Event) -> Iterator[str]:
        here = event.actor, event.partition
        if here in self._started:
            yield f"the updates of {event.partition} start again, but were not suspended"
        self._started.add(here)

    def _batch(self, event: Event) -> Iterator[str]:
        if (event.actor, event.partition) not in self._started:
            yield f"a batch of {event.partition} is loaded, but no updates have started"

    def _suspended(self, event: Event) -> Iterator[str]:
        here = event.actor, event.partition
        if here not in self._started:
            yield f"the updates of {event.partition} are suspended, but have not started"
        self.tried = True
        self._started.discard(here)
        if event.actor not in self._dead:
            self._reasons[event.process, event.task] = event.attributes["reason"]

    def _recycled(self, event: Event) -> Iterator[str]:
        reason = self._reasons.pop((event.process, event.task), "promoted")
        if event.attributes["is_active"] and reason != "promoted":
            yield f"task {event.task} became active where it was a standby, but is called {reason}"

    def _closed(self, event: Event) -> Iterator[str]:
        reason = self._reasons.pop((event.process, event.task), "migrated")
        # A store that fails ends the task before it has its new role.
        if event.attributes["closing"] == "CLEAN" and reason != "migrated":
            yield f"task {event.task} was closed, but its updates were suspended as {reason}"

    def _gone(self, event: Event) -> Iterator[str]:
        prefix = f"{event.actor}/"
        self._started = {each for each in self._started if not each[0].startswith(prefix)}
        self._reasons = {at: each for at, each in self._reasons.items() if at[0] != event.actor}
        yield from ()


@dataclass
class _Remaining:
    """A restoration: its task, its end, how many records or offsets are left, and its records."""

    task: str
    end: int
    left: int
    records: int = 0


class MetricsAddUp(Invariant):
    """The ratios of an updater sum to 1, and its remaining work fits the callbacks (KIP-869).

    The batches of a restoration add up to its total (KAFKA-18962).

    The metric counts records as proposed, and offsets as shipped. The callbacks count offsets.
    """

    name = "the metrics of restorations add up"
    requirement = "METRIC-101"
    situation = "a restoration applied a batch"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By updater and changelog.
        self._open: dict[tuple[str, str], _Remaining] = {}
        self._counts_offsets: dict[str, bool] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "updater.started": self._mode,
            "restore.start": self._start,
            "restore.batch": self._batch,
            "restore.end": self._end,
            "restore.suspended": self._end,
            "updater.metrics": self._metrics,
            "instance.crashed": self._gone,
        }

    def _mode(self, event: Event) -> Iterator[str]:
        self._counts_offsets[event.actor] = event.attributes["mode"] == "kafka"
        yield from ()

    def _start(self, event: Event) -> Iterator[str]:
        start, end = event.attributes["start"], event.attributes["end"]
        self._open[event.actor, event.partition] = _Remaining(event.task, end, end - start)
        yield from ()

    def _batch(self, event: Event) -> Iterator[str]:
        found = self._open.get((event.actor, event.partition))
        end = 0 if found is None else found.end
        lacking = max(end - event.offset - 1, 0)
        if found is not None:
            counts_offsets = self._counts_offsets.get(event.actor, True)
            records = event.attributes["records"]
            found.records += records
            found.left = lacking if counts_offsets else max(found.left - records, 0)
        self.tried = True
        remaining = event.attributes["remaining"]
        if remaining != lacking:
            yield f"{event.partition} lacks {lacking} offsets, but the runtime reports {remaining}"

    def _end(self, event: Event) -> Iterator[str]:
        found = self._open.pop((event.actor, event.partition), None)
        total = event.attributes["total"]
        if found is not None and total != found.records:
            yield (
                f"the batches of {event.partition} have {found.records} records, but the runtime "
                f"reports {total} in all"
            )

    def _metrics(self, event: Event) -> Iterator[str]:
        gauges: dict[str, float] = event.attributes["gauges"]
        ratios = [gauges.get(each, 0.0) for each in RATIOS]
        if any(ratios) and not isclose(sum(ratios), 1, abs_tol=1e-6):
            yield f"the ratios of {event.actor} sum to {sum(ratios)}"
        for task, remaining in event.attributes["remaining"].items():
            lacking = sum(
                each.left
                for (actor, _), each in self._open.items()
                if (actor, each.task) == (event.actor, task)
            )
            if remaining != lacking:
                unit = "offsets" if self._counts_offsets.get(event.actor, True) else "records"
                yield f"task {task} lacks {lacking} {unit}, but the runtime reports {remaining}"

    def _gone(self, event: Event) -> Iterator[str]:
        prefix = f"{event.actor}/"
        self._open = {at: each for at, each in self._open.items() if not at[0].startswith(prefix)}
        yield from ()


class StandbyIsNotAhead(Invariant):
    """A standby follows an input of its task only up to the committed offset (KAFKA-8755)."""

    name = "a standby is not ahead of its active task"
    requirement = "STANDBY-001"
    situation = "a standby read an input that was not committed up to its end"
    drawn_from: ClassVar = {"topologies": ["reused-table-join"], "plan": {"instances": [3]}}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"update.batch": self._batch}

    def _batch(self, event: Event) -> Iterator[str]:
        committed = self.history.committed.get(event.partition, 0)
        end = self.history.log(event.partition).end
        self.tried |= event.attributes["is_input"] and committed < end
        if event.attributes["is_input"] and event.offset >= committed:
            yield (
                f"a standby of {event.task} has offset {event.offset} of {event.partition}, "
                f"but the committed offset is {committed}"
            )


class StandbyKeepsUp(Invariant):
    """A standby that follows an input gets up to the committed offset, again and again.

    It asks for that offset once in a commit interval, unless its updater restores active tasks.
    """

    name = "a standby keeps up with the committed offset of its input"
    requirement = "STANDBY-003"
    situation = "a world ended with a standby whose input was committed long before"
    drawn_from: ClassVar = {"topologies": ["reused-table-join"], "plan": {"instances": [3]}}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._patience_ms = 0
        self._now = 0
        # By updater and input that a standby follows, the next offset that it applies.
        self._next: dict[tuple[str, str], int] = {}
        # By input, its committed offsets; each with the time.
        self._committed: dict[str, list[tuple[int, int]]] = {}
        # By process, since when its updaters have had nothing but standbys, and have waited for no
        # request that was lost.
        self._since: dict[str, int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        restarts = ("instance.started", "instance.went_on", "instance.resumed", "updater.started")
        restores = ("restore.start", "restore.batch", "restore.end", "restore.suspended")
        return {
            **dict.fromkeys((*restarts, *restores), self._restart),
            **dict.fromkeys(("network.request_lost", "network.reply_lost"), self._lose),
            "application.started": self._configure,
            "offsets.committed": self._commit,
            "update.start": self._start,
            "update.batch": self._apply,
            "update.suspended": self._over,
            "updater.failed": self._gone,
            "updater.died": self._gone,
            "instance.crashed": self._gone,
            "instance.stopped": self._gone,
            "thread.died": self._gone,
            "thread.stopped": self._gone,
            "thread.metrics": self._look,
        }

    def _configure(self, event: Event) -> Iterable[str]:
        self._patience_ms = event.attributes["commit_interval_ms"] + _STANDBY_PATIENCE_MS
        return ()

    def _restart(self, event: Event) -> Iterable[str]:
        self._since[event.process] = max(event.time, self._since.get(event.process, 0))
        return ()

    def _lose(self, event: Event) -> Iterable[str]:
        # No other fetch is sent before the time of this one is over.
        self._since[event.process] = event.time + REQUEST_TIMEOUT_MS
        return ()

    def _commit(self, event: Event) -> Iterable[str]:
        for partition, offset in event.attributes["offsets"].items():
            self._committed.setdefault(partition, []).append((event.time, offset))
        return ()

    def _start(self, event: Event) -> Iterable[str]:
        self._restart(event)
        self._next[event.actor, event.partition] = event.attributes["start"]
        return ()

    def _apply(self, event: Event) -> Iterable[str]:
        if event.attributes["is_input"]:
            self._next[event.actor, event.partition] = event.offset + 1
        return ()

    def _over(self, event: Event) -> Iterable[str]:
        self._next.pop((event.actor, event.partition), None)
        return ()

    def _gone(self, event: Event) -> Iterable[str]:
        for at in [each for each in self._next if each[0].startswith(f"{event.process}/")]:
            del self._next[at]
        return ()

    def _look(self, event: Event) -> Iterable[str]:
        self._now = event.time
        return ()

    def at_end(self) -> Iterator[str]:
        if self.history.of_kafka:
            # A recording ends when its processes do, and not once they rest.
            return
        before = self._now - self._patience_ms
        for (updater, partition), following in self._next.items():
            offsets = [each for time, each in self._committed.get(partition, ()) if time < before]
            if not offsets or self._since.get(updater.partition("/")[0], 0) >= before:
                continue
            self.tried = True
            left = next(iter(self.history.visible(partition, following)), None)
            if left is not None and left.offset < offsets[-1]:
                yield (
                    f"the standby of {updater} lacks {partition} from {left.offset} on, although "
                    f"{offsets[-1]} is the committed offset"
                )


class PurgedWasCommitted(Invariant):
    """No record of a repartition topic is deleted that may be read again (O5, KAFKA-17635)."""

    name = "what is deleted of a repartition topic was committed"
    requirement = "TASK-012"
    situation = "records of a repartition topic were deleted on request"
    drawn_from: ClassVar = {"topologies": ["last-byte-count"]}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By producer, the offsets in its transaction; by input, the decided offset, visible or not.
        self._added: dict[int, dict[str, int]] = {}
        self._decided: dict[str, int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "offsets.added": self._add,
            "offsets.committed": self._commit,
            "transaction.decided": self._decide,
            "log.deleted": self._deleted,
        }

    def _add(self, event: Event) -> Iterator[str]:
        added = self._added.setdefault(event.attributes["producer"], {})
        added.update(event.attributes["offsets"])
        yield from ()

    def _commit(self, event: Event) -> Iterator[str]:
        self._take(event.attributes["offsets"])
        yield from ()

    def _decide(self, event: Event) -> Iterator[str]:
        offsets = self._added.pop(event.attributes["producer"], {})
        if event.attributes["commit"]:
            self._take(offsets)
        yield from ()

    def _take(self, offsets: Mapping[str, int]) -> None:
        for partition, offset in offsets.items():
            self._decided[partition] = max(offset, self._decided.get(partition, 0))

    def _deleted(self, event: Event) -> Iterator[str]:
        committed = self._decided.get(event.partition, 0)
        on_request = event.attributes["reason"] == "request"
        self.tried |= on_request
        if on_request and event.offset > committed:
            yield (
                f"{event.partition} was deleted up to {event.offset}, but committed only up to "
                f"{committed}"
            )
