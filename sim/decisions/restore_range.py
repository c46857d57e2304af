"""Where a restoration begins and ends, and which of the fetched records belong to it.

Sources: KIP-869; Kafka, StoreChangelogReader.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["applicable", "end_of", "is_complete", "remaining_after"]


def end_of(log_end: int, source_committed: int | None = None, *, is_source: bool = False) -> int:
    """The first offset that is not restored.

    A restoration reads to the end of the log, not to the last stable offset: a transaction of the
    previous owner may still be open, and its records belong to the store once it is committed.

    Args:
        log_end: the end of the changelog, read uncommitted.
        source_committed: the committed offset of the group, if the changelog is a source topic.
            Records behind it were not processed yet. ``None`` counts as 0.
        is_source: whether the changelog is a source topic.
    """
    return min(log_end, source_committed or 0) if is_source else log_end


def applicable(buffered: Sequence[int], end: int) -> int:
    """How many of the fetched records, given their offsets in order, have to be applied."""
    for count, offset in enumerate(buffered):
        if offset >= end:
            return count
    return len(buffered)


def is_complete(end: int, position: int, buffered: Sequence[int]) -> bool:
    """Whether an active task has all records up to the end.

    The position decides, and not the last record: a transaction ends with a marker, which is no
    record and is not applied, and aborted records are skipped.

    Args:
        end: the end of the restoration; with 0, nothing has to be restored.
        position: the next offset that the restore consumer will fetch.
        buffered: offsets of records that were fetched and not applied, in order.
    """
    if end == 0:
        return True
    return buffered[0] >= end if buffered else position >= end


def remaining_after(end: int, applied: int | None, start: int) -> int:
    """How many offsets are left: the value of ``restore-remaining-records-total``.

    The number counts offsets, not records, so that it becomes 0 in spite of compacted ranges and
    markers.

    Args:
        end: the end of the restoration.
        applied: the offset of the last record that was applied; ``None`` before the first.
        start: the start of the restoration.
    """
    return max(end - (start if applied is None else applied + 1), 0)
