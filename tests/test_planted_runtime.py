"""The planted mistakes of the runtime can be put into it."""

import pytest
from planted_runtime import PATCHES, PlantedPatch, planted

from streamproof.sim.patches import problem_of


@pytest.mark.parametrize("patch", planted(), ids=lambda patch: patch.function)
def test_the_docstring_of_a_planted_mistake_begins_with_its_seam(patch: PlantedPatch) -> None:
    problem = problem_of(f"{PATCHES.name}:{patch.function}", patch.seam, PATCHES.parent)

    assert not problem
