"""Writes a report in every format that it can have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from streamproof.reports.pipeline.site.exports import (
    csv_tables,
    json_tables,
    render_ctrf,
    render_junit,
)
from streamproof.reports.pipeline.site.pages import render_pages
from streamproof.reports.pipeline.site.site_builder import Site, arrange
from streamproof.reports.pipeline.site.site_data import SiteRows
from streamproof.reports.pipeline.site.site_summary import render_badge, render_markdown
from streamproof.reports.pipeline.site.site_writer import Written, write_files

__all__ = ["FORMATS", "write_report"]

_Files = Iterator[tuple[str, bytes]]

FORMATS: dict[str, Callable[[Site], _Files]] = {
    "html": render_pages,
    "json": json_tables,
    "csv": csv_tables,
    "junit": lambda site: iter([("junit.xml", render_junit(site))]),
    "markdown": lambda site: iter([("summary.md", render_markdown(site))]),
    "badge": lambda site: iter([("badge.json", render_badge(site))]),
    "ctrf": lambda site: iter([("ctrf.json", render_ctrf(site))]),
}
"""Every format, and the files that it has."""


def write_report(rows: SiteRows, out: Path, formats: Iterable[str]) -> Written:
    """Writes a report into a directory, which is created if it does not exist.

    The same rows give the same bytes. Files of an earlier report in the same directory are
    replaced or removed; nothing else is touched.

    Args:
        rows: the rows that the report is made from.
        out: the directory.
        formats: names in :data:`FORMATS`.

    Raises:
        UsageError: the directory cannot be used.
    """
    site = arrange(rows)
    return write_files(out, (file for name in formats for file in FORMATS[name](site)))
