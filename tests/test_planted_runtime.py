"""The planted mistakes of the runtime can be put into it."""

from collections import Counter

import pytest
from planted_runtime import PlantedPatch, planted

from streamproof.sim.patches import problem_of


@pytest.mark.parametrize("patch", planted(), ids=lambda patch: patch.function)
def test_the_docstring_of_a_planted_mistake_begins_with_its_seam(patch: PlantedPatch) -> None:
    problem = problem_of(f"{patch.file.name}:{patch.function}", patch.seam, patch.file.parent)

    assert not problem


def test_each_planted_mistake_has_a_name_of_its_own() -> None:
    names = Counter(patch.function for patch in planted())

    assert names.most_common(1)[0][1] == 1
