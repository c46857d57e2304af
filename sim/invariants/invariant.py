"""What an invariant is, and how a run is watched by several of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from msgspec import Struct

from streamproof.errors import SuiteError
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["Invariant", "InvariantError", "InvariantViolation", "Observer", "Watch"]

Observer = Callable[[Event], Iterable[str]]
"""Looks at an event, and says what is broken by it: nothing, as a rule."""


class InvariantError(SuiteError):
    """An invariant raised: the simulator is wrong, and not what it simulates."""


class InvariantViolation(Struct, frozen=True):
    """An invariant that does not hold.

    Attributes:
        invariant: its name.
        requirement: the promise that it stands for.
        message: what is wrong.
        event: the event by which it was found; ``None`` at the end of the run.
    """

    invariant: str
    requirement: str
    message: str
    event: Event | None

    def __str__(self) -> str:
        where = self.event or "the end of the run"
        return f"{self.invariant} ({self.requirement}): {self.message}\n  found by {where}"


class Invariant:
    """Something that must hold in every run.

    Args:
        history: what the events have said about the logs, the present event included.

    Attributes:
        name: what must hold, as a sentence without its end.
        requirement: the promise that it stands for.
    """

    name: ClassVar[str]
    requirement: ClassVar[str]

    def __init__(self, history: LogHistory) -> None:
        self.history = history

    @property
    def observers(self) -> Mapping[str, Observer]:
        """Who looks at the events of each kind that matter."""
        raise NotImplementedError

    def at_end(self) -> Iterable[str]:
        """What is broken once faults have stopped, and there was time to recover."""
        return ()


class Watch:
    """Watches a run.

    Args:
        invariants: what must hold.
        exactly_once: the guarantee under which the application runs.

    Attributes:
        history: what the events have said about the logs.
        violations: what did not hold, in the order in which it was found.
    """

    def __init__(self, invariants: Iterable[type[Invariant]], *, exactly_once: bool) -> None:
        self.history = LogHistory(exactly_once=exactly_once)
        self._invariants = [each(self.history) for each in invariants]
        self._observers: dict[str, list[tuple[Invariant, Observer]]] = {}
        for invariant in self._invariants:
            for kind, observer in invariant.observers.items():
                self._observers.setdefault(kind, []).append((invariant, observer))
        self.violations: list[InvariantViolation] = []

    def __call__(self, event: Event) -> None:
        """Look at an event.

        Raises:
            InvariantError: an invariant raised.
        """
        self.history.see(event)
        for invariant, observe in self._observers.get(event.kind, ()):
            try:
                for message in observe(event):
                    self._note(invariant, message, event)
            except Exception as error:
                raise _raised(invariant, error, event) from error

    def end(self) -> list[InvariantViolation]:
        """Look at what is left once the run is over; all violations.

        Raises:
            InvariantError: an invariant raised.
        """
        for invariant in self._invariants:
            try:
                for message in invariant.at_end():
                    self._note(invariant, message, None)
            except Exception as error:
                raise _raised(invariant, error, None) from error
        return self.violations

    def _note(self, invariant: Invariant, message: str, event: Event | None) -> None:
        self.violations.append(
            InvariantViolation(invariant.name, invariant.requirement, message, event)
        )


def _raised(invariant: Invariant, error: Exception, event: Event | None) -> InvariantError:
    return InvariantError(
        f"The invariant {invariant.name!r} raised {type(error).__name__}: {error}, at "
        f"{event or 'the end of the run'}. This is a mistake in the simulator."
    )
