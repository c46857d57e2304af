"""A crash scenario as data: a world, what happens in it and when, and what is expected of it.

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
    """A struct with the fields of a dataclass, none of which has to be there.

    Args:
        kind: the dataclass.
        without: the fields that are left out.
        other: the types of fields that have another one here.
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
        namespace={"__doc__": f"What is not as ``{kind.__name__}`` has it by default."},
    )


class _Table(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A table of a scenario file: a key that it does not have is a mistake."""


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
    """Events that are alike; what is left out may be anything.

    Attributes:
        kind: as in ``streamproof.sim.event_kinds``.
        actor: an instance, one of its threads, or ``brokers``.
        task: the id of a task.
        partition: a partition, or a changelog.
        offset: the offset that the event is about.
        attributes: what else the event has to say, bytes as text.
    """

    kind: str
    actor: str = ""
    task: str = ""
    partition: str = ""
    offset: int | None = None
    attributes: dict[str, Any] = {}


class Occurrence(EventPattern):
    """One of several events that are alike.

    Attributes:
        nth: which of them, from 1.
    """

    nth: Positive = 1


class Action(_Table, tag_field="do"):
    """Something that is made to happen, once.

    Attributes:
        at: when, in virtual milliseconds.
        when: the event right after which it happens, instead.
        after_ms: so long after that event.
    """

    at: Millis | None = None
    when: Occurrence | None = None
    after_ms: Millis = 0


class OnInstance(Action, kw_only=True):
    """What is done to an instance.

    Attributes:
        instance: its name, from ``instance-0`` on.
    """

    instance: str


class Crash(OnInstance, tag="crash"):
    """Kill the process: what is in its memory is gone.

    Attributes:
        down_ms: it is started again after so long; if it is left out, by ``start`` or in the end.
    """

    down_ms: Millis | None = None


class Power(OnInstance, tag="power"):
    """Switch the machine off: what was not synced may be gone, too. Model stores only.

    Attributes:
        flushes: each store loses so many of its last flushes, if there were as many in the last
            30 seconds, and they were not synced.
        down_ms: it is started again after so long.
    """

    flushes: Millis = 0
    down_ms: Millis | None = None


class Stop(OnInstance, tag="stop"):
    """Stop the process cleanly.

    Attributes:
        down_ms: it is started again after so long.
    """

    down_ms: Millis | None = None


class Start(OnInstance, tag="start"):
    """Start a process; nothing happens if one runs."""


class Pause(OnInstance, tag="pause"):
    """Let the process stand still, as in a long garbage collection: it comes back as a zombie.

    Attributes:
        lasts_ms: how long; if it is left out, to the end of the safety phase.
    """

    lasts_ms: Millis | None = None


class Cut(OnInstance, tag="cut"):
    """Separate the process from the brokers.

    Attributes:
        lasts_ms: how long.
    """

    lasts_ms: Millis | None = None


class Fill(OnInstance, tag="fill"):
    """Let the disk be full.

    Attributes:
        lasts_ms: how long.
    """

    lasts_ms: Millis | None = None


class Hold(OnInstance, tag="hold"):
    """Let the process neither process nor restore; it stays in the group (KIP-834).

    Attributes:
        lasts_ms: how long.
    """

    lasts_ms: Millis | None = None


class Flush(OnInstance, tag="flush"):
    """Let the open stores of the instance bring to the disk what they have in memory.

    Attributes:
        task: of this task alone.
    """

    task: str = ""


class Record(_Table, kw_only=True):
    """A record that is sent.

    Attributes:
        key: as text.
        value: as text; without it, the record is a tombstone.
        timestamp: in milliseconds; by default the moment at which it is sent.
        partition: its number; by default it follows from the key.
    """

    key: str
    value: str | None = None
    timestamp: Millis | None = None
    partition: Millis | None = None


class Send(Action, kw_only=True, tag="send"):
    """Send records to an input.

    Attributes:
        topic: the input.
        records: what is sent.
        transaction: whether they are sent in a transaction, and how it ends.
        open_ms: so long the transaction is open.
    """

    topic: str
    records: list[Record]
    transaction: Literal["", "commit", "abort"] = ""
    open_ms: Millis = 0


class Fault(Action, kw_only=True, tag="fault"):
    """Let a fault happen at a named site.

    Attributes:
        at: from then on it is waited for; from the start, if nothing is said.
        site: its name, as in ``streamproof.sim.fault_sites``.
        whom: the instance, thread or partition that it happens to; any, if it is left out.
        what: the request that it happens to; any, if it is left out.
        nth: which time that the site is asked for this.
        times: so often in a row from that time on.
        amount: the choice that follows: how long, or how much; the least, if it is left out.
    """

    site: str
    whom: str = ""
    what: str = ""
    nth: Positive = 1
    times: Positive = 1
    amount: Millis = 0


AnyAction = Crash | Power | Stop | Start | Pause | Cut | Fill | Hold | Flush | Send | Fault


class Count(EventPattern):
    """How often events that are alike are expected.

    Attributes:
        least: so often at least.
        most: so often at most; any number, if it is left out.
    """

    least: Millis = 0
    most: Millis | None = None


class Variant(_Table):
    """One of the ways in which a scenario is run, and what is expected then.

    Attributes:
        why: what makes the difference, in a sentence.
        defects: the mistakes that the runtime makes.
        settings: instead of those of the scenario.
        plan: instead of what the scenario says.
        workload: instead of that of the scenario.
        breaks: the requirements, or the names of the invariants, that are broken first; none means
            that everything holds.
        contents: the final rows of stores, as their changelogs have them: by store, key and value.
        outputs: the final value of each key in the outputs: by topic.
        events: how often events are expected.
        model_stores_only: why it does not come so with real stores; empty if it does.
    """

    why: str = ""
    defects: list[str] = []
    settings: SettingsTable = msgspec.field(default_factory=SettingsTable)
    plan: PlanTable = msgspec.field(default_factory=PlanTable)
    workload: WorkloadTable = msgspec.field(default_factory=WorkloadTable)
    breaks: list[str] = []
    contents: dict[str, dict[str, str]] = {}
    outputs: dict[str, dict[str, str]] = {}
    events: list[Count] = []
    model_stores_only: str = ""


class ChoicesTable(_Table):
    """Where all other decisions come from; without it, each is the plainest there is.

    Attributes:
        seed: they follow from it.
        recorded: they were made before; see :mod:`streamproof.scenarios.choice_codec`.
        world: the version of the simulated world that they were recorded in.
        variant: the variant that they were recorded with.
        digest: what came of it then.
    """

    seed: Millis | None = None
    recorded: str = ""
    world: Millis = 0
    variant: str = ""
    digest: str = ""


class ScenarioFile(_Table):
    """A scenario file.

    Attributes:
        title: what it is about, in a line.
        story: what happens and why it matters, in three sentences.
        sources: tickets and proposals.
        extends: the scenario that this one goes on from: another file, without ``.toml``. Tables
            are merged; the timeline comes after its timeline.
        plan, settings, workload: the world. Without a workload, only the timeline sends records.
        timeline: what is made to happen.
        variants: the ways in which it is run, by name.
        matrix: settings, each with the values that it has in turn, in each of the variants.
        choices: where all other decisions come from.
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
    """One way in which a scenario is run.

    Attributes:
        name: of the variant, with what the matrix sets in it.
        plan: what the world is like.
        variant: what the file says of the variant.
    """

    name: str
    plan: Plan
    variant: Variant


@dataclass(frozen=True)
class Scenario:
    """A scenario that was read and checked.

    Attributes:
        name: of its file, without ``.toml``.
        path: of its file.
        file: all that it says, with what it extends.
        setups: the ways in which it is run, by name.
        is_changed: whether settings are others than the file says.
    """

    name: str
    path: Path
    file: ScenarioFile
    setups: dict[str, Setup]
    is_changed: bool = False


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema of a scenario file."""
    found = msgspec.json.schema(ScenarioFile)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "streamproof scenario",
        **found,
    }
