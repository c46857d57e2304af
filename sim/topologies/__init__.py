"""Topologies that are worth simulating, each with a reference for its expected output."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from streamproof.sim.topologies import (
    aggregation,
    global_table_join,
    joins,
    punctuated_count,
    repartition,
    session_count,
    stateless,
    table_operators,
    windowed_count,
)
from streamproof.sim.topologies.reference import Expected, Logs
from streamproof.sim.topology import Topology

__all__ = ["ORDINARY_TOPOLOGIES", "TOPOLOGIES", "Family", "Reference"]


class Reference(Protocol):
    """From the committed records to the expected result."""

    def __call__(self, topology: Topology, logs: Logs, /, *, ordered: bool = True) -> Expected:
        """The expected output of the application.

        Args:
            topology: the topology, which names the changelogs.
            logs: the committed records of every partition.
            ordered: whether each task has processed its inputs in perfect order, which needs a long
                enough ``max.task.idle.ms``. Without that order, less is expected.
        """
        ...


class Family(NamedTuple):
    """A topology and its reference.

    Attributes:
        topology: makes the topology, given the number of partitions of each input, at least 1.
        expected: the reference.
        settle_ms: how long the application goes on once all input is processed and committed, in
            milliseconds of wall-clock time.
        on_request: whether only a space or a file that names the topology has worlds of it.
    """

    topology: Callable[[int], Topology]
    expected: Reference
    settle_ms: int = 0
    on_request: bool = False


TOPOLOGIES: dict[str, Family] = {
    "stateless": Family(stateless.topology, stateless.expected),
    "count": Family(aggregation.topology, aggregation.expected),
    "stream-table-join": Family(joins.stream_table_topology, joins.stream_table_expected),
    "reused-table-join": Family(joins.reused_table_topology, joins.stream_table_expected),
    "stream-stream-join": Family(joins.stream_stream_topology, joins.stream_stream_expected),
    "windowed-count": Family(windowed_count.topology, windowed_count.expected),
    "session-count": Family(session_count.topology, session_count.expected),
    "last-byte-count": Family(repartition.topology, repartition.expected),
    "global-table-join": Family(global_table_join.topology, global_table_join.expected),
    "punctuated-count": Family(
        punctuated_count.topology, punctuated_count.expected, punctuated_count.SETTLE_MS
    ),
    "table-operators": Family(table_operators.topology, table_operators.expected, on_request=True),
}
"""All of them by name, which is also the application id."""

ORDINARY_TOPOLOGIES = tuple(name for name, each in TOPOLOGIES.items() if not each.on_request)
"""The topologies of worlds that ask for none."""
