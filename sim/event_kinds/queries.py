"""Kinds of events of interactive queries: asking, sending, reading, refusing and answering."""

from __future__ import annotations

from streamproof.sim.event_kinds.kind import Absent, Attribute, EventKind, Footprint, Look
from streamproof.sim.event_kinds.shared_parts import OWNER, TASK, counted
from streamproof.sim.event_kinds.wording import plain, readable

__all__ = ["QUERY_KINDS"]

NUMBER = Attribute(int, "the number of the query in the run")
PROCESS = Attribute(str, "the process that is asked")
POSITION = Attribute(dict[str, int], "by partition of an input, the position (KIP-796)")

_CHANGES_NOTHING = Absent("a query changes nothing")


def _said_rows(rows: object) -> str:
    if not isinstance(rows, list) or len(rows) > 1:
        return counted(len(rows), "row") if isinstance(rows, list) else plain(rows)
    return ", ".join(f"{plain(key)} = {plain(value)}" for key, value in rows) or "no row"


def _said_from(key: object) -> str:
    return readable(key) if isinstance(key, bytes) else "the first key"


def _said_to(key: object) -> str:
    return readable(key) if isinstance(key, bytes) else "the last key"


def _said_leave(requires_active: object) -> str:
    return "of the active copy" if requires_active else "of any copy"


def _said_level(isolation: object) -> str:
    return str(isolation).lower().replace("_", " ")


QUERY_KINDS = (
    EventKind(
        name="query.answered",
        meaning="A client has the answer to its query.",
        actor="client",
        about="task partition",
        attributes={"query": NUMBER, "position": POSITION},
        look=Look("clients", "", ".", "queries", 0, "{actor} has its answer"),
        footprint=Footprint(reads=("served {query}",)),
        effect=_CHANGES_NOTHING,
    ),
    EventKind(
        name="query.asked",
        meaning="A client asks a query of one partition of a store.",
        actor="client",
        about="task partition",
        attributes={
            "query": NUMBER,
            "store": Attribute(str, "the store"),
            "from_key": Attribute(bytes | None, "the smallest key; null for no limit", _said_from),
            "to_key": Attribute(bytes | None, "the largest key; null for no limit", _said_to),
            "requires_active": Attribute(
                bool, "whether only the running active task may answer", _said_leave
            ),
            "isolation": Attribute(str, "the isolation level; empty for the default"),
            "bound": Attribute(
                dict[str, int], "by partition of an input, what the answer must reflect at least"
            ),
        },
        look=Look(
            "clients",
            "",
            "q",
            "queries",
            1,
            "{actor} asks for {from_key} to {to_key} in {store}, {requires_active}",
        ),
        footprint=Footprint(writes=("asked {query}",)),
        effect=_CHANGES_NOTHING,
    ),
    EventKind(
        name="query.lost",
        meaning="A client gets no reply, because there is no process, or a message was lost.",
        actor="client",
        about="task partition",
        attributes={"query": NUMBER, "process": PROCESS},
        look=Look("clients", "", "?", "queries", 1, "{process} does not answer {actor}"),
        footprint=Footprint(reads=("asked {query}", "process {process}")),
        effect=_CHANGES_NOTHING,
    ),
    EventKind(
        name="query.refused",
        meaning="A process does not answer a query.",
        actor="process",
        about="task partition",
        attributes={
            "query": NUMBER,
            "reason": Attribute(str, "the name of the reason (Kafka: FailureReason)"),
        },
        look=Look("instance", "clients", "<", "queries", 1, "{actor} refuses a query: {reason}"),
        footprint=Footprint(reads=("asked {query}", OWNER)),
        effect=_CHANGES_NOTHING,
    ),
    EventKind(
        name="query.sent",
        meaning="A client sends its query to a process.",
        actor="client",
        about="task partition",
        attributes={"query": NUMBER, "process": PROCESS},
        look=Look("clients", "", ">", "queries", 0, "{actor} asks {process}"),
        footprint=Footprint(writes=("asked {query}",), reads=("asked {query}", "shares")),
        effect=_CHANGES_NOTHING,
    ),
    EventKind(
        name="query.served",
        meaning="A copy of a store has been read for a query.",
        actor="thread",
        about="task partition",
        attributes={
            "query": NUMBER,
            "isolation": Attribute(str, "the isolation level of the read", _said_level),
            "is_active": Attribute(bool, "whether the copy belongs to an active task"),
            "rows": Attribute(
                list[list[bytes]],
                "all rows that were read, in order: pairs of key and value",
                _said_rows,
            ),
            "position": POSITION,
        },
        # In 80 columns, the level must not be cut off.
        look=Look("store", "clients", "q", "queries", 2, "{store} shows {rows}, {isolation}"),
        footprint=Footprint(
            writes=("served {query}",),
            reads=(
                "asked {query}",
                TASK,
                "row {process} {partition}",
                "kept {process} {partition}",
            ),
        ),
        effect=_CHANGES_NOTHING,
    ),
)
