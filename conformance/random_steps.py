"""Steps of random programs: what a program may do next, and with which arguments.

Hypothesis has state machines, too, but they suit many programs, not few. Five of six programs are
there copies of an earlier one with a part repeated, and each program leaves out most rules. Here
every program is drawn afresh from all steps, and Hypothesis makes those smaller that fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

__all__ = ["Draw", "EffortSpent", "Player", "Steps", "step"]

F = TypeVar("F", bound=Callable[..., None])

Draw = Callable[[SearchStrategy[Any]], Any]
"""Draws a value from a strategy."""

_MARK = "random_step"


class _Mark(NamedTuple):
    offered: Callable[[Any], Any]
    when: Callable[[Any], Any]
    weight: int
    draws: Mapping[str, str]


class _Step(NamedTuple):
    run: Callable[..., None]
    when: Callable[[Any], Any]
    arguments: SearchStrategy[dict[str, Any]]


def step(
    offered: Callable[[Any], Any] = lambda _: True,
    when: Callable[[Any], Any] = lambda _: True,
    *,
    weight: int = 1,
    **draws: str,
) -> Callable[[F], F]:
    """Mark a method as a step.

    Args:
        offered: whether programs have the step at all, given what ``Steps`` was made for.
        when: whether the object of the method can do the step now.
        weight: how often the step is drawn, compared with others.
        draws: for each argument of the method, the name of the strategy that it is drawn from.
    """

    def mark(method: F) -> F:
        setattr(method, _MARK, _Mark(offered, when, weight, draws))
        return method

    return mark


class Steps:
    """The steps of a class.

    Args:
        kind: the class, with marked methods.
        strategies: the strategies for the arguments, by name.
        asked: the argument of ``offered``.

    Attributes:
        choice: draws a step, or ``None``.
    """

    def __init__(
        self, kind: type[Any], strategies: Mapping[str, SearchStrategy[Any]], asked: Any
    ) -> None:
        # No step at all makes a program smaller, so this choice comes first.
        steps: list[_Step | None] = [None]
        for method in vars(kind).values():
            found: _Mark | None = getattr(method, _MARK, None)
            if found is not None and found.offered(asked):
                drawn = {each: strategies[of] for each, of in found.draws.items()}
                arguments = st.fixed_dictionaries(drawn)
                steps += [_Step(method, found.when, arguments)] * found.weight
        self.choice = st.sampled_from(steps)


class EffortSpent(KeyboardInterrupt):
    """As many programs were played as may be.

    Hypothesis ends at once for a KeyboardInterrupt alone, and has kept the smallest that failed.
    """


class Player:
    """Draws and plays programs, until the effort is spent.

    Args:
        steps: the steps to draw.
        length: the most steps of a program.
        effort: the most programs to play.
    """

    def __init__(self, steps: Steps, length: int, effort: int) -> None:
        self._steps = steps
        self._length = length
        self._effort = effort

    def play(self, draw: Draw, begin: Callable[[], Any]) -> None:
        """Play a program on the object that ``begin`` makes. One without steps makes no object.

        Raises:
            EffortSpent: no program is left to play.
        """
        if self._effort <= 0:
            raise EffortSpent
        target = None
        for _ in range(self._length):
            drawn = self._draw(draw)
            if drawn is None:
                continue
            if target is None:
                target = begin()
                self._effort -= 1
            drawn.do(target)

    def _draw(self, draw: Draw) -> _Drawn | None:
        chosen = draw(self._steps.choice)
        return None if chosen is None else _Drawn(chosen, draw(chosen.arguments))


class _Drawn(NamedTuple):
    """A step with its arguments."""

    step: _Step
    arguments: dict[str, Any]

    def do(self, target: Any) -> None:
        """Do the step, if it can be done now."""
        if self.step.when(target):
            self.step.run(target, **self.arguments)

    def __repr__(self) -> str:
        return f"{self.step.run.__name__}({self.arguments!r})"
