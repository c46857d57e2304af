"""The choices of a simulated world: every open decision is made here, and nowhere else.

A run is a pure function of its configuration, its workload and its choices. The choices come from
one of three drivers: a seed, Hypothesis (which shrinks a failing schedule), or a recorded list
(which replays a run). With every driver 0 is the plainest choice: the first in line, no fault, the
least of a range. So a schedule that shrinks becomes plainer.
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
"""Probabilities are rounded to multiples of 1 in 65,536."""

_MAX_OPTIONS = 1 << 31


class Choices:
    """The decisions of one run.

    Args:
        below: the driver. It returns a number from 0 up to, not including, its argument, which is
            at least 2.
        recording: whether to keep the choices in ``drawn``, and their numbers of options in
            ``offered``, at 4 bytes each.

    Attributes:
        drawn: the choices so far. A run with ``Choices.recorded(drawn)`` is the same run.
        offered: the number of options of each choice.
        count: the number of choices so far.
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
        """Recorded choices; past the end of the list, always 0.

        A number that is too large, because the run has changed, is cut to the largest option. So
        every list of numbers is a run.
        """
        remaining = iter(choices)
        return cls(lambda options: min(next(remaining, 0), options - 1), recording=recording)

    @classmethod
    def sparse(
        cls, seed: int, share: float, *, first: Sequence[int] = (), recording: bool = False
    ) -> Choices:
        """Choices of which a seed draws a share, while the others are 0, the plainest.

        Args:
            seed: the seed.
            share: the probability that a choice is drawn.
            first: the first choices, cut like those of ``recorded``.
            recording: whether to keep the choices.
        """
        given, draw = iter(first), Random(seed).random

        def below(options: int) -> int:
            choice = next(given, None)
            if choice is not None:
                return min(choice, options - 1)
            return int(draw() * options) if draw() < share else 0

        return cls(below, recording=recording)

    @classmethod
    def strict(cls, pairs: Iterable[tuple[int, int]], *, recording: bool = True) -> Choices:
        """Recorded choices, each with its number of options; past the end, always 0.

        While ``recorded`` makes a run of any list, ``strict`` repeats the recorded run or fails.

        Args:
            pairs: the ``pairs`` of another run; zeros at the end may be missing.
            recording: whether to keep the choices.

        Raises:
            DivergedError: (when the choice is made) the run is not the recorded one any more.
        """
        remaining = enumerate(pairs)

        def below(options: int) -> int:
            index, (offered, choice) = next(remaining, (-1, (options, 0)))
            if offered == options and 0 <= choice < options:
                return choice
            raise DivergedError(
                f"The recorded choices do not fit this run: choice {index} is {choice} of "
                f"{offered} options, but now has {options} options. Use the version and the "
                "configuration that recorded the choices, or record them anew."
            )

        return cls(below, recording=recording)

    @classmethod
    def hypothesis(cls, data: DataObject) -> Choices:
        """Choices that Hypothesis makes, and makes plainer after a failed run."""
        from hypothesis import strategies as st

        return cls(lambda options: data.draw(st.integers(0, options - 1)), recording=True)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Each choice so far, with its number of options first: a recording for ``strict``."""
        return list(zip(self.offered, self.drawn, strict=True))

    def below(self, options: int) -> int:
        """A number from 0 up to, not including, ``options``.

        Raises:
            InvalidArgumentError: the number of options is less than 1, or more than 2**31.
        """
        if options <= 1:
            if options == 1:
                return 0
            raise InvalidArgumentError(
                f"No choice is possible from {options} options; give at least 1."
            )
        if options > _MAX_OPTIONS:
            raise InvalidArgumentError(
                f"{options} options are too many; give at most {_MAX_OPTIONS}."
            )
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
        """Whether an event of this probability happens; 0 is never, 1 is always.

        A certain answer is not a choice, and takes none from the driver.
        """
        share = round(probability * _ODDS)
        if not 0 < share < _ODDS:
            return share > 0
        return self.below(_ODDS) >= _ODDS - share

    def pick(self, options: Sequence[T]) -> T:
        """One of several."""
        return options[self.below(len(options))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in some order; in their own order if every choice is 0."""
        rest = list(items)
        return [rest.pop(self.below(len(rest))) for _ in items]
