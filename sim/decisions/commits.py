"""The times and offsets of commits, and the number of records that a thread processes between them.

Sources: KIP-892; Kafka, StreamThread#maybeCommit and #runOnce,
StreamTask#committableOffsetsAndMetadata.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "NOTHING",
    "UNCOMMITTED_MAX_BYTES",
    "UNLIMITED",
    "Uncommitted",
    "commit_is_due",
    "committable_offset",
    "exceeds",
    "needs_commit",
    "next_iterations",
    "periodic_commit_after",
    "share_of",
]

UNCOMMITTED_MAX_BYTES = 64 * 1024 * 1024
"""The default of ``statestore.uncommitted.max.bytes``."""


class Uncommitted(NamedTuple):
    """Staged records and bytes: how many there are, or how many there may be (KIP-892).

    Attributes:
        records: the number of records; as a limit, 0 or less is no limit.
        bytes: the number of bytes; as a limit, 0 or less is no limit.
    """

    records: int
    bytes: int


NOTHING = Uncommitted(0, 0)
"""Stores that have staged nothing."""

UNLIMITED = Uncommitted(-1, -1)
"""No limit."""


def share_of(limits: Uncommitted, threads: int) -> Uncommitted:
    """The limits of one thread: the threads of a process share the limits of the process equally.

    A share is at least 1, because a limit that is too small to be shared must not be off.

    Args:
        limits: the limits of the process.
        threads: the number of its threads, at least 1; a global thread counts as one.

    Source: Kafka 4.4, KafkaStreams#maxUncommittedBytesPerThread.
    """
    return Uncommitted(*(each if each <= 0 else max(each // threads, 1) for each in limits))


def exceeds(staged: Uncommitted, limits: Uncommitted) -> bool:
    """Whether stores have staged more records or more bytes than a limit allows."""
    return any(0 < most < number for number, most in zip(staged, limits, strict=True))


def periodic_commit_after(now: int, last_commit: int, *, due: bool) -> int:
    """The time of the last periodic commit, after a commit.

    A commit that a processor has requested does not put the next periodic one off.

    Args:
        now: the time of the commit, in milliseconds.
        last_commit: the time of the periodic commit before.
        due: whether the commit was due, and not only requested.

    Source: Kafka, StreamThread#maybeCommit.
    """
    return now if due else last_commit


def commit_is_due(
    now: int,
    last_commit: int,
    *,
    commit_interval_ms: int,
    staged: Uncommitted = NOTHING,
    limits: Uncommitted = UNLIMITED,
) -> bool:
    """Whether it is time for the periodic commit of a thread.

    Args:
        now: the time, in milliseconds.
        last_commit: the time of the last commit.
        commit_interval_ms: more than this many milliseconds must have passed.
        staged: what the stores of the thread have staged (KIP-892).
        limits: the thread's share of ``statestore.uncommitted.max.records`` and
            ``statestore.uncommitted.max.bytes``.
    """
    return now - last_commit > commit_interval_ms or exceeds(staged, limits)


def needs_commit(consumed: int | None, position: int | None) -> bool:
    """Whether the position has passed transaction markers behind the last processed record.

    Without a commit of that position, the committed offset would stay before the marker, and the
    lag would never become 0.

    Args:
        consumed: the offset of the last processed record; ``None`` before the first.
        position: the position of the consumer, with an empty buffer.
    """
    return consumed is not None and position is not None and position > consumed + 1


def committable_offset(buffered_head: int | None, position: int | None) -> int | None:
    """The offset to commit for an input partition: that of the next record to process.

    Args:
        buffered_head: the offset of the first record in the buffer; ``None`` if it is empty.
        position: the position of the consumer. Without a position, nothing can be committed.
    """
    return position if buffered_head is None else buffered_head


def next_iterations(iterations: int, *, late_for_poll: bool, interrupted: bool) -> int:
    """How many records each task processes before the thread polls or commits again.

    Args:
        iterations: the number of the last round; it starts with 1 and is never less.
        late_for_poll: whether half of ``max.poll.interval.ms`` has passed since the last poll.
        interrupted: whether a task was punctuated or committed.
    """
    if late_for_poll or interrupted:
        return max(iterations // 2, 1)
    return iterations + 1
