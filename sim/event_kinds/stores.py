"""Kinds of events of stores: opening, writing, restoring, committing, flushing and closing."""

from __future__ import annotations

from streamproof.sim.decisions.recovery import OFFSET_UNKNOWN
from streamproof.sim.event_kinds.kind import Absent, Attribute, EventKind, Footprint, Look
from streamproof.sim.event_kinds.shared_parts import (
    FILES,
    OWNER,
    RECORDS,
    ROW,
    STARTED,
    STORE,
    TASK,
    counted,
)
from streamproof.sim.event_kinds.wording import plain
from streamproof.sim.run_state import Moment
from streamproof.sim.trace import Event
from streamproof.sim.upgraded_stores import OFFSET_DELTA_THRESHOLD

__all__ = ["STORE_KINDS"]

KEEPS_FILE = "keeps-checkpoint-while-running"
"""The defect by which the file with the offset outlives the first write (KAFKA-20685)."""

GLOBAL = "global"
"""The task of a global store, which belongs to none."""


def _said_rows(rows: object) -> str:
    return counted(len(rows), "row") if isinstance(rows, list) else plain(rows)


def _said_wipe(wipe: object) -> str:
    return ", so it must be wiped" if wipe else ""


def _minor_without_a_wipe(event: Event, look: Look) -> Look:
    # The next event shows the same.
    return look._replace(weight=0) if event.attributes.get("wipe") is False else look


_CONTENTS = {
    "rows": Attribute(
        list[list[bytes]], "all rows in the order of their keys: pairs of key and value", _said_rows
    ),
    "timestamps": Attribute(
        list[int], "the timestamp of each of these rows; empty for plain values (KIP-258)"
    ),
    "is_input": Attribute(bool, "whether the changelog is an input of the task"),
    "position": Attribute(dict[str, int], "by partition of an input, the position (KIP-796)"),
}


def _store_opened(moment: Moment, event: Event) -> None:
    store, more = moment.store(event), event.attributes
    store.name, store.is_persistent, store.is_open = more["store"], more["persistent"], True
    # A known absence of an offset is OFFSET_UNKNOWN, which is below -1.
    store.offset = store.committed_offset = store.flushed_offset = max(event.offset, -1)
    store.has_failed = False
    store.has_file = store.is_persistent and not moment.process(event.actor).manages_offsets
    if store.has_file and moment.exactly_once:
        # The file is gone until the store is closed, so that a crash leaves none.
        store.flushed_offset = -1


def _store_found(moment: Moment, event: Event) -> None:
    """Nothing is in memory yet, so the store shows the data on the disk."""
    store, rows = moment.store(event), event.attributes["rows"]
    store.staged, store.memory, store.disk = {}, {}, dict(rows)
    store.offset, store.is_certain = event.offset, True


def _store_told(moment: Moment, event: Event) -> None:
    store = moment.store(event)
    store.hold(dict(event.attributes["rows"]))
    store.offset = event.offset


def _store_put(moment: Moment, event: Event) -> None:
    store = moment.store(event)
    if store.has_file and moment.exactly_once and KEEPS_FILE not in moment.defects:
        # From now on no offset describes the content (KAFKA-20685).
        store.flushed_offset = -1
    layer = store.staged if moment.settings.get("transactional") else store.memory
    layer[event.attributes["key"]] = event.attributes["value"]


def _store_restored(moment: Moment, event: Event) -> None:
    store = moment.store(event)
    batch = moment.log(event.partition).batch(
        store.offset,
        event.offset,
        event.attributes["records"],
        exactly_once=moment.exactly_once,
    )
    store.memory |= {record.key: record.value for record in batch}
    store.offset = event.offset


def _global_applied(moment: Moment, event: Event) -> None:
    store = moment.store(event)
    store.task, store.name, store.is_open = GLOBAL, event.attributes["store"], True
    _store_restored(moment, event)


def _global_opened(moment: Moment, event: Event) -> None:
    store = moment.store(event)
    store.task, store.name = GLOBAL, event.attributes["store"]
    store.is_open, store.is_persistent = True, event.attributes["persistent"]
    store.offset = store.committed_offset = store.flushed_offset = event.offset


def _global_flushed(moment: Moment, event: Event) -> None:
    for partition in event.attributes["partitions"]:
        store = moment.stores.get((event.process, partition))
        if store is not None:
            store.flush(event.time)


def _global_wiped(moment: Moment, event: Event) -> None:
    for partition in [
        partition
        for (process, partition), store in moment.stores.items()
        if process == event.process and store.task == GLOBAL
    ]:
        del moment.stores[event.process, partition]


def _global_committed(moment: Moment, event: Event) -> None:
    for partition, offset in event.attributes["offsets"].items():
        store = moment.stores.get((event.process, partition))
        if store is not None:
            store.commit(offset)


def _store_committed(moment: Moment, event: Event) -> None:
    store = moment.store(event)
    # A file may state that no offset exists; a missing file states nothing.
    is_unknown = store.has_file and event.offset < 0
    store.commit(OFFSET_UNKNOWN if is_unknown else event.offset)
    delta = store.committed_offset - store.flushed_offset
    if store.has_file and (moment.exactly_once or not 0 <= delta <= OFFSET_DELTA_THRESHOLD):
        store.write_file(event.time)


def _store_flushed(moment: Moment, event: Event) -> None:
    moment.store(event).flush(event.time)


def _segment_flushed(moment: Moment, event: Event) -> None:
    moment.store(event).flush_some(event.attributes["keys"])


STORE_KINDS = (
    EventKind(
        name="global.applied",
        meaning="A process has applied records to its copy of a global store.",
        actor="global",
        about="partition offset",
        attributes={"store": Attribute(str, "the store"), "records": RECORDS},
        look=Look(
            "instance",
            "log",
            "$",
            "restoring",
            0,
            "the global store {store} takes {partition} up to {offset}",
        ),
        footprint=Footprint(writes=(ROW,), reads=("record {partition} {offset}",)),
        effect=_global_applied,
    ),
    EventKind(
        name="global.committed",
        meaning="A process has committed a global store, with the offsets of all partitions.",
        actor="global",
        attributes={
            "store": Attribute(str, "the store"),
            "offsets": Attribute(
                dict[str, int], "by partition, the offset of the last record that the store has"
            ),
        },
        look=Look(
            "instance", "", "C", "restoring", 1, "the global store {store} commits {offsets}"
        ),
        footprint=Footprint(writes=("files {process}",)),
        effect=_global_committed,
    ),
    EventKind(
        name="global.opened",
        meaning="A process has opened a global store, with the offset that a partition has in it.",
        actor="global",
        about="partition offset?",
        attributes={
            "store": Attribute(str, "the store"),
            "persistent": Attribute(bool, "whether it outlives the process"),
        },
        look=Look("instance", "", "o", "restoring", 0, "the global store {store} is opened: {at}"),
        footprint=Footprint(writes=(STORE,), reads=("files {process}",)),
        effect=_global_opened,
    ),
    EventKind(
        name="global.flushed",
        meaning="A global store has written its memory to the disk.",
        actor="global",
        attributes={
            "store": Attribute(str, "the store"),
            "partitions": Attribute(list[str], "the partitions of its topic"),
        },
        look=Look(
            "instance", "", "]", "stores", 1, "the global store {store} is flushed to the disk"
        ),
        footprint=Footprint(writes=("files {process}",)),
        effect=_global_flushed,
    ),
    EventKind(
        name="global.wiped",
        meaning="A process has deleted its global stores, which cannot go on.",
        actor="global",
        attributes={"reason": Attribute(str, "why they cannot go on")},
        look=Look("instance", "", "W", "faults", 3, "the global stores are wiped: {reason}"),
        footprint=Footprint(writes=("files {process}",), reads=("deleted {partition}",)),
        effect=_global_wiped,
    ),
    EventKind(
        name="global.restored",
        meaning="A process has its copy of the global stores.",
        actor="global",
        attributes={
            "rows": Attribute(
                dict[str, list[list[bytes]]], "by store, all rows: pairs of key and value"
            ),
            "offsets": Attribute(
                dict[str, int], "by partition, the offset of the last record that its store has"
            ),
        },
        look=Look("instance", "", ">", "restoring", 1, "the global stores are restored"),
        footprint=Absent("`global.applied` has told each batch"),
        effect=Absent("`global.applied` has told what the stores hold"),
    ),
    EventKind(
        name="store.closing",
        meaning="A store is closed cleanly, with these rows.",
        actor="thread",
        about="task partition offset?",
        attributes=_CONTENTS,
        look=Look("disk", "store", "]", "stores", 2, "{store} is closed with {rows}, {at}"),
        footprint=Footprint(
            writes=("files {process} {partition}",),
            reads=(STORE, TASK, "kept {process} {partition}"),
        ),
        effect=_store_told,
    ),
    EventKind(
        name="store.committed",
        meaning="A store has committed its content together with its offset.",
        actor="thread",
        about="task partition offset?",
        look=Look("store", "task", "C", "stores", 1, "{store} commits {at}"),
        footprint=Footprint(
            writes=("files {process} {partition}", "kept {process} {partition}"),
            reads=("commit {actor}",),
        ),
        effect=_store_committed,
    ),
    EventKind(
        name="store.segment_flushed",
        meaning="A segment of a window or session store has written its memory to the disk.",
        actor="thread",
        about="task partition",
        attributes={
            "segment": Attribute(int, "the number of the segment, which grows with time"),
            "keys": Attribute(list[bytes], "the keys that were written"),
        },
        look=Look(
            "disk", "store", "]", "stores", 2, "segment {segment} of {store} is flushed to the disk"
        ),
        footprint=Footprint(writes=("files {process} {partition}",)),
        effect=_segment_flushed,
    ),
    EventKind(
        name="store.flushed",
        meaning="A store has written its memory to the disk.",
        actor="thread",
        about="task partition",
        look=Look("disk", "store", "]", "stores", 2, "{store} is flushed to the disk"),
        footprint=Footprint(writes=("files {process} {partition}",)),
        effect=_store_flushed,
    ),
    EventKind(
        name="store.found",
        meaning="A store was opened, and has these rows.",
        actor="thread",
        about="task partition offset?",
        attributes=_CONTENTS,
        look=Look("store", "disk", "o", "stores", 2, "{store} is found with {rows}, {at}"),
        footprint=Footprint(reads=(STORE,)),
        effect=_store_found,
    ),
    EventKind(
        name="store.opened",
        meaning="A store is opened, with the offset that it has.",
        actor="thread",
        about="task partition offset?",
        attributes={
            "store": Attribute(str, "the store"),
            "wipe": Attribute(
                bool, "whether the stores of its task must be deleted first", _said_wipe
            ),
            "persistent": Attribute(bool, "whether it outlives the process"),
            "place": Attribute(
                str, "its directory: `<store>`, or `<store>-v2` for the newer format (KIP-258)"
            ),
            "segmented": Attribute(bool, "whether it has a database for each segment"),
        },
        look=Look("store", "disk", "o", "stores", 2, "{store} is opened: {at}{wipe}"),
        adapted=_minor_without_a_wipe,
        footprint=Footprint(
            writes=(STORE, "looked {process} {task}", "named {process} {store}"),
            reads=(
                *FILES,
                "files {process}",
                "kept {process} {partition}",
                "process {process}",
                OWNER,
            ),
        ),
        effect=_store_opened,
    ),
    EventKind(
        name="store.put",
        meaning="A processor has written into a store.",
        actor="thread",
        about="task partition",
        attributes={
            "key": Attribute(bytes, "the key"),
            "value": Attribute(bytes | None, "the value; null deletes the row"),
        },
        look=Look("store", "task", "=", "stores", 1, "{store}: {key} = {value}"),
        footprint=Footprint(
            writes=(ROW, "touched {partition} {key}", "put {partition} {key} {value}"),
            reads=("taking {actor} {task}",),
        ),
        effect=_store_put,
    ),
    EventKind(
        name="store.rebuilt",
        meaning="A store of the newer format was built beside the one in use.",
        actor="process",
        about="task partition offset",
        attributes={"prepared": Attribute(bool, "whether it has caught up")},
        look=Look(
            "store", "disk", "$", "restoring", 2, "{store} is rebuilt in another format, {at}"
        ),
        footprint=Absent("no message of an invariant is about the store that is built beside"),
        effect=Absent("only the store that is served is kept"),
    ),
    EventKind(
        name="store.recycled",
        meaning="A store stays open while its task changes its role, with these rows.",
        actor="thread",
        about="task partition offset?",
        attributes=_CONTENTS,
        look=Look("store", "", "o", "stores", 1, "{store} stays open with {rows}, {at}"),
        footprint=Footprint(reads=(STORE, TASK)),
        effect=_store_told,
    ),
    EventKind(
        name="store.restored",
        meaning="Records of the changelog were applied to a store.",
        actor="thread",
        about="task partition offset",
        attributes={"records": RECORDS},
        look=Look("store", "log", "$", "restoring", 2, "{store} takes {records} up to {offset}"),
        footprint=Footprint(
            writes=(ROW, "restored {process} {partition}"),
            reads=("record {partition} {offset}", STARTED),
        ),
        effect=_store_restored,
    ),
    EventKind(
        name="store.running",
        meaning="A task begins to run with these rows in a store.",
        actor="thread",
        about="task partition offset?",
        attributes=_CONTENTS,
        look=Look("store", "", ">", "stores", 2, "{store} starts running with {rows}, {at}"),
        footprint=Footprint(reads=(STORE, "restored {process} {partition}", TASK)),
        effect=_store_told,
    ),
)
