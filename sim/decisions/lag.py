"""The lag of a consumer, a store or a client.

Sources: KIP-695, Consumer#currentLag; Kafka, SubscriptionState#partitionLag,
TaskManager#taskOffsetSums and ClientState#computeTaskLags.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from streamproof.sim.decisions.idling import Mode

__all__ = [
    "LATEST_OFFSET",
    "MAX_OFFSET",
    "UNKNOWN_OFFSET_SUM",
    "LagAnswer",
    "current_lag",
    "is_caught_up",
    "offset_sum",
    "task_lag",
]

LATEST_OFFSET = -2
"""The offset sum of a running active task: no client can be ahead of it."""

UNKNOWN_OFFSET_SUM = -3
"""The offset sum of a task whose client does not know its offsets."""

MAX_OFFSET = 2**63 - 1
"""The largest offset and the largest sum: a sum stops there."""


class LagAnswer(NamedTuple):
    """The answer of ``current_lag``.

    Attributes:
        lag: the number of records between the position and the end; ``None`` if it is not known.
        ask_for_end: whether the consumer asks for the end, so that a later call knows the lag.
    """

    lag: int | None
    ask_for_end: bool


def current_lag(
    position: int | None, end: int | None, *, asked: bool, mode: Mode = "proposal"
) -> LagAnswer:
    """The lag of a consumer, from its memory: the call never blocks.

    As proposed, the call never leads to a request: a later fetch brings the end. As Kafka ships it,
    the consumer requests an unknown end in the background, even while it has no position.

    Args:
        position: the next offset to fetch; ``None`` while the consumer looks for one.
        end: the high watermark, or with ``read_committed`` the last stable offset, from the last
            fetch; ``None`` before the first. A seek does not change the end, so that the lag may be
            stale, and even less than 0.
        asked: whether the consumer has asked for the end, and waits for the answer.
        mode: the rule of the proposal, or the one that Kafka ships.
    """
    if end is None:
        return LagAnswer(None, mode == "kafka" and not asked)
    return LagAnswer(None if position is None else end - position, False)


def offset_sum(next_offsets: Iterable[int | None]) -> int:
    """The offset sum that a client reports of a task which is not running there as active.

    Args:
        next_offsets: for each changelog of a persistent store, the offset after the last one that
            the store has; ``None`` if it is not known, which counts as 0.
    """
    return min(sum(each or 0 for each in next_offsets), MAX_OFFSET)


def task_lag(reported: int | None, end: int) -> int:
    """The lag of a client with a task, as the leader of the group computes it.

    A sum beyond the end means that the changelog was created again, or that the store is corrupted.
    The client then counts as one that has nothing.

    Args:
        reported: the offset sum that the client reports; ``None`` if it does not name the task.
        end: the sum of the ends of the changelogs.
    """
    if reported in (LATEST_OFFSET, UNKNOWN_OFFSET_SUM):
        return reported
    done = reported or 0
    return end if end < done else end - done


def is_caught_up(lag: int, acceptable_recovery_lag: int) -> bool:
    """Whether a client may take an active task over without a long restoration.

    Args:
        lag: the lag of the client with the task.
        acceptable_recovery_lag: ``acceptable.recovery.lag``, in records. With the largest value
            every client counts as caught up.
    """
    if lag == LATEST_OFFSET or acceptable_recovery_lag == MAX_OFFSET:
        return True
    return 0 <= lag <= acceptable_recovery_lag
