"""Puts RocksDB on the disks of a scenario, in the form that each release uses."""

from __future__ import annotations

from pathlib import Path

from streamproof.scenarios.scenario import Power, Scenario, Setup
from streamproof.sim.disks import InstanceDisk, RealDisk
from streamproof.sim.simulation import MakeDisk
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.world import World
from streamproof.sim.world_plan import Plan
from streamproof.stores.api import KeyValueStore
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore

__all__ = ["needs_model_stores", "rocksdb_disks"]


def needs_model_stores(scenario: Scenario, setup: Setup) -> str:
    """Why a variant needs model stores; empty if it runs with real stores, too."""
    plan = setup.plan
    if any(isinstance(each, Power) for each in scenario.file.timeline) or "power" in plan.kinds:
        return "only model stores can lose their power"
    if plan.upgrade.startswith("format-"):
        return "only model stores have older formats"
    if plan.upgrade == "metadata-up":
        return "real stores need upgrade.mode beside upgrade.from 0.10.0, and that release has none"
    topology = TOPOLOGIES[plan.topology].topology(plan.partitions)
    if any(each.timestamped for each in topology.subtopologies):
        return "its tables need stores with timestamps, and only model stores come with them"
    if topology.segmented and plan.config.window_databases == "segments":
        return "only model stores have a database for each segment that can be flushed alone"
    if not plan.persistent:
        return "its stores keep their rows in memory"
    return setup.variant.model_stores_only.rstrip(".")


def rocksdb_disks(root: Path, plan: Plan) -> MakeDisk:
    """Disks with RocksDB, which keeps its own offsets if the release of the process does.

    Args:
        root: an empty directory for the files.
        plan: the plan of the world, which says whether stores stage their writes.
    """

    def make_disk(world: World, name: str) -> InstanceDisk:
        def make(store: str) -> KeyValueStore:
            if plan.config.transactional:
                return TransactionalKeyValueStore(TransactionalRocksDBStore(store))
            return RocksDBStore(store, manages_offsets=disk.release.manages_offsets)

        disk = RealDisk(world, name, root / name, make)
        return disk

    return make_disk
