"""The metrics of running threads, compared with a computation from the events (KIP-869, KIP-1035).

Two events, ``updater.metrics`` and ``thread.metrics``, hold the metrics as a user reads them.
Everything that they are compared with comes from other events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isclose
from typing import ClassVar, TypeVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.invariants.samples import Samples
from streamproof.sim.trace import Event

__all__ = [
    "OneRatioIsZero",
    "RestoreCallsAreCounted",
    "RestoredIsCounted",
    "RunningTasksAreMeasured",
    "StoreCommitsAreMeasured",
    "TasksAreCounted",
    "TimeIsSharedOut",
    "UpdatedIsCounted",
    "UpdaterIsAnotherThread",
]

V = TypeVar("V")

RATIOS = {
    "idle": "idle-ratio",
    "restoring": "active-restore-ratio",
    "updating": "standby-update-ratio",
    "checkpointing": "checkpoint-ratio",
}
"""The ratio that measures each part of a state updater's time."""

OF_THE_THREAD = frozenset(
    {
        "active-restoring-tasks",
        "standby-updating-tasks",
        "active-paused-tasks",
        "standby-paused-tasks",
        "restore-records-rate",
        "restore-call-rate",
        *RATIOS.values(),
    }
)
"""The metrics of a state updater, of the level INFO."""

FLUSHES = ("flush-rate", "flush-latency-avg", "flush-latency-max")
"""The deprecated metrics of a store."""


class _Measured(Invariant):
    """The base of these invariants: it knows the clock of each process."""

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._drift_ppm: dict[str, int] = {}
        self._level = ""

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._application,
            "instance.started": self._begins,
            "instance.crashed": self._ends,
            "instance.stopped": self._ends,
        }

    def _application(self, event: Event) -> Iterator[str]:
        self._level = event.attributes.get("metrics_recording_level", "")
        yield from ()

    def _begins(self, event: Event) -> Iterator[str]:
        self._drift_ppm[event.actor] = event.attributes["drift_ppm"]
        yield from ()

    def _ends(self, event: Event) -> Iterator[str]:
        self._forget(event.actor)
        yield from ()

    def _forget(self, process: str) -> None:
        """Forget everything about a process that has ended."""

    def _now(self, event: Event) -> int:
        """The time of the process's own clock, by which it measures."""
        return event.time + event.time * self._drift_ppm.get(event.process, 0) // 1_000_000


def _unless_equal(name: str, expected: float, found: float | None) -> Iterator[str]:
    if found is None or not isclose(expected, found, rel_tol=1e-6, abs_tol=1e-6):
        yield f"{name} should be {expected:.6g}, but is {found}"


def _updater_of(thread: str) -> str:
    """The name of a thread's state updater."""
    return thread.replace("/thread-", "/updater-")


def _thread_of(updater: str) -> str:
    """The name of a state updater's thread."""
    return updater.replace("/updater-", "/thread-")


def _without(process: str, by_actor: dict[str, V]) -> dict[str, V]:
    """The entries of other processes."""
    return {name: each for name, each in by_actor.items() if not name.startswith(f"{process}/")}


@dataclass
class _Spending:
    """What a state updater has spent its time on.

    Attributes:
        keeps_both: whether a change between restoring and updating keeps the time of the other.
        since: when the present part began.
        part: the present part.
        spent: the durations of the parts that have ended.
    """

    keeps_both: bool
    since: int
    part: str = "idle"
    spent: dict[str, Samples] = field(default_factory=lambda: {each: Samples() for each in RATIOS})

    def turn(self, part: str, now: int) -> None:
        self.spent[self.part].record(now, now - self.since)
        self.part, self.since = part, now
        if part == "restoring" and not self.keeps_both:
            self.spent["updating"] = Samples()
        if part == "updating" and not self.keeps_both:
            self.spent["restoring"] = Samples()

    def ratios(self, now: int) -> dict[str, float]:
        spent = {part: each.recent_total(now) for part, each in self.spent.items()}
        spent[self.part] += now - self.since
        total = sum(spent.values())
        return {RATIOS[part]: each / total if total else 0 for part, each in spent.items()}


class TimeIsSharedOut(_Measured):
    """Each ratio of a state updater is the share of its own part of the time (KIP-869).

    What the updater says that it does is held against what it does: batches are applied while it
    restores or updates, and restored progress is committed while it checkpoints.
    """

    name = "each ratio of a state updater measures its own part of the time"
    requirement = "METRIC-114"
    situation = "the metrics of a state updater were read that had restored or updated a task"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._updaters: dict[str, _Spending] = {}
        # By process and changelog, the updater that restores or updates a store.
        self._open: dict[tuple[str, str], tuple[str, str]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "updater.started": self._started,
            "updater.turned": self._turned,
            "updater.metrics": self._metrics,
            "restore.start": self._restoring,
            "restore.batch": self._restoring,
            "update.start": self._updating,
            "update.batch": self._updating,
            "restore.end": self._closed,
            "restore.suspended": self._closed,
            "update.suspended": self._closed,
            "task.state": self._state,
            "store.committed": self._committed,
        }

    def _started(self, event: Event) -> Iterator[str]:
        keeps_both = event.attributes["mode"] == "kafka"
        self._updaters[event.actor] = _Spending(keeps_both, self._now(event))
        yield from ()

    def _turned(self, event: Event) -> Iterator[str]:
        if event.actor in self._updaters:
            self._updaters[event.actor].turn(event.attributes["to"], self._now(event))
        yield from ()

    def _restoring(self, event: Event) -> Iterator[str]:
        self._open[event.process, event.partition] = event.actor, event.task
        return self._unless_it_is("restoring", event.actor, f"it restores {event.partition}")

    def _updating(self, event: Event) -> Iterator[str]:
        self._open[event.process, event.partition] = event.actor, event.task
        return self._unless_it_is("updating", event.actor, f"it updates {event.partition}")

    def _closed(self, event: Event) -> Iterator[str]:
        self._open.pop((event.process, event.partition), None)
        yield from ()

    def _state(self, event: Event) -> Iterator[str]:
        for here, (_, task) in list(self._open.items()):
            if here[0] == event.process and task == event.task:
                del self._open[here]
        yield from ()

    def _committed(self, event: Event) -> Iterator[str]:
        updater, _ = self._open.get((event.process, event.partition), ("", ""))
        return self._unless_it_is("checkpointing", updater, f"it commits {event.partition}")

    def _unless_it_is(self, part: str, updater: str, doing: str) -> Iterator[str]:
        found = self._updaters.get(updater)
        if found is not None and found.part != part:
            yield f"{updater} says that it is {found.part}, but {doing}"

    def _metrics(self, event: Event) -> Iterator[str]:
        found = self._updaters.get(event.actor)
        if found is not None:
            gauges = event.attributes["gauges"]
            self.tried |= any(found.spent[each].total for each in ("restoring", "updating"))
            for name, expected in found.ratios(self._now(event)).items():
                yield from _unless_equal(f"{name} of {event.actor}", expected, gauges.get(name))

    def _forget(self, process: str) -> None:
        self._updaters = _without(process, self._updaters)
        self._open = {here: each for here, each in self._open.items() if here[0] != process}


class OneRatioIsZero(_Measured):
    """Of the ratios of restoring and of updating, one is zero (KIP-869).

    As shipped, a ratio keeps its samples when the updater goes over to the other part of its work.
    """

    name = "one of the ratios of restoring and updating is zero"
    requirement = "METRIC-105"
    situation = "the metrics were read while the last windows had time of both parts"
    drawn_from: ClassVar = {"plan": {"instances": [2, 3]}, "settings": {"idling": ["proposal"]}}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # What an updater spends its time on, if nothing is forgotten when its work changes.
        self._updaters: dict[str, _Spending] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "updater.started": self._started,
            "updater.turned": self._turned,
            "updater.metrics": self._metrics,
        }

    def _started(self, event: Event) -> Iterator[str]:
        if event.attributes["mode"] == "proposal":
            self._updaters[event.actor] = _Spending(keeps_both=True, since=self._now(event))
        yield from ()

    def _turned(self, event: Event) -> Iterator[str]:
        if event.actor in self._updaters:
            self._updaters[event.actor].turn(event.attributes["to"], self._now(event))
        yield from ()

    def _metrics(self, event: Event) -> Iterator[str]:
        spending = self._updaters.get(event.actor)
        if spending is None:
            return
        gauges, names = event.attributes["gauges"], (RATIOS["restoring"], RATIOS["updating"])
        spent = spending.ratios(self._now(event))
        self.tried |= all(spent[each] > 0 for each in names)
        found = {each: gauges.get(each) for each in names}
        if all(found.values()):
            yield f"of {event.actor}, neither ratio is 0: {found}"

    def _forget(self, process: str) -> None:
        self._updaters = _without(process, self._updaters)


class RestoreCallsAreCounted(_Measured):
    """The rates of a state updater count its records and its calls per second (KIP-869)."""

    name = "the rates of a state updater count its records and its calls"
    requirement = "METRIC-109"
    situation = "the metrics of a state updater were read that had restored records"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By updater: the records per call, and the records of the present call.
        self._calls: dict[str, Samples] = {}
        self._restored: dict[str, int] = {}
        self._is_calling: dict[str, bool] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "updater.started": self._started,
            "updater.turned": self._turned,
            "updater.metrics": self._metrics,
            "store.restored": self._records,
        }

    def _started(self, event: Event) -> Iterator[str]:
        self._calls[event.actor] = Samples()
        self._restored[event.actor] = 0
        self._is_calling[event.actor] = False
        yield from ()

    def _turned(self, event: Event) -> Iterator[str]:
        here = event.actor
        if here in self._calls:
            if self._is_calling[here]:
                self._calls[here].record(self._now(event), self._restored[here])
            self._restored[here] = 0
            self._is_calling[here] = event.attributes["to"] in {"restoring", "updating"}
        yield from ()

    def _records(self, event: Event) -> Iterator[str]:
        here = _updater_of(event.actor)
        if here in self._restored:
            self._restored[here] += event.attributes["records"]
        yield from ()

    def _metrics(self, event: Event) -> Iterator[str]:
        calls, now = self._calls.get(event.actor), self._now(event)
        if calls is not None:
            self.tried |= calls.total > 0
            gauges, of = event.attributes["gauges"], f"of {event.actor}"
            for name, expected in (
                ("restore-records-rate", calls.rate(now)),
                ("restore-call-rate", calls.calls(now)),
            ):
                yield from _unless_equal(f"{name} {of}", expected, gauges.get(name))

    def _forget(self, process: str) -> None:
        self._calls = _without(process, self._calls)
        self._restored = _without(process, self._restored)
        self._is_calling = _without(process, self._is_calling)


class _TaskRecords(_Measured):
    """A task has a rate and a total of its records, from its start until it leaves its thread."""

    role: ClassVar[str]
    rate: ClassVar[str]
    total: ClassVar[str]

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._assigned: dict[str, list[str]] = {}
        # By thread and task.
        self._tasks: dict[str, dict[str, Samples]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "thread.assigned": self._assign,
            "task.state": self._state,
            "store.restored": self._records,
            "updater.metrics": self._metrics,
        }

    def _assign(self, event: Event) -> Iterator[str]:
        self._assigned[event.actor] = event.attributes[self.role]
        yield from ()

    def _state(self, event: Event) -> Iterator[str]:
        tasks = self._tasks.setdefault(event.actor, {})
        match event.attributes["after"]:
            case "RESTORING" if event.task in self._assigned.get(event.actor, ()):
                tasks[event.task] = Samples()
            case "SUSPENDED" | "CLOSED":
                tasks.pop(event.task, None)
        yield from ()

    def _records(self, event: Event) -> Iterator[str]:
        found = self._tasks.get(event.actor, {}).get(event.task)
        if found is not None:
            found.record(self._now(event), event.attributes["records"])
        yield from ()

    def _metrics(self, event: Event) -> Iterator[str]:
        if self._level != "DEBUG":
            return
        now, measured = self._now(event), event.attributes["tasks"]
        tasks = self._tasks.get(_thread_of(event.actor), {})
        for task, records in tasks.items():
            self.tried |= records.total > 0
            found = measured.get(task, {})
            for name, expected in (self.total, records.total), (self.rate, records.rate(now)):
                yield from _unless_equal(f"{name} of task {task}", expected, found.get(name))
        for task in sorted(measured.keys() - tasks.keys()):
            if {self.rate, self.total} & measured[task].keys():
                yield f"{event.actor} measures task {task}, which its thread does not have"

    def _forget(self, process: str) -> None:
        self._assigned = _without(process, self._assigned)
        self._tasks = _without(process, self._tasks)


class RestoredIsCounted(_TaskRecords):
    """An active task counts its restored records until it leaves its thread (KIP-869)."""

    name = "an active task counts its restored records as long as its thread has it"
    requirement = "METRIC-107"
    situation = "the metrics of an active task were read that had restored records"
    role, rate, total = "active", "restore-rate", "restore-total"


class UpdatedIsCounted(_TaskRecords):
    """A standby counts its updated records until it leaves its thread (KIP-869)."""

    name = "a standby counts its updated records as long as its thread has it"
    requirement = "METRIC-108"
    situation = "the metrics of a standby were read that had got records"
    drawn_from: ClassVar = {"plan": {"instances": [3]}}
    role, rate, total = "standby", "update-rate", "update-total"


class UpdaterIsAnotherThread(_Measured):
    """A state updater is a thread of its own, and its metrics have its id (KIP-869)."""

    name = "a state updater is a thread of its own, and its metrics have its id"
    requirement = "METRIC-116"
    situation = "a store was restored or updated, and the metrics of a state updater were read"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._threads: set[str] = set()
        self._has_filled = False

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "task.state": self._state,
            "restore.start": self._works,
            "update.start": self._works,
            "updater.metrics": self._metrics,
        }

    def _state(self, event: Event) -> Iterator[str]:
        self._threads.add(event.actor)
        yield from ()

    def _works(self, event: Event) -> Iterator[str]:
        self._has_filled = True
        if event.actor in self._threads:
            yield f"{event.actor} fills {event.partition}, but is a stream thread"

    def _metrics(self, event: Event) -> Iterator[str]:
        self.tried |= self._has_filled
        missing = sorted(OF_THE_THREAD - event.attributes["gauges"].keys())
        if missing:
            yield f"no {', '.join(missing)} has the thread-id {event.actor}"


class StoreCommitsAreMeasured(_Measured):
    """Each store of a task measures its commits, and no flushes (KIP-1035)."""

    name = "each store of a task measures its commits and no flushes"
    requirement = "METRIC-118"
    situation = "the metrics of a store were read that had committed"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By thread and task, the commits of each store, and the store of each changelog.
        self._commits: dict[str, dict[str, dict[str, Samples]]] = {}
        self._stores: dict[tuple[str, str], str] = {}
        # Tasks with a store that could not be restored or committed, until they start over.
        self._failed: set[tuple[str, str]] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "store.opened": self._opened,
            "task.state": self._state,
            "thread.died": self._dies,
            "store.committed": self._committed,
            "updater.failed": self._fails,
            "thread.metrics": self._metrics,
        }

    def _opened(self, event: Event) -> Iterator[str]:
        self._stores[event.process, event.partition] = event.attributes["store"]
        stores = self._commits.setdefault(event.actor, {}).setdefault(event.task, {})
        stores[event.attributes["store"]] = Samples()
        self._failed.discard((event.process, event.task))
        yield from ()

    def _state(self, event: Event) -> Iterator[str]:
        # The metrics of the stores of a suspended task go on if it is recycled.
        if event.attributes["after"] == "CLOSED":
            self._commits.get(event.actor, {}).pop(event.task, None)
        yield from ()

    def _dies(self, event: Event) -> Iterator[str]:
        # A task whose stores could not all be opened never had a state that could change.
        self._commits.pop(event.actor, None)
        yield from ()

    def _committed(self, event: Event) -> Iterator[str]:
        store = self._stores.get((event.process, event.partition), "")
        found = self._commits.get(event.actor, {}).get(event.task, {}).get(store)
        if found is not None:
            found.record(self._now(event))
        yield from ()

    def _fails(self, event: Event) -> Iterator[str]:
        # A commit that raises counts as well, but leaves no other trace.
        self._failed.add((event.process, event.task))
        yield from ()

    def _metrics(self, event: Event) -> Iterator[str]:
        if self._level != "DEBUG":
            return
        now, measured = self._now(event), event.attributes["stores"]
        tasks = self._commits.get(event.actor, {})
        for task, stores in tasks.items():
            for store, commits in stores.items():
                self.tried |= commits.total > 0
                found = measured.get(task, {}).get(store, {})
                of = f"of store {store} in task {task}"
                if (event.process, task) not in self._failed:
                    rate = commits.rate(now)
                    yield from _unless_equal(f"commit-rate {of}", rate, found.get("commit-rate"))
                yield from self._latencies(found, of, commits.rate(now) > 0)
        for task in sorted(measured.keys() - tasks.keys()):
            yield f"{event.actor} measures stores of task {task}, which it does not have"

    def _latencies(
        self, found: Mapping[str, float | None], of: str, commits: bool
    ) -> Iterator[str]:
        for name in ("commit-latency-avg", "commit-latency-max", *FLUSHES):
            if name not in found:
                yield f"there is no {name} {of}"
        if any(found.get(name) for name in FLUSHES):
            yield f"flushes {of} are measured, but the runtime never flushes a store"
        average, largest = found.get("commit-latency-avg"), found.get("commit-latency-max")
        if commits and (average is None or largest is None or not 0 <= average <= largest):
            yield f"the latencies {of} are {average} on average and {largest} at most"

    def _forget(self, process: str) -> None:
        self._commits = _without(process, self._commits)
        self._stores = {here: each for here, each in self._stores.items() if here[0] != process}
        self._failed = {each for each in self._failed if each[0] != process}


class RunningTasksAreMeasured(_Measured):
    """The metrics of a task begin when it runs, and end with that (Kafka: StreamTask#suspend)."""

    name = "the tasks that run measure their records, and no other task does"
    requirement = "METRIC-110"
    situation = "the metrics of a thread were read that had suspended a task"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By thread, the tasks that run, and those that ran before.
        self._running: dict[str, set[str]] = {}
        self._ran: dict[str, set[str]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "task.state": self._state,
            "thread.died": self._dies,
            "thread.metrics": self._metrics,
        }

    def _state(self, event: Event) -> Iterator[str]:
        running = self._running.setdefault(event.actor, set())
        if event.attributes["after"] == "RUNNING":
            running.add(event.task)
        elif event.task in running:
            running.discard(event.task)
            self._ran.setdefault(event.actor, set()).add(event.task)
        yield from ()

    def _dies(self, event: Event) -> Iterator[str]:
        self._running.pop(event.actor, None)
        self._ran.pop(event.actor, None)
        yield from ()

    def _metrics(self, event: Event) -> Iterator[str]:
        if self._level != "DEBUG":
            return
        running, measured = self._running.get(event.actor, set()), {*event.attributes["tasks"]}
        self.tried |= bool(self._ran.get(event.actor, set()) - running)
        for task in sorted(measured - running):
            yield f"{event.actor} has metrics of task {task}, which does not run"
        for task in sorted(running - measured):
            yield f"{event.actor} has no metrics of task {task}, which runs"

    def _forget(self, process: str) -> None:
        self._running = _without(process, self._running)
        self._ran = _without(process, self._ran)


class TasksAreCounted(_Measured):
    """A state updater counts its tasks by role, and apart from those that are paused (KIP-869)."""

    name = "a state updater counts its tasks by role and state"
    requirement = "METRIC-112"
    situation = "the metrics of a state updater with a task were read"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._changelogs: dict[str, set[str]] = {}
        self._standbys: dict[str, list[str]] = {}
        # By thread and task, the changelogs that lack records.
        self._tasks: dict[str, dict[str, set[str]]] = {}
        # By thread, the open standbys. A new assignment may wait for a commit, and changes the role
        # of a task only when the task is opened again.
        self._updated: dict[str, set[str]] = {}
        self._paused: set[str] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            **super().observers,
            "thread.assigned": self._assign,
            "task.state": self._state,
            "restore.end": self._restored,
            "updater.failed": self._fails,
            "instance.paused": self._pauses,
            "instance.resumed": self._resumes,
            "updater.metrics": self._metrics,
        }

    def _application(self, event: Event) -> Iterator[str]:
        changelogs = event.attributes["changelogs"]
        self._changelogs = {task: set(each) for task, each in changelogs.items()}
        yield from ()

    def _assign(self, event: Event) -> Iterator[str]:
        self._standbys[event.actor] = event.attributes["standby"]
        yield from ()

    def _state(self, event: Event) -> Iterator[str]:
        tasks = self._tasks.setdefault(event.actor, {})
        if event.attributes["after"] == "RESTORING":
            tasks[event.task] = set(self._changelogs.get(event.task, ()))
            is_standby = event.task in self._standbys.get(event.actor, ())
            updated = self._updated.setdefault(event.actor, set())
            (updated.add if is_standby else updated.discard)(event.task)
        else:
            tasks.pop(event.task, None)
        yield from ()

    def _restored(self, event: Event) -> Iterator[str]:
        thread = _thread_of(event.actor)
        self._tasks.get(thread, {}).get(event.task, set()).discard(event.partition)
        yield from ()

    def _fails(self, event: Event) -> Iterator[str]:
        self._tasks.get(_thread_of(event.actor), {}).pop(event.task, None)
        yield from ()

    def _pauses(self, event: Event) -> Iterator[str]:
        self._paused.add(event.process)
        yield from ()

    def _resumes(self, event: Event) -> Iterator[str]:
        self._paused.discard(event.process)
        yield from ()

    def _metrics(self, event: Event) -> Iterator[str]:
        thread = _thread_of(event.actor)
        tasks, standbys = self._tasks.get(thread, {}), self._updated.get(thread, ())
        self.tried |= bool(tasks)
        lacking = {task: left for task, left in tasks.items() if task not in standbys}
        # A task that lacks nothing any more is handed back at the end of a round.
        active = range(sum(map(bool, lacking.values())), len(lacking) + 1)
        updated = len(tasks) - len(lacking)
        standby = range(updated, updated + 1)
        is_paused, none = event.process in self._paused, range(1)
        for name, expected in (
            ("active-restoring-tasks", none if is_paused else active),
            ("standby-updating-tasks", none if is_paused else standby),
            ("active-paused-tasks", active if is_paused else none),
            ("standby-paused-tasks", standby if is_paused else none),
        ):
            found = event.attributes["gauges"].get(name)
            if found not in expected:
                least, most = expected[0], expected[-1]
                yield f"{name} of {event.actor} should be {least} to {most}, but is {found}"

    def _forget(self, process: str) -> None:
        self._standbys = _without(process, self._standbys)
        self._tasks = _without(process, self._tasks)
        self._updated = _without(process, self._updated)
        self._paused.discard(process)
