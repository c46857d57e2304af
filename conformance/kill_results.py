"""The kill matrix as plain data: the content of ``mutants.json``."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from streamproof.conformance.results import Profile, Status

__all__ = ["MATRIX_VERSION", "AreaRow", "KillMatrix", "MutantOutcome", "MutantRow"]

MATRIX_VERSION = 1
"""Raised when a record changes in a way that an older reader would misread."""

MutantOutcome = Literal["killed", "survived", "false alarm"]
"""``killed``: with every seed that was tried. ``survived``: with at least one, the requirement was
not found broken. ``false alarm``: it was not kept by a right counterpart, or not tried there."""


class MutantRow(Struct, frozen=True, kw_only=True):
    """A row of the matrix.

    Attributes:
        mutant: its name.
        subject: what names it on the command line.
        requirement: the requirement that it is bound to.
        outcome: see :data:`MutantOutcome`.
        reason: why it is not killed; empty if it is.
        by: the checks that were the quickest to kill it, the most frequent one first.
        seeds: the seeds that were tried.
        seconds: from the beginning of that check to the kill; the median over the seeds.
        examples: programs and crashes that the kill took; the median.
        crashes: how many of them were crashes; the median.
        right: what became of the requirement for each right counterpart with the last seed, or
            with the first one with which it was not kept.
        collateral: other requirements that it was found to break, if all were asked.
    """

    mutant: str
    subject: str
    mistake: str
    requirement: str
    outcome: MutantOutcome
    reason: str = ""
    by: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    seconds: float | None = None
    examples: float | None = None
    crashes: float | None = None
    right: dict[str, Status] = field(default_factory=dict)
    collateral: list[str] = field(default_factory=list)

    @property
    def area(self) -> str:
        """The area of the requirement."""
        return self.requirement.partition("-")[0]


class AreaRow(Struct, frozen=True, kw_only=True):
    """What the mutants of one area came to.

    Attributes:
        requirements: requirements of the area that have a check.
        with_mutants: how many of them a mutant is bound to.
        mutants: mutants bound to them.
        killed: how many of these were killed.
        seconds: to the kill; the median over the mutants.
    """

    area: str
    title: str
    requirements: int
    with_mutants: int
    mutants: int
    killed: int
    seconds: float | None = None


class KillMatrix(Struct, frozen=True, kw_only=True):
    """All that a run of mutants found out: the content of ``mutants.json``.

    Attributes:
        matrix_version: of this record; see :data:`MATRIX_VERSION`.
        profile: how much was tried.
        seed: the first seed; each further one is larger by one.
        seeds: how many seeds were asked for.
        everything: whether all requirements were asked of each mutant.
        complete: ``False`` if the run was interrupted: what had ended by then is there.
        rows: the mutants, in the order of their table.
        areas: the same by area.
    """

    matrix_version: int
    tool_version: str
    profile: Profile
    seed: int
    seeds: int
    everything: bool
    complete: bool
    duration_s: float
    rows: list[MutantRow]
    areas: list[AreaRow]
