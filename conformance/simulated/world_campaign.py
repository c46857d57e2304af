"""Searches worlds with the store under test inside, and shrinks the first failure of each kind."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from streamproof.conformance.check_context import CheckContext
from streamproof.conformance.program_text import render_program
from streamproof.conformance.saved_failures import SavedChoices
from streamproof.conformance.simulated.store_world import (
    Simulated,
    arguments_of,
    simplifications,
    world_of,
)
from streamproof.conformance.simulated.world_trial import Tried, try_world
from streamproof.conformance.violations import brief, violation_of

__all__ = ["WorldCampaign"]


class WorldCampaign:
    """The worlds of one check.

    Args:
        run: the check.
    """

    def __init__(self, run: CheckContext) -> None:
        self._run = run
        self._left = 0

    def search(self, world: Simulated) -> None:
        """Try a world; a promise that is broken is made small and recorded."""
        tried = self._try(world)
        evidence = self._run.evidence
        evidence.examples += 1
        evidence.reached.update(tried.marks)
        if tried.breach is None:
            evidence.exercised.update(filter(self._run.applies, tried.situations.seen))
        elif self._run.is_new(tried.breach.requirement, tried.breach.shape):
            self._run.noticed(tried.breach.requirement)
            self._left = self._run.settings.limits.shrink_worlds
            self._record(*self._shrunk(world, tried))

    def repeat(self, choices: SavedChoices) -> None:
        """Try a world again that was saved, and record what breaks in the same shape."""
        for saved in choices.worlds:
            world = world_of(saved)
            tried = self._try(world)
            if tried.breach and tried.breach[:2] == (choices.requirement, choices.shape):
                self._record(world, tried)

    def _try(self, world: Simulated) -> Tried:
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

    def _shrunk(self, world: Simulated, tried: Tried) -> tuple[Simulated, Tried]:
        """The smallest world that was found in which the same promise is broken."""
        before = None
        while before != world and self._left > 0:
            before = world
            for change in simplifications(before):
                candidate = msgspec.structs.replace(world, **change)
                if candidate != world and (again := self._breaks(candidate, tried)):
                    world, tried = candidate, again
        return world, tried

    def _breaks(self, world: Simulated, tried: Tried) -> Tried | None:
        """What came of another world, if it breaks the same promise in the same shape."""
        if self._left <= 0 or tried.breach is None:
            return None
        self._left -= 1
        again = self._try(world)
        return again if again.breach and again.breach[:2] == tried.breach[:2] else None

    def _record(self, world: Simulated, tried: Tried) -> None:
        breach = tried.breach
        if breach is None:
            return
        run = self._run
        spec = "" if run.settings.spec == "kips" else f", spec={run.settings.spec!r}"
        lines = [f"# {line}" for line in tried.situations.lines]
        comment = f"expected {breach.expected}, found {brief(breach.found)}".splitlines()[0]
        lines.append(f"print(lab.simulate({arguments_of(world)}{spec}))  # {comment}")
        program = render_program(run.subject.name, run.settings.guarantee, lines)
        kind = violation_of(breach.requirement, breach.shape)
        choices = SavedChoices(
            worlds=[msgspec.to_builtins(world)], requirement=breach.requirement, shape=breach.shape
        )
        run.record(kind(run.check.tried, breach.expected, brief(breach.found), program), choices)
