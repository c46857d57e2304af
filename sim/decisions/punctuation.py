"""When a punctuation is due again.

Source: Kafka, PunctuationSchedule#next.
"""

from __future__ import annotations

__all__ = ["next_punctuation"]


def next_punctuation(due: int, now: int, interval_ms: int) -> int:
    """The next due time of a punctuation that happens now.

    A punctuation stays on the multiples of its interval, counted from its first due time. Missed
    multiples are not made up for.

    Args:
        due: when the punctuation was due, in milliseconds; not after ``now``.
        now: the time of the clock that the punctuation follows.
        interval_ms: the interval, at least 1.
    """
    return due + ((now - due) // interval_ms + 1) * interval_ms
