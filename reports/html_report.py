"""The HTML report: one file that needs no network, no server and no other file.

The page has a security policy that forbids foreign scripts and all loading, in case some text gets
past the escaping of :mod:`~streamproof.reports.templating`.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from functools import cache

from jinja2 import Environment

from streamproof.reports.headlines import headline, subline
from streamproof.reports.report_view import ReportView
from streamproof.reports.templating import asset, environment
from streamproof.reports.wording import OUTCOMES, STATUSES, STRENGTHS, duration

__all__ = ["render_html"]


def render_html(view: ReportView) -> str:
    """The whole page in one file, to open from disk, attach to a mail, or host anywhere."""
    css, script = asset("report.css"), asset("common.js") + asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = _environment().get_template("report.html.j2")
    return page.render(
        view=view,
        headline=headline(view),
        subline=subline(view),
        statuses=STATUSES,
        outcomes=OUTCOMES,
        strengths=STRENGTHS,
        css=css,
        script=script,
        script_hash=f"sha256-{digest}",
    )


@cache
def _environment() -> Environment:
    found = environment()
    found.filters.update(duration=duration, quoted=shlex.quote)
    return found
