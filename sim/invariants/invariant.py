"""The base class of invariants, and the watch that checks several of them during a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from msgspec import Struct

from streamproof.errors import SuiteError
from streamproof.sim.invariants.log_history import LogHistory, LogsUnknownError, UnknownLogs
from streamproof.sim.trace import Event

__all__ = ["Invariant", "InvariantError", "InvariantViolation", "Observer", "Watch"]

Observer = Callable[[Event], Iterable[str]]
"""Checks one event, and yields a message for each breach: none, as a rule."""


class InvariantError(SuiteError):
    """An invariant raised: the simulator is wrong, and not the simulated application."""


class InvariantViolation(Struct, frozen=True):
    """A breach of an invariant.

    Attributes:
        invariant: the name of the invariant.
        requirement: the requirement that it checks.
        message: the observed and the promised behaviour.
        event: the event that broke it; ``None`` at the end of the run.
    """

    invariant: str
    requirement: str
    message: str
    event: Event | None

    @property
    def finding(self) -> str:
        """The message, and where it was found, for the failure of a check."""
        where = f"found by {self.event}" if self.event else "found at the end"
        return f"{self.message}; {where}"

    def __str__(self) -> str:
        where = self.event or "the end of the run"
        return f"{self.invariant} ({self.requirement}): {self.message}\n  found by {where}"


class Invariant:
    """A property of every run.

    Args:
        history: the logs, folded from the events up to and including the present one.

    Attributes:
        name: the property, as a sentence without its end.
        requirement: the requirement that it checks.
        situation: the situation that the requirement speaks of, as a sentence without its end. A
            run without the situation says nothing about the requirement.
        drawn_from: fields of a ``PlanSpace`` whose worlds have the situation often; empty if
            ordinary worlds have it.
        tried: whether the situation has come about; an observer sets it.
    """

    name: ClassVar[str]
    requirement: ClassVar[str]
    situation: ClassVar[str]
    drawn_from: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, history: LogHistory) -> None:
        self.history = history
        self.tried = False

    @property
    def observers(self) -> Mapping[str, Observer]:
        """By kind of event, the observer of such events."""
        raise NotImplementedError

    def at_end(self) -> Iterable[str]:
        """The breaches at the end of a run, after the application had time to recover."""
        return ()


class Watch:
    """Checks invariants during a run.

    Args:
        invariants: the invariants to check.
        exactly_once: the guarantee under which the application runs.
        has_logs: whether the events tell all that was ever written to the logs.
        of_kafka: whether Kafka's own processes made the events, and not the simulator.

    Attributes:
        history: the logs, folded from the events so far.
        unjudged: the names of the invariants that asked for a log that is not known. What they
            found does not count.
        violations: the breaches, in the order in which they were found.
        broken: called once, at the first breach.
    """

    def __init__(
        self,
        invariants: Iterable[type[Invariant]],
        *,
        exactly_once: bool,
        has_logs: bool = True,
        of_kafka: bool = False,
    ) -> None:
        make = LogHistory if has_logs else UnknownLogs
        self.history = make(exactly_once=exactly_once, of_kafka=of_kafka)
        self.unjudged: set[str] = set()
        self.broken: Callable[[], None] = lambda: None
        self._invariants = [each(self.history) for each in invariants]
        self._observers: dict[str, list[tuple[Invariant, Observer]]] = {}
        for invariant in self._invariants:
            for kind, observer in invariant.observers.items():
                self._observers.setdefault(kind, []).append((invariant, observer))
        self.violations: list[InvariantViolation] = []

    def __call__(self, event: Event) -> None:
        """Check an event.

        Raises:
            InvariantError: an invariant raised.
        """
        self.history.see(event)
        for invariant, observe in self._observers.get(event.kind, ()):
            try:
                for message in observe(event):
                    self._note(invariant, message, event)
            except LogsUnknownError:
                self._give_up(invariant)
            except Exception as error:
                raise _raised(invariant, error, event) from error

    @property
    def tried(self) -> list[str]:
        """The names of the invariants whose situation has come about."""
        return [each.name for each in self._invariants if each.tried]

    def end(self) -> list[InvariantViolation]:
        """Check the end of the run, and return all violations.

        Raises:
            InvariantError: an invariant raised.
        """
        for invariant in self._invariants:
            try:
                for message in invariant.at_end():
                    self._note(invariant, message, None)
            except LogsUnknownError:
                self._give_up(invariant)
            except Exception as error:
                raise _raised(invariant, error, None) from error
        return self.violations

    def _give_up(self, invariant: Invariant) -> None:
        """Judge by an invariant no more, and forget what it found: it lacks a log."""
        self.unjudged.add(invariant.name)
        self.violations = [each for each in self.violations if each.invariant != invariant.name]

    def _note(self, invariant: Invariant, message: str, event: Event | None) -> None:
        if invariant.name in self.unjudged:
            return
        if not self.violations:
            self.broken()
        self.violations.append(
            InvariantViolation(invariant.name, invariant.requirement, message, event)
        )


def _raised(invariant: Invariant, error: Exception, event: Event | None) -> InvariantError:
    return InvariantError(
        f"The invariant {invariant.name!r} raised {type(error).__name__}: {error}, at "
        f"{event or 'the end of the run'}. This is a mistake in the simulator."
    )
