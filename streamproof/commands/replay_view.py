"""How ``streamproof replay`` is asked to show runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from streamproof.scenarios.recorded_run import RecordedRun

__all__ = ["Format", "View"]

Format = Literal["text", "html", "mermaid", "perfetto", "parquet"]


class View(NamedTuple):
    """How runs are shown.

    Attributes:
        format: in words or in files.
        out: where files go.
        everything: whether every event is drawn.
        until_ms: nothing after this moment is shown; everything, if it is ``None``.
        is_compared: whether two of them are shown side by side.
        is_walked: whether the last of them is walked through, event by event.
    """

    format: Format
    out: Path
    everything: bool
    until_ms: int | None
    is_compared: bool
    is_walked: bool

    def of(self, played: RecordedRun) -> RecordedRun:
        """The run up to the last moment that is shown: what was found by then, and no more."""
        end = self.until_ms
        if end is None:
            return played
        events = [each for each in played.events if each.time <= end]
        found = [
            each for each in played.violations if each.event is not None and each.event.time <= end
        ]
        return replace(played, events=events, violations=found)
