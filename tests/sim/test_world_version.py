"""A fixed set of seeds is pinned to the version of the world: a change of either shows here."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path

import pytest

from streamproof.sim.choices import Choices
from streamproof.sim.plan_space import draw
from streamproof.sim.simulation import run
from streamproof.sim.world_plan import WORLD_VERSION

REMEDY = (
    "raise WORLD_VERSION in sim/world_plan.py by one, unless the last release has a lower one, and "
    "run `python -P tests/sim/test_world_version.py`: seeds and choices that were kept by the "
    "version before no longer lead to the same runs"
)

PINS = Path(__file__).parent / "world_pins.json"
"""Digests of the plans of seeds 0 to 299, and of the runs of some seeds.

Among these seeds is each guarantee, with and without an upgrade. To renew: run this file.
"""

PINNED = json.loads(PINS.read_text("utf-8"))


def digest_of_plans() -> str:
    """The digest of the plans of seeds 0 to 299."""
    digest = blake2b(digest_size=16)
    for seed in range(300):
        digest.update(repr(draw(Choices.seeded(seed))).encode())
    return digest.hexdigest()


def test_plans_are_drawn_as_this_version_draws_them() -> None:
    """A plan that is drawn otherwise is another version of the world."""
    pinned = PINNED["version"], PINNED["plans"]
    assert (WORLD_VERSION, digest_of_plans()) == pinned, REMEDY


@pytest.mark.parametrize("seed", [int(seed) for seed in PINNED["runs"]])
def test_runs_are_those_of_this_version(seed: int) -> None:
    """A run that has become another one is another version of the world."""
    pinned = PINNED["version"], PINNED["runs"][str(seed)]
    assert (WORLD_VERSION, run(Choices.seeded(seed)).digest) == pinned, REMEDY


if __name__ == "__main__":
    runs = {seed: run(Choices.seeded(int(seed))).digest for seed in PINNED["runs"]}
    pins = {"version": WORLD_VERSION, "plans": digest_of_plans(), "runs": runs}
    PINS.write_text(json.dumps(pins, indent=2) + "\n", "utf-8")
