"""A campaign of simulated worlds beside the same worlds, run by hand in two plain processes.

The start of Spark and of the processes does not count. A campaign may take 15 % longer.

Run: ``python -P benchmarks/campaign_speed.py [SEEDS]``
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from streamproof.reports.pipeline.campaigns.campaign_plan import read_plan
from streamproof.reports.pipeline.campaigns.driver import opened, run
from streamproof.reports.pipeline.spark import session
from streamproof.sim.exploration import explore

PROCESSES = 2


def worlds(seeds: range) -> int:
    """Run these worlds one after the other; how many events there were."""
    return sum(each.events for each in explore(seeds))


def by_hand(seeds: int) -> float:
    """Seconds that two processes take for all worlds, each for every other one."""
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        list(pool.map(worlds, [range(1)] * PROCESSES))
        started = time.perf_counter()
        events = sum(pool.map(worlds, [range(each, seeds, PROCESSES) for each in range(PROCESSES)]))
        took = time.perf_counter() - started
    print(f"by hand:  {seeds / took:7.1f} worlds/s, {events / took:9,.0f} events/s")
    return took


def by_campaign(seeds: int) -> float:
    """Seconds that a campaign takes for the same worlds, with all that it keeps of them."""
    spark = session(f"local[{PROCESSES}]")
    with TemporaryDirectory() as name:
        for label, count in (("warm", 8 * PROCESSES), ("timed", seeds)):
            plan = Path(name, f"{label}.toml")
            plan.write_text(f"[[simulate]]\nseeds = [0, {count}]\n", "utf-8")
            started = time.perf_counter()
            done = run(spark, opened(read_plan(plan), Path(name, label)), lambda _: None)
            took = time.perf_counter() - started
            assert done.tally.rows == count
    print(f"campaign: {seeds / took:7.1f} worlds/s")
    return took


def main() -> None:
    """Measure both, and print how much longer a campaign takes."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    ratio = by_campaign(seeds) / by_hand(seeds)
    print(f"a campaign takes {ratio:.2f} times as long")


if __name__ == "__main__":
    main()
