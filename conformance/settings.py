"""The effort of a run: the profiles, and the seed of every random decision."""

from __future__ import annotations

from hashlib import blake2b

from msgspec import Struct

from streamproof.conformance.results import Guarantee, Profile, Spec

__all__ = ["LIMITS", "Limits", "Settings", "derive_seed"]


class Limits(Struct, frozen=True, kw_only=True):
    """The limits that a profile sets for one check.

    Attributes:
        examples: the number of generated programs of a property.
        store_programs: the number of random programs on a store.
        store_steps: the most steps in one of these programs.
        store_failures: the most failing programs that are made smaller.
        shrink_programs: the most programs for shrinking one failure.
        crash_points: the most kills of one crash check; further points are sampled.
        power_states: the most states after a loss of power that one check looks at.
        shrink_kills: the most real kills for shrinking one failure.
        concurrent_commits: the number of commits that concurrent readers race against.
        meetings: the most lines of a call at which another thread makes one of its own.
        worlds: the number of simulated applications that explore the runtime.
        worlds_with_defect: the most simulated applications that explore a runtime with a defect;
            the first that shows the defect ends the exploration.
        worlds_for_situation: the most further simulated applications for one situation that none
            of the others had.
        task_worlds: the number of simulated applications that one check puts a store into.
        shrink_worlds: the most simulated applications for shrinking one failure.
        grown_rows: the number of rows in a store that grows, a multiple of 100.
        application_runs: the number of runs with faults of a real application.
        real_worlds: the number of drawn worlds that Kafka itself plays.
        real_scenarios: the most scenarios of the library that Kafka itself plays besides.
    """

    examples: int
    store_programs: int
    store_steps: int
    store_failures: int
    shrink_programs: int
    crash_points: int
    power_states: int
    shrink_kills: int
    concurrent_commits: int
    meetings: int
    worlds: int
    worlds_with_defect: int
    worlds_for_situation: int
    task_worlds: int
    shrink_worlds: int
    grown_rows: int
    application_runs: int
    real_worlds: int
    real_scenarios: int


LIMITS: dict[Profile, Limits] = {
    "smoke": Limits(
        examples=6,
        store_programs=12,
        store_steps=25,
        store_failures=1,
        shrink_programs=60,
        crash_points=8,
        power_states=12,
        shrink_kills=60,
        concurrent_commits=6,
        meetings=5,
        worlds=16,
        worlds_with_defect=16,
        worlds_for_situation=6,
        task_worlds=1,
        shrink_worlds=16,
        grown_rows=1_200,
        application_runs=1,
        real_worlds=3,
        real_scenarios=1,
    ),
    "quick": Limits(
        examples=25,
        store_programs=120,
        store_steps=40,
        store_failures=2,
        shrink_programs=200,
        crash_points=150,
        power_states=110,
        shrink_kills=400,
        concurrent_commits=60,
        meetings=40,
        worlds=120,
        worlds_with_defect=1200,
        worlds_for_situation=40,
        task_worlds=4,
        shrink_worlds=40,
        grown_rows=6_000,
        application_runs=4,
        real_worlds=12,
        real_scenarios=6,
    ),
    "full": Limits(
        examples=250,
        store_programs=1200,
        store_steps=60,
        store_failures=5,
        shrink_programs=1000,
        crash_points=3000,
        power_states=2400,
        shrink_kills=2000,
        concurrent_commits=600,
        meetings=300,
        worlds=1000,
        worlds_with_defect=4000,
        worlds_for_situation=80,
        task_worlds=40,
        shrink_worlds=120,
        grown_rows=40_000,
        application_runs=25,
        real_worlds=120,
        real_scenarios=1000,
    ),
}


class Settings(Struct, frozen=True, kw_only=True):
    """The settings of the whole run.

    Attributes:
        operation_timeout_s: the time after which a single call on the subject counts as a hang.
        check_timeout_s: the time after which a whole check is given up.
        round: the number of the round; a search with a time budget has several rounds.
        shrinks: whether failures are made small. Without it, a run only tells what is broken.
    """

    guarantee: Guarantee = "exactly-once"
    spec: Spec = "kips"
    profile: Profile = "quick"
    seed: int = 0
    operation_timeout_s: float = 20.0
    check_timeout_s: float = 1800.0
    round: int = 0
    shrinks: bool = True

    @property
    def limits(self) -> Limits:
        """The limits of the profile."""
        return LIMITS[self.profile]


def derive_seed(seed: int, name: str, number: int = 0) -> int:
    """The seed of a check in a round. It depends on no machine and on no order of checks."""
    text = f"{seed}/{name}/{number}" if number else f"{seed}/{name}"
    digest = blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")
