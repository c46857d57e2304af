"""A comparison of two runs as a page: one file, without any script."""

from __future__ import annotations

from streamproof.scenarios.comparison import Comparison
from streamproof.scenarios.comparison_text import (
    MAX_OUTPUTS,
    differing_events,
    measured_row,
    outcome_of,
    output_rows,
    sentences,
)
from streamproof.scenarios.event_words import harmless
from streamproof.scenarios.pictures.html_timeline import asset, environment

__all__ = ["render_comparison_page"]


def render_comparison_page(comparison: Comparison) -> str:
    """The whole page in one file. It works from disk, as an attachment, and on any host."""
    rows, left_out = differing_events(comparison)
    runs = comparison.first, comparison.second
    return (
        environment()
        .get_template("comparison.html.j2")
        .render(
            names=[harmless(each.name) for each in runs],
            runs=[
                ("defects", *(", ".join(each.defects) or "none" for each in runs)),
                ("events", *(f"{len(each.events):,}" for each in runs)),
                ("outcome", *(harmless(outcome_of(each)) for each in runs)),
                ("expected", *("; ".join(each.surprises) or "as it came" for each in runs)),
                ("show it", *(harmless(each.command) for each in runs)),
            ],
            settings=comparison.settings,
            common=f"{comparison.common:,}",
            rows=rows,
            left_out=left_out,
            effect=list(sentences(comparison)),
            outputs=output_rows(comparison),
            more_outputs=max(len(comparison.outputs) - MAX_OUTPUTS, 0),
            measured=list(map(measured_row, comparison.measured)),
            css=asset("picture.css"),
        )
    )
