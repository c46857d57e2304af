"""An application in a world: the parts that all its instances share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, get_args

from streamproof.errors import UsageError
from streamproof.sim.actor_hosts import Host
from streamproof.sim.brokers.cluster import Cluster
from streamproof.sim.brokers.partition_log import DELETE_RETENTION_MS
from streamproof.sim.brokers.transaction_coordinator import TransactionVersion
from streamproof.sim.brokers.upkeep import CLEANER_BACKOFF_MS, TopicConfig
from streamproof.sim.clients.consumer import MAX_POLL_RECORDS
from streamproof.sim.clients.membership import HEARTBEAT_MS, MAX_POLL_INTERVAL_MS
from streamproof.sim.clients.producer import MAX_BLOCK_MS, MAX_IN_FLIGHT
from streamproof.sim.decisions.commits import UNCOMMITTED_MAX_BYTES, Uncommitted, share_of
from streamproof.sim.decisions.idling import DISABLED, Mode
from streamproof.sim.decisions.refusals import MAX_MESSAGE_BYTES, Handler, ProductionHandler
from streamproof.sim.network import REQUEST_TIMEOUT_MS, Network
from streamproof.sim.releases import LiveFormat
from streamproof.sim.state_directory import StateDirectory
from streamproof.sim.streams_protocol import streams_group
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.tasks.global_stores import GlobalTable
from streamproof.sim.tasks.record_handlers import RecordHandlers
from streamproof.sim.tasks.record_queues import BUFFERED_RECORDS_PER_PARTITION
from streamproof.sim.tasks.task_config import TaskConfig
from streamproof.sim.topology import Topology
from streamproof.sim.world import World
from streamproof.stores.metrics import LEVELS, Level
from streamproof.stores.runtime.restoration import StandbyUpdateListener, StateRestoreListener

__all__ = [
    "ADDITIONAL_RETENTION_MS",
    "CLEANUP_DELAY_MS",
    "NO_MAX_AGE_MS",
    "SEGMENT_MS",
    "TASK_TIMEOUT_MS",
    "Application",
    "AutoOffsetReset",
    "GroupMembershipOperation",
    "GroupProtocol",
    "QueryIsolation",
    "StreamsConfig",
    "WindowDatabases",
]


OUTPUT_RETENTION_MS = 5_000
"""``retention.ms`` of the outputs, in milliseconds: no simulated client reads them."""


WindowDatabases = Literal["one", "segments"]
"""How many databases a window or session store has."""

AutoOffsetReset = Literal["earliest", "latest"]
"""``auto.offset.reset``: where an input without a position is read from."""

ADDITIONAL_RETENTION_MS = 86_400_000
"""``windowstore.changelog.additional.retention.ms``."""

SEGMENT_MS = 604_800_000
"""``segment.ms``."""

NO_MAX_AGE_MS = -1
"""``state.cleanup.dir.max.age.ms``: no directory is too old."""

CLEANUP_DELAY_MS = 600_000
"""The default of ``state.cleanup.delay.ms``."""

TASK_TIMEOUT_MS = 300_000
"""``task.timeout.ms``."""

QueryIsolation = Literal["", "READ_UNCOMMITTED", "READ_COMMITTED"]
"""The isolation level of a query that names none; empty for the default of the rules."""

GroupMembershipOperation = Literal["DEFAULT", "LEAVE_GROUP", "REMAIN_IN_GROUP"]
"""Whether the members of a process that stops leave the group (KIP-1153, CloseOptions)."""

GroupProtocol = Literal["classic", "streams"]
"""``group.protocol``: whether the members assign (KIP-429), or the brokers (KIP-1071)."""

_AT_LEAST_ONE = (
    "request_timeout_ms",
    "max_block_ms",
    "max_poll_records",
    "heartbeat_interval_ms",
    "max_poll_interval_ms",
    "task_timeout_ms",
    "brokers",
    "max_in_flight_requests_per_connection",
    "log_cleaner_backoff_ms",
)


@dataclass(frozen=True)
class StreamsConfig:
    """The configuration of an application, by Kafka's names.

    Attributes:
        exactly_once: ``processing.guarantee``.
        transactional: whether the stores can stage their writes (KIP-892).
        commit_interval_ms: Kafka's defaults are 100 under exactly-once, and 30,000.
        max_task_idle_ms: -1 never waits, 0 waits for records that the broker has, and more waits
            longer.
        idling: the rules for waiting: those of the proposal, or those of Kafka.
        transaction_timeout_ms: how long a transaction may take; at least the commit interval.
        request_timeout_ms: how long a client waits for a reply.
        max_block_ms: how long a producer repeats a request before it gives up.
        max_uncommitted_bytes: ``statestore.uncommitted.max.bytes``: a thread whose stores have
            staged more than its share of these bytes commits early; -1 is no limit.
        statestore_cache_max_bytes: the size of a thread's record caches; 0 is no cache. Kafka's
            default is 10 MiB, which no short run ever fills.
        buffered_records_per_partition: an input with more buffered records is paused.
        max_poll_records: the most records of a poll, for processing and for restoring.
        flush_probability: the probability that a store is flushed after a record.
        probing_rebalance_interval_ms: how long until the group looks at warm-ups again.
        session_timeout_ms: how long a member may be silent.
        heartbeat_interval_ms: how often a member says that it is alive.
        state_cleanup_delay_ms: how long a directory must be unused before it is deleted.
        metrics_recording_level: ``metrics.recording.level``. INFO leaves out the metrics of DEBUG.
        live_format: what decides which format of a store is live during an upgrade: the
            assignment, as KIP-258 proposes, or the configuration.
        assignor: the goals of the assignment.
        max_uncommitted_records: ``statestore.uncommitted.max.records``: the same for records, which
            Kafka does not have; -1 is no limit.
        store_rules: the rules for stores that stage: those of KIP-892, or those of Kafka 4.4.
        default_query_isolation: ``default.interactive.query.isolation.level``, of queries that name
            no level. Empty is the level of the context, as KIP-892 proposes, or READ_UNCOMMITTED by
            the rules of Kafka.
        recycles_tasks: whether a task keeps its stores open when it changes between active and
            standby in its thread, as Kafka does since 2.6 (KIP-441). If not, it is closed.
        group_membership_operation: whether a thread leaves the group at a clean stop. The default
            is that of the release: to remain, until the session is over (KAFKA-4965, KIP-1153).
        static_members: whether each thread has a ``group.instance.id``, by which it comes back
            without a rebalance (KIP-345).
        max_poll_interval_ms: a thread that does not poll for so long leaves the group (KIP-62).
        task_timeout_ms: ``task.timeout.ms``: a task that gets no answers for so long ends its
            thread (KIP-572).
        window_databases: whether a window or session store of the model has a database for each
            segment, as in Kafka, or one for all. The former restores more after a crash.
        topic_delete_retention_ms: ``topic.delete.retention.ms``: the least time that a tombstone
            stays in a changelog. A copy that is away for longer misses the tombstone.
        topic_segment_ms: ``topic.segment.ms``: how long a segment of a changelog is written to.
        windowstore_changelog_additional_retention_ms: how much longer than its store the changelog
            of a window or session store keeps a record.
        auto_offset_reset: where an input is read from if its position is gone. A table is always
            read from the earliest.
        default_timestamp_extractor: what becomes of a record without a valid timestamp.
        deserialization_exception_handler: the same for a value that cannot be read (KIP-161).
        processing_exception_handler: the same for a record that its processor refuses (KIP-1033).
        production_exception_handler: what becomes of an output record that the brokers will never
            take (KIP-210). With ``retry``, the default since Kafka 4.0, and with ``fail``, its
            thread ends (KIP-1065).
        output_max_message_bytes: ``max.message.bytes`` of the output topics: they take no record
            with a longer key and value.
        errors_dead_letter_queue_topic_name: the topic that gets the records that are left out;
            empty for none (KIP-1034).
        state_cleanup_dir_max_age_ms: a process that starts deletes the directories of tasks that
            nobody has used for so long (KIP-1259); -1 deletes none.
        transaction_version: ``transaction.version``, the newest version of the protocol of
            transactions that the brokers speak; 2 since Kafka 4.0 (KIP-890). In version 1 a late
            request may become part of another transaction.
        verifies_partitions: ``transaction.partition.verification.enable`` of the brokers, since
            Kafka 3.6: in version 1, a partition takes the first record of a transaction only if the
            transaction is open (KIP-890).
        brokers: the number of brokers that lead the partitions. A producer sends a request to each,
            so that the output and the changelog of one commit arrive at different times.
        max_in_flight_requests_per_connection: the most requests that a producer has on their way to
            one broker; at most 5, because the brokers know the numbers of 5 batches.
        group_protocol: whether the members of the group assign the tasks, which is the default of
            all releases, or the brokers, as they can since Kafka 4.2 (KIP-1071).
        log_cleaner_backoff_ms: ``log.cleaner.backoff.ms`` of the brokers: how often they look for
            logs to compact.
    """

    exactly_once: bool = True
    transactional: bool = False
    commit_interval_ms: int = 100
    max_task_idle_ms: int = 0
    idling: Mode = "proposal"
    transaction_timeout_ms: int = 10_000
    request_timeout_ms: int = REQUEST_TIMEOUT_MS
    max_block_ms: int = MAX_BLOCK_MS
    max_uncommitted_bytes: int = UNCOMMITTED_MAX_BYTES
    statestore_cache_max_bytes: int = 0
    buffered_records_per_partition: int = BUFFERED_RECORDS_PER_PARTITION
    max_poll_records: int = MAX_POLL_RECORDS
    flush_probability: float = 0.05
    probing_rebalance_interval_ms: int = 600_000
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = HEARTBEAT_MS
    state_cleanup_delay_ms: int = CLEANUP_DELAY_MS
    metrics_recording_level: Level = "INFO"
    live_format: LiveFormat = "assignment"
    assignor: AssignorConfig = field(default_factory=AssignorConfig)
    max_uncommitted_records: int = -1
    store_rules: Mode = "proposal"
    default_query_isolation: QueryIsolation = ""
    recycles_tasks: bool = True
    group_membership_operation: GroupMembershipOperation = "DEFAULT"
    static_members: bool = False
    max_poll_interval_ms: int = MAX_POLL_INTERVAL_MS
    task_timeout_ms: int = TASK_TIMEOUT_MS
    window_databases: WindowDatabases = "one"
    topic_delete_retention_ms: int = DELETE_RETENTION_MS
    topic_segment_ms: int = SEGMENT_MS
    windowstore_changelog_additional_retention_ms: int = ADDITIONAL_RETENTION_MS
    auto_offset_reset: AutoOffsetReset = "earliest"
    state_cleanup_dir_max_age_ms: int = NO_MAX_AGE_MS
    transaction_version: TransactionVersion = 2
    verifies_partitions: bool = True
    default_timestamp_extractor: Handler = "fail"
    deserialization_exception_handler: Handler = "fail"
    processing_exception_handler: Handler = "fail"
    production_exception_handler: ProductionHandler = "retry"
    output_max_message_bytes: int = MAX_MESSAGE_BYTES
    errors_dead_letter_queue_topic_name: str = ""
    brokers: int = 1
    max_in_flight_requests_per_connection: int = MAX_IN_FLIGHT
    group_protocol: GroupProtocol = "classic"
    log_cleaner_backoff_ms: int = CLEANER_BACKOFF_MS

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
        _require_at_least_one(self)
        _require_at_least_zero(self)
        for kind in ("records", "bytes"):
            most = getattr(self, f"max_uncommitted_{kind}")
            if most < -1:
                raise UsageError(
                    f"statestore.uncommitted.max.{kind} is {most}; give -1 for no limit, or more."
                )
        _require_known(self)
        if self.max_in_flight_requests_per_connection > MAX_IN_FLIGHT:
            raise UsageError(
                "max.in.flight.requests.per.connection is "
                f"{self.max_in_flight_requests_per_connection}; give at most {MAX_IN_FLIGHT}: "
                "brokers keep the order of no more batches."
            )
        if self.commit_interval_ms < 0:
            raise UsageError(f"commit.interval.ms is {self.commit_interval_ms}; give 0 or more.")
        if self.exactly_once and self.transaction_timeout_ms < self.commit_interval_ms:
            raise UsageError(
                f"transaction.timeout.ms is {self.transaction_timeout_ms}, less than "
                f"commit.interval.ms, {self.commit_interval_ms}, so every transaction would be "
                "aborted before its commit. Raise the timeout, or lower the interval."
            )

    @property
    def handlers(self) -> RecordHandlers:
        """What becomes of records that cannot be processed."""
        return RecordHandlers(
            self.default_timestamp_extractor,
            self.deserialization_exception_handler,
            self.processing_exception_handler,
            self.production_exception_handler,
            self.errors_dead_letter_queue_topic_name,
        )

    def leaves_group(self, *, default: bool) -> bool:
        """Whether a thread leaves the group at a clean stop.

        Args:
            default: whether the release of the thread does so without a setting.
        """
        operation = self.group_membership_operation
        return default if operation == "DEFAULT" else operation == "LEAVE_GROUP"


def _require_known(config: StreamsConfig) -> None:
    known = {
        "metrics_recording_level": LEVELS,
        "group_membership_operation": get_args(GroupMembershipOperation),
        "group_protocol": get_args(GroupProtocol),
        "window_databases": get_args(WindowDatabases),
        "auto_offset_reset": get_args(AutoOffsetReset),
        "transaction_version": get_args(TransactionVersion),
        "default_timestamp_extractor": get_args(Handler),
        "deserialization_exception_handler": get_args(Handler),
        "processing_exception_handler": get_args(Handler),
        "production_exception_handler": get_args(ProductionHandler),
    }
    for name, values in known.items():
        if getattr(config, name) not in values:
            raise UsageError(
                f"{name.replace('_', '.')} is {getattr(config, name)!r}; give one of "
                f"{', '.join(map(str, values))}."
            )


def _require_at_least_one(config: StreamsConfig) -> None:
    for name in _AT_LEAST_ONE:
        if getattr(config, name) < 1:
            raise UsageError(
                f"{name.replace('_', '.')} is {getattr(config, name)}; give at least 1."
            )


def _require_at_least_zero(config: StreamsConfig) -> None:
    names = {
        "topic_delete_retention_ms": 0,
        "topic_segment_ms": 0,
        "windowstore_changelog_additional_retention_ms": 0,
        "state_cleanup_dir_max_age_ms": NO_MAX_AGE_MS,
    }
    for name, least in names.items():
        if getattr(config, name) < least:
            raise UsageError(
                f"{name.replace('_', '.')} is {getattr(config, name)}; give {least} or more."
            )


def _topic_configs(
    topology: Topology, config: StreamsConfig, input_retention_ms: int
) -> dict[str, TopicConfig]:
    """How long the brokers keep the records of each topic.

    Sources: Kafka, InternalTopicConfig, UnwindowedUnversionedChangelogTopicConfig and
    WindowedChangelogTopicConfig.
    """
    table = TopicConfig(
        compacted=True,
        delete_retention_ms=config.topic_delete_retention_ms,
        segment_ms=config.topic_segment_ms,
    )
    configs = dict.fromkeys(topology.outputs, TopicConfig(retention_ms=OUTPUT_RETENTION_MS))
    streams = [each for each in topology.inputs if each not in topology.tables]
    configs |= dict.fromkeys(streams, TopicConfig(retention_ms=input_retention_ms))
    configs |= dict.fromkeys(topology.changelogs, table)
    # A table that nobody updates may lose its rows, if its topic is deleted as well.
    expiring = replace(table, retention_ms=input_retention_ms)
    configs |= dict.fromkeys(topology.global_stores.values(), expiring)
    more_ms = config.windowstore_changelog_additional_retention_ms
    for changelog, retained_ms in topology.retained_ms.items():
        configs[changelog] = replace(table, retention_ms=retained_ms + more_ms)
    return configs


def _never_late(version: TransactionVersion) -> frozenset[str]:
    """The requests against which this version of the protocol has no defence if they are late.

    In version 1, a late end of a transaction ends the next one, and late offsets are committed with
    it (KIP-890, "Motivation"). Nothing can be promised of such a run, so only a scenario has it.
    """
    return frozenset({"add offsets", "end transaction"} if version == 1 else ())


class Application:
    """The shared part of an application's instances.

    Args:
        world: the world.
        topology: the topology of the application.
        config: its configuration.
        input_retention_ms: ``retention.ms`` of the inputs from which no task restores a table; -1
            keeps all records.

    Attributes:
        cluster: the brokers.
        network: the way to the brokers.
        restore_listener: follows the restorations of all instances that start from now on.
        standby_listener: follows the updates of their standbys.
    """

    def __init__(
        self,
        world: World,
        topology: Topology,
        config: StreamsConfig,
        *,
        input_retention_ms: int = -1,
    ) -> None:
        self.world = world
        self.topology = topology
        self.config = config
        topics = _topic_configs(topology, config, input_retention_ms)
        dead_letters = config.errors_dead_letter_queue_topic_name
        partitions = {**topology.topics, **({dead_letters: 1} if dead_letters else {})}
        self.cluster = Cluster(
            world,
            partitions,
            topics,
            verifies_partitions=config.verifies_partitions,
            brokers=config.brokers,
            cleaner_backoff_ms=config.log_cleaner_backoff_ms,
        )
        if config.group_protocol == "streams":
            self.cluster.groups[topology.application_id] = streams_group(
                world,
                topology.application_id,
                topology.tasks,
                config.assignor.num_standby_replicas,
            )
        self.network = Network(
            world, config.request_timeout_ms, never_late=_never_late(config.transaction_version)
        )
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
            config.live_format,
            defect=world.defect,
            store_rules=config.store_rules,
            application_id=topology.application_id,
            segmented=topology.segmented if config.window_databases == "segments" else {},
            handlers=config.handlers,
            output_max_message_bytes=config.output_max_message_bytes,
        )
        world.trace.emit(
            "application.started",
            topology.application_id,
            tasks=sorted(self.tasks),
            exactly_once=config.exactly_once,
            transactional=self.task_config.stages,
            max_task_idle_ms=config.max_task_idle_ms,
            max_uncommitted_bytes=config.max_uncommitted_bytes,
            max_uncommitted_records=config.max_uncommitted_records,
            store_rules=config.store_rules,
            statestore_cache_max_bytes=config.statestore_cache_max_bytes,
            partitions=topology.topics,
            changelogs={
                name: sorted(spec.changelogs.values())
                for name, spec in sorted(self.tasks.items())
                if spec.changelogs
            },
            sources=sorted(
                {
                    changelog
                    for spec in self.tasks.values()
                    for changelog in spec.changelogs.values()
                    if changelog in spec.inputs
                }
            ),
            num_standby_replicas=config.assignor.num_standby_replicas,
            max_warmup_replicas=config.assignor.max_warmup_replicas,
            acceptable_recovery_lag=config.assignor.acceptable_recovery_lag,
            probing_rebalance_interval_ms=config.probing_rebalance_interval_ms,
            commit_interval_ms=config.commit_interval_ms,
            default_query_isolation=config.default_query_isolation,
            metrics_recording_level=config.metrics_recording_level,
            live_format=config.live_format,
            task_timeout_ms=config.task_timeout_ms,
            topic_delete_retention_ms=config.topic_delete_retention_ms,
            auto_offset_reset=config.auto_offset_reset,
            state_cleanup_delay_ms=config.state_cleanup_delay_ms,
            state_cleanup_dir_max_age_ms=config.state_cleanup_dir_max_age_ms,
            handlers=asdict(config.handlers),
            output_max_message_bytes=config.output_max_message_bytes,
        )

    def uncommitted_limits(self, threads: int) -> Uncommitted:
        """The most that each stream thread of a process may stage before it commits.

        Args:
            threads: the number of stream threads of the process.
        """
        config = self.config
        as_proposed = config.store_rules == "proposal"
        records = config.max_uncommitted_records if as_proposed else -1
        limits = Uncommitted(records, config.max_uncommitted_bytes)
        return share_of(limits, threads + bool(self.topology.global_stores))

    def global_table(
        self, host: Host, disk: StateDirectory, fail: Callable[[], None]
    ) -> GlobalTable | None:
        """A new reader of the global stores, for a process; ``None`` without global stores.

        Args:
            host: the process.
            disk: its state directory.
            fail: ends the process.

        Raises:
            ProcessorStateError: the files of a global store cannot be used.
        """
        if not self.topology.global_stores:
            return None
        return GlobalTable(
            self.world,
            host,
            self.network,
            self.cluster,
            self.topology.global_stores,
            disk=disk,
            commit_interval_ms=self.config.commit_interval_ms,
            isolation="read_committed" if self.config.exactly_once else "read_uncommitted",
            flush_probability=self.config.flush_probability,
            fail=fail,
        )

    @property
    def stateless(self) -> frozenset[str]:
        """The tasks without stores."""
        return frozenset(name for name, spec in self.tasks.items() if not spec.changelogs)
