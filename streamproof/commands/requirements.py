"""``streamproof requirements``: lists the requirements, or shows one in full."""

from __future__ import annotations

from typing import Annotated, get_args

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from streamproof.commands.terminal import terminal
from streamproof.conformance.catalogue import AREAS, Binds, Requirement, load_catalogue
from streamproof.conformance.clauses import STATES, Clause, State, load_proposal
from streamproof.conformance.results import Spec
from streamproof.conformance.verify_session import select_requirements
from streamproof.errors import UsageError

__all__ = ["requirements"]

_NEEDS_NOTHING: dict[Binds, str] = {
    "store": "nothing beyond the plain methods",
    "runtime": "nothing",
    "application": "nothing",
    "real-runtime": "nothing",
}

_HEADINGS: dict[State, str] = {
    "whole": "Whole (requirements state the clause, and checks test it)",
    "partly": "Partly (a part of the clause is stated or tested)",
    "missing": "Missing (no tested requirement states the clause)",
}

_WIDTH_OF_REQUIREMENTS = 23
"""Two ids side by side."""

IdentifierArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        show_default=False,
        help="Show this requirement in full, or list this area. Default: list all.",
    ),
]
SourceOption = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="PROPOSAL",
        show_default=False,
        help="List the clauses of a proposal, by state, with the requirements that state them: "
        "KIP-892, KIP-1035, KIP-695, KIP-869 or KIP-258.",
    ),
]


def requirements(
    identifier: IdentifierArgument = "",
    source: SourceOption = None,
) -> None:
    """List the requirements, or show one in full.

    A requirement is one promise that a store, or the runtime, is held to.
    """
    console = terminal()
    if source is not None:
        if identifier:
            raise UsageError(f"Give either {identifier} or --source, not both.")
        _print_clauses(console, source)
        return
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
            "usually": each.usual_cause,
            "mend": each.usual_cure,
            "implies": ", ".join(each.implies) or "no other",
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


def _print_clauses(console: Console, name: str) -> None:
    """Print the clauses of a proposal, state by state."""
    proposal = load_proposal(name)
    console.print(f"{name}: {escape(proposal.title)}", soft_wrap=True)
    for state in STATES:
        found = proposal.in_state(state)
        if not found:
            continue
        console.print(f"\n[bold]{_HEADINGS[state]}: {len(found)}[/]", soft_wrap=True)
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("id", no_wrap=True)
        table.add_column("clause")
        table.add_column("requirements", max_width=_WIDTH_OF_REQUIREMENTS)
        for each in found:
            requirements_of = ", ".join(each.requirements) or "–"
            table.add_row(each.id, escape(_text_of(each)), requirements_of)
        console.print(table)
    console.print(f"\nClauses: {proposal.total}.")


def _text_of(clause: Clause) -> str:
    """A clause, where it holds, what Kafka shipped instead, and what is lacking."""
    lines = [clause.text]
    if len(clause.specs) < len(get_args(Spec)):
        lines.append(f"Holds under: {', '.join(clause.specs)}.")
    if clause.shipped:
        lines.append(f"Shipped: {clause.shipped}")
    if clause.lacks:
        lines.append(f"Lacking: {clause.lacks}")
    return "\n".join(lines)
