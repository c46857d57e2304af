"""Kinds of events of partition logs, and of committed offsets."""

from __future__ import annotations

from streamproof.sim.event_kinds.kind import Attribute, EventKind, Footprint, Look
from streamproof.sim.event_kinds.shared_parts import APPENDED, OFFSETS, PRODUCER, RECORD
from streamproof.sim.invariants.log_history import LogRecord
from streamproof.sim.run_state import Moment
from streamproof.sim.trace import Event

__all__ = ["LOG_KINDS"]


def _log_appended(moment: Moment, event: Event) -> None:
    more, log = event.attributes, moment.log(event.partition)
    record = LogRecord(
        event.offset,
        more["key"],
        more["value"],
        more["timestamp"],
        more["producer"],
        more["transactional"],
    )
    log.append(record)
    if record.transactional:
        records = moment.transaction(record.producer).records
        records[event.partition] = records.get(event.partition, 0) + 1


def _log_deleted(moment: Moment, event: Event) -> None:
    moment.log(event.partition).start = event.offset


def _log_compacted(moment: Moment, event: Event) -> None:
    moment.log(event.partition).compact(event.offset)


def _offsets_added(moment: Moment, event: Event) -> None:
    moment.transaction(event.attributes["producer"]).offsets |= event.attributes["offsets"]


def _offsets_committed(moment: Moment, event: Event) -> None:
    moment.committed |= event.attributes["offsets"]


LOG_KINDS = (
    EventKind(
        name="log.appended",
        meaning="A record was appended to a partition.",
        actor="brokers",
        about="partition offset",
        attributes={
            "key": Attribute(bytes, "the key"),
            "value": Attribute(bytes | None, "the value; null is a tombstone"),
            "timestamp": Attribute(int, "of the record, in milliseconds"),
            "producer": PRODUCER,
            "transactional": Attribute(bool, "whether it belongs to a transaction"),
        },
        look=Look("log", "sender", "+", "log", 1, "{partition} @{offset}: {key} = {value}"),
        footprint=Footprint(
            writes=(
                *RECORD,
                APPENDED,
                "key {partition} {key}",
                "end {partition}",
                "stamp {partition} {timestamp}",
                "moment {arrived}",
                "written {owner} {partition}",
            ),
            reads=("put {partition} {key} {value} | taking {owner}",),
        ),
        effect=_log_appended,
    ),
    EventKind(
        name="log.compacted",
        meaning="A log was compacted up to an offset.",
        actor="brokers",
        about="partition offset",
        attributes={"removed": Attribute(int, "how many records were removed")},
        look=Look("log", "", "-", "log", 1, "{partition} is compacted: {removed} records removed"),
        footprint=Footprint(writes=("deleted {partition}",)),
        effect=_log_compacted,
    ),
    EventKind(
        name="log.deleted",
        meaning="Records before an offset were deleted.",
        actor="brokers",
        about="partition offset",
        attributes={"reason": Attribute(str, "`request` or `retention`")},
        look=Look("log", "", "-", "log", 2, "{partition} is deleted before {offset}, by {reason}"),
        footprint=Footprint(writes=("deleted {partition}",), reads=("committed {partition}",)),
        effect=_log_deleted,
    ),
    EventKind(
        name="offsets.added",
        meaning="Offsets of inputs became part of a transaction.",
        actor="brokers",
        attributes={"group": Attribute(str, "the group"), "producer": PRODUCER, "offsets": OFFSETS},
        look=Look(
            "transactions",
            "sender",
            "+",
            "transactions",
            1,
            "the transaction takes in offsets: {offsets}",
        ),
        footprint=Footprint(
            writes=("offer {partition} {offset}", "added {producer}"), reads=("taking {partition}",)
        ),
        effect=_offsets_added,
    ),
    EventKind(
        name="offsets.committed",
        meaning="Offsets of inputs were committed.",
        actor="brokers",
        attributes={"group": Attribute(str, "the group"), "offsets": OFFSETS},
        look=Look("groups", "", "C", "transactions", 2, "committed offsets: {offsets}"),
        footprint=Footprint(
            writes=("committed {partition}",),
            reads=("offer {partition} {offset} | taking {partition}",),
        ),
        effect=_offsets_committed,
    ),
)
