"""How ``streamproof replay`` draws a run: as text, into a file, or beside another run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from streamproof.commands.replay_view import Format, View
from streamproof.errors import UsageError
from streamproof.scenarios.comparison import compare as compared
from streamproof.scenarios.comparison_text import render_comparison
from streamproof.scenarios.pictures.comparison_page import render_comparison_page
from streamproof.scenarios.pictures.html_timeline import render_html
from streamproof.scenarios.pictures.lanes import Picture, picture
from streamproof.scenarios.pictures.mermaid import render_mermaid
from streamproof.scenarios.pictures.perfetto import render_perfetto
from streamproof.scenarios.pictures.text_lanes import render_text
from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.scenarios.slicing import what_matters

__all__ = ["compare", "draw", "summary"]

SUFFIXES: dict[Format, str] = {
    "html": ".html",
    "mermaid": ".mmd",
    "perfetto": ".trace.json",
    "parquet": ".parquet",
}
"""How the files of a format end; text is printed."""

RENDERERS: dict[Format, Callable[[Picture], str]] = {
    "html": render_html,
    "mermaid": render_mermaid,
    "perfetto": render_perfetto,
}

LEAST_WIDTH, MOST_WIDTH = 80, 120
"""The columns of a picture in text."""


def summary(played: RecordedRun, how: str = "") -> str:
    """What came of a run, in a few words.

    Args:
        played: the run.
        how: what else there is to say of that.
    """
    found = played.violations
    kept = "every judged promise is kept" if played.unjudged else "every promise is kept"
    came = f"{found[0].requirement} is broken" if found else kept
    without = f"{len(played.unjudged)} promises not judged" if played.unjudged else ""
    return ", ".join(filter(None, [came, how, without, f"{len(played.events):,} events"]))


def draw(console: Console, played: RecordedRun, view: View, *, is_only: bool = True) -> None:
    """Draw a run, and say how to see it again.

    Args:
        console: where it is drawn, if it is in words.
        played: the run.
        view: how it is shown.
        is_only: whether it is drawn even if nothing is wrong in it.

    Raises:
        UsageError: the file cannot be written.
    """
    if view.format != "text":
        console.print(str(_written(played, view.format, view.out)), markup=False, soft_wrap=True)
    elif played.violations or view.everything or is_only:
        # The command is said once, and last.
        shown = picture(
            replace(played, command=""), what_matters(played) if played.violations else None
        )
        most = {"most": 0} if view.everything else {}
        console.print(Text(render_text(shown, width=_width(console), **most)), soft_wrap=True)
    console.print(Text(f"  $ {played.command}"), soft_wrap=True)


def compare(console: Console, runs: list[RecordedRun], view: View, example: str) -> None:
    """Show two runs side by side, as text or as a page.

    Args:
        console: where they are shown.
        runs: the runs.
        view: how they are shown.
        example: how two are named.

    Raises:
        UsageError: there are not two, or the file cannot be written.
    """
    if len(runs) != 2:
        names = ", ".join(each.name for each in runs)
        raise UsageError(
            f"--compare needs two runs, and these are {len(runs)}: {names}. Name two, as {example}."
        )
    comparison = compared(*runs)
    if view.format == "html":
        name = " beside ".join(each.name for each in runs)
        path = _file(name, view.format, view.out)
        _saved(path, lambda: path.write_text(render_comparison_page(comparison), "utf-8"))
        console.print(str(path), markup=False, soft_wrap=True)
    else:
        console.print(Text(render_comparison(comparison, _width(console))), soft_wrap=True)


def _width(console: Console) -> int:
    return min(max(console.width, LEAST_WIDTH), MOST_WIDTH)


def _written(played: RecordedRun, format_: Format, out: Path) -> Path:
    """The file that the picture of a run was written to.

    Raises:
        UsageError: it cannot be written.
    """
    path = _file(played.name, format_, out)
    _saved(path, lambda: _write(played, format_, path))
    return path


def _file(name: str, format_: Format, out: Path) -> Path:
    """The file for a picture."""
    plain = "".join(each if each.isalnum() or each in "-_." else "-" for each in name)
    return out / f"{plain.strip('-')}{SUFFIXES[format_]}"


def _saved(path: Path, write: Callable[[], object]) -> None:
    """Write a file, in a directory that is made if it is missing.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}. Choose another directory with --out."
        ) from error


def _write(played: RecordedRun, format_: Format, path: Path) -> None:
    if format_ == "parquet":
        # Imported here, because only a trace needs Arrow.
        from streamproof.sim.trace_files import TraceFile

        with TraceFile(path, played.name, played.unseen) as file:
            for event in played.events:
                file(event)
    else:
        drawn = picture(played, what_matters(played) if played.violations else None)
        path.write_text(RENDERERS[format_](drawn), "utf-8")
