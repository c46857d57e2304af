"""``streamproof explore``: runs simulated worlds, and shrinks what breaks a promise in them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamproof.commands.options import (
    CORES,
    Bootstrap,
    ClassPath,
    FirstSeed,
    KafkaRelease,
    OfTheJvm,
    OnWorld,
    StoreLayer,
    release_of_world,
    subjects_with,
)
from streamproof.commands.terminal import terminal
from streamproof.errors import UsageError
from streamproof.exit_codes import ExitCode

if TYPE_CHECKING:
    from rich.console import Console

    from streamproof.runs.exploration import ExploreRequest
    from streamproof.scenarios.exploration_findings import Finding
    from streamproof.scenarios.exploration_ledger import Ledger
    from streamproof.sim.exploration import SeededWorlds

__all__ = ["explore"]


RunsOption = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Run N worlds in all. Default: 200.")
]

BudgetOption = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        show_default=False,
        help="Run worlds for TIME instead, such as 90s, 10m or 1h.",
    ),
]

SwarmOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Draw only worlds that this TOML file allows."),
]

DefectOption = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        show_default=False,
        help="Make the simulated runtime commit this mistake in every world. `streamproof "
        "defects` lists all mistakes.",
    ),
]

PatchOption = Annotated[
    str,
    typer.Option(
        metavar="FILE.py:FUNCTION",
        show_default=False,
        help="Put this function of yours into the runtime in every world, in the place of --seam.",
    ),
]

SeamOption = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        show_default=False,
        help="The function of the runtime that --patch replaces; docs/scenarios.md lists them.",
    ),
]

SubjectOption = Annotated[
    str,
    typer.Option(
        metavar="SUBJECT",
        show_default=False,
        help="Put this store into every world, named as for `verify`. Default: a fast model store.",
    ),
]

JobsOption = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        metavar="N",
        show_default=False,
        help="Run N worlds at the same time. Default: one for each core.",
    ),
]

KeepGoingOption = Annotated[
    bool,
    typer.Option("--keep-going", help="Go on after the first failure, and collect others."),
]

ShrinkRunsOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="Run at most N more worlds to shrink each failure. Default: 3,000.",
    ),
]

OutOption = Annotated[
    Path,
    typer.Option(
        metavar="DIR",
        help="Keep the runs and write the findings in DIR. An exploration that is there "
        "already goes on.",
    ),
]


def explore(
    *,
    runs: RunsOption = None,
    budget: BudgetOption = "",
    swarm: SwarmOption = None,
    defect: DefectOption = "",
    patch: PatchOption = "",
    seam: SeamOption = "",
    subject: SubjectOption = "",
    seed: FirstSeed = 0,
    jobs: JobsOption = CORES,
    keep_going: KeepGoingOption = False,
    shrink_runs: ShrinkRunsOption = None,
    out: OutOption = Path("streamproof-explored"),
    class_path: ClassPath = "",
    kafka: KafkaRelease = "",
    layer: StoreLayer = "",
    on: OnWorld = "",
    bootstrap: Bootstrap = "",
) -> None:
    """Explore simulated worlds, and shrink what breaks a promise.

    Each seed draws one world, faults included, and all invariants watch it. Every second world is
    drawn for something that few worlds have reached. The exploration stops at the first failure,
    shrinks it, and writes it as a scenario that `replay` plays. After Ctrl-C or a kill, the same
    command goes on. With --on, real processes play short worlds, all on one broker.

    Exit codes:
      0    nothing was found
      1    a promise is broken in some world
      3    the command line, a file or a subject is wrong
      70   the simulator itself failed
      130  interrupted; all runs are kept
    """
    if runs is not None and budget:
        raise UsageError("--runs and --budget exclude each other: leave one of them out.")
    from streamproof.conformance.budget import parse_duration
    from streamproof.runs.exploration import RUNS, ExploreRequest, open_exploration
    from streamproof.scenarios.shrinking import MOST_RUNS

    if release := release_of_world(on, bootstrap):
        _refuse_simulated(defect, patch, seam, subject)
        raise typer.Exit(
            _explore_for_real(
                release,
                seed=seed,
                runs=runs,
                budget_s=parse_duration(budget) if budget else 0.0,
                swarm=swarm,
                jobs=jobs,
                keep_going=keep_going,
                most_plays=shrink_runs,
                out=out,
                bootstrap=bootstrap,
            )
        )
    (subject,) = subjects_with([subject], OfTheJvm(class_path, kafka, layer))
    request = ExploreRequest(
        seed=seed,
        runs=runs or RUNS,
        budget_s=parse_duration(budget) if budget else 0.0,
        swarm=swarm,
        defect=defect,
        subject=subject,
        patch=patch,
        seam=seam,
        jobs=jobs,
        keep_going=keep_going,
        shrink_runs=MOST_RUNS if shrink_runs is None else shrink_runs,
        out=out,
    )
    worlds, ledger = open_exploration(request)
    with ledger:
        code = _explore(terminal(), ledger, worlds, request)
    raise typer.Exit(code)


def _refuse_simulated(defect: str, patch: str, seam: str, subject: str) -> None:
    """Refuse what only the simulator can do.

    Raises:
        UsageError: one of the options is given.
    """
    given = {"--defect": defect, "--patch": patch, "--seam": seam, "--subject": subject}
    for name, value in given.items():
        if value:
            raise UsageError(f"{name} changes the simulator: leave it out, or leave --on out.")


def _explore_for_real(release: str, **asked: Any) -> int:
    """Explore worlds of real processes; returns the exit code."""
    from streamproof.commands.real_explore import explore_for_real
    from streamproof.runs.real_exploration import RealExploreRequest

    given = {name: value for name, value in asked.items() if value is not None}
    return explore_for_real(terminal(), RealExploreRequest(release=release, **given))


def _explore(
    console: Console, ledger: Ledger, worlds: SeededWorlds, request: ExploreRequest
) -> int:
    """Run worlds, shrink failures, and sum up; returns the exit code."""
    from streamproof.commands.explore_progress import print_summary, problem_line

    if ledger.torn:
        console.print("The last line of the runs was torn: that run is done again.")
    if ledger.runs:
        console.print(f"{len(ledger.runs):,} runs were done before; this goes on after them.")
    try:
        _run_worlds(console, ledger, worlds, request)
        print_summary(console, ledger, worlds.possible)
        written = _shrink_all(console, ledger, worlds, request)
    except KeyboardInterrupt:
        console.print(
            f"Interrupted after {len(ledger.runs):,} runs, which are kept in {ledger.path}. The "
            "same command goes on.",
            soft_wrap=True,
        )
        return ExitCode.INTERRUPTED
    if problems := [each for each in ledger.runs if each.problem]:
        console.print(problem_line(problems[0], worlds.subject, request.patch), soft_wrap=True)
        return ExitCode.SUITE_ERROR
    if not written:
        console.print("Nothing was found.")
        return ExitCode.SUCCESS
    _print_reproduce(console, written[0], worlds.subject)
    return ExitCode.FAILURE


def _run_worlds(
    console: Console, ledger: Ledger, worlds: SeededWorlds, request: ExploreRequest
) -> None:
    from streamproof.commands.explore_progress import ExplorationProgress
    from streamproof.runs.exploration import new_runs

    with ExplorationProgress(console, ledger, worlds.possible) as progress:
        for each in new_runs(ledger, worlds, request):
            progress.ran(each)


def _shrink_all(
    console: Console, ledger: Ledger, worlds: SeededWorlds, request: ExploreRequest
) -> list[Finding]:
    """Shrink one failure of each kind, and write it; the worst comes first."""
    from streamproof.commands.explore_progress import ShrinkingProgress
    from streamproof.runs.exploration import shrunk_finding
    from streamproof.scenarios.exploration_findings import findings, name_of

    written = []
    for run in findings(ledger.runs):
        with ShrinkingProgress(console, name_of(run)) as progress:
            finding = shrunk_finding(worlds, run, request, progress.tell)
        written.append(finding)
        shrunk = finding.shrunk
        console.print(
            f"{finding.scenario}: {len(shrunk.matters)} of {len(shrunk.played.events):,} events "
            f"matter ({run.events:,} before {shrunk.runs} runs made it smaller).",
            soft_wrap=True,
        )
    return written


def _print_reproduce(console: Console, worst: Finding, subject: str) -> None:
    from rich.text import Text

    from streamproof.stores.jvm.subjects import class_path_options

    words = ["streamproof", "replay", f"{worst.scenario}@{worst.variant}"]
    words += ["--subject", subject] if subject else []
    words += class_path_options([subject])
    console.print(Text(f"Reproduce: {shlex.join(words)}"), soft_wrap=True)
