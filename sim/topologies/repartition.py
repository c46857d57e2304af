"""A repartition: two subtopologies, with an internal topic between them, where the key changes.

The last byte of the value becomes the key, and the second subtopology counts the records of each.

Source: Kafka, KStream#selectKey and #repartition.
"""

from __future__ import annotations

from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.topologies.aggregation import count, counted
from streamproof.sim.topologies.reference import (
    Expected,
    Logs,
    Output,
    Result,
    by_partition,
    exactly,
)
from streamproof.sim.topology import ProcessorContext, Subtopology, Topology

__all__ = ["REPARTITION", "expected", "topology"]

REPARTITION = "last-byte-count-keys-repartition"
"""The internal topic, named as Kafka would name it."""


def topology(partitions: int) -> Topology:
    """``in`` to ``out``; the internal topic has one partition more than the input."""
    return Topology(
        "last-byte-count",
        (
            Subtopology(("in",), _select_key, sinks=(REPARTITION,)),
            Subtopology((REPARTITION,), count, ("counts",), ("out",), forwarded={"counts": "out"}),
        ),
        {"in": partitions, REPARTITION: partitions + 1, "out": partitions},
    )


def _select_key(context: ProcessorContext, _: str, record: LogEntry) -> None:
    if record.value is not None:
        context.forward(REPARTITION, record.value[-1:], record.key)


def expected(topology: Topology, logs: Logs, *, ordered: bool = True) -> Expected:
    """Each record once in the internal topic, and the counts in the order of that topic.

    Records of one new key come from several tasks, so that their order in the topic is not known.
    """
    del ordered  # Each of the two tasks of a record has one input partition.
    between: dict[bytes, list[frozenset[Result]]] = {}
    for each in (each for entries in by_partition(logs, "in").values() for each in entries):
        if each.value is not None:
            between.setdefault(each.value[-1:], []).append(exactly(each.key, each.timestamp))
    sent: dict[bytes, list[frozenset[Result]]] = {}
    stores = {}
    for number, records in by_partition(logs, REPARTITION).items():
        found, stores[f"{topology.changelog('counts')}-{number}"] = counted(records)
        sent |= found
    return Expected({REPARTITION: Output(between, "any"), "out": Output(sent, "updates")}, stores)
