"""When a punctuation is due again.

Source: Kafka, PunctuationSchedule#next.
"""

from __future__ import annotations

__all__ = ["next_punctuation"]


def next_punctuation(due: int, now: int, interval_ms: int) -> int:
    """When a punctuation is due that happens now.

    It stays on the multiples of its interval, counted from the first time; those that have been
    missed are not made up for.

    Args:
        due: when it was due, in milliseconds; not after ``now``.
        now: the time that it follows.
        interval_ms: at least 1.
    """
    return due + ((now - due) // interval_ms + 1) * interval_ms
