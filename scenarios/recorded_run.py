"""A complete run: the input of every picture, comparison, slice and walk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamproof.sim.invariants import InvariantViolation
from streamproof.sim.invariants.judging import EVERYTHING_SEEN, Unseen
from streamproof.sim.trace import Event
from streamproof.sim.world_plan import Plan

__all__ = ["RecordedRun"]


@dataclass(frozen=True)
class RecordedRun:
    """One run with all its events and its outcome.

    Attributes:
        name: the scenario or seed, as ``KAFKA-20685`` or ``seed 7``.
        plan: the plan of its world; ``None`` if only the events are known.
        defects: the defects that were switched on in the runtime, and the patch that it had.
        events: all events, in order.
        violations: the broken invariants; the first one ended the run.
        digest: the digest of all events; empty if none was taken.
        choices: all choices, each as the number of options and the option that was taken; empty
            if they were not recorded.
        command: the command that shows this run again; empty if there is none.
        title: one line about the run; empty if it has no title.
        story: a few sentences on what happens and why it matters.
        surprises: the differences from the expected result, a sentence each.
        unseen: what the events do not tell.
        unjudged: by invariant, why it was not judged.
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
    surprises: Sequence[str] = ()
    unseen: Unseen = EVERYTHING_SEEN
    unjudged: Mapping[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The configuration as in ``application.started``; empty without that event."""
        started = (each for each in self.events if each.kind == "application.started")
        first = next(started, None)
        return {} if first is None else first.attributes

    @property
    def exactly_once(self) -> bool:
        """The guarantee under which the application ran."""
        return bool(self.settings.get("exactly_once", True))
