"""Plays one variant of a scenario in one world, and compares the run with the expected result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple

from streamproof.errors import UsageError
from streamproof.scenarios.choice_codec import decode
from streamproof.scenarios.director import Director, matches
from streamproof.scenarios.real_stores import needs_model_stores
from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.scenarios.scenario import AnyAction, Count, Scenario, Setup
from streamproof.sim.choices import Choices
from streamproof.sim.invariants import INVARIANTS, Invariant
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.patches import Patch, patch_at
from streamproof.sim.simulation import MakeDisk, run
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.topology import Topology
from streamproof.sim.trace import Event

__all__ = ["Judged", "direct", "never_done", "play", "unexpected"]


class Judged(NamedTuple):
    """A run of a scenario, compared with the expected result.

    Attributes:
        played: the run.
        surprises: the differences from the expected result, a sentence each; empty without any.
    """

    played: RecordedRun
    surprises: list[str]


def play(
    scenario: Scenario,
    setup: Setup,
    *,
    defects: Iterable[str] = (),
    seed: int | None = None,
    make_disk: MakeDisk | None = None,
    invariants: Sequence[type[Invariant]] = INVARIANTS,
    command: str = "",
) -> Judged:
    """Play one variant of a scenario.

    Args:
        scenario: the scenario.
        setup: the variant.
        defects: defects of the runtime besides those of the variant.
        seed: a seed whose choices replace those of the scenario.
        make_disk: makes the disk of an instance; by default, a disk with model stores.
        invariants: the promises that must hold; with other stores, only those that bind them.
        command: the command that shows this run again.

    Raises:
        UsageError: the scenario needs model stores, but ``make_disk`` gives others; or its recorded
            choices do not fit.
        InvariantError: an invariant raised.
        SubjectError: a store raised what no store may raise.
        PatchError: the patch of the variant failed.
    """
    reason = needs_model_stores(scenario, setup) if make_disk is not None else ""
    if reason:
        raise UsageError(
            f"{scenario.name} ({setup.name}) cannot be played with real stores: {reason}. Leave "
            "--subject out."
        )
    wrong = tuple(dict.fromkeys([*setup.variant.defects, *defects]))
    recorded = scenario.file.choices
    changed = seed is not None or bool(defects) or scenario.is_changed or make_disk is not None
    is_recorded = setup.name == recorded.variant and not changed
    director = direct(scenario, seed, is_same=is_recorded)
    events: list[Event] = []
    patch = _patch_of(scenario, setup)
    with nullcontext() if patch is None else patch.applied():
        outcome = run(
            director.choices,
            setup.plan,
            defects=wrong,
            watchers=[events.append, director.see],
            make_disk=make_disk,
            invariants=invariants,
            direct=director.direct,
        )
    played = RecordedRun(
        f"{scenario.name} ({setup.name})",
        setup.plan,
        wrong if patch is None else (*wrong, patch.name),
        events,
        outcome.violations,
        outcome.digest,
        director.pairs,
        command,
        scenario.file.title,
        " ".join(scenario.file.story.split()),
    )
    surprises = [
        *never_done(scenario.file.timeline, director.undone, played),
        *unexpected(setup, played),
    ]
    if is_recorded and recorded.digest not in ("", outcome.digest):
        surprises.append(f"this is not the run that was recorded: its digest is {outcome.digest}")
    return Judged(replace(played, surprises=tuple(surprises)), surprises)


def _patch_of(scenario: Scenario, setup: Setup) -> Patch | None:
    """The patch of a variant; ``None`` without one."""
    variant = setup.variant
    if not variant.patch:
        return None
    return patch_at(variant.patch, variant.seam, scenario.path.parent)


def direct(scenario: Scenario, seed: int | None = None, *, is_same: bool = False) -> Director:
    """The director for the timeline of a scenario, in one world.

    Args:
        scenario: the scenario.
        seed: a seed whose choices replace those of the scenario.
        is_same: whether the run must repeat the recorded run exactly. Any other run, such as one
            without the defect, follows the recorded choices as far as they fit.
    """
    recorded = scenario.file.choices
    seed = recorded.seed if seed is None else seed
    if seed is not None:
        choices = Choices.seeded(seed, recording=True)
    elif is_same:
        choices = Choices.strict(decode(recorded.recorded))
    else:
        choices = Choices.recorded([choice for _, choice in decode(recorded.recorded)])
    return Director(scenario.file.timeline, choices)


def never_done(
    timeline: list[AnyAction], undone: Iterable[int], played: RecordedRun
) -> Iterator[str]:
    """The actions that never happened; none if a violation ended the run before them."""
    for number in sorted(undone) if not played.violations else ():
        what = type(timeline[number]).__name__.lower()
        yield f"timeline[{number}] ({what}) never happened: its event or its site never came"


def unexpected(setup: Setup, played: RecordedRun) -> Iterator[str]:
    """The differences from what a variant expects. What was not seen is not expected either."""
    expected = setup.variant
    broken = played.violations[0] if played.violations else None
    if broken is None and expected.breaks:
        yield f"expected {' or '.join(expected.breaks)} to be broken, but every promise held"
    if broken is not None and not {broken.requirement, broken.invariant} & set(expected.breaks):
        wanted = " or ".join(expected.breaks)
        promise = f"{wanted} to be broken" if wanted else "every promise to hold"
        yield f"expected {promise}, but {broken.requirement} was broken: {broken.message}"
    for count in expected.events:
        if count.kind in played.unseen.kinds:
            continue
        yield from _miscounted(count, played.events)
    if (expected.contents or expected.outputs) and not played.unseen.logs:
        topology = TOPOLOGIES[setup.plan.topology].topology(setup.plan.partitions)
        yield from _different(setup, played, topology)


def _miscounted(count: Count, events: Iterable[Event]) -> Iterator[str]:
    found = sum(matches(count, event) for event in events)
    most = found if count.most is None else count.most
    if not count.least <= found <= most:
        upper = "any number of" if count.most is None else count.most
        yield f"expected {count.kind} {count.least} to {upper} times, but found it {found} times"


def _different(setup: Setup, played: RecordedRun, topology: Topology) -> Iterator[str]:
    """The stores and outputs whose logs differ from the expected content."""
    history = LogHistory(exactly_once=setup.plan.config.exactly_once)
    for event in played.events:
        history.see(event)
    for store, rows in setup.variant.contents.items():
        yield from _compare(history, topology.changelog(store), f"store {store}", rows)
    for topic, rows in setup.variant.outputs.items():
        yield from _compare(history, topic, f"output {topic}", rows)


def _compare(history: LogHistory, topic: str, what: str, expected: dict[str, str]) -> Iterator[str]:
    found: dict[str, str] = {}
    for partition in sorted(history.logs):
        if partition.rpartition("-")[0] == topic:
            for record in history.visible(partition):
                key = record.key.decode("utf-8", "backslashreplace")
                if record.value is None:
                    found.pop(key, None)
                else:
                    found[key] = record.value.decode("utf-8", "backslashreplace")
    if found != expected:
        yield f"expected {what} to hold {expected} at the end, but it holds {found}"
