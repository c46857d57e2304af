"""The plan of a world: everything that is fixed before the world begins, and how a seed draws it.

Everything that runs a simulated world (an exploration, a scenario, a check of a store, a campaign)
describes the world by a :class:`Plan`. All other decisions are choices that are made as it runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from streamproof.sim.application import StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.clients.consumer import MAX_POLL_RECORDS
from streamproof.sim.clients.membership import HEARTBEAT_MS
from streamproof.sim.clients.producer import MAX_BLOCK_MS
from streamproof.sim.nemesis import KINDS
from streamproof.sim.network import REQUEST_TIMEOUT_MS
from streamproof.sim.rolling_upgrade import UPGRADES
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.workloads import WorkloadConfig

__all__ = ["WORLD_VERSION", "Plan"]

WORLD_VERSION = 1
"""The version of the simulated world. Raise it whenever the run of any seed changes: whatever keeps
a seed or recorded choices keeps this number, and is refused by every other version."""

SAFETY_MS = 60_000
"""So long faults may happen, in virtual time."""


@dataclass(frozen=True)
class Plan:
    """What a run is like.

    Attributes:
        topology: its name in ``TOPOLOGIES``.
        partitions: of each input.
        instances: how many processes there are.
        threads: how many stream threads each of them has.
        config: of the application.
        workload: what comes in.
        kinds: what goes wrong with instances, of ``nemesis.KINDS``.
        activation: how probable it is that a fault site is on.
        safety_ms: so long faults may happen.
        upgrade: which upgrade goes on meanwhile, of ``UPGRADES``; none if it is empty.
        upgrade_every_ms: so many milliseconds lie before each step of it; drawn, if it is 0.
        persistent: whether model stores are on the disk, or in memory only.
    """

    topology: str = "count"
    partitions: int = 3
    instances: int = 2
    threads: int = 1
    config: StreamsConfig = field(default_factory=StreamsConfig)
    workload: WorkloadConfig = field(default_factory=WorkloadConfig)
    kinds: tuple[str, ...] = ("crash", "pause", "cut")
    activation: float = 0.25
    safety_ms: int = SAFETY_MS
    upgrade: str = ""
    upgrade_every_ms: int = 0
    persistent: bool = True

    @classmethod
    def drawn(
        cls,
        choices: Choices,
        *,
        exactly_once: bool | None = None,
        transactional: bool | None = None,
        topology: str | None = None,
        upgrade: str | None = None,
    ) -> Plan:
        """The plan of one run of the swarm.

        Args:
            choices: they draw what is not given.
            exactly_once: the guarantee.
            transactional: whether stores stage their writes.
            topology: its name.
            upgrade: its name; empty for none.
        """
        strict = choices.chance(0.5)
        staged = choices.chance(0.5)
        exactly_once = strict if exactly_once is None else exactly_once
        transactional = staged if transactional is None else transactional
        drawn = choices.pick(sorted(TOPOLOGIES))
        standbys = choices.pick((0, 1))
        # With Kafka's, what goes wrong is over before a client gives up.
        patience = choices.pick(((REQUEST_TIMEOUT_MS, MAX_BLOCK_MS), (1_000, 2_000)))
        request_timeout_ms, max_block_ms = patience
        config = StreamsConfig(
            exactly_once=exactly_once,
            transactional=transactional,
            commit_interval_ms=choices.pick((100, 1_000, 5_000)),
            max_task_idle_ms=choices.pick((0, -1, 500)),
            idling=choices.pick(("proposal", "proposal", "kafka")),
            transaction_timeout_ms=10_000,
            request_timeout_ms=request_timeout_ms,
            max_block_ms=max_block_ms,
            max_uncommitted_bytes=choices.pick((-1, 100)) if transactional else -1,
            max_poll_records=choices.pick((MAX_POLL_RECORDS, 3)),
            flush_probability=choices.pick((0.05, 0.0, 0.5)),
            probing_rebalance_interval_ms=choices.pick((20_000, 5_000)),
            session_timeout_ms=choices.pick((10_000, 6_000)),
            heartbeat_interval_ms=choices.pick((HEARTBEAT_MS, 500)),
            statestore_cache_max_bytes=choices.pick((0, 0, 200)),
            buffered_records_per_partition=choices.pick((1_000, 2)),
            state_cleanup_delay_ms=choices.pick((600_000, 5_000, 1_000)),
            assignor=AssignorConfig(
                num_standby_replicas=standbys,
                acceptable_recovery_lag=choices.pick((10_000, 0, 5)),
            ),
        )
        return cls(
            topology=topology or drawn,
            partitions=choices.between(1, 3),
            instances=choices.between(1, 3),
            threads=choices.between(1, 2),
            config=config,
            workload=WorkloadConfig.drawn(choices),
            # More of them are killed than anything else: that is what this is about.
            kinds=tuple(kind for kind in KINDS if choices.chance(0.7 if kind == "crash" else 0.3)),
            # What the last fault has left is found by the end; what it was before that may be
            # mended by the next fault. So short runs find what long ones do not.
            safety_ms=choices.pick((SAFETY_MS, 15_000)),
            activation=choices.pick((0.25, 0.5)),
            upgrade=_drawn_upgrade(choices, upgrade, transactional=transactional),
            persistent=not choices.chance(0.1),
        )


def _drawn_upgrade(choices: Choices, wanted: str | None, *, transactional: bool) -> str:
    """The name of an upgrade, in some of the runs, or whenever one is wanted."""
    drawn = choices.pick(sorted(UPGRADES)) if choices.chance(0.3) else ""
    if wanted is not None:
        return wanted
    # No release of before KIP-1035 has stores that stage their writes.
    manages = all(each.manages_offsets for each in UPGRADES.get(drawn, ()))
    return drawn if manages or not transactional else ""
