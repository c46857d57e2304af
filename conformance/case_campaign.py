"""The common part of all campaigns. A case is a crash, a loss of power, or a simulated world.

A campaign tries many cases and judges each of them. It shrinks the first case that breaks a promise
in a new shape. Then it records that case, with a program that shows the failure and with the data
that repeats it. Each kind of campaign defines how to make, shrink and describe its cases.
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
        shrink_limit: the most cases to try while shrinking one failure.
    """

    def __init__(self, run: CheckContext, shrink_limit: int) -> None:
        self._run = run
        self._shrink_limit = shrink_limit
        self._tries = 0

    def _note(self, case: Case, rulings: Iterable[Ruling]) -> None:
        """Record the promises that held; shrink and record each one broken in a new shape."""
        found = list(rulings)
        self._run.evidence.wiped += any(each.wiped for each in found)
        for ruling in found:
            requirement, shape = self._broken_by(case, ruling)
            if not ruling.broken:
                self._run.held(requirement)
            elif self._run.is_new(requirement, shape):
                self._run.noticed(requirement)
                self._tries = self._shrink_limit if self._run.settings.shrinks else 0
                self._record(*self._shrunk(case, ruling))

    def _first_break(
        self, judged: Iterable[tuple[Case, Sequence[Ruling]]], wanted: tuple[str, str]
    ) -> tuple[Case, Ruling] | None:
        """The first case that breaks the wanted requirement in the wanted shape.

        Each case costs one try. ``judged`` makes its cases lazily, so no case is made once the
        tries are used up.
        """
        if self._tries <= 0:
            return None
        for case, rulings in judged:
            self._tries -= 1
            # A judge stops at the first broken promise, so that ruling is the last one.
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
            # JSON has no form for some value in the case. The seed repeats the failure instead.
            saved = {}
        choices = SavedChoices(**saved, requirement=requirement, shape=shape)
        program = self._rendered(self._lines(case, ruling))
        kind = violation_of(requirement, shape)
        violation = kind(self._tried(case, ruling), ruling.expected, ruling.broken, program)
        violation.traceback = ruling.traceback
        self._run.record(violation, choices)

    def _rendered(self, lines: list[str]) -> str:
        """Lines as a complete program."""
        return render_program(self._run.subject.name, self._run.settings.guarantee, lines)

    # Each kind of campaign defines these methods.

    @abstractmethod
    def _broken_by(self, case: Case, ruling: Ruling) -> tuple[str, str]:
        """The requirement of a ruling on a case, and the shape in which it is broken."""

    @abstractmethod
    def _shrunk(self, case: Case, ruling: Ruling) -> tuple[Case, Ruling]:
        """The smallest case found that breaks the same promise in the same shape."""

    @abstractmethod
    def _saved(self, case: Case) -> dict[str, list[Any]]:
        """The field of :class:`SavedChoices` that repeats a case.

        Raises:
            TypeError: the case cannot be saved.
        """

    @abstractmethod
    def _tried(self, case: Case, ruling: Ruling) -> str:
        """The actions of a case, in words."""

    @abstractmethod
    def _lines(self, case: Case, ruling: Ruling) -> list[str]:
        """A program that shows the broken promise, as lines."""
