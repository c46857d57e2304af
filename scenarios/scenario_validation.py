"""Finds the mistakes in a scenario that a schema cannot find, such as unknown names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from streamproof.errors import UsageError
from streamproof.near_names import near_names
from streamproof.scenarios.choice_codec import decode
from streamproof.scenarios.scenario import (
    AnyAction,
    EventPattern,
    Fault,
    OnInstance,
    Query,
    ScenarioFile,
    Send,
    Setup,
    Variant,
)
from streamproof.sim.defects import DEFECTS
from streamproof.sim.event_kinds import KINDS
from streamproof.sim.fault_sites import SITES
from streamproof.sim.invariants import INVARIANTS
from streamproof.sim.nemesis import KINDS as TROUBLES
from streamproof.sim.patches import problem_of
from streamproof.sim.rolling_upgrade import ROLL_OVER, UPGRADES
from streamproof.sim.seams import SEAMS
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.topology import Topology
from streamproof.sim.world_plan import Plan, require_world_version

__all__ = ["Problem", "problems_of"]


class Problem(NamedTuple):
    """A mistake in a scenario file.

    Attributes:
        keys: the place of the mistake in the file, the outermost key first.
        what: the rest of a sentence that begins with the key.
    """

    keys: tuple[str | int, ...]
    what: str


def problems_of(file: ScenarioFile, setups: Iterable[Setup], directory: Path) -> Iterator[Problem]:
    """All mistakes in a scenario file, the worst first.

    Args:
        file: the content of the file.
        setups: its variants.
        directory: the directory of the file, in which its patches are.
    """
    for name, variant in file.variants.items():
        yield from _in_variant(("variants", name), variant)
        yield from _in_patch(("variants", name), variant, directory)
    for setup in setups:
        wrong = list(_in_plan(setup.plan))
        yield from wrong
        if not wrong:
            yield from _in_timeline(file.timeline, setup.plan)
            yield from _in_expectations(setup)
    yield from _in_choices(file)


def _one_of(
    keys: tuple[str | int, ...], name: str, known: Collection[str], what: str
) -> Iterator[Problem]:
    """A problem if a name is unknown."""
    if name in known:
        return
    near = near_names(name, known)
    listed = ", ".join(sorted(known)) or "nothing"
    hint = f"did you mean {near}?" if near else f"there are: {listed}"
    yield Problem(keys, f"is {name!r}, which is no known {what}; {hint}")


def _in_plan(plan: Plan) -> Iterator[Problem]:
    yield from _one_of(("plan", "topology"), plan.topology, TOPOLOGIES, "topology")
    if plan.upgrade:
        yield from _one_of(("plan", "upgrade"), plan.upgrade, UPGRADES, "upgrade")
    for each in plan.kinds:
        yield from _one_of(("plan", "kinds"), each, TROUBLES, "trouble")


def _instances(plan: Plan) -> list[str]:
    count = 2 * plan.instances if plan.upgrade in ROLL_OVER else plan.instances
    return [f"instance-{number}" for number in range(count)]


def _in_timeline(timeline: Iterable[AnyAction], plan: Plan) -> Iterator[Problem]:
    topology = TOPOLOGIES[plan.topology].topology(plan.partitions)
    for number, each in enumerate(timeline):
        keys = ("timeline", number)
        yield from _in_timing(keys, each, plan)
        if each.when is not None:
            yield from _in_pattern((*keys, "when"), each.when, plan, topology)
        match each:
            case OnInstance():
                yield from _one_of((*keys, "instance"), each.instance, _instances(plan), "instance")
            case Send():
                yield from _in_send(keys, each, topology)
            case Query():
                yield from _in_query(keys, each, topology)
            case Fault():
                yield from _one_of((*keys, "site"), each.site, SITES, "fault site")


def _in_timing(keys: tuple[str | int, ...], action: AnyAction, plan: Plan) -> Iterator[Problem]:
    if action.at is not None and action.when is not None:
        yield Problem((*keys, "at"), "and `when` exclude each other: leave one of them out")
    if action.at is None and action.when is None and not isinstance(action, Fault):
        yield Problem((*keys, "do"), "needs a time: `at`, in milliseconds, or `when`, an event")
    if action.at is not None and action.at >= plan.safety_ms:
        yield Problem(
            (*keys, "at"),
            f"is {action.at}: faults end at {plan.safety_ms} ms; raise plan.safety_ms, or act "
            "earlier",
        )
    if action.after_ms and action.when is None:
        yield Problem((*keys, "after_ms"), "is a delay after an event: set `when`, too")


def _in_pattern(
    keys: tuple[str | int, ...], pattern: EventPattern, plan: Plan, topology: Topology
) -> Iterator[Problem]:
    yield from _one_of((*keys, "kind"), pattern.kind, KINDS, "kind of event")
    if pattern.task:
        yield from _one_of((*keys, "task"), pattern.task, topology.tasks, "task")
    if pattern.partition and not pattern.partition.startswith("group:"):
        partitions = {
            f"{topic}-{number}"
            for topic, count in topology.topics.items()
            for number in range(count)
        }
        if dead_letters := plan.config.errors_dead_letter_queue_topic_name:
            partitions.add(f"{dead_letters}-0")
        yield from _one_of((*keys, "partition"), pattern.partition, partitions, "partition")
    instance = pattern.actor.partition("/")[0]
    if instance.startswith("instance-"):
        yield from _one_of((*keys, "actor"), instance, _instances(plan), "instance")


def _in_send(keys: tuple[str | int, ...], action: Send, topology: Topology) -> Iterator[Problem]:
    wrong = list(_one_of((*keys, "topic"), action.topic, topology.inputs, "input"))
    yield from wrong
    count = 0 if wrong else topology.partitions[action.topic]
    for number, record in enumerate(action.records):
        if record.partition is not None and record.partition >= count and not wrong:
            yield Problem(
                (*keys, "records", number, "partition"),
                f"is {record.partition}: {action.topic} has {count} partitions",
            )
    if action.open_ms and not action.transaction:
        yield Problem((*keys, "open_ms"), "needs a transaction: set `transaction`, too")


def _in_query(keys: tuple[str | int, ...], action: Query, topology: Topology) -> Iterator[Problem]:
    wrong = list(_one_of((*keys, "task"), action.task, topology.tasks, "task"))
    yield from wrong
    if not wrong:
        stores = topology.tasks[action.task].changelogs
        yield from _one_of((*keys, "store"), action.store, stores, f"store of task {action.task}")
    if action.bounded and action.requires_active:
        yield Problem(
            (*keys, "bounded"),
            "is for copies that may be stale: set `requires_active = false`, too",
        )


def _in_variant(keys: tuple[str | int, ...], variant: Variant) -> Iterator[Problem]:
    for each in variant.defects:
        yield from _one_of((*keys, "defects"), each, DEFECTS, "defect")
    known = {each.requirement for each in INVARIANTS} | {each.name for each in INVARIANTS}
    for each in variant.breaks:
        yield from _one_of((*keys, "breaks"), each, known, "promise of the simulator")


def _in_patch(keys: tuple[str | int, ...], variant: Variant, directory: Path) -> Iterator[Problem]:
    if variant.seam and not variant.patch:
        yield Problem((*keys, "seam"), "names what a patch replaces: set `patch`, too")
    elif variant.seam:
        yield from _one_of((*keys, "seam"), variant.seam, SEAMS, "seam")
    if variant.patch and (problem := problem_of(variant.patch, variant.seam, directory)):
        yield Problem((*keys, "patch"), f"cannot be used: {problem}")


def _in_expectations(setup: Setup) -> Iterator[Problem]:
    variant, keys = setup.variant, ("variants", setup.name.partition(" ")[0])
    topology = TOPOLOGIES[setup.plan.topology].topology(setup.plan.partitions)
    stores = {name for each in topology.subtopologies for name in each.stores}
    for each in variant.contents:
        yield from _one_of((*keys, "contents", each), each, stores, "store")
    for each in variant.outputs:
        yield from _one_of((*keys, "outputs", each), each, topology.outputs, "output")
    for number, count in enumerate(variant.events):
        here = (*keys, "events", number)
        yield from _in_pattern(here, count, setup.plan, topology)
        if count.most is not None and count.most < count.least:
            yield Problem(
                (*here, "most"), f"is {count.most}, but must be at least `least`, {count.least}"
            )
    if variant.breaks and (variant.contents or variant.outputs):
        yield Problem(
            (*keys, "contents" if variant.contents else "outputs"),
            "cannot be checked in a run that a broken promise ends: leave out this key or `breaks`",
        )


def _in_choices(file: ScenarioFile) -> Iterator[Problem]:
    choices = file.choices
    if choices.seed is not None and choices.recorded:
        yield Problem(("choices", "seed"), "and `recorded` exclude each other: leave one out")
    if choices.variant:
        names = list(file.variants)
        yield from _one_of(("choices", "variant"), choices.variant, names, "variant")
    try:
        decode(choices.recorded)
    except UsageError as error:
        yield Problem(("choices", "recorded"), f"cannot be read: {error}".rstrip("."))
    if choices.recorded or choices.world:
        try:
            require_world_version(choices.world, "the recording", "Record the run anew.")
        except UsageError as error:
            yield Problem(("choices", "world"), f"is wrong: {error}".rstrip("."))
