"""Kinds of events of restorations, and of standbys that follow a changelog."""

from __future__ import annotations

from streamproof.sim.event_kinds.kind import Absent, Attribute, EventKind, Footprint, Look
from streamproof.sim.event_kinds.shared_parts import NO_RECORDS, RECORDS, STARTED, STORE

__all__ = ["RESTORATION_KINDS"]

_RESTORING = ("restoring {process} {partition}", "restoring {process} {task}")
_UPDATING = "updating {process} {partition}"


RESTORATION_KINDS = (
    EventKind(
        name="restore.batch",
        meaning="A restoration has applied a batch.",
        actor="updater",
        about="task partition offset",
        attributes={
            "records": RECORDS,
            "remaining": Attribute(int, "how many offsets are still to be restored"),
        },
        look=Look(
            "store",
            "log",
            "$",
            "restoring",
            0,
            "{store} is restored up to {offset}, {remaining} offsets to go",
        ),
        footprint=Footprint(writes=_RESTORING, reads=(STARTED,)),
        effect=Absent("`store.restored` tells what was applied"),
    ),
    EventKind(
        name="restore.end",
        meaning="A restoration has finished.",
        actor="updater",
        about="task partition",
        attributes={
            "records": NO_RECORDS,
            "total": Attribute(int, "how many records were applied in all"),
        },
        look=Look("store", "", "$", "restoring", 2, "{store} is restored; records in all: {total}"),
        footprint=Footprint(
            writes=(*_RESTORING, "restored {process} {partition}"), reads=(STARTED,)
        ),
        effect=Absent("`store.restored` tells what was applied"),
    ),
    EventKind(
        name="restore.start",
        meaning="A restoration begins.",
        actor="updater",
        about="task partition",
        attributes={
            "records": NO_RECORDS,
            "start": Attribute(int, "the first offset to apply"),
            "end": Attribute(int, "the offset after the last one to apply"),
        },
        look=Look(
            "store", "log", "$", "restoring", 2, "{store} is to be restored from {start} to {end}"
        ),
        footprint=Footprint(
            writes=(*_RESTORING, STARTED), reads=(STORE, "restoring {process} {partition}")
        ),
        effect=Absent("`store.restored` tells what is applied"),
    ),
    EventKind(
        name="restore.suspended",
        meaning="A restoration was suspended.",
        actor="updater",
        about="task partition",
        attributes={
            "records": NO_RECORDS,
            "total": Attribute(int, "how many records were applied in all"),
        },
        look=Look(
            "store",
            "",
            "<",
            "restoring",
            2,
            "restoring {store} is suspended; records so far: {total}",
        ),
        footprint=Footprint(writes=_RESTORING, reads=(STARTED,)),
        effect=Absent("`store.restored` tells what was applied"),
    ),
    EventKind(
        name="update.batch",
        meaning="A standby has applied a batch.",
        actor="updater",
        about="task partition offset",
        attributes={
            "records": RECORDS,
            "is_input": Attribute(bool, "whether the changelog is an input of the task"),
        },
        look=Look("store", "log", "$", "restoring", 0, "the standby of {store} is up to {offset}"),
        footprint=Footprint(writes=(_UPDATING,), reads=(STARTED, "committed {partition}")),
        effect=Absent("`store.restored` tells what was applied"),
    ),
    EventKind(
        name="update.start",
        meaning="A standby begins to follow a changelog.",
        actor="updater",
        about="task partition",
        attributes={
            "records": NO_RECORDS,
            "start": Attribute(int, "the first offset to apply"),
        },
        look=Look("store", "log", "$", "restoring", 2, "a standby of {store} begins at {start}"),
        footprint=Footprint(writes=(_UPDATING, STARTED), reads=(STORE,)),
        effect=Absent("`store.restored` tells what is applied"),
    ),
    EventKind(
        name="update.suspended",
        meaning="A standby stops following a changelog.",
        actor="updater",
        about="task partition offset?",
        attributes={"records": NO_RECORDS, "reason": Attribute(str, "`migrated` or `promoted`")},
        look=Look("store", "", "<", "restoring", 2, "the standby of {store} ends: {reason}"),
        footprint=Footprint(writes=(_UPDATING,), reads=(STARTED,)),
        effect=Absent("`store.restored` tells what was applied"),
    ),
)
