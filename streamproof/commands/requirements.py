"""``streamproof requirements``: lists the requirements, or shows one in full."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from streamproof.conformance.catalogue import AREAS, Binds, Requirement, load_catalogue
from streamproof.conformance.session import select_requirements

__all__ = ["requirements"]

_NEEDS_NOTHING: dict[Binds, str] = {
    "store": "nothing beyond the plain methods",
    "runtime": "nothing",
}


IdentifierArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        show_default=False,
        help="Show this requirement in full, or list this area. Default: list all.",
    ),
]


def requirements(
    identifier: IdentifierArgument = "",
) -> None:
    """List the requirements, or show one in full.

    A requirement is one promise that a store, or the runtime, is held to.
    """
    console = Console(highlight=False)
    catalogue = load_catalogue()
    if identifier in catalogue:
        each = catalogue[identifier]
        console.print(f"[bold]{each.id}[/]  {escape(each.title)}", soft_wrap=True)
        rows = {
            "promise": each.promise,
            "level": f"{each.level}, {'core' if each.core else 'extended'}",
            "binds": f"the {each.binds}",
            "source": each.source,
            "needs": ", ".join(each.needs) or _NEEDS_NOTHING[each.binds],
            "guarantees": ", ".join(each.guarantees),
            "specs": ", ".join(each.specs),
            "tested by": ", ".join(each.checks) or f"no check: {each.untested}",
        }
        table = Table.grid(padding=(0, 2))
        for name, text in rows.items():
            table.add_row(name, escape(text))
        console.print(table)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("id", "level", "", "title"):
        table.add_column(heading, no_wrap=heading != "title")
    for each in _selected(identifier):
        kind = "core" if each.core else "extended"
        table.add_row(each.id, each.level, kind if each.checks else "untested", escape(each.title))
    console.print(table)
    console.print(f"Areas: {', '.join(AREAS)}", soft_wrap=True)


def _selected(identifier: str) -> list[Requirement]:
    """The requirements of an area, whomever they bind; all if none is named."""
    found = [each for each in load_catalogue().values() if identifier in ("", each.area)]
    return found or select_requirements([identifier])
