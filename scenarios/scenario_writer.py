"""Writes a shrunk run as files: a scenario to keep, and a test to run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import msgspec

from streamproof.scenarios.choice_codec import encode
from streamproof.scenarios.scenario import AnyAction, Scenario
from streamproof.scenarios.shrinking import Shrunk
from streamproof.sim.defects import DEFECTS
from streamproof.sim.world_plan import WORLD_VERSION

__all__ = ["drawn_scenario_text", "pytest_text", "scenario_text", "variant_of"]

WIDTH = 96
"""The largest width of a line of a story, in columns."""


def scenario_text(
    shrunk: Shrunk,
    origin: str,
    directory: Path = Path(),
    *,
    subject: str = "",
    timeline: Sequence[AnyAction] = (),
) -> str:
    """A scenario file of a run: its world, its choices, and the promise that it breaks.

    Args:
        shrunk: the run.
        origin: the name of the original run, such as ``seed 7``.
        directory: the directory of the file, from which it names a patch.
        subject: the store in the run; empty for model stores.
        timeline: what happened in the run besides what the choices decide.
    """
    plan = shrunk.plan
    lines = [
        f"title = {_text(_title(shrunk))}",
        f"sources = {_value(_sources(shrunk))}",
        'story = """',
        *_wrapped(_escaped(_story(shrunk, origin, subject))),
        '"""',
        "",
        "[plan]",
        f"topology = {_text(plan.topology)}",
        # A scenario file has no random faults by default, but the run had them.
        f"kinds = {_value(plan.kinds)}",
        f"activation = {_value(plan.activation)}",
        *_changed(plan, "topology", "kinds", "activation", "config", "workload"),
        "",
        "[settings]",
        *_changed(plan.config),
        "",
        "[workload]",
        *_changed(plan.workload),
        "",
        *_timeline(timeline),
        *_variants(shrunk, directory),
        "",
        "[choices]",
        f'variant = "{variant_of(shrunk)}"',
        *([] if subject else [f'digest = "{shrunk.played.digest}"']),
        f"world = {WORLD_VERSION}",
        'recorded = """',
        *encode(shrunk.played.choices).splitlines(),
        '"""',
    ]
    return "".join(f"{line}\n" for line in lines)


def drawn_scenario_text(scenario: Scenario, variant: str, story: str) -> str:
    """A scenario file of a world whose timeline was drawn, and whose only variant has this name.

    Args:
        scenario: the world.
        variant: the name of its variant.
        story: what happens, in a few sentences.
    """
    setup = scenario.setups[variant]
    plan = setup.plan
    return "".join(
        f"{line}\n"
        for line in [
            f"title = {_text(scenario.file.title)}",
            f"sources = {_value(setup.variant.breaks)}",
            'story = """',
            *_wrapped(_escaped(story)),
            '"""',
            "",
            "[plan]",
            *_changed(plan, "kinds", "activation", "config", "workload"),
            "",
            "[settings]",
            *_changed(plan.config),
            "",
            *_timeline(scenario.file.timeline),
            f"[variants.{variant}]",
            f"breaks = {_value(setup.variant.breaks)}",
        ]
    )


def _timeline(actions: Iterable[AnyAction]) -> Iterator[str]:
    for each in actions:
        yield "[[timeline]]"
        for name, value in msgspec.to_builtins(each).items():
            yield f"{name} = {_value(value)}"
        yield ""


def pytest_text(shrunk: Shrunk, scenario: str, *, subject: str = "") -> str:
    """A test that plays a scenario. It passes as long as the run breaks the same promise.

    Args:
        shrunk: the run.
        scenario: the name of the scenario file, which is in the same directory.
        subject: the store in the run; empty for model stores.
    """
    broken = shrunk.violations[0].requirement
    arguments = f', "--subject", {_text(subject)}' if subject else ""
    return f'''"""{_title(shrunk)}."""

import subprocess
from pathlib import Path

SCENARIO = Path(__file__).parent / "{scenario}"


def test_{_identifier(shrunk)}() -> None:
    """The run breaks {broken}, as the scenario expects."""
    command = ["streamproof", "replay", f"{{SCENARIO}}@{variant_of(shrunk)}"{arguments}]
    played = subprocess.run(command, capture_output=True, text=True, check=False)
    assert played.returncode == 0, played.stdout + played.stderr
'''


def _identifier(shrunk: Shrunk) -> str:
    words = f"{shrunk.violations[0].requirement} {' '.join(shrunk.played.defects)}".lower()
    return "_".join("".join(each if each.isalnum() else " " for each in words).split())


def _title(shrunk: Shrunk) -> str:
    violation = shrunk.violations[0]
    wrong = shrunk.played.defects
    by = f", with the {'patch' if shrunk.patch else 'defect'} {wrong[-1]}" if wrong else ""
    return f"{violation.requirement} is broken{by}"


def _sources(shrunk: Shrunk) -> list[str]:
    """The tickets and proposals of the defects, and the broken requirement."""
    told = [each for name in shrunk.defects for each in DEFECTS[name].source.split(", ")]
    return list(dict.fromkeys([*told, shrunk.violations[0].requirement]))


def _story(shrunk: Shrunk, origin: str, subject: str) -> str:
    """Three sentences: the world, the defect, and the broken promise."""
    plan, violation = shrunk.plan, shrunk.violations[0]
    store = f" with {subject}" if subject else ""
    patch = shrunk.patch
    replaced = [] if patch is None else [f"{patch.name} replaces {patch.seam} in the runtime."]
    causes = " ".join([*(DEFECTS[name].what for name in shrunk.defects), *replaced])
    faults = f"{', '.join(plan.kinds)} may happen" if plan.kinds else "no process is hurt"
    where = (
        f"found by {violation.event.kind} of {violation.event.actor} at {violation.event.time:,} ms"
        if violation.event
        else "found at the end of the run"
    )
    return (
        f"The topology {plan.topology}{store} runs in {plan.instances} "
        f"{'process' if plan.instances == 1 else 'processes'}, and {faults} for "
        f"{plan.safety_ms:,} ms ({origin}, made smaller). "
        f"{causes or 'Nothing is made wrong on purpose.'} "
        f"So it does not hold that {violation.invariant}: {violation.message} ({where}; "
        f"{len(shrunk.matters)} of {len(shrunk.played.events):,} events matter)."
    )


def variant_of(shrunk: Shrunk) -> str:
    """The name of the variant in which the promise is broken."""
    return "defect" if shrunk.played.defects else "found"


def _variants(shrunk: Shrunk, directory: Path) -> Iterator[str]:
    """The variants. Without the defects, every promise must hold."""
    if shrunk.played.defects:
        yield "[variants.fixed]"
        yield ""
    yield f"[variants.{variant_of(shrunk)}]"
    if shrunk.defects:
        yield f"defects = {_value(list(shrunk.defects))}"
    if shrunk.patch is not None:
        yield f"patch = {_text(shrunk.patch.path_from(directory))}"
        yield f"seam = {_text(shrunk.patch.seam)}"
    yield f"breaks = {_value([shrunk.violations[0].requirement])}"


def _changed(value: Any, *without: str) -> Iterator[str]:
    """The fields that differ from their defaults, as keys of a table."""
    for each in fields(value):
        mine = getattr(value, each.name)
        if each.name not in without and mine != _default(each):
            yield f"{each.name} = {_value(mine)}"


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _value(value: Any) -> str:
    """A value as TOML."""
    if is_dataclass(value):
        return f"{{ {', '.join(_changed(value))} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {_value(each)}' for name, each in value.items())} }}"
    if isinstance(value, bool):
        return str(value).lower()
    return _text(value) if isinstance(value, str) else repr(value)


def _text(text: str) -> str:
    """A text as TOML: JSON escapes a text as a basic string of TOML needs it."""
    return json.dumps(text)


def _escaped(text: str) -> str:
    """The inside of a string of several lines."""
    return _text(text)[1:-1]


def _wrapped(text: str) -> list[str]:
    # Dividing a word could divide an escape sequence.
    return wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
