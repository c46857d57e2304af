"""What the listeners of disturbed applications hear, judged by what their stores took (KIP-869).

The expected calls follow from the events of stores and of logs. No event of a state updater is
believed, because the runtime fills these events and its calls from the same variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.sim.actor_hosts import Steps
from streamproof.sim.instances import Instance
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.nemesis import stop_in_time
from streamproof.sim.plan_space import PlanSpace
from streamproof.sim.simulation import Stage
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.trace import Event
from streamproof.stores.api import TopicPartition
from streamproof.stores.runtime.restoration import (
    StandbyUpdateListener,
    StateRestoreListener,
    SuspendReason,
)

__all__: list[str] = []

PAIRED, TOLD = "LISTEN-101", "LISTEN-110"
"""Each start has one end; and each call tells what the store took."""

LEAST_WORLDS, MOST_WORLDS = 2, 24
"""How many disturbed applications are run: until each method was called, within these numbers."""

BEFORE_MS = 8_000
"""How long an application fills its stores before all of its instances are killed."""

ASSIGNORS = [AssignorConfig(num_standby_replicas=each) for each in (0, 1)]
"""Without standbys, a task that moves is restored from the start."""

DISTURBED = PlanSpace(
    topologies=["count", "stream-table-join", "reused-table-join"],
    kinds=["crash", "bounce", "cut", "fill"],
    upgrades=[""],
    plan={
        "instances": [2],
        "activation": [0.5],
        "query_clients": [0],
        "safety_ms": [30_000],
    },
    settings={"max_poll_records": [3], "assignor": ASSIGNORS},
)
"""Applications whose restorations take several polls, and are interrupted."""


@dataclass
class _Copy:
    """A store that a process has open.

    Attributes:
        store: its name.
        task: its task.
        next_offset: the offset after the last record that it has.
        least_end: the end that a restoration had when the store was opened.
        told_end: the end that the last start named.
        untold: the batches that the listener has not heard of: last offset, and records.
        total: the number of records that the store took since the last start.
        hears: "restore" or "update" between a start and its end, else empty.
    """

    store: str
    task: str
    next_offset: int
    least_end: int
    untold: list[tuple[int, int]] = field(default_factory=list)
    total: int = 0
    told_end: int = 0
    hears: str = ""


class _Judge(StateRestoreListener, StandbyUpdateListener):
    """The listener of all instances, which compares each call with what the stores took.

    Attributes:
        problems: what was wrong, by requirement.
        heard: the methods that were called with numbers that cannot be taken for each other.
    """

    def __init__(self) -> None:
        self.problems: dict[str, list[str]] = {PAIRED: [], TOLD: []}
        self.heard: set[str] = set()
        self._history = LogHistory(exactly_once=False)
        self._inputs: set[str] = set()
        self._copies: dict[tuple[str, str], _Copy] = {}
        self._process = ""

    # The evidence.

    def see(self, event: Event) -> None:
        """Take an event in."""
        # The updater that calls a listener has emitted an event right before.
        self._process = event.process
        self._history.see(event)
        if event.kind == "store.opened":
            copy = _Copy(
                event.attributes["store"],
                event.task,
                max(event.offset + 1, 0),
                self._end(event.partition),
            )
            self._copies[event.process, event.partition] = copy
        elif event.kind == "store.recycled":
            # The store stays open in its other role, with what its task has written until now.
            copy = self._copies[event.process, event.partition]
            copy.next_offset = max(event.offset + 1, 0)
            copy.least_end = self._end(event.partition)
        elif event.kind == "store.restored":
            copy = self._copies[event.process, event.partition]
            copy.untold.append((event.offset, event.attributes["records"]))
            copy.total += event.attributes["records"]
            copy.next_offset = event.offset + 1
        elif event.kind == "task.state" and event.attributes["after"] == "RUNNING":
            self._run(event)
        elif event.kind == "task.closed":
            self._close(event)
        elif event.kind == "instance.crashed":
            self._copies = {
                here: each for here, each in self._copies.items() if here[0] != event.actor
            }

    def _end(self, partition: str) -> int:
        """The end of a restoration that begins now; that of an input is where it is committed."""
        end = self._history.log(partition).end
        if "-changelog-" in partition:
            return end
        return min(end, self._history.committed.get(partition, 0))

    def _run(self, event: Event) -> None:
        """Expect that the restorations of a task have ended before it processes anything."""
        for (process, partition), copy in self._copies.items():
            if process == event.process and copy.task == event.task:
                runs = f"task {copy.task} runs, with {partition}"
                self._demand(runs, "the end of the restoration first", holds=not copy.hears)

    def _close(self, event: Event) -> None:
        for here, copy in list(self._copies.items()):
            if here[0] == event.process and copy.task == event.task:
                del self._copies[here]
                closed = f"{here[1]} is closed"
                self._demand(closed, "the end of what it hears", PAIRED, holds=not copy.hears)
                self._expect_told(closed, copy)

    def finish(self) -> None:
        """Expect that the listener has heard of every batch, after the last event."""
        for (process, partition), copy in self._copies.items():
            self._process = process
            self._expect_told(f"the run ends with {partition}", copy)

    def _expect_told(self, what: str, copy: _Copy) -> None:
        self._demand(what, f"the batches {copy.untold} before", holds=not copy.untold)

    def _demand(self, call: str, expected: str, requirement: str = TOLD, *, holds: bool) -> None:
        if not holds:
            problem = f"{self._process}: {call}, but expected {expected}"
            self.problems[requirement].append(problem)

    def is_amid_restoring(self, process: str) -> bool:
        """Whether an active task of a process has restored some records, and lacks others."""
        return any(
            here[0] == process
            and copy.hears == "restore"
            and 0 < copy.total < copy.next_offset - 1
            and copy.next_offset < self._history.log(here[1]).end
            for here, copy in self._copies.items()
        )

    # The calls.

    def on_restore_start(
        self, partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        """Expect the first offset that the store lacks, and an end since it was opened."""
        call = f"on_restore_start({partition}, {store_name}, {starting_offset}, {ending_offset})"
        copy = self._called(call, partition, store_name, "")
        most = self._end(_name(partition))
        self._demand(
            call, f"the start {copy.next_offset}", holds=starting_offset == copy.next_offset
        )
        is_end = copy.least_end <= ending_offset <= most
        self._demand(call, f"an end from {copy.least_end} to {most}", holds=is_end)
        self._note("on_restore_start", tells=0 < starting_offset < ending_offset)
        copy.hears, copy.told_end = "restore", ending_offset

    def on_batch_restored(
        self, partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        """Expect the batch that the store has just taken."""
        call = f"on_batch_restored({partition}, {store_name}, {batch_end_offset}, {num_restored})"
        copy = self._called(call, partition, store_name, "restore")
        self._expect_batch(call, copy, (batch_end_offset, num_restored))
        self._note("on_batch_restored", tells=batch_end_offset > num_restored)

    def on_restore_end(
        self, partition: TopicPartition, store_name: str, total_restored: int
    ) -> None:
        """Expect the number of all records since the start, and no record that is missing."""
        call = f"on_restore_end({partition}, {store_name}, {total_restored})"
        copy = self._expect_end(call, partition, store_name, total_restored)
        visible = self._history.log(_name(partition)).committed(copy.next_offset)
        lacking = [each.offset for each in visible if each.offset < copy.told_end]
        self._demand(call, f"the records at {lacking} first", holds=not lacking)
        tells = 0 < total_restored < copy.next_offset - 1
        self._note("on_restore_end", tells=tells)

    def on_restore_suspended(
        self, partition: TopicPartition, store_name: str, total_restored: int
    ) -> None:
        """Expect the number of all records since the start."""
        call = f"on_restore_suspended({partition}, {store_name}, {total_restored})"
        copy = self._expect_end(call, partition, store_name, total_restored)
        tells = 0 < total_restored < copy.next_offset - 1
        self._note("on_restore_suspended", tells=tells)

    def on_update_start(
        self, partition: TopicPartition, store_name: str, starting_offset: int
    ) -> None:
        """Expect the first offset that the store lacks."""
        call = f"on_update_start({partition}, {store_name}, {starting_offset})"
        copy = self._called(call, partition, store_name, "")
        self._demand(
            call, f"the start {copy.next_offset}", holds=starting_offset == copy.next_offset
        )
        self._note("on_update_start", tells=starting_offset > 0)
        copy.hears = "update"

    def on_batch_loaded(  # noqa: PLR0917 - as the KIP has it
        self,
        partition: TopicPartition,
        store_name: str,
        task_id: str,
        batch_end_offset: int,
        batch_size: int,
        current_end_offset: int | None,
    ) -> None:
        """Expect the batch that the store has just taken, and an end behind it."""
        batch = batch_end_offset, batch_size
        call = (
            f"on_batch_loaded({partition}, {store_name}, {task_id}, {batch}, {current_end_offset})"
        )
        copy = self._called(call, partition, store_name, "update")
        self._demand(call, f"the task {copy.task}", holds=task_id == copy.task)
        self._expect_batch(call, copy, batch)
        self._expect_known_end(call, partition, current_end_offset, batch_end_offset + 1)
        is_known = current_end_offset is not None
        self._note("on_batch_loaded", tells=is_known and batch_end_offset > batch_size)

    def on_update_suspended(
        self,
        partition: TopicPartition,
        store_name: str,
        store_offset: int,
        current_end_offset: int,
        reason: SuspendReason,
    ) -> None:
        """Expect the last offset that the store has, and an end behind it."""
        told = f"{store_offset}, {current_end_offset}, {reason}"
        call = f"on_update_suspended({partition}, {store_name}, {told})"
        copy = self._called(call, partition, store_name, "update")
        last = copy.next_offset - 1
        self._demand(call, f"the offset {last}", holds=store_offset == last)
        self._expect_told(call, copy)
        end = None if current_end_offset == -1 else current_end_offset
        self._expect_known_end(call, partition, end, 0)
        self._note("on_update_suspended", tells=0 <= last < current_end_offset - 1)
        copy.hears = ""

    def _note(self, method: str, *, tells: bool) -> None:
        """Note a call, if another number in a place of its numbers would be wrong."""
        if tells:
            self.heard.add(method)

    def _called(self, call: str, partition: TopicPartition, store: str, hears: str) -> _Copy:
        """Expect a call between a start and its end, or outside; return what it is about."""
        copy = self._copies.get((self._process, _name(partition)))
        if copy is None:
            self._demand(call, "no call, as the store is closed", holds=False)
            return _Copy(store, "", 0, 0)
        self._demand(call, f"the store {copy.store}", holds=store == copy.store)
        now = f"the {copy.hears}s to go on" if copy.hears else "a start first"
        self._demand(call, now, PAIRED, holds=hears == copy.hears)
        if not hears:
            self._demand(call, "a start before any batch", holds=not copy.untold)
            copy.total = 0
        return copy

    def _expect_batch(self, call: str, copy: _Copy, told: tuple[int, int]) -> None:
        self._demand(call, f"the batches {copy.untold}", holds=copy.untold == [told])
        copy.untold.clear()

    def _expect_end(self, call: str, partition: TopicPartition, store: str, total: int) -> _Copy:
        copy = self._called(call, partition, store, "restore")
        self._demand(call, f"{copy.total} records", holds=total == copy.total)
        self._expect_told(call, copy)
        copy.hears = ""
        return copy

    def _expect_known_end(
        self, call: str, partition: TopicPartition, end: int | None, least: int
    ) -> None:
        most = self._history.log(_name(partition)).end
        is_end = end is None or least <= end <= most
        self._demand(call, f"an end from {least} to {most}", holds=is_end)


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


class _Striker:
    """Interrupts restorations in their middle, each time in another way, and each way once.

    Args:
        stage: the world.
        judge: knows which restorations go on.
    """

    def __init__(self, stage: Stage, judge: _Judge) -> None:
        self._stage = stage
        self._judge = judge
        self._left = ["updater.died", "stop", "crash", "disk.full"]
        stage.world.faults.scripted = self._happens
        stage.world.time.process(self._run())

    def _happens(self, site: str, whom: str, _: str) -> bool:
        """Whether an updater dies, or a disk is full for a commit; updaters are slow meanwhile."""
        is_slow = site == "updater.slow" and bool(self._left)
        return is_slow or self._strikes(site, whom.partition("/")[0])

    def _strikes(self, way: str, process: str) -> bool:
        if self._left[:1] != [way] or not self._judge.is_amid_restoring(process):
            return False
        del self._left[0]
        return True

    def _run(self) -> Steps:
        """Stop instances amid restorations, and before that all of them, and start them again."""
        world = self._stage.world
        yield world.time.timeout(BEFORE_MS)
        for each in self._stage.instances:
            each.crash()
        yield from self._start(self._stage.instances)
        while self._left:
            yield world.time.timeout(50)
            for each in self._stage.instances:
                if self._strikes("stop", each.name):
                    yield from stop_in_time(world, each)
                    yield from self._start([each])
                elif self._strikes("crash", each.name):
                    each.crash()
                    yield from self._start([each])

    def _start(self, instances: Sequence[Instance]) -> Steps:
        yield self._stage.world.time.timeout(500)
        for each in instances:
            each.start()


@scripted(TOLD, PAIRED)
def calls_are_those_of_the_stores(probe: Probe) -> None:
    """Disturb applications whose restorations take several polls, and compare all calls."""
    unheard = {name for name in vars(_Judge) if name.startswith("on_")}
    for number in range(MOST_WORLDS):
        if number >= LEAST_WORLDS and not unheard:
            break
        judge = _Judge()

        def direct(stage: Stage, judge: _Judge = judge) -> None:
            stage.application.restore_listener = stage.application.standby_listener = judge
            _Striker(stage, judge)

        probe.explore(DISTURBED, number, direct, judge.see)
        judge.finish()
        for requirement, problems in judge.problems.items():
            probe.about(requirement)
            for problem in problems[:1]:
                probe.demand("calls of what the stores took", problem, holds=False)
        unheard -= judge.heard
    probe.about(TOLD)
    if unheard:
        probe.skip(f"no world led to a telling call of {' and '.join(sorted(unheard))}")
