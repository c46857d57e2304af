"""Commits: they carry everything that was done, and they come when too much is staged.

Both are computed from what the tasks have done, and not from what the runtime says of itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from streamproof.sim.decisions.commits import UNLIMITED, Uncommitted, exceeds, share_of
from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["AppliedRecordsAreCommitted", "CommitsCarryEverything", "StagedWritesAreBounded"]

PATIENCE_MS = 100
"""How long a thread may process with too much staged. A thread that may commit does so at the end
of its round, which takes no time."""

OUT_OF_REACH_BYTES = 1 << 20
"""No world stages as much, so its puts need not be counted. Kafka's default is 64 times that."""


STEP_MS = 500
"""The longest time between two events of a state updater that surely was at work meanwhile."""

ROUND_MS = 3_000
"""The longest time in which a state updater that is at work does not look at its clock."""


class AppliedRecordsAreCommitted(Invariant):
    """A state updater commits what it has applied, of restorations and of standbys (KAFKA-12634).

    Only the time counts in which it is seen at work: it may be held, or wait for its brokers. In a
    recording of Kafka the commits of its stores cannot be seen.
    """

    name = "a state updater commits the records that it has applied from time to time"
    requirement = "TASK-031"
    situation = "a state updater committed records that it had applied"
    drawn_from: ClassVar = {"plan": {"instances": [3]}}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._interval_ms = 0
        # By updater, the time of its last event, and how long it has been at work.
        self._worked: dict[str, tuple[int, int]] = {}
        # By process and task, the updater, and how long it had worked at the first record that is
        # not committed.
        self._since: dict[tuple[str, str], tuple[str, int]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._configured,
            "restore.batch": self._applied,
            "update.batch": self._applied,
            "store.committed": self._committed,
            "task.state": self._left,
            "task.closed": self._left,
        }

    def _configured(self, event: Event) -> Iterator[str]:
        self._interval_ms = event.attributes["commit_interval_ms"]
        yield from ()

    def _applied(self, event: Event) -> Iterator[str]:
        if self.history.of_kafka:
            return
        last, worked = self._worked.get(event.actor, (event.time, 0))
        worked += min(event.time - last, STEP_MS)
        self._worked[event.actor] = event.time, worked
        here = event.process, event.task
        updater, since = self._since.setdefault(here, (event.actor, worked))
        if updater != event.actor:
            self._since[here] = event.actor, worked
        elif worked - since > 2 * self._interval_ms + ROUND_MS:
            yield (
                f"{event.actor} has worked for {worked - since} ms since it applied a record of "
                f"task {event.task} that is not committed, but commit.interval.ms is "
                f"{self._interval_ms}"
            )

    def _committed(self, event: Event) -> Iterator[str]:
        found = self._since.pop((event.process, event.task), None)
        self.tried |= found is not None
        yield from ()

    def _left(self, event: Event) -> Iterator[str]:
        self._since.pop((event.process, event.task), None)
        yield from ()


class CommitsCarryEverything(Invariant):
    """A commit of a thread includes each task that did anything since its last commit.

    A commit of Kafka names only tasks with new offsets: TaskExecutor. So a task that has only
    punctuated is not seen in a recording of Kafka.
    """

    name = "a commit carries what was done since the last one, punctuations included"
    requirement = "TASK-066"
    situation = "a thread committed after a punctuation"
    drawn_from: ClassVar = {"topologies": ["punctuated-count"]}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By thread and task, what the task did last since its last commit.
        self._done: dict[str, dict[str, str]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "task.processed": self._did,
            "record.dropped": self._did,
            "task.punctuated": self._did,
            "task.state": self._state,
            "thread.committed": self._committed,
            "thread.died": self._gone,
            "instance.crashed": self._gone,
            "instance.stopped": self._gone,
        }

    def _did(self, event: Event) -> Iterable[str]:
        if event.kind == "task.punctuated" and self.history.of_kafka:
            return ()
        done = self._done.setdefault(event.actor, {})
        if event.kind == "task.punctuated":
            done[event.task] = "punctuated"
        else:
            done.setdefault(event.task, "taken records")
        return ()

    def _state(self, event: Event) -> Iterator[str]:
        # What a task leaves undone when it ends is done again by its next owner.
        self._done.get(event.actor, {}).pop(event.task, None)
        yield from ()

    def _gone(self, event: Event) -> Iterator[str]:
        for actor in list(self._done):
            if f"{actor}/".startswith(f"{event.actor}/"):
                del self._done[actor]
        yield from ()

    def _committed(self, event: Event) -> Iterator[str]:
        done = self._done.pop(event.actor, {})
        self.tried |= "punctuated" in done.values()
        for task, what in sorted(done.items()):
            if task not in event.attributes["tasks"]:
                yield f"task {task} has {what}, but the commit of {event.actor} leaves it out"


class StagedWritesAreBounded(Invariant):
    """What a thread has staged is the sum of its puts, and stays within its share (KIP-892).

    The rule counts puts alone. Restored records may be staged as well, so a thread may have staged
    more, and never less.
    """

    name = "a thread commits when its puts add up to more than its share"
    requirement = "TASK-010"
    situation = "the puts of a thread added up to more than its share of a limit"
    drawn_from: ClassVar = {"settings": {"transactional": [True], "max_uncommitted_bytes": [100]}}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._limits: Uncommitted | None = None
        # By thread and changelog, the last staged value of each key.
        self._staged: dict[str, dict[str, dict[bytes, bytes | None]]] = {}
        # By thread, how many rows it has staged, and how many bytes.
        self._sums: dict[str, list[int]] = {}
        # By process, the share of each of its threads.
        self._shares: dict[str, Uncommitted] = {}
        # By thread that has staged too much, the first round after which it could commit.
        self._over: dict[str, int | None] = {}
        # The threads of each process; a share is smaller if there are more of them.
        self._threads: dict[str, set[str]] = {}
        # The threads that may not commit, because the group rebalances.
        self._joining: set[str] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        troubles = (
            *("group.left_out", "group.member_left_out", "network.cut", "network.reply_lost"),
            *("network.request_held", "broker.stalled", "broker.refused"),
            *("network.request_lost", "coordinator.away", "instance.stood_still"),
            *("instance.went_on", "disk.filled", "disk.full", "thread.timed_out"),
            *("thread.lost", "thread.died", "task.corrupted", "instance.started"),
        )
        return {
            **dict.fromkeys(troubles, self._trouble),
            "application.started": self._start,
            "thread.producer": self._thread,
            "thread.subscribed": self._joins,
            "thread.assigned": self._assigned,
            "store.put": self._put,
            "store.committed": self._committed,
            "task.state": self._state,
            "task.processed": self._process,
            "instance.crashed": self._gone,
            "instance.stopped": self._gone,
        }

    def _start(self, event: Event) -> Iterator[str]:
        more = event.attributes
        if more["transactional"]:
            as_proposed = more["store_rules"] == "proposal"
            records = more["max_uncommitted_records"] if as_proposed else -1
            size = more["max_uncommitted_bytes"]
            if records > 0 or 0 < size < OUT_OF_REACH_BYTES:
                self._limits = Uncommitted(records, size)
        yield from ()

    def _thread(self, event: Event) -> Iterator[str]:
        self._threads.setdefault(event.process, set()).add(event.actor)
        self._shares.pop(event.process, None)
        yield from ()

    def _joins(self, event: Event) -> Iterator[str]:
        self._joining.add(event.actor)
        yield from self._trouble(event)

    def _assigned(self, event: Event) -> Iterator[str]:
        self._joining.discard(event.actor)
        yield from self._trouble(event)

    def _trouble(self, event: Event) -> Iterator[str]:
        """Give all threads a round again: they may not commit while the group is in motion."""
        del event
        self._over = dict.fromkeys(self._over)
        yield from ()

    def _put(self, event: Event) -> Iterable[str]:
        # The most frequent event of a world, so this takes no detour.
        if self._limits is None:
            return ()
        actor, more = event.actor, event.attributes
        key, value = more["key"], more["value"]
        staged = self._staged.setdefault(actor, {}).setdefault(event.partition, {})
        sums = self._sums.setdefault(actor, [0, 0])
        if key in staged:
            sums[0] -= 1
            sums[1] -= len(key) + len(staged[key] or b"")
        staged[key] = value
        sums[0] += 1
        sums[1] += len(key) + len(value or b"")
        share = self._shares.get(event.process) or self._share(event.process)
        if 0 < share.bytes < sums[1] or 0 < share.records < sums[0]:
            self.tried = True
            self._over.setdefault(actor)
        elif actor in self._over:
            # A shorter value, or a tombstone, takes the place of a staged one.
            del self._over[actor]
        return ()

    def _share(self, process: str) -> Uncommitted:
        # A thread that has not begun yet only makes the share too large.
        threads = len(self._threads.get(process, ())) or 1
        found = self._shares[process] = share_of(self._limits or UNLIMITED, threads)
        return found

    def _sum(self, actor: str) -> Uncommitted:
        return Uncommitted(*self._sums.get(actor, (0, 0)))

    def _committed(self, event: Event) -> Iterator[str]:
        rows = self._staged.get(event.actor, {}).pop(event.partition, {})
        if rows:
            sums = self._sums[event.actor]
            sums[0] -= len(rows)
            sums[1] -= sum(len(key) + len(value or b"") for key, value in rows.items())
        self._settle(event.actor, event.process)
        yield from ()

    def _state(self, event: Event) -> Iterator[str]:
        # A task that begins or ends has committed or dropped what it had staged.
        for kept in (self._staged, self._sums, self._over):
            kept.pop(event.actor, None)
        yield from ()

    def _settle(self, actor: str, process: str) -> None:
        if actor in self._over and not exceeds(self._sum(actor), self._share(process)):
            self._over.pop(actor, None)

    def _gone(self, event: Event) -> Iterator[str]:
        prefix = f"{event.process}/"
        for actor in [each for each in self._staged if each.startswith(prefix)]:
            del self._staged[actor]
            self._sums.pop(actor, None)
            self._over.pop(actor, None)
        self._joining = {each for each in self._joining if not each.startswith(prefix)}
        self._threads.pop(event.process, None)
        self._shares.pop(event.process, None)
        yield from self._trouble(event)

    def _process(self, event: Event) -> Iterable[str]:
        if not self._over or event.actor not in self._over or event.actor in self._joining:
            return ()
        since = self._over[event.actor]
        if since is None:
            self._over[event.actor] = event.time
        if since is None or event.time - since <= PATIENCE_MS:
            return ()
        staged = self._sum(event.actor)
        what = f"{staged.records} records with {staged.bytes} bytes since {since} ms"
        return [f"the puts of {event.actor} add up to {what}, but it goes on without a commit"]
