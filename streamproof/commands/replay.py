"""``streamproof replay``: plays a scenario, shows a trace, or runs a saved failure again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from streamproof.commands.options import (
    DEFAULT_OUT,
    Bootstrap,
    ClassPath,
    KafkaRelease,
    OfTheJvm,
    OnWorld,
    OutputDirectory,
    StoreLayer,
    WorkDirectory,
    release_of_world,
    subjects_with,
)
from streamproof.commands.replay_view import Format, View
from streamproof.commands.terminal import terminal
from streamproof.errors import UsageError
from streamproof.exit_codes import ExitCode
from streamproof.search_path import search_directory

if TYPE_CHECKING:
    from rich.console import Console

    from streamproof.conformance.store_worlds.hosted_play import Wanted

__all__ = ["replay"]


TargetsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET",
        help="A scenario of the library or a scenario file (.toml), either with @VARIANT; a "
        "failure that a run saved (.json); or a trace (.parquet), a directory of traces, or "
        "the directory of a campaign.",
    ),
]

SubjectOption = Annotated[
    str,
    typer.Option(
        metavar="SUBJECT",
        show_default=False,
        help="Play the scenario with this store, named as for `verify`. Default: a fast model "
        "store.",
    ),
]

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one setting of the scenario, such as max_task_idle_ms=500. Repeatable.",
    ),
]

DefectOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Make the simulated runtime commit this mistake as well. Repeatable.",
    ),
]

SeedOption = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Draw what the scenario leaves open from this seed."),
]

RunOption = Annotated[
    list[str] | None,
    typer.Option(
        "--run",
        metavar="ID",
        help="Show this run of a trace that has several. Repeatable.",
    ),
]

UntilOption = Annotated[
    int | None,
    typer.Option(
        min=0, metavar="MS", help="Show nothing that happens after this virtual millisecond."
    ),
]

FormatOption = Annotated[
    Format,
    typer.Option(
        "--format", help="Print the run (text), or write it to a file in one of these formats."
    ),
]

CompareOption = Annotated[
    bool,
    typer.Option("--compare", help="Show two runs side by side: two targets, or two variants."),
]

StepOption = Annotated[bool, typer.Option("--step", help="Walk through the run event by event.")]

AllOption = Annotated[
    bool,
    typer.Option("--all", help="Show every event, not only those that matter to the failure."),
]


def replay(
    targets: TargetsArgument,
    *,
    subject: SubjectOption = "",
    set_: SetOption = None,
    defect: DefectOption = None,
    seed: SeedOption = None,
    run: RunOption = None,
    until: UntilOption = None,
    format_: FormatOption = "text",
    out: OutputDirectory = DEFAULT_OUT,
    compare_: CompareOption = False,
    step: StepOption = False,
    all_: AllOption = False,
    work_dir: WorkDirectory = None,
    class_path: ClassPath = "",
    kafka: KafkaRelease = "",
    layer: StoreLayer = "",
    on: OnWorld = "",
    bootstrap: Bootstrap = "",
) -> None:
    """Play a scenario, show a trace, or run a saved failure again.

    Exit codes:
      0    everything came as expected, and no saved failure fails any more
      1    something came other than expected, or a promise is broken in a trace
      2    a saved failure cannot be tried on this machine
      3    the command line or an input is wrong
      70   streamproof itself failed
    """
    search_directory()
    from streamproof.conformance.store_worlds.hosted_play import Wanted
    from streamproof.runs.scenario_runs import kind_of

    kinds = {kind_of(each) for each in targets}
    if len(kinds) > 1:
        raise UsageError("Scenarios, traces and saved failures are replayed one kind at a time.")
    asked = _Asked(
        targets,
        Wanted(
            subject,
            tuple(defect or ()),
            seed,
            work_dir,
            release_of_world(on, bootstrap, plays_scenarios=True),
            bootstrap,
        ),
        tuple(set_ or ()),
        tuple(run or ()),
        View(format_, out, all_, until, compare_, step),
        OfTheJvm(class_path, kafka, layer),
    )
    kind = kinds.pop()
    _require_fitting(kind, asked)
    show = {"failure": _replay_failures, "trace": _replay_traces, "scenario": _replay_scenarios}
    raise typer.Exit(show[kind](terminal(), asked))


class _Asked(NamedTuple):
    """The options of the command.

    Attributes:
        targets: what to replay, all of one kind.
        wanted: the store of a scenario, its defects, its seed, and where databases go.
        changes: settings of a scenario to change, each as ``KEY=VALUE``.
        runs: the runs of a trace to show.
        view: how runs are shown.
        jvm: the options for stores of the JVM.
    """

    targets: list[str]
    wanted: Wanted
    changes: tuple[str, ...]
    runs: tuple[str, ...]
    view: View
    jvm: OfTheJvm


def _replay_failures(console: Console, asked: _Asked) -> int:
    from msgspec import structs

    from streamproof.commands.replay_output import EXIT_CODES, print_repeated
    from streamproof.conformance.saved_failures import read_failure
    from streamproof.runs.failure_runs import repeat_failure
    from streamproof.stores.jvm.subjects import CLASS_PATH

    read = [read_failure(Path(each)) for each in asked.targets]
    names = subjects_with([each.subject for each in read], asked.jvm)
    saved = [structs.replace(each, subject=name) for each, name in zip(read, names, strict=True)]
    given = os.environ.get(CLASS_PATH, "")
    codes = []
    for each in saved:
        if path := given or each.class_path:
            os.environ[CLASS_PATH] = path
        codes.append(print_repeated(console, repeat_failure(each, asked.wanted.work_dir)))
    return next(code for code in EXIT_CODES.values() if code in codes)


def _replay_traces(console: Console, asked: _Asked) -> int:
    from streamproof.commands.replay_drawing import summary
    from streamproof.commands.replay_output import print_why, show_traces
    from streamproof.runs.trace_runs import read_runs

    runs = read_runs([Path(each) for each in asked.targets], asked.runs)
    show_traces(console, runs, asked.view)
    broken = [each for each in runs if each.violations]
    if asked.view.is_compared:
        print_why(console, (f"{each.name}: {summary(each)}" for each in broken))
    return ExitCode.FAILURE if broken else ExitCode.SUCCESS


def _replay_scenarios(console: Console, asked: _Asked) -> int:
    from streamproof.commands.replay_output import print_why, show_scenarios
    from streamproof.conformance.store_worlds.hosted_play import target_of
    from streamproof.runs.scenario_runs import play_targets

    wanted, changes = asked.wanted, asked.changes
    (subject,) = subjects_with([wanted.subject], asked.jvm)
    wanted = wanted._replace(subject=subject)
    settings = dict(map(_setting, changes))
    runs = play_targets(asked.targets, wanted, settings, changes)
    if wanted.release and asked.view.is_compared and len(runs) == 1:
        # One run for real is compared with the same run of the simulator.
        name = target_of(runs[0].scenario, runs[0].setup)
        runs = [
            *play_targets([name], wanted._replace(release="", bootstrap=""), settings, changes),
            *runs,
        ]
    show_scenarios(console, runs, asked.view)
    is_as_written = not (changes or wanted.defects or wanted.seed is not None)
    played = [each.judged.played for each in runs]
    surprises = [f"{each.name}: {said}" for each in played for said in each.surprises]
    if not (is_as_written and surprises):
        return ExitCode.SUCCESS
    if asked.view.is_compared:
        print_why(console, surprises)
    return ExitCode.FAILURE


def _require_fitting(kind: str, asked: _Asked) -> None:
    """Refuse options that would change nothing, rather than drop them.

    Args:
        kind: the kind of all targets: ``failure``, ``trace`` or ``scenario``.
        asked: the options.

    Raises:
        UsageError: there is such an option.
    """
    given = _given(asked)
    for name in (each for each in given if each not in _FITTING[kind]):
        raise UsageError(f"{name} {_UNFIT[kind]}")
    if kind == "trace" and asked.view.format == "parquet":
        raise UsageError("--format parquet: a trace is in Parquet already. Choose another format.")
    ways = [each for each in ("--compare", "--step", "--format") if each in given]
    if ways == ["--compare", "--format"]:
        if asked.view.format != "html":
            raise UsageError("--compare shows text, or writes a page: choose --format html.")
    elif len(ways) > 1:
        raise UsageError(f"{ways[0]} and {ways[1]} exclude each other: leave one of them out.")
    simulated = [each for each in ("--subject", "--defect", "--seed") if each in given]
    if "--on" in given and simulated:
        raise UsageError(f"{simulated[0]} is for simulated runs: leave it out, or --on.")
    if "--all" in given and ways[:1] in (["--compare"], ["--step"]):
        raise UsageError(f"--all is for pictures of a run, and {ways[0]} makes none: leave it out.")
    if "--out" in given and "--format" not in given:
        raise UsageError("--out is for files, and text is printed: choose a --format as well.")


_OF_VIEWS = ("--until", "--format", "--out", "--compare", "--step", "--all")

_OF_THE_JVM = ("--classpath", "--kafka", "--layer")

_FITTING = {
    "failure": ("--work-dir", *_OF_THE_JVM),
    "trace": ("--run", *_OF_VIEWS),
    "scenario": (
        "--subject",
        "--set",
        "--defect",
        "--seed",
        "--on",
        "--bootstrap",
        "--work-dir",
        *_OF_THE_JVM,
        *_OF_VIEWS,
    ),
}
"""The options that fit each kind of target."""

_UNFIT = {
    "failure": "is for scenarios and traces, and a saved failure is only run again: leave it out.",
    "trace": "is for a run that is made, and what is in a trace has happened. Leave it out, or "
    "replay a scenario.",
    "scenario": "names a run of a trace, and this is none: leave it out.",
}
"""Why the other options do not fit."""


def _given(asked: _Asked) -> list[str]:
    """The options that were given, by name."""
    wanted, view = asked.wanted, asked.view
    values = {
        "--subject": wanted.subject,
        "--set": asked.changes,
        "--defect": wanted.defects,
        "--seed": wanted.seed is not None,
        "--work-dir": wanted.work_dir,
        "--on": wanted.release,
        "--bootstrap": wanted.bootstrap,
        **dict(zip(_OF_THE_JVM, asked.jvm, strict=True)),
        "--run": asked.runs,
        "--until": view.until_ms is not None,
        "--format": view.format != "text",
        "--out": view.out != DEFAULT_OUT,
        "--compare": view.is_compared,
        "--step": view.is_walked,
        "--all": view.everything,
    }
    return [name for name, is_given in values.items() if is_given]


def _setting(text: str) -> tuple[str, Any]:
    """A key and its value: JSON, or else a word.

    Raises:
        UsageError: there is no ``=``.
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"--set {text}: write KEY=VALUE, as max_task_idle_ms=500.")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
