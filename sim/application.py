"""An application in a world: the parts that all its instances share."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamproof.errors import UsageError
from streamproof.sim.actor_hosts import Host
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.upkeep import TopicConfig
from streamproof.sim.clients.consumer import MAX_POLL_RECORDS
from streamproof.sim.clients.membership import HEARTBEAT_MS
from streamproof.sim.clients.producer import MAX_BLOCK_MS
from streamproof.sim.decisions.idling import DISABLED, Mode
from streamproof.sim.network import REQUEST_TIMEOUT_MS, Network
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.tasks.global_stores import GlobalTable
from streamproof.sim.tasks.record_queues import BUFFERED_RECORDS_PER_PARTITION
from streamproof.sim.tasks.stream_task import TaskConfig
from streamproof.sim.topology import Topology
from streamproof.sim.world import World
from streamproof.stores.runtime.restoration import StandbyUpdateListener, StateRestoreListener

__all__ = ["Application", "StreamsConfig"]


OUTPUT_RETENTION_MS = 5_000
"""``retention.ms`` of the outputs, in milliseconds: no simulated client reads them."""


_AT_LEAST_ONE = (
    "request_timeout_ms",
    "max_block_ms",
    "max_poll_records",
    "heartbeat_interval_ms",
)


@dataclass(frozen=True)
class StreamsConfig:
    """The configuration of an application, by Kafka's names.

    Attributes:
        exactly_once: ``processing.guarantee``.
        transactional: whether the stores stage their writes (KIP-892).
        commit_interval_ms: Kafka's defaults are 100 under exactly-once, and 30,000.
        max_task_idle_ms: -1 never waits, 0 waits for records that the broker has, and more waits
            longer.
        idling: the rules for waiting: those of the proposal, or those of Kafka.
        transaction_timeout_ms: how long a transaction may take; at least the commit interval.
        request_timeout_ms: how long a client waits for a reply.
        max_block_ms: how long a producer repeats a request before it gives up.
        max_uncommitted_bytes: a thread whose stores have staged more bytes commits early; -1 is no
            limit.
        statestore_cache_max_bytes: the size of a thread's record caches; 0 is no cache. Kafka's
            default is 10 MiB, which no short run ever fills.
        buffered_records_per_partition: an input with more buffered records is paused.
        max_poll_records: the most records of a poll, for processing and for restoring.
        flush_probability: the probability that a store is flushed after a record.
        probing_rebalance_interval_ms: how long until the group looks at warm-ups again.
        session_timeout_ms: how long a member may be silent.
        heartbeat_interval_ms: how often a member says that it is alive.
        state_cleanup_delay_ms: how long a directory must be unused before it is deleted.
        assignor: the goals of the assignment.
    """

    exactly_once: bool = True
    transactional: bool = False
    commit_interval_ms: int = 100
    max_task_idle_ms: int = 0
    idling: Mode = "proposal"
    transaction_timeout_ms: int = 10_000
    request_timeout_ms: int = REQUEST_TIMEOUT_MS
    max_block_ms: int = MAX_BLOCK_MS
    max_uncommitted_bytes: int = -1
    statestore_cache_max_bytes: int = 0
    buffered_records_per_partition: int = BUFFERED_RECORDS_PER_PARTITION
    max_poll_records: int = MAX_POLL_RECORDS
    flush_probability: float = 0.05
    probing_rebalance_interval_ms: int = 600_000
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = HEARTBEAT_MS
    state_cleanup_delay_ms: int = 600_000
    assignor: AssignorConfig = field(default_factory=AssignorConfig)

    def __post_init__(self) -> None:
        if self.max_task_idle_ms < DISABLED:
            raise UsageError(
                f"max.task.idle.ms is {self.max_task_idle_ms}; give milliseconds from 0, or -1 to "
                "never wait."
            )
        if self.statestore_cache_max_bytes < 0:
            raise UsageError(
                f"statestore.cache.max.bytes is {self.statestore_cache_max_bytes}; give 0 for no "
                "cache, or more bytes."
            )
        if self.buffered_records_per_partition < 1:
            raise UsageError(
                f"buffered.records.per.partition is {self.buffered_records_per_partition}; give at "
                "least 1."
            )
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise UsageError(
                    f"{name.replace('_', '.')} is {getattr(self, name)}; give at least 1."
                )
        if self.commit_interval_ms < 0:
            raise UsageError(f"commit.interval.ms is {self.commit_interval_ms}; give 0 or more.")
        if self.exactly_once and self.transaction_timeout_ms < self.commit_interval_ms:
            raise UsageError(
                f"transaction.timeout.ms is {self.transaction_timeout_ms}, less than "
                f"commit.interval.ms, {self.commit_interval_ms}, so every transaction would be "
                "aborted before its commit. Raise the timeout, or lower the interval."
            )


class Application:
    """The shared part of an application's instances.

    Args:
        world: the world.
        topology: the topology of the application.
        config: its configuration.

    Attributes:
        cluster: the brokers.
        network: the way to the brokers.
        restore_listener: follows the restorations of all instances that start from now on.
        standby_listener: follows the updates of their standbys.
    """

    def __init__(self, world: World, topology: Topology, config: StreamsConfig) -> None:
        self.world = world
        self.topology = topology
        self.config = config
        topics = dict.fromkeys(topology.outputs, TopicConfig(retention_ms=OUTPUT_RETENTION_MS))
        topics |= dict.fromkeys(topology.changelogs, TopicConfig(compacted=True))
        self.cluster = Cluster(world, topology.topics, topics)
        self.network = Network(world, config.request_timeout_ms)
        self.restore_listener = StateRestoreListener()
        self.standby_listener = StandbyUpdateListener()
        self.tasks = topology.tasks
        self.task_config = TaskConfig(
            config.exactly_once,
            config.transactional,
            config.max_task_idle_ms,
            config.idling,
            topology.topics,
            config.buffered_records_per_partition,
            defect=world.defect,
        )
        world.trace.emit(
            "application.started",
            topology.application_id,
            tasks=sorted(self.tasks),
            exactly_once=config.exactly_once,
            transactional=config.transactional,
            max_task_idle_ms=config.max_task_idle_ms,
            max_uncommitted_bytes=config.max_uncommitted_bytes,
            statestore_cache_max_bytes=config.statestore_cache_max_bytes,
            partitions=topology.topics,
            changelogs={
                name: sorted(spec.changelogs.values())
                for name, spec in sorted(self.tasks.items())
                if spec.changelogs
            },
            num_standby_replicas=config.assignor.num_standby_replicas,
            max_warmup_replicas=config.assignor.max_warmup_replicas,
            acceptable_recovery_lag=config.assignor.acceptable_recovery_lag,
            probing_rebalance_interval_ms=config.probing_rebalance_interval_ms,
        )

    def global_table(self, host: Host) -> GlobalTable | None:
        """A new reader of the global stores, for a process; ``None`` without global stores."""
        if not self.topology.global_stores:
            return None
        return GlobalTable(
            self.world,
            host,
            self.network,
            self.cluster,
            self.topology.global_stores,
            isolation="read_committed" if self.config.exactly_once else "read_uncommitted",
        )

    @property
    def stateless(self) -> frozenset[str]:
        """The tasks without stores."""
        return frozenset(name for name, spec in self.tasks.items() if not spec.changelogs)
