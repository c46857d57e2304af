"""``streamproof campaign``: carries out a plan of many runs on Spark."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Self

import typer
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from streamproof.commands.options import Master, Remote
from streamproof.commands.terminal import terminal
from streamproof.errors import UsageError
from streamproof.exit_codes import ExitCode
from streamproof.search_path import search_directory

if TYPE_CHECKING:
    from streamproof.reports.pipeline.campaigns.campaign_summary import Summary
    from streamproof.reports.pipeline.campaigns.driver import CampaignDirectory, Progress

__all__ = ["campaign"]

OUTCOMES = ("pass", "partial", "fail", "error")

TOLD_EVERY_S = 10.0
"""Where the output is no terminal, at most one line is printed in 10 seconds."""

MOST_FINDINGS = 20
"""At most 20 findings are listed; all of them are in the tables."""

TRIES = 4
"""Spark tries a task 4 times on this machine: a worker that dies must not end a campaign."""


PlanArgument = Annotated[
    Path,
    typer.Argument(metavar="PLAN", help="The plan: a TOML file that lists what to run."),
]

OutOption = Annotated[
    Path,
    typer.Option(
        metavar="DIR",
        help="Keep the tables in DIR. A campaign that is there already goes on.",
    ),
]

JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        metavar="N",
        help="Run N rows of the plan at the same time on this machine. Default: one for each core.",
    ),
]


AllowPatchesOption = Annotated[
    bool,
    typer.Option(
        "--allow-patches",
        help="Also play scenarios of yours that bring Python code to replace parts of the runtime.",
    ),
]


def campaign(
    plan: PlanArgument,
    *,
    out: OutOption,
    allow_patches: AllowPatchesOption = False,
    master: Master = "",
    remote: Remote = "",
    jobs: JobsOption = None,
) -> None:
    """Carry out a plan of many runs, with Spark.

    A plan lists worlds, scenarios and verifications. Each row of it is done once, and what came of
    it is kept in Parquet. After Ctrl-C or a kill, the same command goes on. Needs Java, and
    `pip install 'streamproof[spark]'`.

    Exit codes:
      0    nothing was found
      1    a promise is broken, or a row has no answer
      3    the command line or the plan is wrong
      130  interrupted; all finished rows are kept
    """
    if jobs is not None and (master or remote):
        raise UsageError("--jobs is for this machine: a cluster knows its own. Leave one out.")
    search_directory()
    asked = _Asked(plan, out, master, remote, jobs, allow_patches)
    raise typer.Exit(_carry_out(terminal(), asked))


class _Asked(NamedTuple):
    """The options of the command."""

    plan: Path
    out: Path
    master: str
    remote: str
    jobs: int | None
    allow_patches: bool

    @property
    def command(self) -> str:
        """The same command as it is typed."""
        words = ["streamproof", "campaign", str(self.plan), "--out", str(self.out)]
        words += ["--allow-patches"] if self.allow_patches else []
        words += ["--master", self.master] if self.master else []
        words += ["--remote", self.remote] if self.remote else []
        return shlex.join(words + (["--jobs", str(self.jobs)] if self.jobs else []))

    @property
    def spark_master(self) -> str:
        """The Spark master; empty for a Spark Connect server."""
        here = "" if self.remote else f"local[{self.jobs or '*'},{TRIES}]"
        return self.master or here


def _carry_out(console: Console, asked: _Asked) -> int:
    """Carry out the plan, and sum up; returns the exit code."""
    from streamproof.reports.pipeline.campaigns.campaign_plan import read_plan
    from streamproof.reports.pipeline.campaigns.campaign_summary import summarise
    from streamproof.reports.pipeline.campaigns.driver import opened, run
    from streamproof.reports.pipeline.spark import session

    plan = read_plan(asked.plan, allow_patches=asked.allow_patches)
    begun = opened(plan, asked.out)
    for each in (*(f"Left out: {one}" for one in plan.left_out), *begun.mended):
        console.print(Text(each), soft_wrap=True)
    try:
        spark = session(asked.spark_master, asked.remote, f"streamproof campaign {asked.plan.name}")
        with _Watch(console) as watch:
            progress = run(spark, begun, watch.tell)
        summary = summarise(spark, begun.directory)
    except KeyboardInterrupt:
        console.print("Interrupted. What is finished is kept; this goes on with the rest:")
        console.print(Text(f"  $ {asked.command}"), soft_wrap=True)
        return ExitCode.INTERRUPTED
    console.print(f"{progress}.")
    _sum_up(console, begun, summary)
    return ExitCode.FAILURE if summary.findings or summary.problems else ExitCode.SUCCESS


class _Watch:
    """Shows how far a campaign is: one changing line on a terminal, new lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told = time.monotonic()
        self._bar = Bar(
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._line = self._bar.add_task("getting ready", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def tell(self, progress: Progress) -> None:
        """Show how far the campaign is."""
        self._bar.update(self._line, description=str(progress))
        now = time.monotonic()
        if not self._console.is_terminal and now >= self._told + TOLD_EVERY_S:
            self._told = now
            self._console.print(str(progress))


def _sum_up(console: Console, campaign: CampaignDirectory, summary: Summary) -> None:
    """Print the outcomes, the findings, and the command that shows the worst finding."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("kind")
    for outcome in OUTCOMES:
        table.add_column(outcome, justify="right")
    for kind in dict.fromkeys(kind for kind, _ in sorted(summary.outcomes)):
        table.add_row(kind, *(f"{summary.outcomes[kind, outcome]:,}" for outcome in OUTCOMES))
    console.print(table)
    for each in summary.findings[:MOST_FINDINGS]:
        what = " ".join(filter(None, (each.requirement, each.shape)))
        line = f"✗ {what} (rows: {each.rows:,}): {each.found.strip().splitlines()[0]}"
        console.print(Text(line, style="red"), soft_wrap=True)
    if len(summary.findings) > MOST_FINDINGS:
        console.print(f"  and {len(summary.findings) - MOST_FINDINGS} other findings.")
    for problem, rows in summary.problems.most_common():
        console.print(Text(f"! no answer (rows: {rows:,}): {problem}"), soft_wrap=True)
    if summary.never is not None:
        console.print(f"Marks never reached: {len(summary.never)}.")
        for mark in summary.never:
            console.print(Text(f"  {mark}"), soft_wrap=True)
    console.print(Text(f"The tables are in {campaign.directory}."), soft_wrap=True)
    if summary.reproduce:
        console.print(Text(f"  $ {summary.reproduce}"), soft_wrap=True)
