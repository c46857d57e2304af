"""Defects: named mistakes that a run can switch on in the simulated runtime.

Each defect is a bug that Kafka Streams once had, or removes a rule that Kafka Streams needs. All
defects are off by default. They show that the invariants can fail, and how a failure looks.

The runtime asks ``world.defect(name)`` at the place of each mistake, and makes the mistake if the
answer is yes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from streamproof.errors import UsageError
from streamproof.sim.tasks.assignor import AssignorConfig

__all__ = ["DEFECTS", "Defect", "Guarantee", "require_defects"]

Guarantee = Literal["exactly-once", "at-least-once"]


class Defect(NamedTuple):
    """A mistake.

    Attributes:
        what: the mistake, in one sentence.
        requirement: the requirement that the defect breaks and whose invariant must catch it.
        source: the ticket or the proposal.
        guarantees: the processing guarantees under which the defect does harm.
        transactional: whether the defect harms only stores that stage their writes (True), only
            stores that do not (False), or both (None).
        settings: values of fields of ``StreamsConfig`` with which the defect does harm.
        upgrade: the upgrade in which the defect does harm, one of ``UPGRADES``; empty for any run.
        kinds: the faults of instances with which alone the defect is found within some hundred
            worlds, of ``nemesis.RARE_KINDS``; empty for any.
        topology: the topology in which the defect does harm, one of ``TOPOLOGIES``; empty for any.
    """

    what: str
    requirement: str
    source: str
    guarantees: tuple[Guarantee, ...] = ("exactly-once", "at-least-once")
    transactional: bool | None = None
    upgrade: str = ""
    topology: str = ""
    kinds: tuple[str, ...] = ()
    settings: Mapping[str, Any] = MappingProxyType({})


EOS: tuple[Guarantee] = ("exactly-once",)
ALOS: tuple[Guarantee] = ("at-least-once",)

HANDLED: Mapping[str, Any] = {
    "default_timestamp_extractor": "continue",
    "deserialization_exception_handler": "continue",
    "processing_exception_handler": "continue",
}
"""Handlers that leave records out."""

DEFECTS: dict[str, Defect] = {
    "keeps-unclean-store": Defect(
        "A task uses a store that was not closed and holds aborted writes.",
        "TASK-003",
        "KAFKA-7192, KAFKA-9891",
        EOS,
        transactional=False,
    ),
    "restores-to-stable-end": Defect(
        "A restoration stops at the last stable offset, before a transaction that commits later.",
        "TASK-001",
        "KAFKA-10167",
        EOS,
    ),
    "restores-aborted-records": Defect(
        "A restoration applies records of aborted transactions.",
        "TASK-001",
        "KAFKA-6782",
        EOS,
    ),
    "commits-store-first": Defect(
        "Stores commit before the transaction, so their offsets cover writes that may still abort.",
        "TASK-003",
        "KIP-892",
        EOS,
        transactional=True,
    ),
    "ignores-generation": Defect(
        "The group accepts offsets from members of an earlier generation.",
        "EOS-001",
        "KIP-447",
        EOS,
    ),
    "does-not-fence-producer": Defect(
        "A new producer joins the open transaction of its dead predecessor.",
        "EOS-003",
        "KIP-98",
        EOS,
        # In version 2, the coordinator gives each transaction an epoch anyhow.
        settings={"transaction_version": 1},
    ),
    "does-not-verify-partitions": Defect(
        "A partition takes a record without a look whether its transaction is open.",
        "EOS-008",
        "KIP-890, KAFKA-12671",
        EOS,
        # A broker that stalls for long outlasts the patience of the producer.
        settings={"transaction_version": 1, "request_timeout_ms": 1_000, "max_block_ms": 2_000},
    ),
    "keeps-epochs-between-transactions": Defect(
        "The epoch of a producer remains the same from one transaction to the next.",
        "EOS-009",
        "KIP-890",
        EOS,
        settings={"transaction_version": 2},
    ),
    "sends-outside-the-transaction": Defect(
        "The records of an application are in no transaction, so readers see them before a commit.",
        "EOS-010",
        "KIP-98, KIP-129",
        EOS,
    ),
    "ignores-sequence-numbers": Defect(
        "A partition takes each batch that comes, in whatever order, and however often.",
        "ALOS-003",
        "KIP-98, KAFKA-5494",
        settings={"request_timeout_ms": 1_000, "max_block_ms": 2_000},
    ),
    "flushes-one-broker-alone": Defect(
        "A commit waits for the first broker that confirms its records, and for no other.",
        "EOS-003",
        "Kafka, KafkaProducer#flush",
        EOS,
        settings={"brokers": 3},
    ),
    "goes-on-after-commit-timeout": Defect(
        "After a commit without a reply, the tasks go on as if the broker had refused the commit.",
        "EOS-001",
        "KAFKA-9274",
        EOS,
    ),
    "keeps-transaction-open": Defect(
        "A commit without new offsets leaves the transaction open until it times out.",
        "EOS-002",
        "KAFKA-14294",
        EOS,
    ),
    "drops-task-on-timeout": Defect(
        "A thread forgets a task if it could not fetch the committed offsets of the task.",
        "TASK-008",
        "KAFKA-17098",
    ),
    "drops-task-whose-lock-is-taken": Defect(
        "A thread forgets a task if another thread still holds the task directory.",
        "TASK-008",
        "KAFKA-8187",
    ),
    "dies-of-a-second-fault": Defect(
        "A time-out during the handling of another fault ends the thread.",
        "TASK-008",
        "KAFKA-12523",
    ),
    "keeps-tasks-after-loss": Defect(
        "A member that the group has removed keeps its tasks and their uncommitted results.",
        "REBAL-012",
        "KAFKA-9994",
        EOS,
    ),
    "closes-lost-tasks-cleanly": Defect(
        "A thread closes lost tasks as clean, as if all their writes were committed.",
        "TASK-002",
        "KAFKA-10198",
        EOS,
    ),
    "commits-fetched-offsets": Defect(
        "A commit takes the offset of the next record to fetch, not of the next record to process.",
        "TASK-005",
        "KIP-447",
    ),
    "commits-last-record": Defect(
        "The committed offset stops after the last record, before the marker that follows.",
        "TASK-005",
        "KAFKA-6607",
    ),
    "fetches-unstable-offsets": Defect(
        "A task starts with a committed offset from before a transaction that is already decided.",
        "EOS-001",
        "KAFKA-17507, KIP-447",
        EOS,
    ),
    "does-not-wait-for-owner": Defect(
        "A new owner gets a task before the old owner has given it up.",
        "REBAL-002",
        "KIP-429",
    ),
    "keeps-caches-when-recycled": Defect(
        "A task that becomes a standby and then active again still has its old record cache.",
        "TASK-002",
        "KAFKA-14172",
        # Roles change often, and no entry leaves the cache for lack of space.
        settings={
            "assignor": AssignorConfig(num_standby_replicas=1),
            "probing_rebalance_interval_ms": 5_000,
            "recycles_tasks": True,
            "statestore_cache_max_bytes": 10_000,
        },
    ),
    "calls-a-promotion-a-migration": Defect(
        "The listener hears that a standby went elsewhere, although it became active here.",
        "LISTEN-102",
        "KIP-988",
        settings={"assignor": AssignorConfig(num_standby_replicas=1), "recycles_tasks": True},
    ),
    "keeps-stale-offset": Defect(
        "A clean close stores an offset from before the last writes of the store.",
        "TASK-002",
        "KAFKA-13249",
        EOS,
    ),
    "purges-consumed-offsets": Defect(
        "The runtime deletes records of a repartition topic that are read but not committed.",
        "TASK-012",
        "KAFKA-17635",
    ),
    "standby-passes-committed-offset": Defect(
        "A standby of an input topic applies records that its active task did not commit.",
        "STANDBY-001",
        "KAFKA-8755",
    ),
    "suspends-without-a-word": Defect(
        "The listener does not hear of the suspension of an interrupted restoration.",
        "LISTEN-101",
        "KAFKA-15571",
    ),
    "counts-records-as-offsets": Defect(
        "The metric of the remaining restoration counts records, so it never reaches 0.",
        "METRIC-101",
        "KAFKA-20711",
        EOS,
    ),
    "commits-before-records-arrive": Defect(
        "A task commits offsets before the brokers confirm its written records.",
        "ALOS-001",
        "KIP-447",
        ALOS,
    ),
    "flushes-changelogs-alone": Defect(
        "A commit waits until the brokers confirm the records of changelogs, and no output.",
        "ALOS-004",
        "Kafka, RecordCollectorImpl#flush",
        ALOS,
        settings={"brokers": 3},
    ),
    "keeps-lock-after-cleaning": Defect(
        "The cleaner deletes the directory of a task but keeps its lock.",
        "TASK-008",
        "KAFKA-16025",
    ),
    "forgets-last-use": Defect(
        "The cleaner treats a directory as old that was in use a moment ago.",
        "TASK-011",
        "KAFKA-20805",
    ),
    "leaves-startup-stores-open": Defect(
        "No thread closes a store that the process opened at its start.",
        "TASK-007",
        "KAFKA-18498, KAFKA-20663",
    ),
    "forgets-partition-times": Defect(
        "Stream time restarts with each owner of a task, so the task accepts late records again.",
        "EOS-003",
        "KAFKA-7994",
        EOS,
    ),
    "leaves-caches-unflushed": Defect(
        "A commit covers input whose updates are still in a record cache.",
        "EOS-003",
        "Kafka, ProcessorStateManager#flushCache",
        EOS,
        transactional=False,
    ),
    "chooses-by-largest-time": Defect(
        "The next record comes from the input whose largest timestamp so far is the smallest.",
        "IDLE-001",
        "KAFKA-3514, KAFKA-8347",
    ),
    "ignores-lag": Defect(
        "A task does not wait for records of an empty input although the brokers have some.",
        "IDLE-002",
        "KIP-695, KAFKA-12268",
    ),
    "counts-open-transactions-as-lag": Defect(
        "The lag under read_committed counts records of transactions that are still open.",
        "LAG-005",
        "KIP-695, Kafka, SubscriptionState#partitionLag",
        EOS,
        settings={"max_task_idle_ms": 0},
    ),
    "leaves-input-paused": Defect(
        "A task never resumes an input that it paused because of a full buffer.",
        "TASK-005",
        "Kafka, StreamTask#resumePollingForPartitionsWithAvailableSpace",
    ),
    "global-table-reads-aborted": Defect(
        "A global store applies records of aborted transactions.",
        "EOS-003",
        "KAFKA-6782",
        EOS,
    ),
    "stages-without-bound": Defect(
        "The thread ignores how many bytes its stores have staged.",
        "TASK-010",
        "KIP-892",
        EOS,
        transactional=True,
    ),
    "counts-one-task-alone": Defect(
        "A thread compares the largest of its tasks with the limit of staged bytes, not their sum.",
        "TASK-010",
        "KIP-892",
        EOS,
        transactional=True,
        settings={"max_uncommitted_bytes": 100},
    ),
    "punctuates-while-paused": Defect(
        "A paused thread calls the punctuators that are due.",
        "TASK-065",
        "KIP-834",
        topology="punctuated-count",
    ),
    "restores-while-paused": Defect(
        "The state updater goes on with the tasks of a paused thread.",
        "TASK-065",
        "KIP-834, KAFKA-14299",
    ),
    "keeps-offsets-of-doomed-stores": Defect(
        "A store that is to be wiped keeps its offset until its files are gone.",
        "TASK-003",
        "Kafka 4.3.1, StateManagerUtil#closeStateManager",
        EOS,
        transactional=False,
        kinds=("wipe",),
    ),
    "forgets-punctuations": Defect(
        "A commit leaves out tasks that have only punctuated since the last commit.",
        "TASK-066",
        "Kafka, StreamTask#punctuate",
        topology="punctuated-count",
    ),
    "takes-unknown-for-latest": Defect(
        "A member reports a copy with unknown offsets as a running active task.",
        "ASSIGN-007",
        "KAFKA-10319",
    ),
    "reports-what-was-in-memory": Defect(
        "A member still reports the content of an in-memory store after its task was closed.",
        "ASSIGN-007",
        "KAFKA-20893",
    ),
    "begins-anew-without-need": Defect(
        "If no client is caught up, the leader gives a task to a client without any state.",
        "ASSIGN-004",
        "KAFKA-13600",
    ),
    "keeps-its-version": Defect(
        "A member that gets an answer in an older metadata version keeps using its own version.",
        "ASSIGN-011",
        "KIP-268",
        transactional=False,
        upgrade="sums-up",
    ),
    "keeps-checkpoint-while-running": Defect(
        "The checkpoint file from the end of a restoration stays on disk while the task runs.",
        "TASK-003",
        "KAFKA-20685, KAFKA-10362",
        EOS,
        transactional=False,
        upgrade="none-before-offsets",
    ),
    "position-of-staged-writes": Defect(
        "The position on the disk covers staged writes that a crash discards.",
        "POS-101",
        "KAFKA-20760, KAFKA-20490",
        EOS,
        transactional=True,
    ),
    "takes-offsets-of-older-format": Defect(
        "The newer format of a store starts at the end of the older one and lacks its content.",
        "TASK-003",
        "KIP-258",
        transactional=False,
        upgrade="format-offline",
        settings={"live_format": "configuration"},
    ),
    "lets-mirrors-work": Defect(
        "Instances with the newer format get active tasks while older instances remain.",
        "UPGRADE-105",
        "KIP-258",
        upgrade="format-roll-over",
        transactional=False,
    ),
    "ignores-upgrade-from": Defect(
        "An instance with upgrade.from reports in a version that older members cannot read.",
        "UPGRADE-106",
        "KAFKA-6054",
        upgrade="metadata-up",
    ),
    "names-formats-of-the-release": Defect(
        "A report names the same format for all stores, whatever the disk has.",
        "UPGRADE-107",
        "KIP-258",
        transactional=False,
        upgrade="format-in-place",
    ),
    "probes-everyone": Defect(
        "A leader that cannot read one report sends an empty assignment to all members.",
        "UPGRADE-108",
        "KIP-258",
        transactional=False,
        upgrade="sums-up",
    ),
    "misnames-the-leaders-version": Defect(
        "An empty assignment names the first version with version probing, not the leader's.",
        "UPGRADE-108",
        "KIP-258",
        transactional=False,
        upgrade="sums-up",
    ),
    "answers-all-in-one-version": Defect(
        "The leader answers the mirrors of old members in the version of the old members.",
        "UPGRADE-109",
        "KIP-258",
        upgrade="format-roll-over",
    ),
    "serves-newer-format-early": Defect(
        "An instance serves the newer format although older members remain in the group.",
        "UPGRADE-110",
        "KIP-258",
        upgrade="format-in-place",
        settings={"live_format": "assignment"},
    ),
    "keeps-older-format": Defect(
        "An instance keeps the older format of its stores after an assignment in version 3.",
        "UPGRADE-111",
        "KIP-258",
        upgrade="format-in-place",
        settings={"live_format": "assignment"},
    ),
    "deletes-older-format-early": Defect(
        "An instance deletes the older format of its stores after an assignment in version 2.",
        "UPGRADE-111",
        "KIP-258",
        upgrade="format-in-place",
        settings={"live_format": "assignment"},
    ),
    "rebuilds-active-tasks-alone": Defect(
        "The background task of an upgrade in place leaves the stores of standbys out.",
        "UPGRADE-112",
        "KIP-258",
        upgrade="format-in-place",
    ),
    "says-prepared-too-early": Defect(
        "An instance says that all its stores are prepared while it still builds them.",
        "UPGRADE-112",
        "KIP-258",
        upgrade="format-in-place",
    ),
    "rebuilds-in-a-roll-over": Defect(
        "An old instance of a roll-over builds the newer format beside the live one.",
        "UPGRADE-113",
        "KIP-258",
        upgrade="format-roll-over",
    ),
    "says-ready-too-early": Defect(
        "A new instance of a roll-over says that it is ready while it still copies.",
        "UPGRADE-114",
        "KIP-258",
        upgrade="format-roll-over",
    ),
    "stops-old-instances-by-a-timer": Defect(
        "The old instances of a roll-over are stopped before the new ones are ready.",
        "UPGRADE-115",
        "KIP-258",
        upgrade="format-roll-over",
    ),
    "forgets-to-look-again": Defect(
        "The rebalance that is due after copies have warmed up never happens.",
        "ASSIGN-008",
        "KAFKA-10455",
    ),
    "queries-read-through-the-transaction": Defect(
        "A query reads the store through the open transaction of its task.",
        "QUERY-101",
        "KIP-892",
        EOS,
        transactional=True,
    ),
    "never-renews-what-queries-see": Defect(
        "Queries see a store as the first of them found it, whatever the store commits later.",
        "QUERY-102",
        "KIP-892",
    ),
    "commits-ten-times-too-late": Defect(
        "A thread lets ten commit intervals pass before it commits.",
        "QUERY-103",
        "KIP-892",
        EOS,
        transactional=True,
    ),
    "queries-read-committed-by-default": Defect(
        "A query that names no isolation level is read at READ_COMMITTED, whatever the guarantee.",
        "QUERY-106",
        "KIP-892",
        ALOS,
    ),
    "queries-read-uncommitted-by-default": Defect(
        "A query that names no isolation level reads uncommitted writes under exactly-once, too.",
        "QUERY-106",
        "KIP-892",
        EOS,
    ),
    "ignores-isolation-of-a-query": Defect(
        "A query that names an isolation level is read at the default level.",
        "QUERY-108",
        "Kafka, StateQueryRequest#withIsolationLevel",
    ),
    "ignores-position-bounds": Defect(
        "A copy answers a query although the copy is older than the position bound of the query.",
        "QUERY-109",
        "KIP-796",
    ),
    "reports-position-of-staged-writes": Defect(
        "The position of a committed answer covers writes that are still staged.",
        "QUERY-110",
        "KAFKA-20760, KIP-796",
        EOS,
        transactional=True,
    ),
    "lets-standbys-answer": Defect(
        "A copy that does not run answers queries that ask for the active task.",
        "QUERY-113",
        "KIP-535",
    ),
    "ranges-leave-the-last-key-out": Defect(
        "A range query treats its upper bound as exclusive.",
        "QUERY-115",
        "Kafka, RangeQuery",
    ),
    "queries-only-the-first-thread": Defect(
        "A process answers queries only from the stores of its first stream thread.",
        "QUERY-116",
        "Kafka, KafkaStreams#query",
    ),
    "routes-to-standbys-without-leave": Defect(
        "A client sends queries that ask for the active task to standbys, too.",
        "QUERY-118",
        "KIP-535",
    ),
    "remains-although-asked-to-leave": Defect(
        "A process that is to leave the group when it stops remains until its session is over.",
        "REBAL-006",
        "KAFKA-16514, KIP-1153",
        settings={"group_membership_operation": "LEAVE_GROUP"},
    ),
    "forgets-who-came-back": Defect(
        "A coordinator that moves forgets that static members have come back under new ids.",
        "REBAL-007",
        "KAFKA-10284",
        settings={"static_members": True, "session_timeout_ms": 10_000},
    ),
    "lets-members-hang": Defect(
        "A thread that makes no progress keeps its place in the group by its heartbeats.",
        "REBAL-008",
        "KIP-62",
        settings={"max_poll_interval_ms": 6_000, "request_timeout_ms": 30_000},
    ),
    "hands-tasks-out-unreleased": Defect(
        "The brokers hand a task over although its owner has not given it up.",
        "REBAL-010",
        "KIP-848; Kafka, CurrentAssignmentBuilder",
        settings={"group_protocol": "streams"},
    ),
    "refuses-older-epochs": Defect(
        "The brokers refuse offsets of an older epoch, whichever tasks the member has since.",
        "REBAL-011",
        "KAFKA-19779, KIP-1251",
        settings={"group_protocol": "streams"},
    ),
    "refuses-fenced-members": Defect(
        "A member that was fenced cannot join anew before its session is over.",
        "REBAL-007",
        "KAFKA-19233",
        settings={"group_protocol": "streams", "session_timeout_ms": 10_000},
    ),
    "looks-at-one-place-for-a-copy": Defect(
        "The brokers place no copy if the member with the least to do cannot have it.",
        "ASSIGN-003",
        "KAFKA-20899",
        settings={
            "group_protocol": "streams",
            "assignor": AssignorConfig(num_standby_replicas=1),
        },
    ),
    "keeps-corrupted-tasks": Defect(
        "A corrupted task is restored where it is, although a standby elsewhere is up to date.",
        "REBAL-009",
        "KAFKA-12486",
        EOS,
    ),
    "restarts-task-timeout": Defect(
        "Each request without an answer starts the wait of a task anew, so the wait never ends.",
        "TASK-067",
        "KIP-572",
        settings={"task_timeout_ms": 1_000, "request_timeout_ms": 1_000, "max_block_ms": 2_000},
    ),
    "trusts-the-newest-segment": Defect(
        "A window store says the offset of its newest segment, whatever older segments have lost.",
        "TASK-003",
        "KAFKA-20663; Kafka 4.3.1, AbstractSegments#committedOffset",
        topology="windowed-count",
        settings={"window_databases": "segments", "flush_probability": 0.5},
    ),
    "drops-what-follows": Defect(
        "A record that is left out takes the records along that were buffered behind it.",
        "TASK-005",
        "Kafka, RecordQueue#updateHead",
        settings=HANDLED,
    ),
    "takes-invalid-timestamps": Defect(
        "A record without a valid timestamp is processed, although the extractor says to skip it.",
        "TASK-077",
        "KIP-93; Kafka, LogAndSkipOnInvalidTimestamp",
        settings=HANDLED,
    ),
    "loses-dead-letters": Defect(
        "A record is left out without a dead letter, although there is a topic for those.",
        "TASK-078",
        "KIP-1034",
        settings={**HANDLED, "errors_dead_letter_queue_topic_name": "dead-letters"},
    ),
    "fails-although-told-to-continue": Defect(
        "An output record that the brokers refuse ends the thread, whatever the handler says.",
        "TASK-080",
        "KAFKA-15259",
        topology="stateless",
        settings={"output_max_message_bytes": 200, "production_exception_handler": "continue"},
    ),
    "swallows-production-errors": Defect(
        "An output record that the brokers refuse is left out, whatever the handler says.",
        "TASK-080",
        "KAFKA-9279",
        topology="stateless",
        settings={"output_max_message_bytes": 9, "production_exception_handler": "fail"},
    ),
    "keeps-unclean-global-stores": Defect(
        "A process cannot start as long as its disk has a global store that was not closed.",
        "TASK-076",
        "KAFKA-21034",
        EOS,
        transactional=False,
        topology="global-table-join",
    ),
    "global-store-skips-a-gap": Defect(
        "A global store whose next record is gone goes on at the start of its topic, as it is.",
        "TASK-075",
        "KAFKA-10306, KAFKA-7443",
        topology="global-table-join",
        settings={"topic_segment_ms": 0},
    ),
    "restores-across-a-gap": Defect(
        "A restoration whose next record is gone goes on from the start of the log, as it is.",
        "TASK-071",
        "Kafka, StoreChangelogReader#restore; KAFKA-20663",
        topology="windowed-count",
        settings={
            "topic_segment_ms": 1_000,
            "windowstore_changelog_additional_retention_ms": 0,
        },
    ),
    "resets-all-inputs": Defect(
        "If the position of one input is gone, all inputs of the thread are read from their start.",
        "TASK-070",
        "Kafka, StreamThread#resetOffsets",
    ),
    "ignores-reset-policy": Defect(
        "An input whose position is gone is read from its start, although the policy is latest.",
        "TASK-069",
        "Kafka, StreamThread#resetOffsets",
        settings={"auto_offset_reset": "latest"},
    ),
    "keeps-outdated-directories": Defect(
        "A process that starts keeps stores that are older than tombstones in their changelogs.",
        "TASK-072",
        "KIP-1259, KAFKA-19943",
        settings={"state_cleanup_dir_max_age_ms": 1_000},
    ),
    "cleans-while-restoring": Defect(
        "The cleaner works while the process rebalances or restores.",
        "TASK-073",
        "Kafka, KafkaStreams#start",
        settings={"state_cleanup_delay_ms": 1_000},
    ),
    "takes-ends-of-inputs": Defect(
        "The leader takes the end of an input for that of the state that is built from it.",
        "ASSIGN-015",
        "Kafka, StreamsPartitionAssignor#populateClientStatesMap",
        topology="reused-table-join",
    ),
    "stamps-rows-with-the-wall-clock": Defect(
        "A row of a table gets the time of the host instead of the timestamp of its record.",
        "TS-101",
        "KIP-258",
        topology="table-operators",
    ),
    "derived-tables-get-stream-time": Defect(
        "A filtered or mapped row gets the stream time of the task.",
        "TS-102",
        "KIP-258",
        topology="table-operators",
    ),
    "joins-at-the-time-of-one-side": Defect(
        "A join of two tables gives its result the timestamp of the row that came last.",
        "TS-103",
        "KIP-258",
        topology="table-operators",
    ),
    "aggregates-at-the-time-of-the-last-record": Defect(
        "An aggregate gets the timestamp of its last record, even if an earlier one was later.",
        "TS-104",
        "KIP-258",
        topology="table-operators",
    ),
    "loses-timestamps-at-restoration": Defect(
        "A restoration drops the timestamps of the changelog records.",
        "TS-105",
        "KIP-258",
        topology="table-operators",
    ),
}
"""All defects, by name."""


def require_defects(names: Iterable[str]) -> frozenset[str]:
    """The defects of these names.

    Raises:
        UsageError: no defect has one of the names.
    """
    found = frozenset(names)
    for name in sorted(found - DEFECTS.keys()):
        raise UsageError(
            f"There is no defect {name!r}. Choose one of: {', '.join(sorted(DEFECTS))}."
        )
    return found
