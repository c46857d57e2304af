"""Writes every report of one run log."""

from __future__ import annotations

import os
from pathlib import Path

from streamproof.reports.badge import render_badge
from streamproof.reports.html_report import render_html
from streamproof.reports.junit import render_junit
from streamproof.reports.markdown import render_markdown
from streamproof.reports.report_builder import build_view
from streamproof.reports.run_log import read_run_log

__all__ = ["REPORTS", "render_all"]

REPORTS = {
    "html": ("report.html", render_html),
    "junit": ("junit.xml", render_junit),
    "markdown": ("summary.md", render_markdown),
    "badge": ("badge.json", render_badge),
}
"""Every report: the name of its file, and the function that renders it."""


def render_all(run_log_path: Path | str, out_dir: Path | str) -> dict[str, Path]:
    """Writes all reports of a run log into ``out_dir``, which is created if it does not exist.

    The same log gives the same bytes. All reports are rendered before the first one is written.
    Each one replaces its predecessor in one step, so that nobody reads half a report.

    Returns:
        The file of each report, by the report's name in :data:`REPORTS`.

    Raises:
        RunLogError: the log cannot be read.
    """
    view = build_view(read_run_log(run_log_path))
    texts = {name: render(view) for name, (_, render) in REPORTS.items()}
    folder = Path(out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / file for name, (file, _) in REPORTS.items()}
    for name, path in paths.items():
        _replace(path, texts[name].encode())
    return paths


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
