"""Tables with timestamps: read from a source, filtered, mapped, joined, and aggregated.

Each value that the application writes names the input records that it was made from. So the
timestamp that it must have follows from the value and the inputs alone.

Sources: KIP-258, Test Plan; Kafka, KTableSource, KTableFilter, KTableMapValues,
KTableKTableInnerJoin and KStreamAggregate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.topologies.reference import (
    Expected,
    Logged,
    Logs,
    Output,
    Result,
    by_partition,
    content,
    exactly,
)
from streamproof.sim.topology import ProcessorContext, Subtopology, Topology
from streamproof.stores.timestamps import KeyValueWithTimestampStore

__all__ = ["expected", "topology"]

_TABLES = ("left", "right")

_SINKS = ("filtered", "mapped", "joined", "out")

_Records = dict[bytes, list[frozenset[Result]]]


def topology(partitions: int) -> Topology:
    """The tables ``left`` and ``right`` and the stream ``events``, to one topic per operator."""
    topics = (*_TABLES, "events", *_SINKS)
    operators = Subtopology(
        (*_TABLES, "events"),
        _process,
        (*_TABLES, "latest"),
        _SINKS,
        timestamped=(*_TABLES, "latest"),
    )
    return Topology("table-operators", (operators,), dict.fromkeys(topics, partitions))


def _process(context: ProcessorContext, topic: str, record: LogEntry) -> None:
    if topic == "events":
        _aggregate(context, record)
        return
    # A row of a table has the timestamp of its record.
    _table(context, topic).put(record.key, record.value)
    if topic == "left":
        _pass_on(context, record)
    _join(context, topic, record)


def _pass_on(context: ProcessorContext, record: LogEntry) -> None:
    """Filter and map the left table: both keep the timestamp of the row."""
    time = context.stream_time if context.defect("derived-tables-get-stream-time") else None
    kept = record.value if record.value is not None and _passes(record.value) else None
    context.forward("filtered", record.key, kept, time)
    context.forward("mapped", record.key, _mapped(record.value), time)


def _passes(value: bytes) -> bool:
    """Whether the filter keeps a value."""
    return value[-1:] not in b"02468"


def _mapped(value: bytes | None) -> bytes | None:
    return None if value is None else value + b"!"


def _join(context: ProcessorContext, topic: str, record: LogEntry) -> None:
    """Join a new row with that of the other table, at the later of their timestamps."""
    other = _table(context, "right" if topic == "left" else "left").get_with_timestamp(record.key)
    if other is None:
        return
    time = max(record.timestamp, other.timestamp)
    if context.defect("joins-at-the-time-of-one-side"):
        time = record.timestamp
    pair = (record.value, other.value) if topic == "left" else (other.value, record.value)
    context.forward("joined", record.key, _joined(*pair), time)


def _joined(left: bytes | None, right: bytes | None) -> bytes | None:
    return None if left is None or right is None else left + b"|" + right


def _aggregate(context: ProcessorContext, record: LogEntry) -> None:
    """Count the events of a key, with the last one; the time is the latest of all of them."""
    if record.value is None:
        return
    latest = _table(context, "latest")
    before = latest.get_with_timestamp(record.key)
    time = record.timestamp
    if before is not None and not context.defect("aggregates-at-the-time-of-the-last-record"):
        time = max(time, before.timestamp)
    count = 1 if before is None else int(before.value.partition(b"|")[0]) + 1
    value = _counted(count, record.value)
    latest.put_with_timestamp(record.key, value, time)
    context.forward("out", record.key, value, time)


def _counted(count: int, value: bytes) -> bytes:
    return b"%d|%s" % (count, value)


def _table(context: ProcessorContext, name: str) -> KeyValueWithTimestampStore:
    return cast(KeyValueWithTimestampStore, context.store(name))


def expected(topology: Topology, logs: Logs, *, ordered: bool = True) -> Expected:
    """All output but that of the join is known; a join depends on the order of its two tables."""
    del ordered
    outputs: dict[str, _Records] = {name: {} for name in _SINKS}
    stores: dict[str, dict[bytes, bytes]] = {}
    tables = {name: by_partition(logs, name) for name in (*_TABLES, "events")}
    for number, left in tables["left"].items():
        right, events = (tables[each].get(number, ()) for each in ("right", "events"))
        for each in left:
            kept = each.value if each.value is not None and _passes(each.value) else None
            _add(outputs["filtered"], each, kept)
            _add(outputs["mapped"], each, _mapped(each.value))
        _add_pairs(outputs["joined"], left, right)
        aggregates = _add_aggregates(outputs["out"], events)
        rows = {"left": content(left), "right": content(right), "latest": aggregates}
        stores |= {f"{topology.changelog(name)}-{number}": each for name, each in rows.items()}
    orders = {name: Output(records) for name, records in outputs.items()}
    return Expected({**orders, "joined": Output(outputs["joined"], "some")}, stores)


def _add(records: _Records, each: Logged, value: bytes | None) -> None:
    records.setdefault(each.key, []).append(exactly(value, each.timestamp))


def _add_pairs(records: _Records, left: Sequence[Logged], right: Sequence[Logged]) -> None:
    """Every row of one table may meet every row of the other with its key."""
    for one in left:
        for other in right:
            if one.key == other.key:
                time = max(one.timestamp, other.timestamp)
                pair = exactly(_joined(one.value, other.value), time)
                records.setdefault(one.key, []).append(pair)


def _add_aggregates(records: _Records, events: Sequence[Logged]) -> dict[bytes, bytes]:
    """The aggregates, at the latest timestamp so far; return the last one of each key."""
    rows: dict[bytes, bytes] = {}
    counts: dict[bytes, tuple[int, int]] = {}
    for each in events:
        if each.value is not None:
            count, time = counts.get(each.key, (0, each.timestamp))
            counts[each.key] = count, time = count + 1, max(time, each.timestamp)
            rows[each.key] = _counted(count, each.value)
            records.setdefault(each.key, []).append(exactly(rows[each.key], time))
    return rows
