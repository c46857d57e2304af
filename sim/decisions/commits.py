"""When a thread commits, what it commits, and how many records it takes at a time.

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
        last_commit: when the last one was.
        commit_interval_ms: more than so many milliseconds must have passed.
        uncommitted_bytes: what the stores of the thread have staged (KIP-892).
        max_uncommitted_bytes: the thread's share of ``statestore.uncommitted.max.bytes``; 0 or less
            is no limit.
    """
    if now - last_commit > commit_interval_ms:
        return True
    return 0 < max_uncommitted_bytes < uncommitted_bytes


def needs_commit(consumed: int | None, position: int | None) -> bool:
    """Whether the position has passed control records behind the last one that was processed.

    Without such a commit the committed offset would stay before the marker that ends a
    transaction, and the lag would never come to 0.

    Args:
        consumed: the offset of the last record that was processed; ``None`` before the first.
        position: of the consumer, with nothing in the buffer.
    """
    return consumed is not None and position is not None and position > consumed + 1


def committable_offset(buffered_head: int | None, position: int | None) -> int | None:
    """The offset to commit for an input partition: that of the next record to process.

    Args:
        buffered_head: the offset of the first record in the buffer; ``None`` if it is empty.
        position: of the consumer; ``None`` if it has none, and then there is nothing to commit.
    """
    return position if buffered_head is None else buffered_head


def next_iterations(iterations: int, *, late_for_poll: bool, interrupted: bool) -> int:
    """How many records each task processes before the thread looks up again.

    Args:
        iterations: how many it was; it starts with 1 and is never less.
        late_for_poll: half of ``max.poll.interval.ms`` has passed since the last poll.
        interrupted: something was punctuated or committed.
    """
    if late_for_poll or interrupted:
        return max(iterations // 2, 1)
    return iterations + 1
