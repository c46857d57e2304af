"""The director carries out the actions of a timeline, each at its time or after its event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from streamproof.scenarios.actions import Performer
from streamproof.scenarios.scenario import AnyAction, EventPattern, Fault
from streamproof.sim.actor_hosts import Steps
from streamproof.sim.choices import Choices
from streamproof.sim.simulation import Stage
from streamproof.sim.trace import Event

__all__ = ["Director", "matches"]


def matches(pattern: EventPattern, event: Event) -> bool:
    """Whether an event matches a pattern."""
    if event.kind != pattern.kind:
        return False
    actor = pattern.actor
    if actor and event.actor != actor and not event.actor.startswith(f"{actor}/"):
        return False
    return (
        pattern.task in ("", event.task)
        and pattern.partition in ("", event.partition)
        and pattern.offset in (None, event.offset)
        and all(
            name in event.attributes and _is(name, _as_data(event.attributes[name]), wanted)
            for name, wanted in pattern.attributes.items()
        )
    )


def _is(name: str, value: object, wanted: object) -> bool:
    """Whether an attribute is as a pattern says; a release stands for all of its patches."""
    return f"{value}.".startswith(f"{wanted}.") if name == "release" else value == wanted


def _as_data(value: object) -> object:
    """A value of an event as a scenario file writes it, with bytes as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list | tuple):
        return [_as_data(each) for each in value]
    if isinstance(value, dict):
        return {_as_data(key): _as_data(each) for key, each in value.items()}
    return value


@dataclass
class _Waiting:
    """An action that waits for an event, and how often the event must still happen."""

    pattern: EventPattern
    steps: Steps
    left: int


@dataclass
class _Armed:
    """A fault that waits for its site: ``skip`` passes succeed, then ``left`` passes fail."""

    number: int
    fault: Fault
    skip: int
    left: int

    def is_at(self, site: str, whom: str, what: str) -> bool:
        """Whether this pass of a site is one that the fault waits for."""
        fault = self.fault
        is_meant = fault.whom in ("", whom) or whom.startswith(f"{fault.whom}/")
        return self.left > 0 and fault.site == site and is_meant and fault.what in ("", what)


class Director:
    """Carries out a timeline in one world.

    Args:
        timeline: the actions.
        choices: the source of all decisions except the sizes of the faults in the timeline.

    Attributes:
        choices: the choices that the world must be made with.
        undone: the numbers of the actions that have not happened yet.
    """

    def __init__(self, timeline: Iterable[AnyAction], choices: Choices) -> None:
        self._timeline = list(timeline)
        self._given = choices
        self._amount: int | None = None
        # The result of every choice while `_fix` is entered.
        self._fixed: int | None = None
        self.choices = Choices(self._choose)
        self._waiting: list[_Waiting] = []
        self._armed: list[_Armed] = []
        # None until `direct` is called: the director is made before its world.
        self._stage: Stage | None = None
        self.undone = set(range(len(self._timeline)))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The choices so far, if they are recorded. They repeat the run."""
        return self._given.pairs

    def direct(self, stage: Stage) -> None:
        """Schedule the timeline in a world. Call this before the world starts."""
        self._stage = stage
        performer = Performer(stage, self._fix)
        if any(isinstance(each, Fault) for each in self._timeline):
            stage.world.faults.scripted = self._happens
        for number, each in enumerate(self._timeline):
            steps = self._carry_out(number, each, stage, performer)
            if each.when is None:
                stage.world.time.process(steps)
            else:
                self._waiting.append(_Waiting(each.when, steps, each.when.nth))

    def see(self, event: Event) -> None:
        """Start the actions that wait for this event.

        They start right after the step that emitted the event, before any other step.
        """
        for each in [each for each in self._waiting if matches(each.pattern, event)]:
            each.left -= 1
            if not each.left and self._stage is not None:
                self._waiting.remove(each)
                self._stage.world.time.process(each.steps)

    def _carry_out(
        self, number: int, action: AnyAction, stage: Stage, performer: Performer
    ) -> Steps:
        delay_ms = action.after_ms if action.when is not None else action.at or 0
        if delay_ms:
            yield stage.world.time.timeout(delay_ms)
        if isinstance(action, Fault):
            self._armed.append(_Armed(number, action, action.nth - 1, action.times))
            return
        self.undone.discard(number)
        yield from performer.perform(action)

    def _choose(self, options: int) -> int:
        """The next choice. Right after a fault of the timeline, it is the size of that fault."""
        if self._fixed is not None:
            return min(self._fixed, options - 1)
        if self._amount is not None:
            amount, self._amount = self._amount, None
            return min(amount, options - 1)
        return self._given.below(options)

    @contextmanager
    def _fix(self, choice: int) -> Iterator[None]:
        """Make every choice this one, or the largest option if it has fewer.

        The block must not yield to the simulation: other actors would get the fixed choice, too.
        """
        self._fixed = choice
        yield
        self._fixed = None

    def _happens(self, site: str, whom: str, what: str) -> bool:
        for each in [each for each in self._armed if each.is_at(site, whom, what)]:
            if each.skip:
                each.skip -= 1
                continue
            each.left -= 1
            self._amount = each.fault.amount
            self.undone.discard(each.number)
            return True
        return False
