"""Every decision that a simulated world leaves open is made here, and nowhere else.

A run is a pure function of its configuration, its workload and these choices. They come from one
of three drivers: a seed, Hypothesis (so that a failing schedule shrinks), or a list that was
recorded (so that it replays). Whatever the driver, 0 is the plainest choice: the first in line, no
fault, the least of a range. So a schedule that shrinks becomes a plainer one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, TypeVar

from streamproof.sim.broker_errors import DivergedError
from streamproof.stores.errors import InvalidArgumentError

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject

__all__ = ["Choices"]

T = TypeVar("T")

_ODDS = 1 << 16
"""A probability is a share of so many; the smallest one that is not 0 is 1 in 65,536."""

_MAX_OPTIONS = 1 << 31


class Choices:
    """The decisions of one run.

    Args:
        below: the driver: a number from 0 up to, not including, its argument, which is at least 2.
        recording: whether to keep the choices, 4 bytes each, in ``drawn``, and as many bytes for
            how many options there were, in ``offered``.

    Attributes:
        drawn: the choices so far; a run with ``Choices.recorded(drawn)`` is the same run.
        offered: how many options each of them had.
        count: how many choices there were.
    """

    def __init__(self, below: Callable[[int], int], *, recording: bool = False) -> None:
        self._below = below
        self._recording = recording
        self.drawn = array("I")
        self.offered = array("I")
        self.count = 0

    @classmethod
    def seeded(cls, seed: int, *, recording: bool = False) -> Choices:
        """Choices that follow from a seed, on any machine."""
        # random() is the same in every version of Python; randrange() has changed.
        draw = Random(seed).random
        return cls(lambda options: int(draw() * options), recording=recording)

    @classmethod
    def recorded(cls, choices: Sequence[int], *, recording: bool = True) -> Choices:
        """Choices made before; past the end of the list, always 0.

        A number that is too large, because the run has become another one, is cut to the largest
        that is allowed: any list of numbers is a run.
        """
        remaining = iter(choices)
        return cls(lambda options: min(next(remaining, 0), options - 1), recording=recording)

    @classmethod
    def strict(cls, pairs: Iterable[tuple[int, int]], *, recording: bool = True) -> Choices:
        """Choices made before, each with how many options it had; past the end, always 0.

        Where ``recorded`` makes a run of any list, this makes the run that was recorded, or none.

        Args:
            pairs: as another run had them in ``pairs``; those at the end that are 0 may be missing.
            recording: whether to keep the choices.

        Raises:
            DivergedError: (when the choice is made) the run has become another one.
        """
        remaining = enumerate(pairs)

        def below(options: int) -> int:
            index, (offered, choice) = next(remaining, (-1, (options, 0)))
            if offered == options and 0 <= choice < options:
                return choice
            raise DivergedError(
                f"The recorded choices do not fit this run: choice {index} is {choice} of "
                f"{offered} options, and there are {options} options now. They were recorded by "
                "another version, or with another configuration: run that, or record them anew."
            )

        return cls(below, recording=recording)

    @classmethod
    def hypothesis(cls, data: DataObject) -> Choices:
        """Choices that Hypothesis makes, and makes plainer once a run has failed."""
        from hypothesis import strategies as st

        return cls(lambda options: data.draw(st.integers(0, options - 1)), recording=True)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Each choice so far, after how many options it had: a recording for ``strict``."""
        return list(zip(self.offered, self.drawn, strict=True))

    def below(self, options: int) -> int:
        """A number from 0 up to, not including, ``options``.

        Raises:
            InvalidArgumentError: there is nothing to choose from, or more than 2**31 options.
        """
        if options <= 1:
            if options == 1:
                return 0
            raise InvalidArgumentError(f"There is nothing to choose from {options} options.")
        if options > _MAX_OPTIONS:
            raise InvalidArgumentError(f"{options} options are more than {_MAX_OPTIONS}.")
        choice = self._below(options)
        self.count += 1
        if self._recording:
            self.drawn.append(choice)
            self.offered.append(options)
        return choice

    def between(self, least: int, most: int) -> int:
        """A whole number between two others, both included."""
        return least + self.below(most - least + 1)

    def chance(self, probability: float) -> bool:
        """Whether something happens that happens with this probability; 0 is never, 1 always.

        What is certain is not a choice.
        """
        share = round(probability * _ODDS)
        if not 0 < share < _ODDS:
            return share > 0
        return self.below(_ODDS) >= _ODDS - share

    def pick(self, options: Sequence[T]) -> T:
        """One of several."""
        return options[self.below(len(options))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in some order; without any other choice than 0, as they are."""
        rest = list(items)
        return [rest.pop(self.below(len(rest))) for _ in items]
