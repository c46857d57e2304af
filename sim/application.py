"""An application in a world: what all its instances share."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.decisions.idling import DISABLED, Mode
from streamproof.sim.network import Network
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.tasks.stream_task import TaskConfig
from streamproof.sim.topology import Topology
from streamproof.sim.world import World
from streamproof.stores.errors import UsageError

__all__ = ["Application", "StreamsConfig"]


@dataclass(frozen=True)
class StreamsConfig:
    """The configuration of an application, by Kafka's names.

    Attributes:
        exactly_once: ``processing.guarantee``.
        transactional: whether the stores stage their writes (KIP-892).
        commit_interval_ms: Kafka's defaults are 100 under exactly-once, and 30,000.
        max_task_idle_ms: -1 never waits, 0 waits for what the broker has, more waits longer.
        idling: the rules for that, as the proposal says or as Kafka does.
        transaction_timeout_ms: at least the commit interval.
        max_uncommitted_bytes: of a thread, from which on it commits; -1 is no limit.
        flush_probability: how probable it is that a store is flushed after a record.
        probing_rebalance_interval_ms: how long until the group looks at warm-ups again.
        session_timeout_ms: how long a member may be silent.
        assignor: what the assignment aims at.
    """

    exactly_once: bool = True
    transactional: bool = False
    commit_interval_ms: int = 100
    max_task_idle_ms: int = 0
    idling: Mode = "proposal"
    transaction_timeout_ms: int = 10_000
    max_uncommitted_bytes: int = -1
    flush_probability: float = 0.05
    probing_rebalance_interval_ms: int = 600_000
    session_timeout_ms: int = 45_000
    assignor: AssignorConfig = field(default_factory=AssignorConfig)

    def __post_init__(self) -> None:
        if self.max_task_idle_ms < DISABLED:
            raise UsageError(
                f"max.task.idle.ms is {self.max_task_idle_ms}: -1 never waits, 0 and more are "
                "milliseconds."
            )
        if self.commit_interval_ms < 0:
            raise UsageError(f"commit.interval.ms is {self.commit_interval_ms}: 0 or more.")
        if self.exactly_once and self.transaction_timeout_ms < self.commit_interval_ms:
            raise UsageError(
                f"transaction.timeout.ms is {self.transaction_timeout_ms}, less than "
                f"commit.interval.ms, {self.commit_interval_ms}: every transaction would be "
                "aborted before it is committed. Raise the one, or lower the other."
            )


class Application:
    """What the instances of an application share.

    Args:
        world: the world.
        topology: what is processed.
        config: how.

    Attributes:
        cluster: the brokers.
        network: the way to them.
    """

    def __init__(self, world: World, topology: Topology, config: StreamsConfig) -> None:
        self.world = world
        self.topology = topology
        self.config = config
        self.cluster = Cluster(world, topology.topics)
        self.network = Network(world)
        self.tasks = topology.tasks
        self.task_config = TaskConfig(
            config.exactly_once,
            config.transactional,
            config.max_task_idle_ms,
            config.idling,
            topology.topics,
        )

    @property
    def stateless(self) -> frozenset[str]:
        """The tasks without stores."""
        return frozenset(name for name, spec in self.tasks.items() if not spec.changelogs)
