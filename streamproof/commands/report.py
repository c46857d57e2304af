"""``streamproof report``: renders the reports of one run, or of many runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamproof.commands.options import Master, Remote, make_directory
from streamproof.commands.terminal import terminal
from streamproof.errors import UsageError
from streamproof.reports.wording import plural

__all__ = ["report"]

DEFAULT_OUT = Path("streamproof-report")
"""The directory for a report on many runs, unless --out names another one."""


RunsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="RUNS",
        help="A run log, also of a run that was killed; a directory to search for run logs and "
        "campaigns; or a pattern such as 'runs/*/run.ndjson'.",
    ),
]

BaselineOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RUNS",
        help="Compare with these runs, named as RUNS are. Repeatable. Default: compare the "
        "newest version of each subject with the version before it.",
    ),
]

OutOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help=f"Write the report to DIR. Default: beside a single run log, else {DEFAULT_OUT}.",
    ),
]

FormatsOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMATS",
        show_default=False,
        help="Write only these formats, separated by commas: html, json, csv, junit, markdown, "
        "badge, ctrf. Default: all.",
    ),
]


def report(
    runs: RunsArgument,
    *,
    baseline: BaselineOption = None,
    out: OutOption = None,
    formats: FormatsOption = "",
    master: Master = "",
    remote: Remote = "",
) -> None:
    """Render the reports of one run, or of many runs.

    The reports of a single run log are those that `verify` writes, and need nothing else. A report
    on many runs, or with --baseline or --format, needs `pip install 'streamproof[sail]'`. For
    campaigns and for more than 16 MB of run logs, it also needs Java, or a server (--remote).

    Exit codes:
      0    the reports are written, whatever they say
      3    the command line or a run log is wrong
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
    from streamproof.reports.render import render_all

    directory = out or log.parent
    make_directory(directory)
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
    console = terminal(soft_wrap=True, markup=False)
    console.print(f"{out / 'index.html' if 'html' in chosen else out}")
    console.print(f"{plural(len(rows.runs), 'run')}, {plural(written.files, 'file')}")
    if written.removed:
        console.print(f"removed {plural(len(written.removed), 'file')} of an earlier report")
    if rows.problems:
        problems = plural(len(rows.problems), "problem")
        console.print(f"{problems} with what was read, listed in the report")
