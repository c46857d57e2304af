"""Worlds for real processes, drawn from seeds: short plans, and what happens in them.

A plan is drawn by ``plan_space.draw`` as for the simulator, from the part of the space that real
processes can play. Input and faults are drawn as well, before the run, as the timeline of a
scenario. So a world is played by real processes and by the simulator alike, can be written into a
file, and becomes smaller without actions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from streamproof.scenarios.kafka.real_settings import STAGING_SINCE
from streamproof.scenarios.scenario import (
    AnyAction,
    Crash,
    Hold,
    Occurrence,
    Pause,
    Power,
    Record,
    Scenario,
    ScenarioFile,
    Send,
    Setup,
    Stop,
    Variant,
)
from streamproof.sim.application import StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.plan_space import PlanSpace, draw
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.workloads import MAX_PACE, RecordSource, WorkloadConfig
from streamproof.sim.world_plan import Plan
from streamproof.stores.jvm.kafka_jars import release_numbers

__all__ = [
    "DELAYS_MS",
    "FEW",
    "FOUND",
    "LEFT_OUT",
    "MOMENTS",
    "REAL_WORLDS",
    "drawn_world",
    "real_worlds_of",
    "world_of",
]

FOUND = "found"
"""The variant of a drawn world."""

SAFETY_MS = 20_000
"""How long a simulated world of the same plan may have faults: longer than any timeline here."""

SPREAD_MS = 2_000
"""Faults that follow no event come within so many milliseconds."""

MOST_FAULTS = 3
"""The most faults of one world."""

MOMENTS = {
    "task.processed": "has processed its {nth} record",
    "store.put": "has written to a store {times}",
    "thread.committed": "has committed {times}",
    "store.committed": "has committed a store {times}",
}
"""The events of an instance after which a fault may come, in words."""

FEW = 4
"""Commits are few: the number of the one that a fault follows is drawn up to this one."""

DELAYS_MS = (0, 0, 0, 40, 150, 400)
"""The time between the moment and the fault: mostly none."""

DOWN_MS = (0, 0, 300, 1_000)
"""How long an instance is down."""

TROUBLES_MS = (200, 800, 2_500)
"""How long an instance stands still, or is paused: shorter or longer than its session."""

POWER_SEEDS = 100
"""How many legal states a loss of power has to choose from."""

REAL_WORLDS = PlanSpace(
    topologies=sorted(TOPOLOGIES.keys() - {"global-table-join", "reused-table-join"}),
    upgrades=[""],
    kinds=["crash", "pause", "bounce", "hold", "power"],
    plan={
        "partitions": [1, 2],
        "instances": [1, 2],
        "activation": [0.0],
        "safety_ms": [SAFETY_MS],
        "persistent": [True, True, True, False],
        "query_clients": [0],
    },
    settings={
        "transactional": [False, True],
        "commit_interval_ms": [30, 100, 400],
        "idling": ["kafka"],
        "store_rules": ["kafka"],
        "max_uncommitted_records": [-1],
        "max_uncommitted_bytes": [StreamsConfig.max_uncommitted_bytes, 100],
        "session_timeout_ms": [1_500],
        "heartbeat_interval_ms": [300],
        "transaction_timeout_ms": [3_000],
        "request_timeout_ms": [StreamsConfig.request_timeout_ms],
        "max_block_ms": [StreamsConfig.max_block_ms],
        "max_poll_interval_ms": [StreamsConfig.max_poll_interval_ms],
        "task_timeout_ms": [StreamsConfig.task_timeout_ms],
        "flush_probability": [0.0],
        "probing_rebalance_interval_ms": [60_000],
        "recycles_tasks": [True],
        "static_members": [False, False, True],
        "group_membership_operation": ["DEFAULT"],
        "group_protocol": ["classic"],
        "default_query_isolation": [""],
        "window_databases": ["one"],
        "transaction_version": [2],
        "brokers": [1],
        "max_in_flight_requests_per_connection": [
            StreamsConfig.max_in_flight_requests_per_connection
        ],
        "topic_delete_retention_ms": [StreamsConfig.topic_delete_retention_ms],
        "topic_segment_ms": [StreamsConfig.topic_segment_ms],
        "log_cleaner_backoff_ms": [StreamsConfig.log_cleaner_backoff_ms],
        "windowstore_changelog_additional_retention_ms": [
            StreamsConfig.windowstore_changelog_additional_retention_ms
        ],
        "auto_offset_reset": ["earliest"],
        "state_cleanup_dir_max_age_ms": [StreamsConfig.state_cleanup_dir_max_age_ms],
        "default_timestamp_extractor": ["fail"],
        "deserialization_exception_handler": ["fail"],
        "processing_exception_handler": ["fail"],
        "production_exception_handler": ["retry"],
        "output_max_message_bytes": [StreamsConfig.output_max_message_bytes],
        "errors_dead_letter_queue_topic_name": [""],
    },
    workload={
        "records": [10, 25],
        "max_pause_ms": [30, 120],
        "max_open_ms": [100],
        "retention_ms": [-1],
        "unprocessable": [0.0],
        "oversized": [0.0],
    },
)
"""The plans that are drawn for the newest release. ``LEFT_OUT`` says why the others are not."""

LEFT_OUT: Mapping[str, str] = {
    "global tables": "the recorder does not follow global stores",
    "tables that are read from their input again": "the recorder shows the rows of their stores "
    "with timestamps when a task changes its role",
    "upgrades": "all instances have one release",
    "stores that stage writes, before Kafka 4.4": "older releases have none",
    "queries": "the recorder does not follow queries",
    "cuts, full disks, lost requests": "no real network or disk is made to fail in these worlds",
    "3 partitions, 3 instances": "each instance is a JVM that starts in seconds",
    "session, heartbeat and transaction timeouts": "they are short, because real time passes: "
    "1.5 s, 0.3 s and 3 s",
    "timeouts of requests and tasks, max.poll.interval.ms": "they are Kafka's, and no world is long"
    " enough to reach them",
    "probing rebalances": "Kafka takes no interval below 60 s, and no world is so long",
    "retention of inputs, tombstones and segments": "it takes effect after longer than a world",
    "stores closed when a task changes its role": "Kafka always keeps them open",
    "records that nobody can process, outputs that are too large": "the recorder does not follow "
    "handlers of exceptions",
    "rules of the proposals where Kafka differs": "a real instance follows its release",
    "explicit flushes": "RocksDB flushes by itself",
    "the protocol of groups of streams": "the applications in Java start with the classic one",
    "several brokers": "all worlds share one broker, which stays up",
}
"""What the simulator draws and real worlds do not have, each with the reason."""


def real_worlds_of(release: str) -> PlanSpace:
    """The plans that are drawn for a release of Kafka."""
    if release_numbers(release) >= STAGING_SINCE:
        return REAL_WORLDS
    settings = {**REAL_WORLDS.settings, "transactional": [False]}
    return msgspec.structs.replace(REAL_WORLDS, settings=settings)


def drawn_world(seed: int, space: PlanSpace = REAL_WORLDS) -> Scenario:
    """The world of a seed, as a scenario with one variant, ``FOUND``.

    Args:
        seed: all choices follow from it.
        space: the plans that may be drawn; a part of ``REAL_WORLDS``.
    """
    choices = Choices.seeded(seed)
    plan = _plain(draw(choices, space))
    timeline = sorted(_timeline(choices, plan), key=lambda each: each.at or 0)
    # All faults and all input are in the timeline.
    plan = replace(plan, kinds=(), workload=WorkloadConfig(records=0))
    return world_of(f"seed-{seed}", plan, timeline)


def world_of(
    name: str, plan: Plan, timeline: list[AnyAction], breaks: tuple[str, ...] = ()
) -> Scenario:
    """A scenario with one variant, ``FOUND``, which was read from no file.

    Args:
        name: its name.
        plan: its plan, without drawn faults and drawn input.
        timeline: what happens.
        breaks: the requirements that are expected to break.
    """
    variant = Variant(breaks=list(breaks))
    file = ScenarioFile(title=f"A drawn world ({name})", timeline=timeline)
    file.variants[FOUND] = variant
    setup = Setup(FOUND, plan, variant)
    return Scenario(name, Path(f"{name}.toml"), file, {FOUND: setup})


def _plain(plan: Plan) -> Plan:
    """A plan whose assignor takes what Kafka takes."""
    drawn = plan.config.assignor
    assignor = AssignorConfig(
        num_standby_replicas=drawn.num_standby_replicas,
        acceptable_recovery_lag=drawn.acceptable_recovery_lag,
    )
    return replace(plan, config=replace(plan.config, assignor=assignor))


def _timeline(choices: Choices, plan: Plan) -> Iterator[AnyAction]:
    topology = TOPOLOGIES[plan.topology].topology(plan.partitions)
    for topic in topology.inputs:
        yield from _sends(choices, plan, topic, is_table=topic in topology.tables)
    if plan.kinds:
        for _ in range(choices.between(1, MOST_FAULTS)):
            yield _fault(choices, plan)


def _sends(choices: Choices, plan: Plan, topic: str, *, is_table: bool) -> Iterator[Send]:
    """The bursts of one input, as a workload of the simulator sends them."""
    config = plan.workload
    source = RecordSource(choices, topic, config, is_table=is_table)
    pace = choices.between(1, MAX_PACE)
    now = 0
    while source.count < config.records:
        now += choices.between(1, config.max_pause_ms * pace)
        count = min(choices.between(1, config.max_burst), config.records - source.count)
        is_last = source.count + count == config.records
        end: Literal["", "commit", "abort"] = ""
        open_ms = 0
        # The last burst leaves a marker at the end of its partitions.
        if choices.chance(config.transactional) or (is_last and config.transactional):
            end = "abort" if choices.chance(config.aborted) else "commit"
            open_ms = choices.between(1, config.max_open_ms)
        records = [_record(source, now) for _ in range(count)]
        yield Send(at=now, topic=topic, records=records, transaction=end, open_ms=open_ms)


def _record(source: RecordSource, now: int) -> Record:
    drawn = source.draw(now)
    value = None if drawn.value is None else drawn.value.decode()
    return Record(key=drawn.key.decode(), value=value, timestamp=drawn.timestamp)


def _fault(choices: Choices, plan: Plan) -> AnyAction:
    name = f"instance-{choices.below(plan.instances)}"
    moment = _moment(choices, plan, name)
    match choices.pick(plan.kinds):
        case "crash":
            return Crash(instance=name, down_ms=choices.pick(DOWN_MS), **moment)
        case "bounce":
            return Stop(instance=name, down_ms=choices.pick(DOWN_MS), **moment)
        case "power":
            seed = choices.below(POWER_SEEDS)
            return Power(instance=name, seed=seed, down_ms=choices.pick(DOWN_MS), **moment)
        case "pause":
            return Pause(instance=name, lasts_ms=choices.pick(TROUBLES_MS), **moment)
        case "hold":
            return Hold(instance=name, lasts_ms=choices.pick(TROUBLES_MS), **moment)
        case other:
            raise AssertionError(other)


def _moment(choices: Choices, plan: Plan, name: str) -> dict[str, Any]:
    """When a fault comes: at a time, or after an event of its instance."""
    if choices.chance(0.3):
        return {"at": choices.between(0, SPREAD_MS)}
    kind = choices.pick(("task.processed", "task.processed", *MOMENTS))
    most = FEW if kind.endswith("committed") else max(1, plan.workload.records // 2)
    when = Occurrence(kind=kind, actor=name, nth=choices.between(1, most))
    return {"when": when, "after_ms": choices.pick(DELAYS_MS)}
