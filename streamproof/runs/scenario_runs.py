"""Playing scenarios by name: what a target means, and the runs that it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from streamproof.conformance.store_worlds.hosted_play import Wanted, play_with
from streamproof.errors import UsageError
from streamproof.scenarios.kafka.real_settings import why_not
from streamproof.scenarios.play import Judged
from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.scenarios.scenario import Scenario, Setup
from streamproof.scenarios.scenario_reader import find, library, read
from streamproof.search_path import search_directory

__all__ = ["ScenarioRun", "TargetKind", "kind_of", "play_targets", "replay"]

TargetKind = Literal["failure", "trace", "scenario"]


class ScenarioRun(NamedTuple):
    """One variant of a scenario that was played.

    Attributes:
        scenario: the scenario.
        setup: the variant.
        judged: the run, and what came other than expected.
    """

    scenario: Scenario
    setup: Setup
    judged: Judged


def replay(
    target: Path | str,
    *,
    subject: str = "",
    settings: Mapping[str, Any] | None = None,
    defects: Iterable[str] = (),
    seed: int | None = None,
    run: str = "",
) -> list[RecordedRun]:
    """Play a scenario, or read a trace, and return each run with its events and violations.

    ``replay("KAFKA-20685@fixed")`` is a list of one run; without ``@fixed``, there is a run for
    each variant. A trace is judged again by all invariants.

    Args:
        target: a scenario of the library, a scenario file (``.toml``), either with ``@VARIANT``;
            or a trace (``.parquet``), or a directory of traces.
        subject: the store in the scenario, as ``streamproof verify`` takes it; a fast model store
            by default.
        settings: settings to change, by the names that the scenario files have for them.
        defects: more mistakes that the runtime makes.
        seed: decides what the scenario leaves open.
        run: the name of the run to read from a trace that has several.

    Raises:
        UsageError: there is no such target, or an argument does not fit it.
    """
    search_directory()
    kind = kind_of(str(target))
    if kind == "failure":
        raise UsageError(
            f"{target} is a saved failure of a store: run `streamproof replay {target}`."
        )
    wanted = Wanted(subject, tuple(defects), seed)
    if kind == "scenario":
        if run:
            raise UsageError(
                f"{target} is no trace, and only traces have runs by name: leave run out."
            )
        changes = dict(settings or {})
        return [each.judged.played for each in play_targets([str(target)], wanted, changes)]
    if wanted != Wanted() or settings:
        raise UsageError(
            f"{target} is a trace, and a trace cannot be changed: leave subject, settings, defects "
            "and seed out, or replay a scenario."
        )
    # Reading a trace imports Arrow, which playing a scenario does not need.
    from streamproof.runs.trace_runs import read_runs

    return read_runs([Path(target)], [run] if run else [])


def kind_of(target: str) -> TargetKind:
    """Whether a target is a saved failure, a trace or a scenario."""
    if target.endswith(".json"):
        return "failure"
    is_directory = Path(target).is_dir() and target not in library()
    return "trace" if target.endswith(".parquet") or is_directory else "scenario"


def play_targets(
    targets: Iterable[str], wanted: Wanted, changes: Mapping[str, Any], typed: tuple[str, ...] = ()
) -> list[ScenarioRun]:
    """Play every variant that the targets mean. For real, it may be that only some can be played.

    Args:
        targets: scenarios, each with or without ``@VARIANT``.
        wanted: the store, and what else differs from the scenarios.
        changes: settings to change, by name.
        typed: the same settings as ``KEY=VALUE``, for the command that shows a run again.

    Raises:
        UsageError: there is no such scenario, variant, setting or store.
    """
    chosen = [
        pair for each in targets for pair in _playable(_variants(each, dict(changes)), wanted)
    ]
    return [ScenarioRun(*pair, play_with(*pair, wanted, typed)) for pair in chosen]


def _playable(
    variants: list[tuple[Scenario, Setup]], wanted: Wanted
) -> list[tuple[Scenario, Setup]]:
    """The variants that can be played as wanted; all of them if none can, so that each says why."""
    if not wanted.release:
        return variants
    return [pair for pair in variants if not why_not(*pair, wanted.release)] or variants


def _variants(target: str, changes: dict[str, Any]) -> list[tuple[Scenario, Setup]]:
    """The variants that a target means."""
    name, at, variant = target.rpartition("@")
    scenario = read(find(name if at else target), changes)
    if not at:
        return [(scenario, each) for each in scenario.setups.values()]
    found = [each for each in scenario.setups.values() if each.name.partition(" ")[0] == variant]
    found = [each for each in scenario.setups.values() if each.name == variant] or found
    if not found:
        raise UsageError(
            f"{scenario.name} has no variant {variant!r}; it has: {', '.join(scenario.setups)}."
        )
    return [(scenario, each) for each in found]
