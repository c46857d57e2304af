"""The HTML report: one file that needs no network, no server and no other file.

The page has a security policy that forbids foreign scripts and all loading, in case some text gets
past the escaping of :mod:`~streamproof.reports.templating`.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from functools import cache

from jinja2 import Environment, Template
from markupsafe import Markup, escape

from streamproof.reports.headlines import headline, subline
from streamproof.reports.report_view import ReportView
from streamproof.reports.templating import asset, environment
from streamproof.reports.wording import CRASH_KINDS, OUTCOMES, STATUSES, STRENGTHS, duration, moment

__all__ = ["compile_page", "render_html"]


def render_html(view: ReportView) -> str:
    """The whole page in one file, to open from disk, attach to a mail, or host anywhere."""
    css, script = asset("report.css"), asset("common.js") + asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return compile_page().render(
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
def compile_page() -> Template:
    """The template of the page. Compiling it takes as long as rendering a page."""
    return _environment().get_template("report.html.j2")


def _environment() -> Environment:
    found = environment()
    found.filters.update(duration=duration, moment=moment, quoted=shlex.quote)
    found.filters.update(crash_kind=lambda kind: CRASH_KINDS.get(kind, kind), ticked=_ticked)
    return found


def _ticked(text: str) -> Markup:
    """A text in which code stands between backticks, as the catalogue has it."""
    # What is escaped here comes from the catalogue; a backtick stays one.
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704
