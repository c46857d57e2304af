"""What a scenario means for real processes: its settings, or the reason why it cannot be played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from streamproof.scenarios.kafka.application import IN_MEMORY, STATIC_MEMBERS, Application
from streamproof.scenarios.kafka.armed_faults import EMPTY_FETCH
from streamproof.scenarios.kafka.cluster_faults import FAILED_OVER, SITES_OF_PROXY
from streamproof.scenarios.kafka.existing_cluster import LEAST_SESSION_MS, WatchedRest
from streamproof.scenarios.kafka.followed_lines import Rest
from streamproof.scenarios.kafka.observable import OF_BROKERS, UNOBSERVED
from streamproof.scenarios.kafka.real_disks import RealDisk
from streamproof.scenarios.scenario import (
    AnyAction,
    Crash,
    Cut,
    Fault,
    Fill,
    Flush,
    Hold,
    Pause,
    Power,
    Scenario,
    Send,
    Setup,
    Start,
    Stop,
    Variant,
)
from streamproof.sim.application import StreamsConfig
from streamproof.sim.fault_sites import NO_ANSWER
from streamproof.sim.rolling_upgrade import UPGRADES
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.world_plan import Plan
from streamproof.stores.api import TRANSACTIONAL_STATESTORES_CONFIG
from streamproof.stores.jvm.kafka_jars import release_numbers

__all__ = [
    "NEWEST_PATCHES",
    "SESSION",
    "SLOW_UPDATER",
    "STAGING_SINCE",
    "disks_of",
    "fitting",
    "has_other_releases",
    "moves_coordinators",
    "needs_proxy",
    "rest_of",
    "restarts_of",
    "settings_of",
    "topics_of",
    "why_not",
    "why_not_shared",
    "why_not_watched",
]

ACTIONS = (Crash, Cut, Fault, Fill, Stop, Start, Pause, Power, Hold, Flush, Send)
"""What the nemesis and the clients of real processes can do."""

SLOW_UPDATER = "updater.slow"
"""The fault that the recorder makes in the instances: it holds batches of restorations up."""

REAL_SITES = SITES_OF_PROXY | {FAILED_OVER, SLOW_UPDATER}
"""The faults of the simulator that can be made for real."""

LEAST_PROBING_MS = 60_000
"""Kafka takes no shorter ``probing.rebalance.interval.ms``."""

POLL_MS = 10
"""How long a thread waits for records, in milliseconds."""

OUR_SESSION_MS = 3_000
"""The session of scenarios that leave it open. Kafka's 45 s would make each restart as slow."""

SESSION = "session.timeout.ms"
"""The setting for how long the group waits for a member."""

DEFAULTS = StreamsConfig()

OTHERWISE_DEFAULT: Mapping[str, tuple[str, ...]] = {
    "auto_offset_reset": ("auto.offset.reset",),
    "errors_dead_letter_queue_topic_name": ("errors.dead.letter.queue.topic.name",),
    "max_block_ms": ("producer.max.block.ms",),
    "max_in_flight_requests_per_connection": ("producer.max.in.flight.requests.per.connection",),
    "max_poll_records": ("max.poll.records",),
    # A simulated client has one time for both: how long a call waits for its answer.
    "request_timeout_ms": ("request.timeout.ms", "consumer.default.api.timeout.ms"),
    "state_cleanup_dir_max_age_ms": ("state.cleanup.dir.max.age.ms",),
    "topic_delete_retention_ms": ("topic.delete.retention.ms",),
    "topic_segment_ms": ("topic.segment.ms",),
    "windowstore_changelog_additional_retention_ms": (
        "windowstore.changelog.additional.retention.ms",
    ),
}
"""Settings with Kafka's own default, which suits real networks, unless a plan has another."""

CONTINUING: Mapping[str, str] = {
    "default_timestamp_extractor": "processor.LogAndSkipOnInvalidTimestamp",
    "deserialization_exception_handler": "errors.LogAndContinueExceptionHandler",
    "processing_exception_handler": "errors.LogAndContinueProcessingExceptionHandler",
}
"""Kafka's classes that leave out a record that cannot be processed; its default classes fail."""

DESERIALIZATION = "deserialization.exception.handler"
"""The setting of Kafka 4.0; before, its name begins with ``default.``."""

STAGING_SINCE = [4, 4]
"""The first release whose stores can stage their writes."""

SECOND_PROTOCOL = 2
"""The ``transaction.version`` of KIP-890, which brokers speak from Kafka 4.0 on."""

NEWEST_PATCHES: Mapping[str, str] = {"4.2": "4.2.2", "4.3": "4.3.1"}
"""By the release that a simulated instance has in an upgrade, the one that a real instance has."""

BEFORE_OFFSETS = "none-before-offsets"
"""The upgrade of plans whose instances are older than 4.3, and stay so."""


def why_not(scenario: Scenario, setup: Setup, release: str) -> str:
    """Why a variant of a scenario cannot be played by real processes; empty if it can."""
    return next(_obstacles(scenario, setup, release), "")


def _obstacles(scenario: Scenario, setup: Setup, release: str) -> Iterator[str]:
    yield from _obstacles_of_the_timeline(scenario, setup.plan)
    yield from _obstacles_of_the_plan(setup, release)
    yield from _obstacles_of_the_upgrade(setup.plan, release)
    variant, choices = setup.variant, scenario.file.choices
    if (variant.defects or variant.patch) and not _is_mistake_of(variant, release):
        yield "its mistake is one of the simulated runtime"
    as_shipped = any(each.plan.config.idling == "kafka" for each in scenario.setups.values())
    if as_shipped and setup.plan.config.idling != "kafka":
        yield "it waits for inputs as KIP-695 proposes, and Kafka does as another variant says"
    others = [each for each in scenario.setups.values() if each.variant is not variant]
    for each in others:
        if _is_mistake_of(each.variant, release) and not _is_mistake_of(variant, release):
            yield f"Kafka {release} makes the mistake of the variant {each.name}"
    if setup.plan.activation or setup.plan.kinds or scenario.file.workload is not None:
        yield "its faults or its input are drawn"
    if choices.seed is not None or choices.recorded:
        yield "its choices are those of a simulated world"


def has_other_releases(plan: Plan) -> bool:
    """Whether instances restart with other releases."""
    return plan.upgrade not in ("", BEFORE_OFFSETS)


def why_not_watched(timeline: Iterable[AnyAction]) -> str:
    """Why a timeline cannot be played where brokers are not recorded; empty if it can."""
    kinds = {each.when.kind for each in timeline if each.when is not None} & OF_BROKERS
    return f"an action waits for {min(kinds)}, which only a recorded broker tells" if kinds else ""


def needs_proxy(timeline: Iterable[AnyAction]) -> bool:
    """Whether something happens between the instances and the brokers."""
    return any(
        isinstance(each, Cut) or (isinstance(each, Fault) and each.site in SITES_OF_PROXY)
        for each in timeline
    )


def moves_coordinators(timeline: Iterable[AnyAction]) -> bool:
    """Whether coordinators move to another broker."""
    return _moves(timeline) > 0


def why_not_shared(timeline: Sequence[AnyAction]) -> str:
    """Why a timeline cannot be played on a broker that worlds share; empty if it can."""
    if needs_proxy(timeline):
        return "no proxy stands before a broker that worlds share, or before another cluster"
    if moves_coordinators(timeline):
        return "nobody kills a broker that worlds share, or one of another cluster"
    return ""


def _moves(timeline: Iterable[AnyAction]) -> int:
    """How often coordinators move."""
    return sum(isinstance(each, Fault) and each.site == FAILED_OVER for each in timeline)


def disks_of(
    timeline: Iterable[AnyAction], application: Application, place: Path
) -> dict[str, RealDisk]:
    """The disks of the instances that lose their power or are full in a timeline.

    Args:
        timeline: the actions.
        application: the application of the instances.
        place: a directory for the files that the disks need.

    Raises:
        UsageError: the libraries before libc cannot be compiled here.
    """
    names = {each.instance for each in timeline if isinstance(each, Fill | Power)}
    return {name: RealDisk(application.state_of(name), place) for name in sorted(names)}


def restarts_of(timeline: Iterable[AnyAction]) -> Counter[str]:
    """How often a timeline starts each instance again."""
    return Counter(
        each.instance
        for each in timeline
        if isinstance(each, Start)
        or (isinstance(each, Crash | Power | Stop) and each.down_ms is not None)
    )


def _is_mistake_of(variant: Variant, release: str) -> bool:
    """Whether a release of Kafka makes the mistake of a variant itself."""
    return any(f"{release}.".startswith(f"{each}.") for each in variant.releases)


def _obstacles_of_the_timeline(scenario: Scenario, plan: Plan) -> Iterator[str]:
    moves = _moves(scenario.file.timeline)
    if moves > 1:
        yield "the coordinators have moved to the last broker after the first time"
    if moves and needs_proxy(scenario.file.timeline):
        yield "no proxy stands before two brokers"
    for action in scenario.file.timeline:
        if not isinstance(action, ACTIONS):
            name = type(action).__name__.lower()
            yield f"no real process can be made to do this at a given moment: {name}"
        elif isinstance(action, Fault) and action.site not in REAL_SITES:
            yield f"no real process can be made to do this at a given moment: {action.site}"
        elif isinstance(action, Fault) and action.site == EMPTY_FETCH:
            yield from _obstacles_of_an_empty_fetch(action, plan)
        if isinstance(action, Send) and any((each.timestamp or 0) < 0 for each in action.records):
            yield "no producer sends a record without a timestamp any more"
        when = action.when
        if when is not None and when.kind in UNOBSERVED:
            reason = UNOBSERVED[when.kind]
            yield f"an action waits for {when.kind}, which cannot be observed: {reason}"


def _obstacles_of_an_empty_fetch(fault: Fault, plan: Plan) -> Iterator[str]:
    if fault.amount not in (0, NO_ANSWER):
        yield "an answer to a fetch has all records here, or none"
    if fault.whom and fault.whom.rpartition("-")[0] not in topics_of(plan):
        yield "the proxy does not know the topics that the application makes itself"


def _obstacles_of_the_plan(setup: Setup, release: str) -> Iterator[str]:
    plan, config = setup.plan, setup.plan.config
    is_before = tuple(map(int, release.split(".")[:2])) < (4, 3)
    if plan.upgrade == BEFORE_OFFSETS and not is_before:
        yield "its instances are older than Kafka 4.3: play it on an older release, as kafka@4.2.0"
    least = f"Kafka takes no probing.rebalance.interval.ms below {LEAST_PROBING_MS:,}"
    for is_so, reason in (
        (
            config.transactional and release_numbers(release) < STAGING_SINCE,
            f"Kafka {release} has no stores that stage their writes",
        ),
        (config.max_uncommitted_records >= 0, "Kafka has no limit of staged records"),
        (
            not config.recycles_tasks,
            "Kafka always keeps the stores of a task that changes its role open",
        ),
        (config.probing_rebalance_interval_ms < LEAST_PROBING_MS, least),
        (
            config.group_protocol == "streams",
            "the applications in Java are started with the classic protocol of groups",
        ),
        (
            config.transaction_version < SECOND_PROTOCOL and release_numbers(release) >= [4],
            "brokers of Kafka 4 speak version 2 of transactions: play it on kafka@3.9.2",
        ),
        (
            config.output_max_message_bytes != DEFAULTS.output_max_message_bytes,
            "Kafka's max.message.bytes counts a whole batch with its header",
        ),
        (
            config.brokers != DEFAULTS.brokers,
            "where there are two brokers, nobody chooses which one leads a log",
        ),
        (config.assignor.max_warmup_replicas < 1, "Kafka takes no max.warmup.replicas below 1"),
    ):
        if is_so:
            yield reason


def _obstacles_of_the_upgrade(plan: Plan, release: str) -> Iterator[str]:
    if not has_other_releases(plan):
        return
    names = sorted({each.name for each in UPGRADES[plan.upgrade]})
    if not NEWEST_PATCHES.keys() >= set(names):
        yield "its upgrade needs releases that are no more, or proposals that Kafka lacks"
    elif release != (newest := NEWEST_PATCHES[names[-1]]):
        yield f"its instances are of Kafka {' and '.join(names)}: play it on kafka@{newest}"
    elif not plan.upgrade_every_ms:
        yield "the times of its upgrade are drawn"


def settings_of(plan: Plan, release: str, *, on_existing: bool = False) -> dict[str, str]:
    """The settings of Kafka Streams that a plan means.

    Args:
        plan: the plan.
        release: the release of the instances, which decides on names and on what is there.
        on_existing: whether the cluster is there already, and takes no shorter sessions than usual.
    """
    config = plan.config
    guarantee = "exactly_once_v2" if config.exactly_once else "at_least_once"
    session, heartbeat = config.session_timeout_ms, config.heartbeat_interval_ms
    if session == DEFAULTS.session_timeout_ms:
        session, heartbeat = OUR_SESSION_MS, OUR_SESSION_MS // 5
    if on_existing:
        session = max(session, LEAST_SESSION_MS)
    found = {
        "processing.guarantee": guarantee,
        "num.stream.threads": plan.threads,
        "commit.interval.ms": config.commit_interval_ms,
        "max.task.idle.ms": config.max_task_idle_ms,
        "statestore.cache.max.bytes": config.statestore_cache_max_bytes,
        # With Kafka's 100 ms, a thread with a commit interval of 100 ms would commit after the
        # first record of a burst.
        "poll.ms": POLL_MS,
        "buffered.records.per.partition": config.buffered_records_per_partition,
        "state.cleanup.delay.ms": config.state_cleanup_delay_ms,
        "metrics.recording.level": config.metrics_recording_level,
        SESSION: session,
        "heartbeat.interval.ms": min(heartbeat, session // 3),
        "probing.rebalance.interval.ms": config.probing_rebalance_interval_ms,
        "max.poll.interval.ms": config.max_poll_interval_ms,
        "task.timeout.ms": config.task_timeout_ms,
        "producer.transaction.timeout.ms": config.transaction_timeout_ms,
        "num.standby.replicas": config.assignor.num_standby_replicas,
        "max.warmup.replicas": config.assignor.max_warmup_replicas,
        "acceptable.recovery.lag": config.assignor.acceptable_recovery_lag,
    }
    found |= {
        setting: value
        for field, settings in OTHERWISE_DEFAULT.items()
        if (value := getattr(config, field)) != getattr(DEFAULTS, field)
        for setting in settings
    }
    if not plan.persistent:
        found[IN_MEMORY] = "true"
    if config.static_members:
        found[STATIC_MEMBERS] = "true"
    if config.transactional:
        found[TRANSACTIONAL_STATESTORES_CONFIG] = "true"
        found["statestore.uncommitted.max.bytes"] = config.max_uncommitted_bytes
    for field, name in CONTINUING.items():
        if getattr(config, field) == "continue":
            found[field.replace("_", ".")] = f"org.apache.kafka.streams.{name}"
    if config.leaves_group(default=False):
        found["main.consumer.internal.leave.group.on.close"] = "true"
    # The topology asks for this, and Kafka does not know it.
    found["streamproof.partitions"] = plan.partitions
    return fitting({name: str(value) for name, value in found.items()}, release)


def fitting(settings: Mapping[str, str], release: str) -> dict[str, str]:
    """Settings of Kafka Streams as a release takes them."""
    numbers = release_numbers(release)
    found = dict(settings)
    if numbers < [4] and (handler := found.pop(DESERIALIZATION, "")):
        found[f"default.{DESERIALIZATION}"] = handler
    if [3, 7] <= numbers < [3, 8]:
        # From 3.8 on nobody has to ask for it, and before 3.7 it is not finished.
        found["__state.updater.enabled__"] = "true"
    return found


def topics_of(plan: Plan) -> dict[str, int]:
    """The topics that somebody else than the application makes, with their partitions."""
    topology = TOPOLOGIES[plan.topology].topology(plan.partitions)
    internal = topology.repartitions
    dead_letters = plan.config.errors_dead_letter_queue_topic_name
    own = {name: count for name, count in topology.partitions.items() if name not in internal}
    return {**own, **({dead_letters: 1} if dead_letters else {})}


def rest_of(plan: Plan, watched: Path | None = None) -> Rest:
    """What knows when an application has processed all its input, and sent on what it owes.

    Args:
        plan: the plan.
        watched: the file with what is seen of a cluster whose brokers are not recorded.
    """
    family = TOPOLOGIES[plan.topology]
    tasks = family.topology(plan.partitions).tasks
    inputs = {name: task.inputs for name, task in tasks.items()}
    settle_s = family.settle_ms / 1000
    if watched:
        return WatchedRest(inputs, settle_s, watched)
    return Rest(inputs, settle_s, reads_committed=plan.config.exactly_once)
