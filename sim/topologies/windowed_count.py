"""A windowed aggregation: how many records each key has in each tumbling window.

The store is a key-value store with the keys that a window store writes to its changelog: key,
window start, and a sequence number of 0. A window is closed when stream time has reached its end
and the grace period has passed. A later record of the window is dropped. The row of the window is
deleted when the next new row is written, with a tombstone that is sent on like every update.

Sources: KIP-328; Kafka, KStreamWindowAggregate and WindowKeySchema.
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
from streamproof.stores.windowed.keys import parse_window_key, window_key

__all__ = ["GRACE_MS", "SIZE_MS", "expected", "topology"]

SIZE_MS = 2_000
"""How long a window is; the first one starts at 0."""

GRACE_MS = 2_000
"""How long after its end a window still takes records."""

SEGMENT_MS = 4_000
"""The time that one segment of the store covers. Kafka has at least a minute, and no short run."""


def topology(partitions: int) -> Topology:
    """``in`` to ``out``, with the counts of the open windows in a store."""
    return Topology(
        "windowed-count",
        (
            Subtopology(
                ("in",),
                _process,
                ("windows",),
                ("out",),
                forwarded={"windows": "out"},
                segmented={"windows": _segment_of},
                retained_ms={"windows": SIZE_MS + GRACE_MS},
            ),
        ),
        {"in": partitions, "out": partitions},
    )


def _segment_of(key: bytes) -> int:
    """The segment of a row, by the start of its window (Kafka, AbstractSegments#segmentId)."""
    return parse_window_key(key)[1] // SEGMENT_MS


def _process(context: ProcessorContext, _: str, record: LogEntry) -> None:
    now, start = context.stream_time, _start(record.timestamp)
    if record.value is None or _is_closed(start, now):
        return
    store = context.store("windows")
    key = window_key(record.key, start)
    before = store.get(key)
    store.put(key, b"%d" % (int(before or b"0") + 1))
    if before is None:
        for raw, _value in list(store.all()):
            if _is_closed(parse_window_key(raw)[1], now):
                store.put(raw, None)


def _start(timestamp: int) -> int:
    return timestamp - timestamp % SIZE_MS


def _is_closed(start: int, now: int) -> bool:
    return start + SIZE_MS + GRACE_MS <= now


def expected(topology: Topology, logs: Logs, *, ordered: bool = True) -> Expected:
    """The running count of each window, and a tombstone for each closed window."""
    del ordered  # A task has one input partition.
    sent: dict[bytes, list[frozenset[Result]]] = {}
    stores = {}
    for number, records in by_partition(logs, "in").items():
        found, stores[f"{topology.changelog('windows')}-{number}"] = _counted(records)
        sent |= found
    return Expected({"out": Output(sent, "updates")}, stores)


def _counted(
    records: Iterable[Logged],
) -> tuple[dict[bytes, list[frozenset[Result]]], dict[bytes, bytes]]:
    """The expected output by windowed key, and the open windows in the end."""
    sent: dict[bytes, list[frozenset[Result]]] = {}
    counts: dict[tuple[int, bytes], int] = {}
    now = 0
    for each in records:
        now = max(now, each.timestamp)
        start = _start(each.timestamp)
        if each.value is None or _is_closed(start, now):
            continue
        window = start, each.key
        counts[window] = counts.get(window, 0) + 1
        key = window_key(each.key, start)
        sent.setdefault(key, []).append(exactly(b"%d" % counts[window], each.timestamp))
        if counts[window] > 1:
            continue
        for closed in [one for one in counts if _is_closed(one[0], now)]:
            del counts[closed]
            key = window_key(closed[1], closed[0])
            sent[key].append(exactly(None, each.timestamp))
    return sent, {window_key(key, start): b"%d" % n for (start, key), n in counts.items()}
