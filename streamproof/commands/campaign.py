"""The command that carries out a plan of many runs on Spark."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from streamproof.errors import UsageError
from streamproof.exit_codes import ExitCode
from streamproof.search_path import search_directory

if TYPE_CHECKING:
    from streamproof.reports.pipeline.campaigns.campaign_summary import Summary
    from streamproof.reports.pipeline.campaigns.driver import CampaignDirectory, Progress

__all__ = ["campaign"]

OUTCOMES = ("pass", "partial", "fail", "error")

TOLD_EVERY_S = 10.0
"""Where there is no terminal, a line is printed so often at most."""

MOST_FINDINGS = 20
"""So many findings are listed; all of them are in the tables."""

TRIES = 4
"""How often Spark tries a task on this machine: a worker that dies must not end a campaign."""


def campaign(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A TOML file: what is to be run.")],
    *,
    out: Annotated[
        Path, typer.Option(help="The directory for the tables; what is there is gone on with.")
    ],
    master: Annotated[
        str, typer.Option(help="What runs the work, as spark://HOST:PORT. Default: this machine.")
    ] = "",
    remote: Annotated[
        str, typer.Option(help="A Spark Connect server instead, as sc://HOST:PORT.")
    ] = "",
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", min=1, help="Rows at a time on this machine. Default: a core each."
        ),
    ] = None,
) -> None:
    """Carry out a plan of many worlds, scenarios and verifications, and keep all in Parquet.

    Each row of the plan is done once. After Ctrl-C or a kill, the same command goes on where it
    was. It needs Java and `pip install 'streamproof[spark]'`.

    Exit codes: 0 nothing was found, 1 a promise is broken or a row has no answer, 3 usage, 130
    interrupted.
    """
    from streamproof.reports.pipeline.campaigns.campaign_plan import read_plan
    from streamproof.reports.pipeline.campaigns.campaign_summary import summarise
    from streamproof.reports.pipeline.campaigns.driver import opened, run
    from streamproof.reports.pipeline.spark import session

    if jobs is not None and (master or remote):
        raise UsageError("--jobs is for this machine: a cluster knows its own. Leave one out.")
    search_directory()
    asked = read_plan(plan)
    begun = opened(asked, out)
    console = Console(highlight=False)
    for each in (*(f"Left out: {one}" for one in asked.left_out), *begun.mended):
        console.print(Text(each), soft_wrap=True)
    words = ["streamproof", "campaign", str(plan), "--out", str(out)]
    words += ["--master", master] if master else []
    words += ["--remote", remote] if remote else []
    words += ["--jobs", str(jobs)] if jobs else []
    here = "" if master or remote else f"local[{jobs or '*'},{TRIES}]"
    try:
        spark = session(master or here, remote, f"streamproof campaign {plan.name}")
        with _Watch(console) as watch:
            progress = run(spark, begun, watch.tell)
        summary = summarise(spark, begun.directory)
    except KeyboardInterrupt:
        console.print("Interrupted. What is finished is kept; this goes on with the rest:")
        console.print(Text(f"  $ {shlex.join(words)}"), soft_wrap=True)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    console.print(f"{progress}.")
    _sum_up(console, begun, summary)
    raise typer.Exit(ExitCode.FAILURE if summary.findings or summary.problems else 0)


class _Watch:
    """Shows how a campaign goes: a line that changes on a terminal, and new lines elsewhere."""

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
        """It is so far."""
        self._bar.update(self._line, description=str(progress))
        now = time.monotonic()
        if not self._console.is_terminal and now >= self._told + TOLD_EVERY_S:
            self._told = now
            self._console.print(str(progress))


def _sum_up(console: Console, campaign: CampaignDirectory, summary: Summary) -> None:
    """What it came to: a table, the findings, and how to see the worst of them."""
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
