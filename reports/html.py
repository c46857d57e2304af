"""The HTML report: one file that needs no network, no server and no other file.

Every string in the page passes through :func:`~streamproof.reports.text.detail` and Jinja's
escaping, by construction: the template cannot forget it. The page's own security policy forbids
any script but its own, and loading anything at all, should something get through all the same.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from streamproof.reports.text import PROGRAM_CHARS, cell, detail
from streamproof.reports.view import ReportView
from streamproof.reports.wording import (
    OUTCOMES,
    STATUSES,
    STRENGTHS,
    duration,
    headline,
    plural,
    subline,
)

__all__ = ["render_html"]


def render_html(view: ReportView) -> str:
    """The whole page, self-contained: open it from disk, attach it, host it anywhere."""
    css, script = _asset("report.css"), _asset("report.js")
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


def _asset(name: str) -> str:
    return resources.files("streamproof.reports.templates").joinpath(name).read_text("utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("streamproof.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_bounded,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        cell=cell,
        code=_code,
        duration=duration,
        plural=plural,
        number=_number,
        quoted=shlex.quote,
        slug=_slug,
    )
    return environment


def _bounded(value: Any) -> Any:
    """What Jinja does to every value before it escapes and prints it."""
    return detail(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _code(text: str) -> Markup:
    """A program or a command: longer than other text may be, because half of one is useless."""
    return escape(detail(text, PROGRAM_CHARS))


def _number(count: int) -> str:
    return f"{count:,}"


def _slug(name: str) -> str:
    """A status or an outcome as a CSS class and the name of an icon."""
    return name.replace(" ", "-")
