"""A join with a global table, which every instance reads as a whole.

Each instance reads the table independently of its tasks, so no timestamp decides which row a record
meets. The reference only knows that the table has that row, or had it before.

Source: Kafka, KStreamGlobalKTableJoin.
"""

from __future__ import annotations

from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.topologies.reference import Expected, Logs, Output, Result, by_partition
from streamproof.sim.topology import ProcessorContext, Subtopology, Topology

__all__ = ["expected", "topology"]


def topology(partitions: int) -> Topology:
    """``in`` to ``out``, with the rows of ``table`` in a global store."""
    return Topology(
        "global-table-join",
        (Subtopology(("in",), _process, sinks=("out",)),),
        {"in": partitions, "out": partitions, "table": partitions},
        global_stores={"rows": "table"},
    )


def _process(context: ProcessorContext, _: str, record: LogEntry) -> None:
    if record.value is not None:
        row = context.store("rows").get(record.key)
        context.forward("out", record.key, _joined(record.value, row))


def _joined(left: bytes, right: bytes | None) -> bytes:
    return left + b"|" + (b"-" if right is None else right)


def expected(_: Topology, logs: Logs, *, ordered: bool = True) -> Expected:
    """Each record once, with a row that its key has or had, or without a row."""
    del ordered  # The global table is not read in the order of timestamps.
    rows: dict[bytes, set[bytes | None]] = {}
    for entries in by_partition(logs, "table").values():
        for each in entries:
            rows.setdefault(each.key, {None}).add(each.value)
    records: dict[bytes, list[frozenset[Result]]] = {}
    for entries in by_partition(logs, "in").values():
        for each in entries:
            if each.value is not None:
                records.setdefault(each.key, []).append(
                    frozenset(
                        Result(_joined(each.value, row), each.timestamp)
                        for row in rows.get(each.key, {None})
                    )
                )
    return Expected({"out": Output(records)})
