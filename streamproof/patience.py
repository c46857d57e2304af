"""Time limits of calls, without the time in which nobody lets a call go on.

On a busy machine a process waits for a processor most of the time. A call that takes long for that
reason does not hang, and the store is not to blame.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

__all__ = ["Patience", "processor_waits"]


def processor_waits(processes: Iterable[int]) -> dict[int, float]:
    """By thread, how long each has been ready to run without a processor, in seconds.

    Nothing is known where the kernel counts no waits.
    """
    found = {}
    for process in processes:
        for file in Path(f"/proc/{process}/task").glob("*/schedstat"):
            # The thread may have ended.
            with contextlib.suppress(OSError, ValueError, IndexError):
                found[int(file.parent.name)] = int(file.read_text().split()[1]) / 1e9
    return found


class Patience:
    """Tells whether a call hangs.

    The thread that waited longest for a processor counts, as the call may depend on that thread.

    Args:
        limit_s: how long a call may take, in seconds.
        waits: what ``processor_waits`` told before the call; by default, it is asked when half of
            the limit is over.
    """

    def __init__(self, limit_s: float, waits: Mapping[int, float] | None = None) -> None:
        self._limit_s = self._due_s = limit_s
        self._waits = waits
        self._is_given = waits is not None

    def is_over(self, age_s: float, processes: Callable[[], Iterable[int]]) -> bool:
        """Whether a call hangs that has taken so long, in seconds.

        Args:
            age_s: an age below half of the limit is that of another call than before.
            processes: the processes that work for the call.
        """
        if age_s < self._limit_s / 2:
            self._due_s = self._limit_s
            self._waits = self._waits if self._is_given else None
            return False
        if self._waits is None:
            self._waits = processor_waits(processes())
        if age_s <= self._due_s:
            return False
        now = processor_waits(processes())
        waited = (wait - self._waits.get(thread, 0.0) for thread, wait in now.items())
        self._due_s = self._limit_s + max(waited, default=0.0)
        return age_s > self._due_s
