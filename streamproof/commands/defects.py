"""``streamproof defects``: lists the mistakes that the simulated runtime can make."""

from __future__ import annotations

from streamproof.commands.terminal import terminal

__all__ = ["list_defects"]


def list_defects() -> None:
    """List the mistakes that the simulated runtime can make.

    `verify`, `explore` and `replay` take the name of a mistake with --defect.
    """
    from rich.markup import escape
    from rich.table import Table

    from streamproof.sim.defects import DEFECTS

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("defect", "requirement", "what goes wrong"):
        # Users copy the names of defects and requirements, so no terminal cuts them.
        table.add_column(heading, no_wrap=heading != "what goes wrong")
    for name, each in DEFECTS.items():
        only = "".join(f" Under {one}." for one in each.guarantees)
        more = only if len(each.guarantees) == 1 else ""
        table.add_row(name, each.requirement, escape(f"{each.what}{more} ({each.source})"))
    terminal().print(table)
