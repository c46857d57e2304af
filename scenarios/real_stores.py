"""RocksDB on the disks of a scenario, as the releases in it have it."""

from __future__ import annotations

from pathlib import Path

from streamproof.scenarios.scenario import Power, Scenario, Setup
from streamproof.sim.disks import InstanceDisk, RealDisk
from streamproof.sim.simulation import MakeDisk
from streamproof.sim.world import World
from streamproof.sim.world_plan import Plan
from streamproof.stores.api import KeyValueStore
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore

__all__ = ["needs_model_stores", "rocksdb_disks"]


def needs_model_stores(scenario: Scenario, setup: Setup) -> str:
    """Why a variant of a scenario can only be played with model stores; empty if it need not."""
    plan = setup.plan
    if any(isinstance(each, Power) for each in scenario.file.timeline) or "power" in plan.kinds:
        return "what is lost with the power is simulated for model stores alone"
    if plan.upgrade.startswith("format-"):
        return "formats are simulated for model stores alone"
    if not plan.persistent:
        return "its stores are in memory only"
    return setup.variant.model_stores_only.rstrip(".")


def rocksdb_disks(root: Path, plan: Plan) -> MakeDisk:
    """Disks with RocksDB on them: with offsets of its own, or without, as the release has it.

    Args:
        root: where the files go; it is empty.
        plan: whether the stores stage their writes follows from it.
    """

    def make_disk(world: World, name: str) -> InstanceDisk:
        def make(store: str) -> KeyValueStore:
            if plan.config.transactional:
                return TransactionalKeyValueStore(TransactionalRocksDBStore(store))
            return RocksDBStore(store, manages_offsets=disk.release.manages_offsets)

        disk = RealDisk(world, name, root / name, make)
        return disk

    return make_disk
