"""Runtimes that wait for empty inputs, or know lags, wrongly (KIP-695)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from broken_runtimes import Break, Patch, with_attribute, with_default

from streamproof.sim.application import StreamsConfig
from streamproof.sim.clients.consumer import Consumer, _Partition
from streamproof.sim.decisions.idling import Readiness
from streamproof.sim.tasks import record_queues
from streamproof.sim.tasks.record_queues import PartitionGroup

__all__ = ["WRONG_LAGS"]

CurrentLag = Callable[[str], int | None]


def idling(idle_ms: Callable[[int], int]) -> Break:
    """All tasks decide with another ``max.task.idle.ms`` than the configured one."""

    def change(patch: Patch) -> None:
        right = record_queues.ready_to_process

        def wrong(*some: Any, max_task_idle_ms: int, **more: Any) -> Readiness:
            return right(*some, max_task_idle_ms=idle_ms(max_task_idle_ms), **more)

        patch.setattr(record_queues, "ready_to_process", wrong)

    return change


def one_after_the_other(patch: Patch) -> None:
    """A task waits by the rules of Kafka, whatever its configuration says."""
    right = record_queues.ready_to_process

    def wrong(*some: Any, **more: Any) -> Readiness:
        return right(*some, **{**more, "mode": "kafka"})

    patch.setattr(record_queues, "ready_to_process", wrong)


def unknown_as_none_left(self: PartitionGroup, current_lag: CurrentLag) -> None:
    """An unknown lag counts as 0."""
    self._lags = {name: current_lag(name) or 0 for name in self.partitions}


def keeping_lags(self: PartitionGroup, current_lag: CurrentLag) -> None:
    """A lag that is not known any more stays the same."""
    lags = ((name, current_lag(name)) for name in self.partitions)
    self._lags |= {name: lag for name, lag in lags if lag is not None}


update_lags = PartitionGroup.update_lags


def asking_for_nothing(self: PartitionGroup, current_lag: CurrentLag) -> None:
    """A task that never waits asks for its lags, and forgets them."""
    for name in self.partitions:
        current_lag(name)
    update_lags(self, current_lag)


def counting_while_it_lacks(patch: Patch) -> None:
    """The idle time of an input begins when its queue is empty, whatever its lag is."""
    right = PartitionGroup.readiness

    def wrong(self: PartitionGroup, now: int) -> Readiness:
        before, found = dict(self._deadlines), right(self, now)
        empty = [each for each in self.partitions if not self.buffered(each)]
        begun = {each: before.get(each, now + self._max_task_idle_ms) for each in empty}
        self._deadlines |= begun
        return found

    patch.setattr(PartitionGroup, "readiness", wrong)


def counting_on(patch: Patch) -> None:
    """An idle time that has begun goes on after a record."""
    right = PartitionGroup.readiness

    def wrong(self: PartitionGroup, now: int) -> Readiness:
        before, found = dict(self._deadlines), right(self, now)
        self._deadlines |= {name: before[name] for name in before if self._lags.get(name) == 0}
        return found

    patch.setattr(PartitionGroup, "readiness", wrong)


current_lag_of = Consumer.current_lag


def from_the_start(self: Consumer, partition: str) -> int | None:
    """Without a position, the lag counts all offsets."""
    state = self._of(partition)
    return state.end if state.position is None else current_lag_of(self, partition)


def renewing(self: Consumer, partition: str) -> int | None:
    """A known end is requested again, in the background."""
    state = self._of(partition)
    if state.end is not None and not state.end_asked:
        state.end_asked = True
        self._host.start(self._ask_for_end(partition, state))
    return current_lag_of(self, partition)


def fetching(self: Consumer, partition: str) -> int | None:
    """Who reads the lag lets the consumer fetch."""
    self._may_fetch(partition)
    return current_lag_of(self, partition)


def remembering(patch: Patch) -> None:
    """A partition that is assigned again has the state that it had."""
    before: dict[tuple[int, str], _Partition] = {}
    right = Consumer.assign

    def wrong(self: Consumer, partitions: Iterable[str]) -> None:
        before.update({(id(self), name): each for name, each in self._partitions.items()})
        right(self, partitions)
        for name in self._partitions:
            self._partitions[name] = before.get((id(self), name), self._partitions[name])

    patch.setattr(Consumer, "assign", wrong)


def answering_for_the_lost(patch: Patch) -> None:
    """The lag of a partition that was taken away is 0."""
    lost: set[tuple[int, str]] = set()
    right = Consumer.assign

    def assign(self: Consumer, partitions: Iterable[str]) -> None:
        lost.update((id(self), name) for name in self._partitions)
        right(self, partitions)

    def wrong(self: Consumer, partition: str) -> int | None:
        if partition not in self._partitions and (id(self), partition) in lost:
            return 0
        return current_lag_of(self, partition)

    patch.setattr(Consumer, "assign", assign)
    patch.setattr(Consumer, "current_lag", wrong)


def refusing_small_numbers_alone(patch: Patch) -> None:
    """A very small ``max.task.idle.ms`` is accepted."""
    right = StreamsConfig.__post_init__

    def wrong(self: StreamsConfig) -> None:
        if self.max_task_idle_ms >= -3:
            right(self)

    patch.setattr(StreamsConfig, "__post_init__", wrong)


LONGER = idling(lambda each: each + 300)
QUEUE = "queue.waits_for_an_empty_input"
LAGGING = "idle_world.the_wait_for_a_lag_does_not_count"

WRONG_LAGS: list[tuple[str, str, Break]] = [
    ("IDLE-002", "idle_world.waits_for_what_the_brokers_have", idling(lambda _: -1)),
    (
        "IDLE-002",
        "idle_world.waits_for_what_the_brokers_have",
        with_attribute(PartitionGroup, "update_lags", unknown_as_none_left),
    ),
    ("IDLE-003", "idle_world.minus_one_opts_out", idling(lambda _: 0)),
    ("IDLE-003", "idle_world.minus_one_opts_out", LONGER),
    ("IDLE-004", "idle_world.zero_goes_on_at_once", LONGER),
    ("IDLE-004", "idle_world.zero_goes_on_at_once", idling(lambda each: each + 20)),
    ("IDLE-005", "idle_world.waits_for_its_time", idling(lambda _: 0)),
    ("IDLE-005", "idle_world.waits_for_its_time", idling(lambda _: -1)),
    ("IDLE-005", "idle_world.waits_for_its_time", LONGER),
    ("IDLE-005", "idle_world.waits_for_its_time", idling(lambda each: each + 20)),
    ("IDLE-005", LAGGING, counting_while_it_lacks),
    ("IDLE-005", LAGGING, idling(lambda each: each // 2)),
    ("IDLE-005", LAGGING, idling(lambda each: 2 * each)),
    ("IDLE-007", "idle_world.idle_times_do_not_add_up", one_after_the_other),
    (
        "IDLE-013",
        "idle_world.minus_one_opts_out",
        with_attribute(record_queues, "DISABLED", -2),
    ),
    ("IDLE-014", "idle_world.the_default_is_zero", with_default("max_task_idle_ms", -1)),
    ("IDLE-014", "idle_world.zero_goes_on_at_once", with_default("max_task_idle_ms", 300)),
    ("IDLE-002", QUEUE, with_attribute(PartitionGroup, "update_lags", keeping_lags)),
    ("IDLE-003", QUEUE, idling(lambda each: max(each, 0))),
    ("IDLE-004", QUEUE, idling(lambda each: each or 1)),
    ("IDLE-005", QUEUE, idling(lambda each: each - (each > 0))),
    ("IDLE-005", QUEUE, counting_while_it_lacks),
    ("IDLE-006", QUEUE, counting_on),
    ("IDLE-007", "queue.idles_side_by_side", one_after_the_other),
    ("IDLE-008", "queue.nothing_to_process", one_after_the_other),
    (
        "IDLE-012",
        "configuration.other_negative_idle_times_are_refused",
        refusing_small_numbers_alone,
    ),
    (
        "IDLE-013",
        "queue.asks_for_no_lag",
        with_attribute(PartitionGroup, "update_lags", asking_for_nothing),
    ),
    (
        "LAG-002",
        "consumer.empty_during_a_reset",
        with_attribute(Consumer, "current_lag", from_the_start),
    ),
    ("LAG-002", "consumer.empty_after_a_new_assignment", remembering),
    (
        "LAG-004",
        "consumer.asks_for_nothing_it_knows",
        with_attribute(Consumer, "current_lag", renewing),
    ),
    (
        "LAG-004",
        "consumer.asks_for_nothing_it_knows",
        with_attribute(Consumer, "current_lag", fetching),
    ),
    ("LAG-007", "consumer.only_of_what_is_assigned", answering_for_the_lost),
]
"""The requirement, the check, and a change that makes the runtime wrong."""
