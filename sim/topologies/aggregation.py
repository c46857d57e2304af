"""A keyed aggregation: how many records each key has had since its last tombstone.

Source: Kafka, KGroupedStream#count.
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

__all__ = ["count", "counted", "expected", "topology"]


def topology(partitions: int) -> Topology:
    """``in`` to ``out``, with the counts in a store."""
    return Topology(
        "count",
        (Subtopology(("in",), count, ("counts",), ("out",), forwarded={"counts": "out"}),),
        {"in": partitions, "out": partitions},
    )


def count(context: ProcessorContext, _: str, record: LogEntry) -> None:
    """Count a record in the store ``counts``; a tombstone deletes the count of its key."""
    store = context.store("counts")
    if record.value is None:
        store.put(record.key, None)
    else:
        store.put(record.key, b"%d" % (int(store.get(record.key) or b"0") + 1))


def counted(
    records: Iterable[Logged],
) -> tuple[dict[bytes, list[frozenset[Result]]], dict[bytes, bytes]]:
    """The expected output by key, and the final content of the store."""
    sent: dict[bytes, list[frozenset[Result]]] = {}
    counts: dict[bytes, int] = {}
    for each in records:
        counts[each.key] = 0 if each.value is None else counts.get(each.key, 0) + 1
        value = b"%d" % counts[each.key] if counts[each.key] else None
        sent.setdefault(each.key, []).append(exactly(value, each.timestamp))
    return sent, {key: b"%d" % number for key, number in counts.items() if number}


def expected(topology: Topology, logs: Logs, *, ordered: bool = True) -> Expected:
    """The running count of each key."""
    del ordered  # All records of a key are in one partition.
    sent: dict[bytes, list[frozenset[Result]]] = {}
    stores = {}
    for number, records in by_partition(logs, "in").items():
        found, stores[f"{topology.changelog('counts')}-{number}"] = counted(records)
        sent |= found
    return Expected({"out": Output(sent, "updates")}, stores)
