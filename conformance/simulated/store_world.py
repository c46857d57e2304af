"""A simulated world as plain data: all that it takes to run it again with a store in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from streamproof.conformance.simulated.scenario_worlds import plan_of_variant
from streamproof.errors import UsageError
from streamproof.sim.application import StreamsConfig
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world_plan import Plan
from streamproof.stores.capabilities import Capabilities

__all__ = [
    "Simulated",
    "arguments_of",
    "drawn",
    "is_ordered",
    "plan_of",
    "simplifications",
    "topologies_for",
    "world_of",
]

POINT_TOPOLOGIES = ("count", "stream-table-join", "last-byte-count", "punctuated-count")
"""Topologies that read and write single keys, or scan all of them."""

SCAN_TOPOLOGIES = ("stream-stream-join", "session-count", "windowed-count")
"""Those that need the entries whose keys begin alike, or keys in order."""

SAFETY_MS = 30_000
"""So long faults may happen, in virtual milliseconds: a few of them, so that a world is cheap."""

MAX_PAUSE_MS = 1_000
"""An input is silent for so many virtual milliseconds at most, times its pace: so there are records
as long as things go wrong."""

LEAST_SAFETY_MS = 2_000
"""A world in which things go wrong for so long is not made any shorter."""

SESSION_TIMEOUT_MS = 6_000
"""So long a member may be silent, in virtual milliseconds: the least that Kafka allows."""


class Simulated(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A world; the guarantee and whether writes are staged follow from the run and the store.

    Attributes:
        seed: every decision that is left open follows from it.
        twice: it is run twice, and must be the same both times.
        topology: a name in ``sim.topologies.TOPOLOGIES``.
        partitions: of each input.
        instances, threads: how many processes there are, and stream threads in each.
        standbys: ``num.standby.replicas``.
        records, keys: how many are sent to each input, and how many keys they have.
        tombstones: the share of records without a value.
        kinds: what goes wrong with instances, of ``sim.nemesis.KINDS``.
        activation: how probable it is that a fault site is on.
        safety_ms: so long things may go wrong, in virtual milliseconds.
        commit_interval_ms, cache_bytes, uncommitted_bytes: of the application, see
            ``StreamsConfig``.
        flush_probability: how probable it is that a store is flushed after a record.
        scenario: a scenario of the library, with its variant, as ``KAFKA-7192@fixed``; it says all
            that is not the store's affair, and the other attributes say nothing.
    """

    seed: int
    twice: bool = False
    topology: str = "count"
    partitions: int = 1
    instances: int = 1
    threads: int = 1
    standbys: int = 0
    records: int = 40
    keys: int = 3
    tombstones: float = 0.0
    kinds: tuple[str, ...] = ()
    activation: float = 0.0
    safety_ms: int = SAFETY_MS
    commit_interval_ms: int = 100
    flush_probability: float = 0.0
    cache_bytes: int = 0
    uncommitted_bytes: int = -1
    scenario: str = ""


def topologies_for(capabilities: Capabilities) -> list[str]:
    """The topologies that a store can be used in, by what it can do."""
    can_scan = capabilities.kind == "key-value" and capabilities.ranges and capabilities.prefix_scan
    return [*POINT_TOPOLOGIES, *(SCAN_TOPOLOGIES if can_scan else ())]


def is_ordered(capabilities: Capabilities) -> bool:
    """Whether a record cache can merge what it holds into the entries of a store, in order."""
    return capabilities.ranges or capabilities.kind != "key-value"


def drawn(
    random: Random,
    capabilities: Capabilities,
    kinds: tuple[str, ...],
    *,
    instances: int = 1,
    standbys: int = 0,
    twice: bool = False,
) -> Simulated:
    """A world in which things of some kinds go wrong.

    Args:
        random: draws what is not given.
        capabilities: of the store; they decide which topologies can use it.
        kinds: what goes wrong.
        instances: how many processes there are at least.
        standbys: ``num.standby.replicas``.
        twice: whether it is run twice.
    """
    return Simulated(
        seed=random.randrange(2**31),
        twice=twice,
        topology=random.choice(topologies_for(capabilities)),
        partitions=random.choice((1, 2)),
        instances=random.choice((instances, instances, instances + 1)),
        threads=random.choice((1, 1, 2)),
        standbys=standbys,
        records=random.choice((40, 80)),
        keys=random.choice((3, 1, 8)),
        tombstones=random.choice((0.0, 0.1)),
        kinds=kinds,
        activation=random.choice((0.0, 0.25)),
        commit_interval_ms=random.choice((100, 1_000, 5_000)),
        flush_probability=random.choice((0.05, 0.0, 0.5)),
        cache_bytes=random.choice((0, 0, 200)) if is_ordered(capabilities) else 0,
        uncommitted_bytes=random.choice((-1, 100)),
    )


def world_of(values: Mapping[str, Any]) -> Simulated:
    """A world from its plain values.

    Raises:
        UsageError: they are not those of a world.
    """
    try:
        return msgspec.convert(values, Simulated)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"This is no world to simulate: {error}. It may be from another version of streamproof."
        ) from error


def plan_of(world: Simulated, *, exactly_once: bool, transactional: bool) -> Plan:
    """The plan of a world, for the swarm.

    Args:
        world: the world.
        exactly_once: the guarantee.
        transactional: whether the store stages its writes.
    """
    if world.scenario:
        return plan_of_variant(world.scenario, transactional=transactional)
    config = StreamsConfig(
        exactly_once=exactly_once,
        transactional=transactional,
        commit_interval_ms=world.commit_interval_ms,
        max_uncommitted_bytes=world.uncommitted_bytes if transactional else -1,
        statestore_cache_max_bytes=world.cache_bytes,
        flush_probability=world.flush_probability,
        probing_rebalance_interval_ms=5_000,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        assignor=AssignorConfig(num_standby_replicas=world.standbys, acceptable_recovery_lag=5),
    )
    return Plan(
        topology=world.topology,
        partitions=world.partitions,
        instances=world.instances,
        threads=world.threads,
        config=config,
        workload=WorkloadConfig(
            records=world.records,
            keys=world.keys,
            max_pause_ms=MAX_PAUSE_MS,
            tombstones=world.tombstones,
        ),
        kinds=world.kinds,
        activation=world.activation,
        safety_ms=world.safety_ms,
    )


def arguments_of(world: Simulated) -> str:
    """A world as the arguments of a call; what is as usual is left out."""
    return ", ".join(
        f"{name}={value!r}"
        for name, value in msgspec.structs.asdict(world).items()
        if name == "seed" or value != getattr(_USUAL, name)
    )


_USUAL = Simulated(seed=0)


def simplifications(world: Simulated) -> Iterator[Mapping[str, object]]:
    """What may be changed to make a world smaller, one thing at a time, what matters most first.

    A scenario is small as it is.
    """
    if world.scenario:
        return
    plainest: dict[str, object] = {
        "instances": 1,
        "threads": 1,
        "partitions": 1,
        "standbys": 0,
        "activation": 0.0,
        "cache_bytes": 0,
        "uncommitted_bytes": -1,
        "tombstones": 0.0,
        "topology": "count",
        "keys": 1,
        "kinds": (),
    }
    yield from ({name: value} for name, value in plainest.items())
    yield from ({"kinds": (kind,)} for kind in dict.fromkeys(world.kinds))
    yield {"flush_probability": 0.0}
    if world.records > 1:
        yield {"records": world.records // 2}
    if world.safety_ms > LEAST_SAFETY_MS:
        yield {"safety_ms": world.safety_ms // 2}
