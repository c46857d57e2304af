"""A session aggregation: how many records each key has in each session.

Records of a key belong to one session if no gap between them is too long. A record that falls
between two sessions merges them. The store is a key-value store with the keys that a session store
writes to its changelog: key, end and start. A session is closed when stream time has passed its end
by the gap and the grace period. A record that belongs only to a closed session is dropped
(KAFKA-12718), and the row of the session is deleted with the next counted record.

Sources: KIP-94, KIP-328; Kafka, KStreamSessionWindowAggregate and SessionKeySchema.
"""

from __future__ import annotations

from collections.abc import Iterable

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
from streamproof.stores.windowed.keys import parse_session_key, session_key

__all__ = ["GAP_MS", "GRACE_MS", "expected", "topology"]

GAP_MS = 500
"""Records of one session are at most this many milliseconds apart."""

GRACE_MS = 1_000
"""How much longer than the gap a session still takes records, in milliseconds."""

SEGMENT_MS = 2_000
"""The time that one segment of the store covers. Kafka has at least a minute, and no short run."""


def topology(partitions: int) -> Topology:
    """``in`` to ``out``, with the counts of the open sessions in a store."""
    return Topology(
        "session-count",
        (
            Subtopology(
                ("in",),
                _process,
                ("sessions",),
                ("out",),
                forwarded={"sessions": "out"},
                segmented={"sessions": _segment_of},
                retained_ms={"sessions": GAP_MS + GRACE_MS},
            ),
        ),
        {"in": partitions, "out": partitions},
    )


def _segment_of(key: bytes) -> int:
    """The segment of a row, by the end of its session (Kafka, AbstractSegments#segmentId)."""
    return parse_session_key(key)[1].end // SEGMENT_MS


def _process(context: ProcessorContext, _: str, record: LogEntry) -> None:
    if record.value is None:
        return
    closed_before = context.stream_time - GAP_MS - GRACE_MS
    store = context.store("sessions")
    start = end = record.timestamp
    count = 1
    merged = []
    for raw, value in list(store.prefix_scan(record.key)):
        key, window = parse_session_key(raw)
        if key == record.key and _is_near(record.timestamp, *window):
            start, end = min(start, window.start), max(end, window.end)
            count += int(value)
            merged.append(raw)
    if end < closed_before:
        return
    for raw in merged:
        store.put(raw, None)
    store.put(session_key(record.key, start, end), b"%d" % count)
    for raw, _value in list(store.all()):
        if parse_session_key(raw).window.end < closed_before:
            store.put(raw, None)


def _is_near(time: int, start: int, end: int) -> bool:
    return start - GAP_MS <= time <= end + GAP_MS


def expected(topology: Topology, logs: Logs, *, ordered: bool = True) -> Expected:
    """The running count of each session; a tombstone when it is merged, changed, or closed."""
    del ordered  # A task has one input partition.
    sent: dict[bytes, list[frozenset[Result]]] = {}
    stores = {}
    for number, records in by_partition(logs, "in").items():
        found, stores[f"{topology.changelog('sessions')}-{number}"] = _counted(records)
        sent |= found
    return Expected({"out": Output(sent, "updates")}, stores)


def _counted(
    records: Iterable[Logged],
) -> tuple[dict[bytes, list[frozenset[Result]]], dict[bytes, bytes]]:
    """The expected output by session, and the open sessions in the end."""
    sent: dict[bytes, list[frozenset[Result]]] = {}
    counts: dict[tuple[bytes, int, int], int] = {}
    now = 0
    for each in records:
        now = max(now, each.timestamp)
        if each.value is None:
            continue
        near = [one for one in counts if one[0] == each.key and _is_near(each.timestamp, *one[1:])]
        start = min([each.timestamp, *(one[1] for one in near)])
        end = max([each.timestamp, *(one[2] for one in near)])
        if end < now - GAP_MS - GRACE_MS:
            continue
        count = 1 + sum(counts.pop(one) for one in near)
        session = each.key, start, end
        counts[session] = count
        closed = [one for one in counts if one[2] < now - GAP_MS - GRACE_MS]
        for one in closed:
            del counts[one]
        updates = [
            *((one, None) for one in near),
            (session, b"%d" % count),
            *((one, None) for one in closed),
        ]
        for one, value in updates:
            sent.setdefault(session_key(*one), []).append(exactly(value, each.timestamp))
    return sent, {session_key(*one): b"%d" % number for one, number in counts.items()}
