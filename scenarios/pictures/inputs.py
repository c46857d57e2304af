"""What a picture says of several inputs: the timestamps of records, and the time left to wait.

A task takes the record with the smallest timestamp, and waits for inputs that are empty. So its
choices can be understood only with the timestamps, and with the time after which it goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from streamproof.sim.trace import Event

__all__ = ["Inputs"]


class Inputs:
    """The inputs of the tasks of a run.

    Args:
        events: the events of the run.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self._of_several: set[str] = set()
        self._idle_ms: Any = None
        for each in events:
            if each.kind == "application.started":
                self._idle_ms = each.attributes.get("max_task_idle_ms")
            elif each.kind == "task.processed" and (others := each.attributes.get("others")):
                self._of_several |= {each.partition, *others}

    def aside(self, event: Event) -> str:
        """What to add to the words of an event; empty for the records of a single input."""
        if event.kind == "task.waiting":
            return self._left(event)
        if event.partition not in self._of_several:
            return ""
        if event.kind == "task.processed":
            others = ", ".join(_others(event))
            said = f" of time {_ms(event.attributes.get('timestamp'))}"
            return f"{said} ({others})" if others else said
        if event.kind == "log.appended":
            return f" of time {_ms(event.attributes.get('timestamp'))}"
        return ""

    def _left(self, event: Event) -> str:
        """How long a task waits for inputs that have caught up."""
        waiting = event.attributes.get("waiting") or {}
        if "idling" not in dict(waiting).values() or not isinstance(self._idle_ms, int):
            return ""
        return f" ({self._idle_ms:,} ms left)"


def _others(event: Event) -> Iterator[str]:
    """The other inputs of the task: the next timestamp, or the time left to wait."""
    clock = event.attributes.get("clock")
    for name, (timestamp, *rest) in sorted((event.attributes.get("others") or {}).items()):
        if timestamp is not None:
            yield f"{name}: {_ms(timestamp)}"
            continue
        lag, deadline = (*rest, None, None)[:2]
        if isinstance(deadline, int) and isinstance(clock, int):
            left = deadline - clock
            yield f"{name}: empty, {f'{left:,} ms left' if left > 0 else 'waited for'}"
        else:
            yield f"{name}: empty, lag {'unknown' if lag is None else f'{lag:,}'}"


def _ms(timestamp: Any) -> str:
    return f"{timestamp:,}" if isinstance(timestamp, int) else "unknown"
