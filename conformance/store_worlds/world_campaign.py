"""Searches worlds with the store under test inside for broken promises."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from streamproof.conformance.case_campaign import CaseCampaign
from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.ruling import Ruling
from streamproof.conformance.saved_failures import SavedChoices
from streamproof.conformance.store_worlds.store_world import (
    USUAL,
    StoreWorld,
    arguments_of,
    values_of,
    world_of,
)
from streamproof.conformance.store_worlds.world_trial import Tried, try_world
from streamproof.conformance.violations import brief
from streamproof.scenarios.plan_shrinking import plainest, with_smaller_numbers
from streamproof.sim.world_plan import Plan

__all__ = ["WorldCampaign"]


class WorldCampaign(CaseCampaign[Tried]):
    """The worlds of one check.

    Args:
        run: the check.
    """

    def __init__(self, run: CheckContext) -> None:
        super().__init__(run, run.settings.limits.shrink_worlds)

    def search(self, world: StoreWorld) -> None:
        """Try a world; shrink and record a broken promise."""
        for tried, rulings in self._judged([world]):
            self._run.evidence.examples += 1
            self._run.evidence.reached.update(tried.marks)
            self._note(tried, rulings)

    def repeat(self, choices: SavedChoices) -> None:
        """Repeat a saved world, and record a failure of the same shape."""
        self._tries = self._shrink_limit
        judged = self._judged(map(world_of, choices.worlds))
        if broken := self._first_break(judged, (choices.requirement, choices.shape)):
            self._record_again(*broken)

    def _judged(self, worlds: Iterable[StoreWorld]) -> Iterator[tuple[Tried, list[Ruling]]]:
        """Try worlds; yield for each one the broken ruling, or else all rulings that held."""
        for world in worlds:
            tried = self._try(world)
            if breach := tried.breach:
                yield tried, [Ruling(breach.requirement, breach.expected, brief(breach.found))]
            else:
                seen = filter(self._run.applies, tried.situations.seen)
                yield tried, [Ruling(requirement) for requirement in seen]

    def _try(self, world: StoreWorld) -> Tried:
        directory = self._run.new_directory()
        try:
            return try_world(
                self._run.subject,
                world,
                directory,
                self._watch,
                guarantee=self._run.settings.guarantee,
                spec=self._run.settings.spec,
            )
        finally:
            shutil.rmtree(directory.parent, ignore_errors=True)

    @contextmanager
    def _watch(self, call: str) -> Iterator[None]:
        self._run.evidence.operations += 1
        with self._run.status.operation(call):
            yield

    def _broken_by(self, case: Tried, ruling: Ruling) -> tuple[str, str]:
        return ruling.requirement, case.breach.shape if case.breach else ""

    def _is_small(self, case: Tried) -> bool:
        return bool(case.world.scenario)

    def _shrunk(self, case: Tried, ruling: Ruling) -> tuple[Tried, Ruling]:
        wanted, smallest = self._broken_by(case, ruling), (case, ruling)
        if self._is_small(case):
            return smallest

        def still_fails(plan: Plan) -> bool:
            nonlocal smallest
            candidate = msgspec.structs.replace(case.world, plan=plan)
            broken = self._first_break(self._judged([candidate]), wanted)
            smallest = broken or smallest
            return broken is not None

        plan = plainest(case.world.plan, still_fails, self._tries, USUAL)
        with_smaller_numbers(plan, still_fails)
        return smallest

    def _saved(self, case: Tried) -> dict[str, list[Any]]:
        return {"worlds": [values_of(case.world)]}

    def _tried(self, case: Tried, ruling: Ruling) -> str:
        return self._run.check.tried

    def _lines(self, case: Tried, ruling: Ruling) -> list[str]:
        spec = self._run.settings.spec
        option = "" if spec == "kips" else f", spec={spec!r}"
        lines = [f"# {line}" for line in case.situations.lines]
        comment = f"expected {ruling.expected}, found {ruling.broken}".splitlines()[0]
        call = f"lab.simulate({arguments_of(case.world)}{option})"
        return [*lines, f"mistake = {call}  # {comment}", "assert not mistake, mistake"]
