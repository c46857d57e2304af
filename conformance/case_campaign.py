"""The common part of all campaigns. A case is a crash, a loss of power, or a simulated world.

A campaign tries many cases and judges each of them. It shrinks the first case that breaks a promise
in a new shape. Then it records that case, with a program that shows the failure and with the data
that repeats it. Each kind of campaign defines how to make, shrink and describe its cases.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.program_text import render_program
from streamproof.conformance.ruling import Ruling
from streamproof.conformance.saved_failures import SavedChoices
from streamproof.conformance.violations import violation_of

__all__ = ["CaseCampaign"]

MOST_POSTPONED_BYTES = 256 * 1024
"""What a case may take as JSON, so that another process can make it small. Larger ones take longer
to hand over than to become small, unless each try starts a store host."""

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
                if self._run.postpones and self._can_wait(case, ruling):
                    self._record(case, ruling, is_large=True)
                else:
                    self._record_small(case, ruling)

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

    def _can_wait(self, case: Case, ruling: Ruling) -> bool:
        """Whether it saves time that another process repeats a case, to make it small."""
        choices = None if self._is_small(case) else self._choices(case, ruling)
        if choices is None or self._run.subject.is_remote:
            return choices is not None
        return len(msgspec.json.encode(choices)) <= MOST_POSTPONED_BYTES

    def _record_again(self, case: Case, ruling: Ruling) -> None:
        """Record a broken promise that a replay has found again, made small if it asks for that."""
        if self._run.replay is not None and self._run.replay.shrinks:
            self._record_small(case, ruling)
        else:
            self._record(case, ruling)

    def _record_small(self, case: Case, ruling: Ruling) -> None:
        """Shrink a case, and record it."""
        self._tries = self._shrink_limit if self._run.settings.shrinks else 0
        self._record(*self._shrunk(case, ruling))

    def _choices(self, case: Case, ruling: Ruling) -> SavedChoices | None:
        """What repeats a case; ``None`` if JSON has no form for some value in it."""
        requirement, shape = self._broken_by(case, ruling)
        try:
            return SavedChoices(**self._saved(case), requirement=requirement, shape=shape)
        except TypeError:
            return None

    def _record(self, case: Case, ruling: Ruling, *, is_large: bool = False) -> None:
        """Record a broken promise with the case that shows it."""
        requirement, shape = self._broken_by(case, ruling)
        # The seed repeats a failure whose choices cannot be saved.
        choices = self._choices(case, ruling) or SavedChoices(requirement=requirement, shape=shape)
        program = self._rendered(self._lines(case, ruling))
        kind = violation_of(requirement, shape)
        violation = kind(self._tried(case, ruling), ruling.expected, ruling.broken, program)
        violation.traceback = ruling.traceback
        self._run.record(violation, choices, is_large=is_large)

    def _is_small(self, case: Case) -> bool:
        """Whether a case is as small as it can become."""
        return False

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
