"""Whether a task may process, and which record is next (KIP-695).

If an input partition is empty, and its next records are older than those of the other inputs, the
task would process them out of order. So it waits: until the lag of the partition is known, until
the records that the broker has arrive, and, once it is caught up, for ``max.task.idle.ms`` more.

Sources: KIP-695; Kafka, PartitionGroup#readyToProcess, #updateLags and #nextRecord.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

__all__ = [
    "DISABLED",
    "Input",
    "Mode",
    "Readiness",
    "Waiting",
    "next_partitions",
    "ready_to_process",
]

DISABLED = -1
"""The ``max.task.idle.ms`` with which a task never waits."""

Mode = Literal["proposal", "kafka"]
"""``proposal``: the rules of KIP-695. ``kafka``: the rules of the implementation that shipped.

Kafka's walk over the partitions ends at the first one that keeps the task waiting. The idle times
of later partitions begin only after that one is settled, so that the times of several empty
partitions add up. A lag of -1 counts as unknown, because Kafka uses -1 for an unknown lag. A task
that never waits is ready even if it has nothing to process.
"""

Waiting = Literal["lag unknown", "data on the broker", "idling"]
"""Why a partition keeps a task from processing."""


class Input(Struct, frozen=True, gc=False):
    """An input partition as its task knows it.

    Attributes:
        partition: its name.
        buffered: how many of its records the task has buffered.
        lag: how many more records the broker has; ``None`` if it is not known. The lag may be less
            than 0 after a seek, and then counts as 0.
    """

    partition: str
    buffered: int
    lag: int | None


class Readiness(NamedTuple):
    """The decision.

    Attributes:
        ready: whether the task may process.
        waiting: the reason to wait, by partition.
        enforced: the empty partitions whose idle time is over, so that the task goes on without
            them.
        deadlines: until when the task idles, by partition; pass them to the next decision.
    """

    ready: bool
    waiting: dict[str, Waiting]
    enforced: tuple[str, ...]
    deadlines: dict[str, int]


def ready_to_process(
    inputs: Sequence[Input],
    deadlines: Mapping[str, int],
    *,
    now: int,
    max_task_idle_ms: int,
    mode: Mode = "proposal",
) -> Readiness:
    """Whether a task may process a record now.

    Args:
        inputs: the input partitions. Their order matters only to ``kafka``, where it is the order
            of a hash map.
        deadlines: the deadlines of the last decision.
        now: the time, in milliseconds.
        max_task_idle_ms: how long to wait once caught up; -1 never waits, 0 waits only for data
            that the broker has, or may have.
        mode: the rule of the proposal, or the one that Kafka ships.
    """
    if max_task_idle_ms == DISABLED:
        ready = mode == "kafka" or any(each.buffered for each in inputs)
        return Readiness(ready, {}, (), dict(deadlines))
    kept = dict(deadlines)
    waiting: dict[str, Waiting] = {}
    enforced: list[str] = []
    queued = False
    for each in inputs:
        name = each.partition
        queued |= each.buffered > 0
        reason = None if each.buffered else _unsettled(each.lag, mode)
        if each.buffered or reason:
            kept.pop(name, None)
        elif now < kept.setdefault(name, now + max_task_idle_ms):
            reason = "idling"
        else:
            enforced.append(name)
        if reason:
            waiting[name] = reason
            if mode == "kafka":
                break
    # The rest does not matter after a break: a reason to wait is found.
    return Readiness(queued and not waiting, waiting, tuple(enforced), kept)


def _unsettled(lag: int | None, mode: Mode) -> Waiting | None:
    """Why an empty partition keeps the task waiting, whatever the time; ``None`` if not so."""
    if lag is None or (lag == -1 and mode == "kafka"):
        return "lag unknown"
    return "data on the broker" if lag > 0 else None


def next_partitions(heads: Iterable[tuple[str, int]]) -> list[str]:
    """The partitions whose next record may be processed now: those of the least timestamp.

    Kafka does not say which of several comes first, so that any may.

    Args:
        heads: each partition with buffered records, with the timestamp of the first of them.
    """
    found: list[str] = []
    least = None
    for partition, timestamp in heads:
        if least is None or timestamp < least:
            found, least = [partition], timestamp
        elif timestamp == least:
            found.append(partition)
    return found
