"""The parts that all pages share: the escaping of text, the templates, and the assets.

Every string passes through :func:`~streamproof.reports.safe_text.detail` and Jinja's escaping, so
that no template can forget to escape.
"""

from __future__ import annotations

from importlib import resources
from types import ModuleType
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from streamproof.reports import templates
from streamproof.reports.safe_text import PROGRAM_CHARS, cell, detail
from streamproof.reports.wording import plural

__all__ = ["asset", "environment"]


def asset(name: str, package: ModuleType = templates) -> str:
    """A style sheet or a script in a package of templates."""
    return resources.files(package).joinpath(name).read_text("utf-8")


def environment(package: ModuleType = templates) -> Environment:
    """The templates in a package, with the filters that all of them use."""
    found = Environment(
        loader=PackageLoader(package.__name__, ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_bounded,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters.update(cell=cell, code=_code, plural=plural, number=_number, slug=_slug)
    return found


def _bounded(value: Any) -> Any:
    """Jinja calls this for every value before it escapes and prints the value."""
    return detail(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _code(text: str) -> Markup:
    """A program or a command. It may be longer than other text, because half of it is useless."""
    return escape(detail(text, PROGRAM_CHARS))


def _number(count: float) -> str:
    return f"{count:,}"


def _slug(name: str) -> str:
    """A status or an outcome as a CSS class and the name of an icon."""
    return name.replace(" ", "-")
