"""The space of plans, and the one place that draws from it.

A swarm file, a defect and a store each narrow a :class:`PlanSpace`. Explorations, campaigns, and
checks of the runtime and of stores draw their plans from the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from streamproof.errors import UsageError
from streamproof.sim.application import (
    ADDITIONAL_RETENTION_MS,
    NO_MAX_AGE_MS,
    SEGMENT_MS,
    TASK_TIMEOUT_MS,
    AutoOffsetReset,
    GroupMembershipOperation,
    GroupProtocol,
    QueryIsolation,
    StreamsConfig,
    WindowDatabases,
)
from streamproof.sim.brokers.partition_log import DELETE_RETENTION_MS
from streamproof.sim.brokers.transaction_coordinator import TransactionVersion
from streamproof.sim.brokers.upkeep import CLEANER_BACKOFF_MS
from streamproof.sim.choices import Choices
from streamproof.sim.clients.consumer import MAX_POLL_RECORDS
from streamproof.sim.clients.membership import HEARTBEAT_MS, MAX_POLL_INTERVAL_MS
from streamproof.sim.clients.producer import MAX_BLOCK_MS, MAX_IN_FLIGHT
from streamproof.sim.decisions.idling import Mode
from streamproof.sim.defects import DEFECTS, Guarantee
from streamproof.sim.nemesis import KINDS
from streamproof.sim.network import REQUEST_TIMEOUT_MS
from streamproof.sim.releases import LiveFormat
from streamproof.sim.rolling_upgrade import UPGRADES
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.topologies import ORDINARY_TOPOLOGIES, TOPOLOGIES
from streamproof.sim.workloads import OVERSIZED_BYTES, WorkloadConfig
from streamproof.sim.world_plan import SAFETY_MS, Plan
from streamproof.stores.capabilities import Capabilities, answers_queries

__all__ = ["EVERYTHING", "Options", "PlanSpace", "draw"]

T = TypeVar("T")

POINT_TOPOLOGIES = ("count", "stream-table-join", "last-byte-count", "punctuated-count")
"""Topologies that any store can serve: they read and write single keys, or scan all of them."""

SCAN_TOPOLOGIES = ("stream-stream-join", "session-count", "windowed-count")
"""Topologies that scan the entries whose keys begin alike, or scan keys in order."""

FAULTS_AFTER_INPUT_MS = 8_000
"""How long faults may happen after the last input of most drawn worlds: a later fault meets tasks
that have nothing to do."""

Options = dict[str, list[Any]]
"""The values that a field may have, by the name of the field."""


class PlanSpace(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    repr_omit_defaults=True,
    forbid_unknown_fields=True,
):
    """A set of plans; an empty attribute restricts nothing.

    Attributes:
        topologies: names in ``TOPOLOGIES``.
        guarantees: processing guarantees.
        upgrades: names in ``UPGRADES``; the empty name is a run without an upgrade.
        kinds: faults of instances, of ``nemesis.KINDS`` and ``nemesis.RARE_KINDS``; a plan has some
            of them.
        plan: values of fields of ``Plan``.
        settings: values of fields of ``StreamsConfig``.
        workload: values of fields of ``WorkloadConfig``.
    """

    topologies: list[str] = []
    guarantees: list[Guarantee] = []
    upgrades: list[str] = []
    kinds: list[str] = []
    plan: Options = {}
    settings: Options = {}
    workload: Options = {}

    def for_defect(self, defect: str) -> PlanSpace:
        """The part of this space in which a defect can do harm.

        Args:
            defect: its name; empty for none.

        Raises:
            UsageError: the defect does no harm in any plan of this space.
        """
        if not defect:
            return self
        known = DEFECTS[defect]
        narrowed: dict[str, Any] = {}
        if len(known.guarantees) == 1:
            (needed,) = known.guarantees
            narrowed["guarantees"] = _left(
                self.guarantees,
                [needed],
                f"The defect {defect!r} does no harm under {' and '.join(self.guarantees)}: "
                f"add {needed!r} to guarantees.",
            )
        if known.upgrade:
            narrowed["upgrades"] = _left(
                self.upgrades,
                [known.upgrade],
                f"The defect {defect!r} does no harm without the upgrade {known.upgrade!r}: "
                "add it to upgrades.",
            )
        if known.topology:
            narrowed["topologies"] = _left(
                self.topologies,
                [known.topology],
                f"The defect {defect!r} does no harm without the topology {known.topology!r}: "
                "add it to topologies.",
            )
        if known.kinds:
            # Nobody draws a rare fault, so no space leaves one out.
            narrowed["kinds"] = [*known.kinds]
        needed_settings = {name: [value] for name, value in known.settings.items()}
        if known.transactional is not None:
            needed_settings["transactional"] = [known.transactional]
        if needed_settings:
            # A file or a store that has settled this keeps its word.
            narrowed["settings"] = {**needed_settings, **self.settings}
        return msgspec.structs.replace(self, **narrowed)

    def for_store(self, capabilities: Capabilities) -> PlanSpace:
        """The part of this space that a real store can be put into.

        Neither the loss of power nor the formats of older releases are simulated for real stores.
        Whether writes are staged follows from the store.

        Args:
            capabilities: the claims of the store.

        Raises:
            UsageError: the store fits no plan of this space.
        """
        if any(self.upgrades):
            raise UsageError(
                "Only model stores can be explored with upgrades: leave out --subject, or "
                "the upgrades."
            )
        is_key_value = capabilities.kind == "key-value"
        topologies = [*POINT_TOPOLOGIES]
        if is_key_value and capabilities.ranges and capabilities.prefix_scan:
            topologies += SCAN_TOPOLOGIES
        settings = {**self.settings, "transactional": [capabilities.transactional]}
        if not capabilities.transactional:
            settings["max_uncommitted_bytes"] = [-1]
            settings["max_uncommitted_records"] = [-1]
        if is_key_value and not capabilities.ranges:
            # A record cache merges its entries into those of the store, in their order.
            settings["statestore_cache_max_bytes"] = [0]
        is_queried = is_key_value and answers_queries(capabilities)
        clients = {} if is_queried else {"query_clients": [0]}
        return msgspec.structs.replace(
            self,
            topologies=_left(
                self.topologies, topologies, _unfit("topologies", self.topologies, topologies)
            ),
            kinds=_left(self.kinds, _REAL_KINDS, _unfit("kinds", self.kinds, _REAL_KINDS)),
            upgrades=[""],
            settings=settings,
            plan={**self.plan, "persistent": [True], **clients},
        )

    def meet(self, other: PlanSpace) -> PlanSpace | None:
        """The plans that are in both spaces; ``None`` if there is none."""
        met: dict[str, Any] = {}
        for name in self.__struct_fields__:
            one, two = getattr(self, name), getattr(other, name)
            common = _common_options if isinstance(one, dict) else _common
            met[name] = common(one, two)
            if met[name] is None:
                return None
        space = PlanSpace(**met)
        # Releases with such an upgrade have no stores that stage their writes.
        is_staged = space.settings.get("transactional") == [True]
        if is_staged and space.upgrades and not any(map(_stages, space.upgrades)):
            return None
        return space

    def has(self, plan: Plan) -> bool:
        """Whether a plan is one of this space."""
        config = plan.config
        guarantee = "exactly-once" if config.exactly_once else "at-least-once"
        named = (
            (self.topologies, plan.topology),
            (self.guarantees, guarantee),
            (self.upgrades, plan.upgrade),
        )
        return (
            all(not possible or value in possible for possible, value in named)
            and (not self.kinds or set(plan.kinds) <= set(self.kinds))
            and _has(self.plan, plan)
            and _has(self.settings, config)
            and _has(self.workload, plan.workload)
        )


EVERYTHING = PlanSpace()
"""All plans that can be drawn."""

_REAL_KINDS = [each for each in KINDS if each != "power"]
"""Faults of instances that are simulated for real stores."""


def _left(wanted: Sequence[T], possible: Sequence[T], problem: str) -> list[T]:
    """The possible values that are wanted; all of them if no value is wanted.

    Raises:
        UsageError: nothing is left.
    """
    left = [each for each in possible if each in wanted or not wanted]
    if not left:
        raise UsageError(problem)
    return left


def _common(one: Sequence[T], other: Sequence[T]) -> list[T] | None:
    """The values in both lists, where an empty list has all values; ``None`` if there is none."""
    if not one or not other:
        return [*one, *other]
    return [each for each in one if each in other] or None


def _common_options(one: Options, other: Options) -> Options | None:
    """The options in both tables; ``None`` if a field has none."""
    met: Options = {}
    for name in [*one, *other]:
        common = _common(one.get(name, []), other.get(name, []))
        if common is None:
            return None
        met[name] = common
    return met


def _unfit(what: str, wanted: Sequence[str], possible: Sequence[str]) -> str:
    return (
        f"This store cannot be explored with the {what} {', '.join(wanted)}: name some of "
        f"{', '.join(possible)}."
    )


def _has(options: Options, owner: Any) -> bool:
    return all(getattr(owner, name) in values for name, values in options.items())


def draw(choices: Choices, space: PlanSpace = EVERYTHING) -> Plan:
    """Draw the plan of a world.

    Every space takes all choices of an unrestricted plan, so that a plan of a smaller space stays
    as close as possible to the plan that the same seed draws from everything.

    Args:
        choices: they decide; the first choices of a world are those of its plan.
        space: the plans that may be drawn.
    """
    first = _First.drawn(choices, space)
    plan = _drawn(choices, first)
    kinds = plan.kinds
    if space.kinds:
        # Rather all of them than a world in which nothing goes wrong.
        kinds = tuple(each for each in kinds if each in space.kinds) or tuple(space.kinds)
    settings = {name: each for name, each in space.settings.items() if name != "transactional"}
    config = replace(plan.config, **_picked(choices, settings))
    workload = replace(plan.workload, **_picked(choices, space.workload))
    picked = {"kinds": kinds, **_picked(choices, space.plan)}
    if config.group_protocol == "streams" and not space.upgrades:
        # A defect or a file may ask for the protocol alone.
        picked["upgrade"] = ""
    return replace(plan, config=config, workload=workload, **picked)


def _picked(choices: Choices, options: Options) -> dict[str, Any]:
    return {name: choices.pick(values) for name, values in options.items()}


class _First(NamedTuple):
    """The parts of a plan that a space settles first, as others depend on them.

    A part that is ``None`` is drawn with the rest.
    """

    exactly_once: bool | None
    transactional: bool | None
    topology: str | None
    upgrade: str | None

    @classmethod
    def drawn(cls, choices: Choices, space: PlanSpace) -> _First:
        """Draw the parts that the space names."""
        guarantee = _one_of(choices, space.guarantees)
        upgrade = _one_of(choices, space.upgrades)
        transactional = _one_of(choices, space.settings.get("transactional", []))
        if upgrade and not _stages(upgrade):
            transactional = False
        exactly_once = None if guarantee is None else guarantee == "exactly-once"
        return cls(exactly_once, transactional, _one_of(choices, space.topologies), upgrade)


def _one_of(choices: Choices, options: Sequence[T]) -> T | None:
    return choices.pick(options) if options else None


def _stages(upgrade: str) -> bool:
    """Whether stores can stage their writes: releases before KIP-1035 have no such stores."""
    return all(each.manages_offsets for each in UPGRADES.get(upgrade, ()))


def _drawn(choices: Choices, first: _First) -> Plan:
    """Draw a plan with these first parts."""
    strict = choices.chance(0.5)
    staged = choices.chance(0.5)
    transactional = staged if first.transactional is None else first.transactional
    ordinary = choices.pick(sorted(ORDINARY_TOPOLOGIES))
    topology = first.topology or ordinary
    config = _drawn_config(
        choices,
        exactly_once=strict if first.exactly_once is None else first.exactly_once,
        transactional=transactional,
    )
    plan = Plan(
        topology=topology,
        partitions=choices.between(1, 3),
        instances=choices.between(1, 3),
        threads=choices.between(1, 2),
        config=config,
        workload=WorkloadConfig.drawn(choices),
        # Crashes are the most frequent: they are the subject of this project.
        kinds=tuple(kind for kind in KINDS if choices.chance(0.7 if kind == "crash" else 0.3)),
        **_drawn_safety_phase(choices),
        activation=choices.pick((0.25, 0.5)),
        upgrade=_fitting(
            _drawn_upgrade(choices, first.upgrade, transactional=transactional), topology
        ),
        persistent=not choices.chance(0.1),
    )
    isolation: QueryIsolation = choices.pick(("", "READ_UNCOMMITTED", "READ_COMMITTED"))
    config = replace(config, default_query_isolation=isolation, **_drawn_strictness(choices))
    plan, config = _with_retention(choices, plan, config)
    plan, config = _with_refused_records(choices, plan, config)
    plan, config = _with_refused_outputs(choices, plan, config)
    if plan.upgrade:
        # A static member keeps an assignment that its other release may not be able to read, and
        # stores of other releases have one database. Releases agree on a version of the classic
        # protocol.
        config = replace(
            config, static_members=False, window_databases="one", group_protocol="classic"
        )
        # The brokers speak what the oldest release speaks.
        oldest = min(each.transaction_version for each in UPGRADES[plan.upgrade])
        config = replace(config, transaction_version=oldest)
    plan = replace(plan, config=config, query_clients=choices.pick((1, 0, 2)))
    if not plan.upgrade.startswith("format-"):
        return plan
    formats: tuple[LiveFormat, ...] = ("assignment", "assignment", "configuration")
    return replace(plan, config=replace(config, live_format=choices.pick(formats)))


def _drawn_safety_phase(choices: Choices) -> dict[str, int]:
    """How long faults may happen."""
    # A fault may mend the harm of an earlier one, so that only short runs show the harm. But what
    # takes a minute needs worlds that last longer.
    long, small = (SAFETY_MS, -1), (15_000, FAULTS_AFTER_INPUT_MS)
    phases = (long, (SAFETY_MS, FAULTS_AFTER_INPUT_MS), small, small)
    safety_ms, faults_after_input_ms = choices.pick(phases)
    return {"safety_ms": safety_ms, "faults_after_input_ms": faults_after_input_ms}


def _fitting(upgrade: str, topology: str) -> str:
    """The upgrade; none if the topology has tables with timestamps, which had no older format."""
    timestamped = any(each.timestamped for each in TOPOLOGIES[topology].topology(1).subtopologies)
    return "" if timestamped and upgrade.startswith("format-") else upgrade


def _drawn_config(choices: Choices, *, exactly_once: bool, transactional: bool) -> StreamsConfig:
    standbys = choices.pick((0, 1))
    # With Kafka's patience, every fault is over before a client gives up.
    patience = choices.pick(((REQUEST_TIMEOUT_MS, MAX_BLOCK_MS), (1_000, 2_000)))
    request_timeout_ms, max_block_ms = patience
    commit_interval_ms = choices.pick((100, 1_000, 5_000))
    max_task_idle_ms = choices.pick((0, -1, 500))
    rules: Mode = choices.pick(("proposal", "proposal", "kafka"))
    limits = choices.pick(((-1, -1), (12, 100))) if transactional else (-1, -1)
    return StreamsConfig(
        exactly_once=exactly_once,
        transactional=transactional,
        commit_interval_ms=commit_interval_ms,
        max_task_idle_ms=max_task_idle_ms,
        idling=rules,
        store_rules=rules,
        transaction_timeout_ms=10_000,
        request_timeout_ms=request_timeout_ms,
        max_block_ms=max_block_ms,
        max_uncommitted_records=limits[0],
        max_uncommitted_bytes=limits[1],
        max_poll_records=choices.pick((MAX_POLL_RECORDS, 3)),
        flush_probability=choices.pick((0.05, 0.0, 0.5)),
        probing_rebalance_interval_ms=choices.pick((20_000, 5_000)),
        session_timeout_ms=choices.pick((10_000, 6_000)),
        heartbeat_interval_ms=choices.pick((HEARTBEAT_MS, 500)),
        statestore_cache_max_bytes=choices.pick((0, 0, 200)),
        buffered_records_per_partition=choices.pick((1_000, 2)),
        state_cleanup_delay_ms=choices.pick((600_000, 5_000, 1_000)),
        # With all metrics, because invariants watch them.
        metrics_recording_level="DEBUG",
        assignor=AssignorConfig(
            num_standby_replicas=standbys,
            acceptable_recovery_lag=choices.pick((10_000, 0, 5)),
        ),
        recycles_tasks=choices.pick((True, True, False)),
    )


def _drawn_strictness(choices: Choices) -> dict[str, Any]:
    """How members join, leave and come back, how patient they are, and where windows lie."""
    operations: tuple[GroupMembershipOperation, ...] = ("DEFAULT", "LEAVE_GROUP")
    databases: tuple[WindowDatabases, ...] = ("one", "segments")
    versions: tuple[TransactionVersion, ...] = (2, 2, 1)
    protocols: tuple[GroupProtocol, ...] = ("classic", "classic", "classic", "streams")
    return {
        "group_membership_operation": choices.pick(operations),
        "static_members": choices.pick((False, False, True)),
        "max_poll_interval_ms": choices.pick((MAX_POLL_INTERVAL_MS, MAX_POLL_INTERVAL_MS, 6_000)),
        "window_databases": choices.pick(databases),
        "task_timeout_ms": choices.pick((TASK_TIMEOUT_MS, TASK_TIMEOUT_MS, 1_000)),
        "transaction_version": choices.pick(versions),
        "brokers": choices.pick((3, 1)),
        "max_in_flight_requests_per_connection": choices.pick((MAX_IN_FLIGHT, 1)),
        "group_protocol": choices.pick(protocols),
    }


def _with_retention(
    choices: Choices, plan: Plan, config: StreamsConfig
) -> tuple[Plan, StreamsConfig]:
    """A plan with the times after which brokers and processes give data up: mostly Kafka's."""
    tombstones_ms, additional_ms, segment_ms, backoff_ms = choices.pick(
        (
            (DELETE_RETENTION_MS, ADDITIONAL_RETENTION_MS, SEGMENT_MS, CLEANER_BACKOFF_MS),
            (DELETE_RETENTION_MS, ADDITIONAL_RETENTION_MS, SEGMENT_MS, CLEANER_BACKOFF_MS),
            (1_000, 15_000, 2_000, 2_000),
        )
    )
    resets: tuple[tuple[AutoOffsetReset, int], ...] = (
        *(3 * (("earliest", -1),)),
        ("earliest", 8_000),
        ("latest", 8_000),
    )
    policy, retention_ms = choices.pick(resets)
    config = replace(
        config,
        topic_delete_retention_ms=tombstones_ms,
        windowstore_changelog_additional_retention_ms=additional_ms,
        topic_segment_ms=segment_ms,
        log_cleaner_backoff_ms=backoff_ms,
        auto_offset_reset=policy,
        state_cleanup_dir_max_age_ms=choices.pick((NO_MAX_AGE_MS, NO_MAX_AGE_MS, 5_000)),
    )
    return replace(plan, workload=replace(plan.workload, retention_ms=retention_ms)), config


def _with_refused_records(
    choices: Choices, plan: Plan, config: StreamsConfig
) -> tuple[Plan, StreamsConfig]:
    """A plan whose input may have records that no task can process: their handlers go on then.

    A handler that fails would end the thread at the same record again and again.
    """
    unprocessable = choices.pick((0.0, 0.0, 0.0, 0.1))
    dead_letters = choices.pick(("", "dead-letters"))
    # The references of these operators look at all records of an input.
    if not unprocessable or plan.topology == "table-operators":
        return plan, config
    config = replace(
        config,
        default_timestamp_extractor="continue",
        deserialization_exception_handler="continue",
        processing_exception_handler="continue",
        errors_dead_letter_queue_topic_name=dead_letters,
    )
    return replace(plan, workload=replace(plan.workload, unprocessable=unprocessable)), config


def _with_refused_outputs(
    choices: Choices, plan: Plan, config: StreamsConfig
) -> tuple[Plan, StreamsConfig]:
    """A plan of which some output may be too large: the handler goes on then.

    A handler that fails would end the thread at the same record again and again.
    """
    oversized = choices.pick((0.0, 0.0, 0.1)) if plan.topology == "stateless" else 0.0
    if not oversized or plan.workload.unprocessable:
        return plan, config
    config = replace(
        config, production_exception_handler="continue", output_max_message_bytes=OVERSIZED_BYTES
    )
    return replace(plan, workload=replace(plan.workload, oversized=oversized)), config


def _drawn_upgrade(choices: Choices, wanted: str | None, *, transactional: bool) -> str:
    """The name of an upgrade, in some of the runs, or whenever one is wanted."""
    drawn = choices.pick(sorted(UPGRADES)) if choices.chance(0.3) else ""
    if wanted is not None:
        return wanted
    return drawn if _stages(drawn) or not transactional else ""
