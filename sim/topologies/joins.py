"""Joins: the reason for idling, because their output depends on the order of two inputs.

A stream-table join looks a record up in the current table. A stream-stream join keeps the records
of both sides for a while, and joins records that are close in time. A record that comes too late
for the time of the task is dropped.

In perfect order, which is that of the heads of both partitions by timestamp, a record comes
before one of the other side if the largest timestamp of its partition so far is less than that of
the other. If both are equal, either may come first.

Sources: KIP-695; Kafka, KStreamKTableJoin and KStreamKStreamJoin.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.topologies.reference import (
    Expected,
    Logged,
    Logs,
    Output,
    Result,
    by_partition,
    exactly,
)
from streamproof.sim.topology import ProcessorContext, Subtopology, Topology
from streamproof.stores.windowed.keys import parse_window_key, window_key

__all__ = [
    "GRACE_MS",
    "WINDOW_MS",
    "reused_table_topology",
    "stream_stream_expected",
    "stream_stream_topology",
    "stream_table_expected",
    "stream_table_topology",
]

WINDOW_MS = 2_000
"""Records of two streams belong together if they are at most this many milliseconds apart."""

GRACE_MS = 1_000
"""A record is joined if it is at most this many milliseconds later than the window."""

_SEQUENCES = 1 << 31
"""Sequence numbers in keys of windows are below it."""


# A stream and a table.


def stream_table_topology(partitions: int) -> Topology:
    """``stream`` and ``table`` to ``out``, a left join."""
    return Topology(
        "stream-table-join",
        (Subtopology(("stream", "table"), _join_table, ("rows",), ("out",)),),
        {"stream": partitions, "table": partitions, "out": partitions},
    )


def reused_table_topology(partitions: int) -> Topology:
    """The same, and the table is its own changelog (``reuse.ktable.source.topics``)."""
    join = Subtopology(
        ("stream", "table"), _join_table, ("rows",), ("out",), reused={"rows": "table"}
    )
    counts = {"stream": partitions, "table": partitions, "out": partitions}
    return Topology("reused-table-join", (join,), counts)


def _join_table(context: ProcessorContext, topic: str, record: LogEntry) -> None:
    rows = context.store("rows")
    if topic == "table":
        rows.put(record.key, record.value)
    elif record.value is not None:
        context.forward("out", record.key, _joined(record.value, rows.get(record.key)))


def _joined(left: bytes, right: bytes | None) -> bytes:
    return left + b"|" + (b"-" if right is None else right)


def stream_table_expected(topology: Topology, logs: Logs, *, ordered: bool = True) -> Expected:
    """Each record of the stream once, with the row of the table at its time.

    Without perfect order the row may be any row that the key ever had, or none.
    """
    records: dict[bytes, list[frozenset[Result]]] = {}
    stores = {}
    tables = by_partition(logs, "table")
    for number, stream in by_partition(logs, "stream").items():
        table = tables.get(number, ())
        versions: dict[bytes, list[tuple[int, bytes | None]]] = {}
        for at, row in enumerate(table):
            versions.setdefault(row.key, []).append((at, row.value))
        times = _times(table)
        for each, time in zip(stream, _times(stream), strict=True):
            if each.value is None:
                continue
            known = bisect_left(times, time) if ordered else 0
            possible = bisect_right(times, time) if ordered else len(table)
            rows = _rows_between(versions.get(each.key, ()), known, possible)
            records.setdefault(each.key, []).append(
                frozenset(Result(_joined(each.value, row), each.timestamp) for row in rows)
            )
        last = {key: found[-1][1] for key, found in versions.items()}
        stores[f"{topology.changelog('rows')}-{number}"] = {
            key: value for key, value in last.items() if value is not None
        }
    return Expected({"out": Output(records)}, stores)


def _rows_between(
    versions: Sequence[tuple[int, bytes | None]], known: int, possible: int
) -> list[bytes | None]:
    """The row after the first ``known`` records of a table, and those up to ``possible``."""
    before = [value for at, value in versions if at < known]
    return [
        before[-1] if before else None,
        *(value for at, value in versions if known <= at < possible),
    ]


def _times(records: Sequence[Logged]) -> list[int]:
    """The largest timestamp of a partition so far, at each of its records."""
    return list(accumulate((each.timestamp for each in records), max))


# Two streams.


def stream_stream_topology(partitions: int) -> Topology:
    """``left`` and ``right`` to ``out``, an inner join."""
    return Topology(
        "stream-stream-join",
        (Subtopology(("left", "right"), _join_streams, ("left", "right"), ("out",)),),
        {"left": partitions, "right": partitions, "out": partitions},
    )


def _join_streams(context: ProcessorContext, topic: str, record: LogEntry) -> None:
    now = context.stream_time
    if record.value is not None and record.timestamp >= now - WINDOW_MS - GRACE_MS:
        # The offset tells records of one time apart. A record that is processed again gets the same
        # row again.
        sequence = record.offset % _SEQUENCES
        own = window_key(record.key, record.timestamp, sequence)
        context.store(topic).put(own, record.value)
        other = "right" if topic == "left" else "left"
        for raw, value in list(context.store(other).prefix_scan(record.key)):
            key, time, _ = parse_window_key(raw)
            if key == record.key and abs(time - record.timestamp) <= WINDOW_MS:
                pair = (record.value, value) if topic == "left" else (value, record.value)
                context.forward("out", key, _joined(*pair), max(time, record.timestamp))
    for name in ("left", "right"):
        store = context.store(name)
        for raw, _ in list(store.all()):
            if _is_expired(parse_window_key(raw)[1], now):
                store.put(raw, None)


def _is_expired(time: int, now: int) -> bool:
    """Whether every record that could still be joined with this one would come too late."""
    return time < now - 2 * WINDOW_MS - GRACE_MS


def stream_stream_expected(topology: Topology, logs: Logs, *, ordered: bool = True) -> Expected:
    """Each pair that is close in time and not too late, once; without perfect order, some pairs."""
    records: dict[bytes, list[frozenset[Result]]] = {}
    stores = {}
    rights = by_partition(logs, "right")
    for number, left in by_partition(logs, "left").items():
        sides = {"left": left, "right": rights.get(number, ())}
        kept = {name: _kept(side, ordered=ordered) for name, side in sides.items()}
        for one in kept["left"]:
            for other in kept["right"]:
                if one.key == other.key and abs(one.timestamp - other.timestamp) <= WINDOW_MS:
                    time = max(one.timestamp, other.timestamp)
                    pair = exactly(_joined(one.value or b"", other.value), time)
                    records.setdefault(one.key, []).append(pair)
        if ordered:
            now = max((each.timestamp for side in sides.values() for each in side), default=0)
            for name, side in kept.items():
                stores[f"{topology.changelog(name)}-{number}"] = {
                    window_key(each.key, each.timestamp, each.offset): each.value or b""
                    for each in side
                    if not _is_expired(each.timestamp, now)
                }
    return Expected({"out": Output(records, "any" if ordered else "some")}, stores)


def _kept(records: Sequence[Logged], *, ordered: bool) -> list[Logged]:
    """The records that are not too late when they are processed in perfect order."""
    return [
        each
        for each, time in zip(records, _times(records), strict=True)
        if each.value is not None and (not ordered or each.timestamp >= time - WINDOW_MS - GRACE_MS)
    ]
