"""A stateless map: each value is reversed, and tombstones are left out.

Source: Kafka, KStream#filter and #mapValues.
"""

from __future__ import annotations

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

__all__ = ["expected", "topology"]


def topology(partitions: int) -> Topology:
    """``in`` to ``out``."""
    return Topology(
        "stateless",
        (Subtopology(("in",), _process, sinks=("out",)),),
        {"in": partitions, "out": partitions},
    )


def _process(context: ProcessorContext, _: str, record: LogEntry) -> None:
    if record.value is not None:
        context.forward("out", record.key, record.value[::-1])


def expected(_: Topology, logs: Logs, *, ordered: bool = True) -> Expected:
    """The same records in the same order."""
    del ordered  # All records of a key are in one partition.
    records: dict[bytes, list[frozenset[Result]]] = {}
    for each in (each for entries in by_partition(logs, "in").values() for each in entries):
        if each.value is not None:
            records.setdefault(each.key, []).append(exactly(each.value[::-1], each.timestamp))
    return Expected({"out": Output(records)})
