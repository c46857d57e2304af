"""Plans of small campaigns, and stores that end the processes they are in, for several tests."""

from __future__ import annotations

from pathlib import Path

from streamproof.reports.pipeline.campaigns.campaign_plan import CampaignPlan, read_plan

__all__ = ["FAULTY", "SUBJECTS", "plan_of", "worlds"]


def plan_of(tmp_path: Path, text: str) -> CampaignPlan:
    path = tmp_path / "plan.toml"
    path.write_text(text, "utf-8")
    return read_plan(path)


SMALL = """
topologies = ["count"]
guarantees = ["exactly-once"]
upgrades = [""]
plan = {instances = [2], partitions = [1], threads = [1], safety_ms = [5000]}
workload = {records = [10]}
"""
"""What worlds are drawn from that take a few hundredths of a second."""


def worlds(first: int, end: int, *more: str) -> str:
    """A block of a plan: small worlds with these seeds."""
    return "\n".join(["[[simulate]]", f"seeds = [{first}, {end}]", SMALL, *more, ""])


FAULTY = "defects = ['commits-last-record']"
"""Every other small world fails with it: so do 0, 1, 3 and 7 of the first eight."""

SUBJECTS = """
import os, pathlib, signal, sys, time
from streamproof.stores.memory import InMemoryKeyValueStore

class Own(InMemoryKeyValueStore):
    def __init__(self):
        super().__init__("store")

class Stuck(Own):
    def put(self, key, value):
        time.sleep(3600)

class Telling(Stuck):
    def put(self, key, value):
        here = pathlib.Path(__file__).parent
        unfinished = here / f"pid-{os.getpid()}"
        unfinished.write_text(str(os.getpid()))
        unfinished.rename(here / "pid")
        super().put(key, value)

class Killer(Own):
    def put(self, key, value):
        print("z" * 2**20, file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

class Leaver(Own):
    def put(self, key, value):
        raise SystemExit(7)

class Forker(Own):
    def put(self, key, value):
        if os.fork() == 0:
            time.sleep(3600)
        super().put(key, value)

class First(Own):
    def put(self, key, value):
        while not pathlib.Path(__file__).with_name(type(self).__name__).exists():
            time.sleep(0.05)
        super().put(key, value)

class Second(First):
    pass
"""
