"""How fast scenarios are played, searched for and made small, on one core.

- Each scenario of the library with the model store, and the whole library.
- Runs a minute of an exploration with real RocksDB in ``/dev/shm``.
- The shrinking of a typical failure.

Run: ``python -P benchmarks/scenario_speed.py``
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from streamproof.scenarios.play import play
from streamproof.scenarios.scenario_reader import library, read
from streamproof.scenarios.shrinking import Failing, shrink
from streamproof.sim.choices import Choices
from streamproof.sim.disks import InstanceDisk, RealDisk
from streamproof.sim.plan_space import PlanSpace, draw
from streamproof.sim.simulation import run
from streamproof.sim.world import World
from streamproof.stores.rocksdb import RocksDBStore

SEEDS = 40

TYPICAL = "restores-to-stable-end"
"""A defect that shows in one of some fifty worlds."""


def library_seconds() -> dict[str, float]:
    """How long each scenario takes, all its variants together."""
    found = {}
    for name, path in library().items():
        started = time.perf_counter()
        scenario = read(path)
        for setup in scenario.setups.values():
            if surprises := play(scenario, setup).surprises:
                sys.exit(f"{name} ({setup.name}) did not come as expected: {surprises[0]}")
        found[name] = time.perf_counter() - started
    return found


def with_rocksdb() -> float:
    """Runs a minute."""
    root = Path("/dev/shm/streamproof-scenario-speed")  # noqa: S108 - in memory, ours by its name
    space = PlanSpace(upgrades=[""], settings={"transactional": [False]})
    started = time.perf_counter()
    for seed in range(SEEDS):
        shutil.rmtree(root, ignore_errors=True)

        def disk(world: World, name: str) -> InstanceDisk:
            return RealDisk(world, name, root / name, RocksDBStore)

        choices = Choices.seeded(seed)
        run(choices, draw(choices, space), make_disk=disk)
    shutil.rmtree(root, ignore_errors=True)
    return 60 * SEEDS / (time.perf_counter() - started)


def failing() -> Failing:
    """The first world that shows the defect, with its choices."""
    for seed in range(1_000):
        choices = Choices.seeded(seed, recording=True)
        plan = draw(choices, PlanSpace(guarantees=["exactly-once"]))
        drawn = choices.count
        if run(choices, plan, defects=[TYPICAL]).violations:
            return Failing(f"seed {seed}", plan, tuple(choices.drawn[drawn:]), (TYPICAL,))
    sys.exit(f"{TYPICAL} was not found.")


def main() -> None:
    """Print a table of what was measured."""
    seconds = library_seconds()
    slowest = max(seconds, key=lambda name: seconds[name])
    table = Table("what", "measured", "target", box=None)
    table.add_row(f"slowest scenario ({slowest}), s", f"{seconds[slowest]:.2f}", "1")
    table.add_row(f"whole library ({len(seconds)}), s", f"{sum(seconds.values()):.1f}", "60")
    table.add_row("runs a minute with RocksDB", f"{with_rocksdb():,.0f}", "200")
    world = failing()
    started = time.perf_counter()
    shrunk = shrink(world)
    table.add_row(
        f"shrinking of {len(world.choices):,} choices, s ({shrunk.runs} runs)",
        f"{time.perf_counter() - started:.1f}",
        "30",
    )
    Console().print(table)


if __name__ == "__main__":
    main()
