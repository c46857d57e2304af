"""``streamproof report``: the reports of one run log again, or a report on many runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from streamproof.errors import UsageError
from streamproof.reports.render import render_all
from streamproof.reports.wording import plural

__all__ = ["report"]

DEFAULT_OUT = Path("streamproof-report")
"""Where a report on many runs goes if no other place is named, in the current directory."""


def report(  # noqa: PLR0917 (every option is an argument)
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUNS...",
            help="Run logs, also of runs that were killed; directories that are searched for logs "
            "and campaigns; or patterns such as 'runs/*/run.ndjson'.",
        ),
    ],
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            help="Runs to compare with, named as RUNS are; may be given several times. Default: "
            "the newest version of each subject is compared with the version before it."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help=f"Where the report goes. Default: beside a single log, else {DEFAULT_OUT}."
        ),
    ] = None,
    formats: Annotated[
        str,
        typer.Option(
            "--format",
            help="Which of html, json, csv, junit, markdown, badge and ctrf, separated by commas. "
            "Default: all.",
        ),
    ] = "",
    master: Annotated[
        str, typer.Option(help="The Spark master. Default: all cores of this machine.")
    ] = "",
    remote: Annotated[
        str, typer.Option(help="A Spark Connect server instead, such as sc://host:15002.")
    ] = "",
) -> None:
    """Render the reports of a run log again, or make one report on many runs, with Spark.

    One log without --baseline and --format is rendered as `verify` does it, without Spark.
    """
    if len(runs) == 1 and not (baseline or formats) and _is_one_log(runs[0]):
        _render_again(Path(runs[0]), out)
    else:
        _report_on_many(runs, baseline or [], out or DEFAULT_OUT, formats, (master, remote))


def _is_one_log(name: str) -> bool:
    """Whether this names a log: a file, or nothing that is there or could be a pattern."""
    path = Path(name)
    return path.is_file() or (not path.exists() and not set(name) & set("*?["))


def _render_again(log: Path, out: Path | None) -> None:
    directory = out or log.parent
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"The output directory {str(directory)!r} cannot be made: {error.strerror}."
        ) from error
    for path in render_all(log, directory).values():
        print(path)  # noqa: T201 (it talks to the terminal)


def _report_on_many(
    runs: list[str], baseline: list[str], out: Path, formats: str, spark: tuple[str, str]
) -> None:
    # Imported here: `verify` needs none of this.
    from streamproof.reports.pipeline.site.site_report import FORMATS, write_report
    from streamproof.reports.pipeline.site.site_rows import read_rows

    chosen = [name.strip() for name in formats.split(",") if name.strip()] or list(FORMATS)
    if unknown := [name for name in chosen if name not in FORMATS]:
        raise UsageError(
            f"There is no format {unknown[0]!r}: --format takes {', '.join(FORMATS)}, "
            "separated by commas."
        )
    master, remote = spark
    rows = read_rows(runs, baseline, master=master, remote=remote)
    written = write_report(rows, out, list(dict.fromkeys(chosen)))
    console = Console(highlight=False, soft_wrap=True, markup=False)
    console.print(f"{out / 'index.html' if 'html' in chosen else out}")
    console.print(f"{plural(len(rows.runs), 'run')}, {plural(written.files, 'file')}")
    if written.removed:
        console.print(f"removed {plural(len(written.removed), 'file')} of an earlier report")
    if rows.problems:
        problems = plural(len(rows.problems), "problem")
        console.print(f"{problems} with what was read, listed in the report")
