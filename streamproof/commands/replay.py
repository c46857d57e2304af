"""``streamproof replay``: plays a scenario, shows a trace, or runs a saved failure again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from streamproof.commands.options import OutputDirectory, WorkDirectory
from streamproof.commands.replay_view import Format, View
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
    out: OutputDirectory = Path("streamproof-out"),
    compare_: CompareOption = False,
    step: StepOption = False,
    all_: AllOption = False,
    work_dir: WorkDirectory = None,
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
    from rich.console import Console

    from streamproof.conformance.store_worlds.hosted_play import Wanted
    from streamproof.runs.scenario_runs import kind_of

    kinds = {kind_of(each) for each in targets}
    if len(kinds) > 1:
        raise UsageError("Scenarios, traces and saved failures are replayed one kind at a time.")
    asked = _Asked(
        targets,
        Wanted(subject, tuple(defect or ()), seed, work_dir),
        tuple(set_ or ()),
        tuple(run or ()),
        View(format_, out, all_, until, compare_, step),
    )
    console = Console(highlight=False)
    show = {"failure": _replay_failures, "trace": _replay_traces, "scenario": _replay_scenarios}
    raise typer.Exit(show[kinds.pop()](console, asked))


class _Asked(NamedTuple):
    """The options of the command.

    Attributes:
        targets: what to replay, all of one kind.
        wanted: the store of a scenario, its defects, its seed, and where databases go.
        changes: settings of a scenario to change, each as ``KEY=VALUE``.
        runs: the runs of a trace to show.
        view: how runs are shown.
    """

    targets: list[str]
    wanted: Wanted
    changes: tuple[str, ...]
    runs: tuple[str, ...]
    view: View


def _replay_failures(console: Console, asked: _Asked) -> int:
    from streamproof.commands.replay_output import EXIT_CODES, print_repeated
    from streamproof.conformance.saved_failures import read_failure
    from streamproof.runs.failure_runs import repeat_failure

    saved = [read_failure(Path(each)) for each in asked.targets]
    codes = [print_repeated(console, repeat_failure(each, asked.wanted.work_dir)) for each in saved]
    return next(code for code in EXIT_CODES.values() if code in codes)


def _replay_traces(console: Console, asked: _Asked) -> int:
    _require_for_trace(asked)
    from streamproof.commands.replay_output import show_traces
    from streamproof.runs.trace_runs import read_runs

    runs = read_runs([Path(each) for each in asked.targets], asked.runs)
    show_traces(console, runs, asked.view)
    return ExitCode.FAILURE if any(each.violations for each in runs) else ExitCode.SUCCESS


def _replay_scenarios(console: Console, asked: _Asked) -> int:
    if asked.runs:
        raise UsageError("--run names a run of a trace, and this is none: leave it out.")
    from streamproof.commands.replay_output import show_scenarios
    from streamproof.runs.scenario_runs import play_targets

    wanted, changes = asked.wanted, asked.changes
    runs = play_targets(asked.targets, wanted, dict(map(_setting, changes)), changes)
    show_scenarios(console, runs, asked.view)
    is_as_written = not (changes or wanted.defects or wanted.seed is not None)
    surprised = is_as_written and any(each.judged.surprises for each in runs)
    return ExitCode.FAILURE if surprised else ExitCode.SUCCESS


def _require_for_trace(asked: _Asked) -> None:
    """Refuse options that would change a run, because the run of a trace has happened already.

    Raises:
        UsageError: there is such an option.
    """
    wanted = asked.wanted
    given = {
        "--subject": wanted.subject,
        "--set": asked.changes,
        "--defect": wanted.defects,
        "--seed": wanted.seed is not None,
        "--work-dir": wanted.work_dir,
    }
    for name in (name for name, is_given in given.items() if is_given):
        raise UsageError(
            f"{name} is for a run that is made, and what is in a trace has happened. Leave it out, "
            "or replay a scenario."
        )
    if asked.view.format == "parquet":
        raise UsageError("--format parquet: a trace is in Parquet already. Choose another format.")


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
