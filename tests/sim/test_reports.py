"""Reports of members: a wrong one is found, whether it says too much, too little, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pytest
from hand_made_events import made

from streamproof.sim import state_directory, stream_thread
from streamproof.sim.choices import Choices
from streamproof.sim.decisions.lag import LATEST_OFFSET
from streamproof.sim.decisions.recovery import Closing
from streamproof.sim.invariants import INVARIANTS
from streamproof.sim.invariants.invariant import Invariant
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.invariants.reports import (
    WhatAnyThreadClosedIsReported,
    WhatIsOnTheDiskIsReported,
)
from streamproof.sim.plan_space import PlanSpace, draw
from streamproof.sim.simulation import run
from streamproof.sim.state_directory import StateDirectory
from streamproof.sim.tasks import partition_assignor
from streamproof.sim.tasks.partition_assignor import PartitionAssignor
from streamproof.sim.tasks.stream_task import StreamTask
from streamproof.sim.trace import Event

Plant = Callable[[pytest.MonkeyPatch], None]


def no_cache(patch: pytest.MonkeyPatch) -> None:
    """The cache of a process is always empty."""
    patch.setattr(StateDirectory, "sums", lambda *_: {})


def no_scan(patch: pytest.MonkeyPatch) -> None:
    """A process opens no store at its start."""
    patch.setattr(StateDirectory, "initialize_startup_stores", lambda *_: None)


def cache_of_each_thread(patch: pytest.MonkeyPatch) -> None:
    """A thread knows only of what it has closed itself."""
    right, closers = StateDirectory.closed, dict[str, str]()

    def closed(self: StateDirectory, task: StreamTask, *more: Any) -> None:
        closers[task.id] = task._actor
        right(self, task, *more)

    sums = StateDirectory.sums
    patch.setattr(StateDirectory, "closed", closed)
    patch.setattr(
        StateDirectory,
        "sums",
        lambda self, thread: {
            task: total
            for task, total in sums(self, thread).items()
            if closers.get(task, thread) == thread
        },
    )


def cache_of_other_threads(patch: pytest.MonkeyPatch) -> None:
    """A thread does not know what it has closed itself."""
    right, closers = StateDirectory.closed, dict[str, str]()

    def closed(self: StateDirectory, task: StreamTask, *more: Any) -> None:
        closers[task.id] = task._actor
        right(self, task, *more)

    sums = StateDirectory.sums
    patch.setattr(StateDirectory, "closed", closed)
    patch.setattr(
        StateDirectory,
        "sums",
        lambda self, thread: {
            task: total for task, total in sums(self, thread).items() if closers.get(task) != thread
        },
    )


def clean_closes_alone(patch: pytest.MonkeyPatch) -> None:
    """A close after an error leaves the cache as it was."""
    right = StateDirectory.closed

    def closed(self: StateDirectory, task: StreamTask, total: int | None, closing: Closing) -> None:
        before = self._sums.get(task.id)
        right(self, task, total, closing)
        if closing is Closing.DIRTY and before is not None:
            self._sums[task.id] = before

    patch.setattr(StateDirectory, "closed", closed)


def of_memory(patch: pytest.MonkeyPatch) -> None:
    """After a close, the cache has what was in memory, committed or not."""
    patch.setattr(
        stream_thread, "sum_at_close", lambda task, *_, **__: state_directory.next_offset_sum(task)
    )


def one_less(patch: pytest.MonkeyPatch) -> None:
    """The cache has the offsets instead of the next offsets."""
    right = state_directory.offset_sum
    patch.setattr(state_directory, "offset_sum", lambda some: max(right(some) - 1, 0))


def a_sum_for_a_running_task(patch: pytest.MonkeyPatch) -> None:
    """A running task is reported as if it restored."""

    def report(right: Callable[..., Any]) -> Callable[..., Any]:
        def subscription(self: PartitionAssignor, tasks: Mapping[str, Any], owned: Any) -> Any:
            patch.setattr(partition_assignor, "LATEST_OFFSET", 1)
            try:
                return right(self, tasks, owned)
            finally:
                patch.setattr(partition_assignor, "LATEST_OFFSET", LATEST_OFFSET)

        return subscription

    patch.setattr(PartitionAssignor, "subscription", report(PartitionAssignor.subscription))


WRONG: list[tuple[str, Plant]] = [
    ("ASSIGN-012", no_cache),
    ("ASSIGN-012", no_scan),
    ("ASSIGN-012", one_less),
    ("ASSIGN-013", one_less),
    ("ASSIGN-013", a_sum_for_a_running_task),
    ("ASSIGN-014", no_cache),
    ("ASSIGN-014", cache_of_each_thread),
    ("ASSIGN-014", cache_of_other_threads),
    ("ASSIGN-014", clean_closes_alone),
    ("ASSIGN-014", of_memory),
]


def found(requirement: str, seeds: range) -> Iterator[str]:
    """The requirements that worlds with the situation of a requirement break."""
    (invariant,) = [each for each in INVARIANTS if each.requirement == requirement]
    space = msgspec.convert(invariant.drawn_from, PlanSpace)
    for seed in seeds:
        choices = Choices.seeded(seed)
        outcome = run(choices, draw(choices, space), invariants=[invariant])
        yield from (each.requirement for each in outcome.violations)


@pytest.mark.parametrize(
    ("requirement", "plant"), WRONG, ids=lambda each: getattr(each, "__name__", each)
)
def test_a_wrong_report_is_found(
    requirement: str, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In few worlds."""
    plant(monkeypatch)
    assert requirement in found(requirement, range(80))


@pytest.mark.parametrize("requirement", ["ASSIGN-012", "ASSIGN-013", "ASSIGN-014"])
def test_right_reports_pass(requirement: str) -> None:
    """In the same worlds."""
    assert list(found(requirement, range(30))) == []


def judged(
    events: Iterable[Event],
    kind: type[Invariant] = WhatIsOnTheDiskIsReported,
    *,
    of_kafka: bool = False,
) -> list[str]:
    """The breaches of an invariant in events."""
    see = kind(LogHistory(exactly_once=True, of_kafka=of_kafka)).observers
    return [breach for each in events if each.kind in see for breach in see[each.kind](each)]


PLACE = {"task": "0_0", "partition": "counts-changelog-0"}

STOPPED = [
    made(0, "instance-0", "instance.started", release="4.2"),
    made(1, "instance-0/thread-0", "store.opened", **PLACE, persistent=True),
    made(2, "instance-0/thread-0", "store.committed", **PLACE, offset=19),
    made(3, "instance-0/thread-0", "task.closed", task="0_0", closing="CLEAN"),
    made(4, "instance-0", "instance.stopped"),
]
"""An instance closes a task, and is stopped."""


def test_nobody_reports_what_another_release_has_taken_over() -> None:
    """The disk is full once release 4.3 has taken the offsets over, and release 4.2 finds none."""
    other = [
        made(5, "instance-0", "instance.started", release="4.3"),
        made(6, "instance-0", "instance.crashed"),
    ]
    after = [
        made(7, "instance-0", "instance.started", release="4.2"),
        made(8, "instance-0/thread-0", "thread.subscribed", used=11),
    ]
    assert judged([*STOPPED, *other, *after]) == []
    assert judged([*STOPPED, *after]) == [
        "instance-0/thread-0 does not report task 0_0, whose stores have 20"
    ]


@pytest.mark.parametrize(("is_found", "count"), [(False, 0), (True, 1)])
def test_nobody_reports_a_store_that_a_start_could_not_close(is_found: bool, count: int) -> None:
    """The disk is full: the store was opened to learn its offset, and has lost it."""
    looked = [made(6, "instance-0", "state.opened", task="0_0")]
    if is_found:
        looked.append(made(7, "instance-0", "state.found", task="0_0", total=20))
    events = [
        *STOPPED,
        made(5, "instance-0", "instance.started", release="4.2"),
        *looked,
        made(8, "instance-0", "disk.full", store="rows"),
        made(9, "instance-0", "instance.crashed"),
        made(10, "instance-0", "instance.started", release="4.2"),
        made(11, "instance-0/thread-0", "thread.subscribed", used=11),
    ]
    assert len(judged(events)) == count


@pytest.mark.parametrize("opens", [True, False])
def test_a_thread_of_kafka_leaves_out_a_task_that_another_one_is_opening(opens: bool) -> None:
    """The thread that opens the task has its lock before anyone can see that it is open."""
    events = [
        made(0, "instance-0", "instance.started", release="4.4.0"),
        made(1, "instance-0/thread-1", "store.opened", **PLACE, persistent=True),
        made(2, "instance-0/thread-1", "store.committed", **PLACE, offset=4),
        made(3, "instance-0/thread-1", "task.closed", task="0_0", closing="CLEAN"),
        made(4, "instance-0/thread-1", "thread.subscribed", used=11),
    ]
    if opens:
        events.append(made(5, "instance-0/thread-2", "store.opened", **PLACE, persistent=True))
    events += [
        made(6, "instance-0/thread-2", "thread.subscribed", used=11),
        made(7, "instance-0/thread-1", "thread.assigned"),
    ]
    found = judged(events, WhatAnyThreadClosedIsReported, of_kafka=True)

    assert found == (
        [] if opens else ["instance-0/thread-1 does not report task 0_0, whose stores have 5"]
    )


@pytest.mark.parametrize(("kind", "count"), [("task.wiping", 0), ("task.wiped", 0), (None, 1)])
def test_nobody_reports_a_task_that_is_about_to_be_wiped(kind: str | None, count: int) -> None:
    """Its stores have forgotten their offsets, and its thread keeps the lock until it is gone."""
    events = [
        made(0, "instance-0", "instance.started", release="4.3"),
        made(1, "instance-0/thread-1", "store.opened", **PLACE, persistent=True),
        made(2, "instance-0/thread-1", "store.committed", **PLACE, offset=4),
        made(3, "instance-0/thread-1", "task.closed", task="0_0", closing="DIRTY"),
    ]
    if kind:
        events.append(made(4, "instance-0/thread-1", kind, task="0_0"))
    events.append(made(5, "instance-0/thread-0", "thread.subscribed", used=11))
    assert len(judged(events, WhatAnyThreadClosedIsReported)) == count
