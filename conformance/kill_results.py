"""The kill matrix as plain data: the content of ``mutants.json``."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from streamproof.conformance.results import Profile, Status

__all__ = ["ENOUGH", "MATRIX_VERSION", "AreaRow", "KillMatrix", "MutantOutcome", "MutantRow"]

MATRIX_VERSION = 1
"""Raised when a record changes in a way that an older reader would misread."""

ENOUGH = 0.95
"""The least share of the seeds that must find a mutant. Below it, the budget of its checks is too
small, or they draw what the mistake needs too rarely."""

MutantOutcome = Literal["killed", "survived", "false alarm"]
"""``killed``: every seed found the requirement broken. ``survived``: at least one seed did not.
``false alarm``: a correct counterpart did not keep the requirement, or was not tried."""


class MutantRow(Struct, frozen=True, kw_only=True):
    """A row of the matrix.

    Attributes:
        mutant: the name of the mutant.
        subject: the name of the mutant as a subject on the command line.
        requirement: the requirement that the mutant is bound to.
        outcome: see :data:`MutantOutcome`.
        reason: why the mutant is not killed; empty if it is.
        by: the checks that were the quickest to kill the mutant, the most frequent one first.
        seeds: the seeds that were tried.
        found: with how many of these seeds the requirement was found broken.
        seconds: the time from the start of the quickest check to the kill; the median of the seeds.
        examples: the number of programs and crashes until the kill; the median.
        crashes: the number of crashes among them; the median.
        right: the result of the requirement for each correct counterpart, with the last seed or
            with the first seed under which the counterpart did not keep it.
        collateral: other requirements that the mutant was found to break, if all checks ran.
    """

    mutant: str
    subject: str
    mistake: str
    requirement: str
    outcome: MutantOutcome
    reason: str = ""
    by: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    found: int = 0
    seconds: float | None = None
    examples: float | None = None
    crashes: float | None = None
    right: dict[str, Status] = field(default_factory=dict)
    collateral: list[str] = field(default_factory=list)

    @property
    def area(self) -> str:
        """The area of the requirement."""
        return self.requirement.partition("-")[0]

    @property
    def rate(self) -> float:
        """The share of the seeds that found the mutant, which estimates that of all seeds."""
        return self.found / len(self.seeds) if self.seeds else 0.0


class AreaRow(Struct, frozen=True, kw_only=True):
    """The results of the mutants of one area.

    Attributes:
        requirements: the number of requirements of the area that have a check.
        with_mutants: the number of those with a mutant.
        mutants: the number of mutants of the area.
        killed: the number of killed mutants among them.
        seconds: the time to the kill; the median of the mutants.
    """

    area: str
    title: str
    requirements: int
    with_mutants: int
    mutants: int
    killed: int
    seconds: float | None = None


class KillMatrix(Struct, frozen=True, kw_only=True):
    """The results of a run of mutants: the content of ``mutants.json``.

    Attributes:
        matrix_version: the version of this record; see :data:`MATRIX_VERSION`.
        profile: the profile of the run.
        seed: the first seed; each further seed is larger by one.
        seeds: the wanted number of seeds.
        everything: whether all checks ran on each mutant.
        complete: ``False`` if the run was interrupted; then only finished mutants have a row.
        rows: the results by mutant, in the order of the table of mutants.
        areas: the results by area.
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
