"""A run that was kept whole: what every picture, comparison and explanation is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamproof.sim.invariants import InvariantViolation
from streamproof.sim.trace import Event
from streamproof.sim.world_plan import Plan

__all__ = ["RecordedRun"]


@dataclass(frozen=True)
class RecordedRun:
    """What came of one run, with all that happened in it.

    Attributes:
        name: what was run, as ``KAFKA-20685`` or ``seed 7``.
        plan: what the run was like; ``None`` if only its events are known.
        defects: the mistakes that the runtime made.
        events: everything that happened, in order.
        violations: what did not hold; the first is what the run ended with.
        digest: stands for all events; empty if it was not taken.
        choices: all choices that were made: pairs of how many options there were, and the one that
            was taken; empty if they were not kept.
        command: what a user types to see this run again; empty if there is no such command.
        title: what it is about, in a line; empty if nobody has said so.
        story: what happens and why it matters, in a few sentences.
    """

    name: str
    plan: Plan | None
    defects: tuple[str, ...]
    events: Sequence[Event]
    violations: Sequence[InvariantViolation]
    digest: str
    choices: Sequence[tuple[int, int]] = ()
    command: str = ""
    title: str = ""
    story: str = ""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What ``application.started`` tells of the configuration; empty if it is not there."""
        started = (each for each in self.events if each.kind == "application.started")
        first = next(started, None)
        return {} if first is None else first.attributes

    @property
    def exactly_once(self) -> bool:
        """The guarantee under which the application ran."""
        return bool(self.settings.get("exactly_once", True))
