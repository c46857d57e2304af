"""What every campaign does with its cases: crashes, losses of power, or simulated worlds.

A campaign tries many cases and judges each of them. It shrinks the first case that breaks a promise
in a new shape, and records it with a program that shows it and with all that it takes to repeat it.
A kind of campaign says how its cases come about, how they shrink, and how they are written down.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.program_text import render_program
from streamproof.conformance.ruling import Ruling
from streamproof.conformance.saved_failures import SavedChoices
from streamproof.conformance.violations import violation_of

__all__ = ["CaseCampaign"]

Case = TypeVar("Case")


class CaseCampaign(ABC, Generic[Case]):
    """The cases of one check.

    Args:
        run: the check.
        shrink_limit: how many cases may be tried to make one failure smaller.
    """

    def __init__(self, run: CheckContext, shrink_limit: int) -> None:
        self._run = run
        self._shrink_limit = shrink_limit
        self._tries = 0

    def _note(self, case: Case, rulings: Iterable[Ruling]) -> None:
        """Note which promises held; shrink and record each that is broken in a new shape."""
        for ruling in rulings:
            requirement, shape = self._broken_by(case, ruling)
            if not ruling.broken:
                self._run.evidence.exercised.add(requirement)
            elif self._run.is_new(requirement, shape):
                self._run.noticed(requirement)
                self._tries = self._shrink_limit
                self._record(*self._shrunk(case, ruling))

    def _first_break(
        self, judged: Iterable[tuple[Case, Sequence[Ruling]]], wanted: tuple[str, str]
    ) -> tuple[Case, Ruling] | None:
        """The first case that breaks the wanted requirement in the wanted shape.

        Each case costs one try. ``judged`` makes its cases lazily, and with no try left it makes
        none.
        """
        if self._tries <= 0:
            return None
        for case, rulings in judged:
            self._tries -= 1
            # A judge stops at the first promise that is broken.
            last = rulings[-1] if rulings else None
            if last and last.broken and self._broken_by(case, last) == wanted:
                return case, last
        return None

    def _record(self, case: Case, ruling: Ruling) -> None:
        """Record a broken promise with the case that shows it."""
        requirement, shape = self._broken_by(case, ruling)
        try:
            saved = self._saved(case)
        except TypeError:
            # A value in it has no form in JSON: the failure is repeated from its seed.
            saved = {}
        choices = SavedChoices(**saved, requirement=requirement, shape=shape)
        program = self._rendered(self._lines(case, ruling))
        kind = violation_of(requirement, shape)
        violation = kind(self._tried(case, ruling), ruling.expected, ruling.broken, program)
        self._run.record(violation, choices)

    def _rendered(self, lines: list[str]) -> str:
        """Lines as a program that runs as it stands."""
        return render_program(self._run.subject.name, self._run.settings.guarantee, lines)

    # What a kind of campaign says about its cases.

    @abstractmethod
    def _broken_by(self, case: Case, ruling: Ruling) -> tuple[str, str]:
        """The requirement that a ruling on a case is about, and the shape in which it is broken."""

    @abstractmethod
    def _shrunk(self, case: Case, ruling: Ruling) -> tuple[Case, Ruling]:
        """The smallest case found that breaks the same promise in the same shape."""

    @abstractmethod
    def _saved(self, case: Case) -> dict[str, list[Any]]:
        """The field of :class:`SavedChoices` that repeats a case.

        Raises:
            TypeError: it cannot be saved.
        """

    @abstractmethod
    def _tried(self, case: Case, ruling: Ruling) -> str:
        """What was done, in words."""

    @abstractmethod
    def _lines(self, case: Case, ruling: Ruling) -> list[str]:
        """A program that shows the broken promise, as lines."""
