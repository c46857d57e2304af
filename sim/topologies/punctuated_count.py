"""Punctuation: counts are sent on from time to time, by stream time and by wall-clock time.

A second store has the keys whose counts have changed since they were sent on. A punctuation sends
these counts on, and asks for a commit; one by wall-clock time does so when the input is silent. How
many counts are skipped depends on when the punctuations come.

Sources: KIP-138; Kafka, PunctuationQueue.
"""

from __future__ import annotations

from functools import partial

from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.topologies.reference import (
    Expected,
    Logs,
    Output,
    Result,
    by_partition,
    exactly,
)
from streamproof.sim.topology import ProcessorContext, Subtopology, Topology

__all__ = ["SETTLE_MS", "STREAM_TIME_MS", "WALL_CLOCK_MS", "expected", "topology"]

STREAM_TIME_MS = 500
"""The interval of the punctuation by stream time."""

WALL_CLOCK_MS = 3_000
"""The interval of the punctuation by wall-clock time."""

SETTLE_MS = 2 * WALL_CLOCK_MS
"""How long until the last count is sent on and committed, even if the clock is slow."""


def topology(partitions: int) -> Topology:
    """``in`` to ``out``, with the counts, and the keys of unsent counts, in two stores."""
    return Topology(
        "punctuated-count",
        (Subtopology(("in",), _process, ("counts", "pending"), ("out",), _init),),
        {"in": partitions, "out": partitions},
    )


def _init(context: ProcessorContext) -> None:
    context.schedule(STREAM_TIME_MS, "stream time", partial(_send_on, context))
    context.schedule(WALL_CLOCK_MS, "wall-clock time", partial(_send_on, context))


def _process(context: ProcessorContext, _: str, record: LogEntry) -> None:
    if record.value is not None:
        counts = context.store("counts")
        counts.put(record.key, b"%d" % (int(counts.get(record.key) or b"0") + 1))
        context.store("pending").put(record.key, b"")


def _send_on(context: ProcessorContext, time: int) -> None:
    counts, pending = context.store("counts"), context.store("pending")
    for key, _ in list(pending.all()):
        context.forward("out", key, counts.get(key), time)
        pending.put(key, None)
        context.request_commit()


def expected(topology: Topology, logs: Logs, *, ordered: bool = True) -> Expected:
    """Rising counts, of which the last one is complete; no count is left unsent."""
    del ordered  # All records of a key are in one partition.
    sent: dict[bytes, list[frozenset[Result]]] = {}
    stores: dict[str, dict[bytes, bytes]] = {}
    for number, records in by_partition(logs, "in").items():
        rows: dict[bytes, bytes] = {}
        for each in records:
            if each.value is not None:
                results = sent.setdefault(each.key, [])
                rows[each.key] = b"%d" % (len(results) + 1)
                results.append(exactly(rows[each.key]))
        stores[f"{topology.changelog('counts')}-{number}"] = rows
        stores[f"{topology.changelog('pending')}-{number}"] = {}
    return Expected({"out": Output(sent, "latest")}, stores)
