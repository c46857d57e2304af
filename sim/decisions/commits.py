"""The times and offsets of commits, and the number of records that a thread processes between them.

Sources: Kafka, StreamThread#maybeCommit and #runOnce, StreamTask#committableOffsetsAndMetadata.
"""

from __future__ import annotations

__all__ = ["commit_is_due", "committable_offset", "needs_commit", "next_iterations"]


def commit_is_due(
    now: int,
    last_commit: int,
    *,
    commit_interval_ms: int,
    uncommitted_bytes: int = 0,
    max_uncommitted_bytes: int = -1,
) -> bool:
    """Whether it is time for the periodic commit of a thread.

    Args:
        now: the time, in milliseconds.
        last_commit: the time of the last commit.
        commit_interval_ms: more than this many milliseconds must have passed.
        uncommitted_bytes: how many bytes the stores of the thread have staged (KIP-892).
        max_uncommitted_bytes: the thread's share of ``statestore.uncommitted.max.bytes``; 0 or less
            is no limit.
    """
    if now - last_commit > commit_interval_ms:
        return True
    return 0 < max_uncommitted_bytes < uncommitted_bytes


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
