"""What the command line does for the simulated runtime alone: its defects, and who may be mixed."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from streamproof.conformance.catalogue import Binds
from streamproof.conformance.results import Guarantee
from streamproof.conformance.subject import RUNTIME, binds_of, defect_of
from streamproof.errors import UsageError
from streamproof.sim.defects import DEFECTS, require_defects

__all__ = ["list_defects", "require_one_kind", "with_defect"]


def list_defects() -> None:
    """List the mistakes that the simulated runtime can be told to make."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("defect", "requirement", "what goes wrong"):
        # A name is there to be copied, so that it is never cut.
        table.add_column(heading, no_wrap=heading != "what goes wrong")
    for name, each in DEFECTS.items():
        only = "".join(f" Under {one}." for one in each.guarantees)
        more = only if len(each.guarantees) == 1 else ""
        table.add_row(name, each.requirement, escape(f"{each.what}{more} ({each.source})"))
    Console(highlight=False).print(table)


def with_defect(subjects: list[str], defect: str) -> list[str]:
    """The subjects, of which the runtime has the defect that was asked for.

    Raises:
        UsageError: there is no such defect, or the runtime is not among the subjects.
    """
    if not defect:
        return subjects
    if RUNTIME not in subjects:
        raise UsageError("--defect is for the simulated runtime: `streamproof verify runtime`.")
    require_defects([defect])
    return [f"{RUNTIME}:{defect}" if each == RUNTIME else each for each in subjects]


def require_one_kind(names: list[str], guarantee: Guarantee) -> Binds:
    """Whom all subjects of a run are: stores, or the runtime, with defects that matter in it.

    Raises:
        UsageError: they are not all of one kind, or a defect does no harm under the guarantee.
    """
    kinds = sorted({binds_of(name) for name in names})
    if len(kinds) > 1:
        raise UsageError(
            "A store and the runtime are asked for different promises: verify them one by one."
        )
    for defect in filter(None, map(defect_of, names)):
        require_defects([defect])
        harmful = DEFECTS[defect].guarantees
        if guarantee not in harmful:
            raise UsageError(
                f"The defect {defect!r} does no harm under {guarantee}: "
                f"add --guarantee {harmful[0]}."
            )
    return kinds[0]
