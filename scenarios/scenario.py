"""A crash scenario as data: a world, a timeline of actions, and the expected result.

:mod:`streamproof.scenarios.scenario_reader` reads one from a TOML file, whose keys are the
attributes here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from streamproof.json_schemas import json_schema
from streamproof.sim.application import StreamsConfig
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world_plan import Plan

__all__ = [
    "Action",
    "AnyAction",
    "ChoicesTable",
    "Count",
    "Crash",
    "Cut",
    "EventPattern",
    "Fault",
    "Fill",
    "Flush",
    "Hold",
    "Occurrence",
    "OnInstance",
    "Pause",
    "Power",
    "Query",
    "Record",
    "Scenario",
    "ScenarioFile",
    "Send",
    "Setup",
    "Start",
    "Stop",
    "Variant",
    "schema",
]

Millis = Annotated[int, Meta(ge=0)]
"""Virtual milliseconds since the start of the run, or from one moment to another."""

Positive = Annotated[int, Meta(ge=1)]


def _partial_of(kind: type, *without: str, **other: Any) -> type[Struct]:
    """A struct with the fields of a dataclass, all of them optional.

    Args:
        kind: the dataclass.
        without: the fields that the struct lacks.
        other: the types of the fields whose type differs from that in the dataclass.
    """
    hints = get_type_hints(kind) | other
    members = [
        (each.name, hints[each.name] | UnsetType, UNSET)
        for each in fields(kind)
        if each.name not in without
    ]
    return msgspec.defstruct(
        f"{kind.__name__}Table",
        members,
        bases=(_Table,),
        module=__name__,
        namespace={
            "__doc__": f"The fields of ``{kind.__name__}`` that differ from their defaults."
        },
    )


class _Table(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A table of a scenario file. An unknown key is an error."""


if TYPE_CHECKING:
    AssignorTable = Any
    SettingsTable = Any
    WorkloadTable = Any
    PlanTable = Any
else:
    AssignorTable = _partial_of(AssignorConfig)
    SettingsTable = _partial_of(StreamsConfig, assignor=AssignorTable)
    WorkloadTable = _partial_of(WorkloadConfig)
    PlanTable = _partial_of(Plan, "config", "workload", kinds=list[str])


class EventPattern(_Table, kw_only=True):
    """The events with these fields. A field that the pattern omits may have any value.

    Attributes:
        kind: as in ``streamproof.sim.event_kinds``.
        actor: an instance, one of its threads, or ``brokers``.
        task: the id of a task.
        partition: a partition, or a changelog.
        offset: the offset that the event is about.
        attributes: further attributes of the event, bytes as text.
    """

    kind: str
    actor: str = ""
    task: str = ""
    partition: str = ""
    offset: int | None = None
    attributes: dict[str, Any] = {}


class Occurrence(EventPattern):
    """One of the events that match a pattern.

    Attributes:
        nth: the number of the event among all that match, from 1.
    """

    nth: Positive = 1


class Action(_Table, tag_field="do"):
    """An action that the director carries out once.

    Attributes:
        at: the time of the action, in virtual milliseconds.
        when: the event that the action follows, instead of a time.
        after_ms: the delay between that event and the action.
    """

    at: Millis | None = None
    when: Occurrence | None = None
    after_ms: Millis = 0


class OnInstance(Action, kw_only=True):
    """An action on one instance.

    Attributes:
        instance: the name of the instance: ``instance-0``, ``instance-1`` and so on.
    """

    instance: str


class Crash(OnInstance, tag="crash"):
    """Kill the process, which loses its memory.

    Attributes:
        down_ms: the time until the process starts again. Without it, a ``start`` or the end of the
            safety phase starts the process.
    """

    down_ms: Millis | None = None


class Power(OnInstance, tag="power"):
    """Switch the machine off. Model stores and real instances may lose unsynced data, too.

    Attributes:
        flushes: the number of flushes that each store loses, the last ones first. Only unsynced
            flushes of the last 30 seconds can be lost. A real instance loses what it has not
            synced.
        seed: of a real instance, which of the legal states its disk has then: with 0, all that was
            not synced is lost; any other number draws one.
        down_ms: the time until the process starts again.
    """

    flushes: Millis = 0
    seed: Millis = 0
    down_ms: Millis | None = None


class Stop(OnInstance, tag="stop"):
    """Stop the process cleanly.

    Attributes:
        down_ms: the time until the process starts again.
    """

    down_ms: Millis | None = None


class Start(OnInstance, tag="start"):
    """Start the process. A running process goes on undisturbed."""


class Pause(OnInstance, tag="pause"):
    """Freeze the process, as a long garbage collection does. It comes back as a zombie.

    Attributes:
        lasts_ms: the length of the freeze; by default, until the end of the safety phase.
    """

    lasts_ms: Millis | None = None


class Cut(OnInstance, tag="cut"):
    """Cut the network between the process and the brokers.

    Attributes:
        lasts_ms: the length of the cut.
    """

    lasts_ms: Millis | None = None


class Fill(OnInstance, tag="fill"):
    """Fill the disk.

    Attributes:
        lasts_ms: the time until the disk has space again.
    """

    lasts_ms: Millis | None = None


class Hold(OnInstance, tag="hold"):
    """Pause the application: the process stays in the group, but does no work (KIP-834).

    Attributes:
        lasts_ms: the length of the pause.
    """

    lasts_ms: Millis | None = None


class Flush(OnInstance, tag="flush"):
    """Flush the open stores of the instance.

    Attributes:
        task: the task whose stores are flushed; by default, every task.
    """

    task: str = ""


class Record(_Table, kw_only=True):
    """A record to send.

    Attributes:
        key: the key as text.
        value: the value as text; without it, the record is a tombstone.
        timestamp: the timestamp in milliseconds; by default, the time of sending. A record with -1
            has none.
        partition: the number of the partition; by default, the key determines it.
    """

    key: str
    value: str | None = None
    timestamp: Annotated[int, Meta(ge=-1)] | None = None
    partition: Millis | None = None


class Send(Action, kw_only=True, tag="send"):
    """Send records to an input.

    Attributes:
        topic: the input.
        records: the records.
        transaction: the end of the transaction around the records; without it, the records have
            no transaction.
        open_ms: the time between the last record and the end of the transaction.
    """

    topic: str
    records: list[Record]
    transaction: Literal["", "commit", "abort"] = ""
    open_ms: Millis = 0


class Query(Action, kw_only=True, tag="query"):
    """Ask interactive queries, one after the other, each until it is answered.

    All queries of a timeline come from one client, ``client``, outside of the instances.

    Attributes:
        task: the id of the task.
        store: the store of the task.
        from_key: the smallest key; without it, there is no limit.
        to_key: the largest key; the same as the smallest asks for one key.
        requires_active: whether only the running active task may answer.
        isolation: the isolation level; empty for the default.
        bounded: whether the answer must be as new as all that the client has seen.
        times: how many queries are asked.
        every_ms: the pause between an answer and the next query.
    """

    task: str
    store: str
    from_key: str | None = None
    to_key: str | None = None
    requires_active: bool = True
    isolation: Literal["", "READ_COMMITTED", "READ_UNCOMMITTED"] = ""
    bounded: bool = False
    times: Positive = 1
    every_ms: Millis = 0


class Fault(Action, kw_only=True, tag="fault"):
    """Make a fault happen at a named site.

    Attributes:
        at: the time from which passes of the site count; by default, the start of the run.
        site: the name of the site, as in ``streamproof.sim.fault_sites``.
        whom: the instance, thread or partition that fails; by default, any.
        what: the request that fails; by default, any.
        nth: the number of the first pass of the site that fails.
        times: the number of passes in a row that fail.
        amount: the size of the fault, such as a delay: the choice after the fault. The default is
            the least.
    """

    site: str
    whom: str = ""
    what: str = ""
    nth: Positive = 1
    times: Positive = 1
    amount: Millis = 0


AnyAction = Crash | Power | Stop | Start | Pause | Cut | Fill | Hold | Flush | Send | Query | Fault


class Count(EventPattern):
    """The expected number of events that match a pattern.

    Attributes:
        least: the least number.
        most: the largest number; without it, any number will do.
    """

    least: Millis = 0
    most: Millis | None = None


class Variant(_Table):
    """One way to run a scenario, with the expected result.

    Attributes:
        why: the difference that the variant makes, in one sentence.
        defects: the defects that are switched on in the runtime.
        patch: a mistake that the scenario brings, as ``FILE.py:FUNCTION``; the file is relative to
            the scenario. See :mod:`streamproof.sim.patches`.
        seam: the function of the runtime that the patch replaces.
        settings: settings that replace those of the scenario.
        plan: fields that replace those of the plan of the scenario.
        workload: fields that replace those of the workload of the scenario.
        breaks: the requirements or invariants, by id or name, one of which must break first. If
            the list is empty, every promise must hold.
        contents: the final rows of stores according to their changelogs: by store, key and value.
        outputs: the final value of each key in the outputs: by topic.
        events: the expected numbers of events.
        model_stores_only: the reason why real stores give another result; empty if they do not.
        releases: the releases of Kafka, such as ``4.1`` or ``4.2.1``, that make the mistake of the
            variant themselves. On these the variant is played for real, and the others are not.
    """

    why: str = ""
    defects: list[str] = []
    patch: str = ""
    seam: str = ""
    settings: SettingsTable = msgspec.field(default_factory=SettingsTable)
    plan: PlanTable = msgspec.field(default_factory=PlanTable)
    workload: WorkloadTable = msgspec.field(default_factory=WorkloadTable)
    breaks: list[str] = []
    contents: dict[str, dict[str, str]] = {}
    outputs: dict[str, dict[str, str]] = {}
    events: list[Count] = []
    model_stores_only: str = ""
    releases: list[str] = []


class ChoicesTable(_Table):
    """The source of all other decisions. Without it, every decision is the plainest option.

    Attributes:
        seed: the seed that the decisions are drawn from.
        recorded: the recorded decisions; see :mod:`streamproof.scenarios.choice_codec`.
        world: the version of the simulated world in which the decisions were recorded.
        variant: the variant with which the decisions were recorded.
        digest: the digest of the recorded run.
    """

    seed: Millis | None = None
    recorded: str = ""
    world: Millis = 0
    variant: str = ""
    digest: str = ""


class ScenarioFile(_Table):
    """A scenario file.

    Attributes:
        title: the subject of the scenario, in one line.
        story: the course of events and why it matters, in three sentences.
        sources: tickets and proposals.
        extends: the scenario that this one extends: the name of its file, without ``.toml``. Tables
            are merged; this timeline follows the other one.
        plan, settings, workload: the world. Without a workload, only the timeline sends records.
        timeline: the actions.
        variants: the variants, by name.
        matrix: settings with a list of values each. Every variant runs with every combination.
        choices: the source of all other decisions.
    """

    title: str = ""
    story: str = ""
    sources: list[str] = []
    extends: str = ""
    plan: PlanTable = msgspec.field(default_factory=PlanTable)
    settings: SettingsTable = msgspec.field(default_factory=SettingsTable)
    workload: WorkloadTable | None = None
    timeline: list[AnyAction] = []
    variants: dict[str, Variant] = {}
    matrix: dict[str, list[Any]] = {}
    choices: ChoicesTable = msgspec.field(default_factory=ChoicesTable)


@dataclass(frozen=True)
class Setup:
    """One variant of a scenario, with one combination of the values of the matrix.

    Attributes:
        name: the name of the variant, followed by the values of the matrix.
        plan: the plan of the world.
        variant: the entry of the variant in the file.
    """

    name: str
    plan: Plan
    variant: Variant


@dataclass(frozen=True)
class Scenario:
    """A scenario that was read and checked.

    Attributes:
        name: the name of its file, without ``.toml``.
        path: the path of its file.
        file: the content of the file, merged with the files that it extends.
        setups: every variant with every combination of the matrix, by name.
        is_changed: whether the user has changed a setting of the file.
    """

    name: str
    path: Path
    file: ScenarioFile
    setups: dict[str, Setup]
    is_changed: bool = False


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema of a scenario file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "streamproof scenario",
        **json_schema(ScenarioFile),
    }
