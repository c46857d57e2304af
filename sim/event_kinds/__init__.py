"""All kinds of events: the vocabulary of a trace.

Each kind is one :class:`EventKind` in the module of its family: its meaning, its attributes, its
picture, the facts that it reads and writes, and its effect on the state of the run. So a new kind
is one entry. Traces in files, pictures, slices and the folded state read ``KINDS``.

The table stands in ``sim``, because files of traces are checked by it. What a kind changes in the
state is declared in terms of :mod:`streamproof.sim.run_state`, which knows no kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from streamproof.sim.event_kinds.groups import GROUP_KINDS
from streamproof.sim.event_kinds.instances import INSTANCE_KINDS
from streamproof.sim.event_kinds.kind import (
    ACTORS,
    GLYPHS,
    Absent,
    Attribute,
    EventKind,
    Footprint,
    Look,
)
from streamproof.sim.event_kinds.logs import LOG_KINDS
from streamproof.sim.event_kinds.queries import QUERY_KINDS
from streamproof.sim.event_kinds.restorations import RESTORATION_KINDS
from streamproof.sim.event_kinds.stores import STORE_KINDS
from streamproof.sim.event_kinds.tasks import TASK_KINDS
from streamproof.sim.event_kinds.threads import THREAD_KINDS
from streamproof.sim.event_kinds.transactions import TRANSACTION_KINDS

__all__ = [
    "ACTORS",
    "ALL_KINDS",
    "GLYPHS",
    "KINDS",
    "Absent",
    "Attribute",
    "EventKind",
    "Footprint",
    "Look",
]

_FAMILIES = (
    GROUP_KINDS,
    INSTANCE_KINDS,
    LOG_KINDS,
    QUERY_KINDS,
    RESTORATION_KINDS,
    STORE_KINDS,
    TASK_KINDS,
    THREAD_KINDS,
    TRANSACTION_KINDS,
)

ALL_KINDS: tuple[EventKind, ...] = tuple(kind for family in _FAMILIES for kind in family)
"""All of them, family by family."""

KINDS: Mapping[str, EventKind] = {
    kind.name: kind for kind in sorted(ALL_KINDS, key=attrgetter("name"))
}
"""All of them, by name, in the order of their names."""
