"""How much a run does: the profiles, and the seed that every random decision follows from."""

from __future__ import annotations

from hashlib import blake2b

from msgspec import Struct

from streamproof.conformance.results import Guarantee, Profile, Spec

__all__ = ["LIMITS", "Limits", "Settings", "derive_seed"]


class Limits(Struct, frozen=True, kw_only=True):
    """What a profile allows one check.

    Attributes:
        examples: generated programs of a property.
        model_programs: programs of the model check, which are longer.
        model_steps: operations of one program of the model check, at most.
        crash_points: real kills of one crash check, at most; above it they are sampled.
        power_states: states after a loss of power that one check looks at, at most.
        shrink_kills: real kills that may be spent on making one crash failure smaller.
        concurrent_commits: commits that concurrent readers are raced against.
        worlds: simulated applications that the runtime is explored in.
        worlds_with_defect: the same of a runtime with a defect, at most: it ends with the first
            that shows it.
        task_worlds: simulated applications that one check puts a store into.
        shrink_worlds: simulated applications that may be spent on making one failure smaller.
    """

    examples: int
    model_programs: int
    model_steps: int
    crash_points: int
    power_states: int
    shrink_kills: int
    concurrent_commits: int
    worlds: int
    worlds_with_defect: int
    task_worlds: int
    shrink_worlds: int


LIMITS: dict[Profile, Limits] = {
    "smoke": Limits(
        examples=4,
        model_programs=12,
        model_steps=20,
        crash_points=12,
        power_states=30,
        shrink_kills=60,
        concurrent_commits=10,
        worlds=10,
        worlds_with_defect=10,
        task_worlds=1,
        shrink_worlds=16,
    ),
    "quick": Limits(
        examples=25,
        model_programs=40,
        model_steps=40,
        crash_points=150,
        power_states=110,
        shrink_kills=400,
        concurrent_commits=60,
        worlds=60,
        worlds_with_defect=600,
        task_worlds=4,
        shrink_worlds=40,
    ),
    "full": Limits(
        examples=250,
        model_programs=400,
        model_steps=80,
        crash_points=3000,
        power_states=2400,
        shrink_kills=2000,
        concurrent_commits=600,
        worlds=500,
        worlds_with_defect=2000,
        task_worlds=40,
        shrink_worlds=120,
    ),
}


class Settings(Struct, frozen=True, kw_only=True):
    """The settings of the whole run.

    Attributes:
        operation_timeout_s: a single call on the subject that takes longer is a hang.
        check_timeout_s: a check that takes longer than this in all is given up.
        round: the number of the search with this seed; a search with a time budget does one
            round after the other.
    """

    guarantee: Guarantee = "exactly-once"
    spec: Spec = "kips"
    profile: Profile = "quick"
    seed: int = 0
    operation_timeout_s: float = 20.0
    check_timeout_s: float = 1800.0
    round: int = 0

    @property
    def limits(self) -> Limits:
        """What the profile allows."""
        return LIMITS[self.profile]


def derive_seed(seed: int, name: str, number: int = 0) -> int:
    """A seed of its own for each check and round, the same on any machine and in any order."""
    text = f"{seed}/{name}/{number}" if number else f"{seed}/{name}"
    digest = blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")
