"""How fast the simulator is, on one core, against a bare simpy loop in the same run.

- Events of the trace a second, of a busy application with model stores, trace file and digest on.
- Runs a second of the standard swarm: 3 instances, 6 tasks with 2 stores each, 60 virtual seconds,
  faults on; with model stores, and with real RocksDB in ``/dev/shm``.
- What an event costs with 10, 100 and 1,000 tasks.
- The most memory that a virtual hour takes, with the trace spooled.

Run: ``python -P benchmarks/sim_speed.py``
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import simpy
from rich.console import Console
from rich.table import Table

from streamproof.sim.choices import Choices
from streamproof.sim.disks import InstanceDisk, RealDisk
from streamproof.sim.simulation import Outcome, run
from streamproof.sim.trace_files import TraceFile
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world import World
from streamproof.sim.world_plan import Plan
from streamproof.stores.rocksdb import RocksDBStore

TIMEOUTS = 200_000
"""Events of the bare loop."""

STANDARD = Plan("punctuated-count", partitions=6, instances=3)
"""Six tasks with two stores each."""

SEEDS = 8

TARGETS = {"events": 100_000, "runs": 5.0, "runs with RocksDB": 1.0, "memory": 300.0}


def bare() -> float:
    """Timeouts of one simpy process that are processed a second."""
    env = simpy.Environment()

    def loop() -> simpy.events.ProcessGenerator:
        for _ in range(TIMEOUTS):
            yield env.timeout(1)

    env.process(loop())
    started = time.perf_counter()
    env.run()
    return TIMEOUTS / (time.perf_counter() - started)


def busy(tasks: int, records: int) -> tuple[float, int]:
    """Events a second of an application that has much to do, and how many that were."""
    plan = Plan(
        "count",
        partitions=tasks,
        instances=1,
        kinds=(),
        activation=0,
        safety_ms=1_000,
        workload=WorkloadConfig(records=records, keys=tasks * 4, max_burst=1_000, max_pause_ms=5),
    )
    with TemporaryDirectory() as folder, TraceFile(Path(folder) / "trace.parquet", "0") as file:
        started = time.perf_counter()
        outcome = run(Choices.seeded(0), plan, watchers=[file])
        seconds = time.perf_counter() - started
    if outcome.violations:
        sys.exit(f"The run is wrong: {outcome.violations[0]}")
    return outcome.events / seconds, outcome.events


def rate(make: Callable[[int], Outcome]) -> float:
    """Runs a second."""
    started = time.perf_counter()
    for seed in range(SEEDS):
        if violations := make(seed).violations:
            sys.exit(f"The run with seed {seed} is wrong: {violations[0]}")
    return SEEDS / (time.perf_counter() - started)


def with_rocksdb(seed: int) -> Outcome:
    """A standard run with real stores."""
    root = Path("/dev/shm/streamproof-sim-speed")  # noqa: S108 - in memory, and ours by its name
    shutil.rmtree(root, ignore_errors=True)

    def disk(world: World, name: str) -> InstanceDisk:
        return RealDisk(world, name, root / name, RocksDBStore)

    try:
        return run(Choices.seeded(seed), STANDARD, make_disk=disk)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def hour() -> None:
    """A virtual hour in a process of its own, which prints the most memory it took in MB."""
    plan = Plan(
        "count",
        safety_ms=3_600_000,
        workload=WorkloadConfig(records=20_000, max_pause_ms=300, max_burst=8),
    )
    with TemporaryDirectory() as folder, TraceFile(Path(folder) / "trace.parquet", "0") as file:
        run(Choices.seeded(0), plan, watchers=[file])
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    """Print a table of what was measured."""
    table = Table("what", "measured", "target", box=None)
    loop = bare()
    table.add_row("bare simpy, timeouts/s", f"{loop:,.0f}", "")
    events, _ = busy(10, 3_000)
    target = f"{TARGETS['events']:,.0f} or 0.08x"
    table.add_row("events/s, 10 tasks", f"{events:,.0f} ({events / loop:.3f}x)", target)
    for tasks in (100, 1_000):
        found, count = busy(tasks, max(3_000, 30 * tasks))
        table.add_row(f"events/s, {tasks:,} tasks", f"{found:,.0f} ({count:,} events)", "as 10")
    runs = rate(lambda seed: run(Choices.seeded(seed), STANDARD))
    table.add_row("standard runs/s", f"{runs:.2f}", f"{TARGETS['runs']}")
    runs = rate(with_rocksdb)
    table.add_row("standard runs/s, RocksDB", f"{runs:.2f}", f"{TARGETS['runs with RocksDB']}")
    command = [sys.executable, "-P", __file__, "hour"]
    used = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    table.add_row("memory of an hour, MB", f"{used:,.0f}", f"{TARGETS['memory']:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    hour() if sys.argv[1:] == ["hour"] else main()
