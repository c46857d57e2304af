"""Stores that stage their writes, in a small application: when, how much, and for how long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.conformance.runtime_checks.small_application import (
    STORE,
    SmallApplication,
    table_and_input,
)
from streamproof.sim.application import StreamsConfig
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.disks import RealDisk
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.topology import Process, ProcessorContext, Topology
from streamproof.sim.world import World
from streamproof.stores.api import IsolationLevel, KeyValueStore
from streamproof.stores.memory import InMemoryKeyValueStore

__all__: list[str] = []

LONG_MS = 20_000
"""A commit interval that is not over within a check."""

NO_LIMITS = {"max_uncommitted_records": -1, "max_uncommitted_bytes": -1}

KEY_AND_VALUE = 5
"""How many bytes a record has here: a key of four bytes, and a value of one."""


@scripted("TASK-045")
def stores_learn_their_isolation_level(probe: Probe) -> None:
    """Read the isolation level of the context of a task's store, a standby and a global store."""
    standbys = AssignorConfig(num_standby_replicas=1)
    for exactly_once in (True, False):
        for transactional in (True, False):
            app = SmallApplication(
                probe,
                table_and_input(table_partitions=1),
                assignor=standbys,
                exactly_once=exactly_once,
                transactional=transactional,
            )
            app.start()
            app.send(b"a")
            app.wait(1_000)
            # The second process also opens the stores before its threads start.
            app.stop()
            app.start()
            app.start_second()
            app.wait(10_000)
            expected = (
                IsolationLevel.READ_COMMITTED if exactly_once else IsolationLevel.READ_UNCOMMITTED
            )
            opened = Counter(each.store.name for each in app.called("init"))
            # The store of the task is opened by each process, before their threads, and as standby.
            probe.demand(
                "four openings of the store of the task, and a global store in each process",
                str(dict(opened)),
                holds=opened[STORE] >= 4 and opened["global"] >= 3,
            )
            found = [each.argument.isolation_level for each in app.called("init")]
            probe.expect([expected] * len(found), found)


@scripted("TASK-046")
def at_least_once_holds_nothing_back(probe: Probe) -> None:
    """Fill the memtable of a store before the commit, and kill the process."""
    _expect_held_back(probe, {True: True, False: False})


@scripted("TASK-047")
def as_shipped_the_guarantee_does_not_matter(probe: Probe) -> None:
    """Fill the memtable of a store before the commit, and kill the process, under Kafka's rules."""
    _expect_held_back(probe, {True: True, False: True})


def _expect_held_back(probe: Probe, expected: dict[bool, bool]) -> None:
    """Expect by guarantee whether an uncommitted write stays out of the disk."""
    for exactly_once, held_back in expected.items():
        app = SmallApplication(
            probe, exactly_once=exactly_once, transactional=True, **_committing_late()
        )
        app.start()
        app.send(b"a")
        app.wait(1_000)
        probe.need("a write", holds=bool(app.called("put")))
        app.fill_memtables()
        app.crash()
        probe.events.clear()
        app.start()
        found = [each.attributes["rows"] for each in probe.of("store.found")]
        probe.expect([[] if held_back else [[b"a", b"v"]]], found)


def _committing_late() -> dict[str, Any]:
    return {"commit_interval_ms": LONG_MS, "transaction_timeout_ms": 2 * LONG_MS}


@scripted("TASK-048")
def the_limits_have_their_defaults(probe: Probe) -> None:
    """Start an application that configures no limit, and contradictory ones."""
    config = StreamsConfig()
    probe.expect(
        (-1, 64 * 1024 * 1024), (config.max_uncommitted_records, config.max_uncommitted_bytes)
    )
    SmallApplication(probe)
    (started,) = probe.of("application.started")
    found = [started.attributes[f"max_uncommitted_{each}"] for each in ("records", "bytes")]
    probe.expect([-1, 64 * 1024 * 1024], found)


@scripted("TASK-049")
def records_make_a_commit_due(probe: Probe) -> None:
    """Stage records beyond statestore.uncommitted.max.records, long before the interval is over."""
    for threads, table in ((1, False), (2, False), (2, True)):
        share = 12 // (threads + table)
        _expect_commits_after(
            probe, share + 1, threads=threads, table=table, max_uncommitted_records=12
        )


@scripted("TASK-010")
def bytes_make_a_commit_due(probe: Probe) -> None:
    """Stage bytes beyond statestore.uncommitted.max.bytes, long before the interval is over."""
    for threads, table in ((1, False), (2, False), (2, True)):
        share = 60 // (threads + table)
        _expect_commits_after(
            probe,
            share // KEY_AND_VALUE + 1,
            threads=threads,
            table=table,
            max_uncommitted_bytes=60,
        )


@scripted("TASK-010", "TASK-049")
def all_stores_of_a_thread_count(probe: Probe) -> None:
    """Stage writes in two stores of a task, and in two tasks of a thread, up to the limits."""
    for requirement, limit, least in (
        ("TASK-010", {"max_uncommitted_bytes": 60}, 60 // KEY_AND_VALUE),
        ("TASK-049", {"max_uncommitted_records": 12}, 12),
    ):
        probe.about(requirement)
        for tasks, stores in ((1, (STORE, "other")), (2, (STORE,))):
            topology = table_and_input(_putting_into(stores), partitions=tasks, stores=stores)
            found = _puts_of(probe, topology, transactional=True, **{**NO_LIMITS, **limit})
            probe.demand("several early commits", str(found), holds=len(found) >= 2)
            # A thread looks at the limit after each record, which is put into each of the stores.
            most = least + len(stores) * tasks
            probe.demand(
                f"each commit after {least + 1} to {most} puts",
                str(found),
                holds=all(least < each <= most for each in found),
            )


def _putting_into(stores: tuple[str, ...]) -> Process:
    """Put each record into all of these stores."""

    def process(context: ProcessorContext, _: str, record: LogEntry) -> None:
        for name in stores:
            context.store(name).put(record.key, record.value)

    return process


@scripted("TASK-050")
def unlimited_means_unlimited(probe: Probe) -> None:
    """Stage without a limit, and with stores that stage nothing, or have the defaults alone."""
    least = {"transactional": False, "max_uncommitted_records": 1, "max_uncommitted_bytes": 1}
    for more in (
        {"transactional": True, **NO_LIMITS},
        least,
        {**least, "make_disk": _disk_with(probe, InMemoryKeyValueStore)},
        {**least, "make_disk": _disk_with(probe, _Unknowing)},
    ):
        probe.expect([], _puts_of(probe, table_and_input(), **more))


class _Unknowing(InMemoryKeyValueStore):
    """Cannot tell how much it stages."""

    def approximate_num_uncommitted_entries(self) -> int:
        """Unknown."""
        return -1

    def approximate_num_uncommitted_bytes(self) -> int:
        """Unknown."""
        return -1


def _disk_with(probe: Probe, kind: Callable[[str], KeyValueStore]) -> Callable[[World], RealDisk]:
    """Makes a disk with stores of this kind."""
    root = probe.new_directory()
    return lambda world: RealDisk(world, "instance-0", root / "disk", kind)


def _expect_commits_after(
    probe: Probe, puts: int, *, threads: int, table: bool, **limit: int
) -> None:
    """Expect each commit of a thread after exactly this many puts."""
    topology = table_and_input(partitions=threads, table_partitions=2 if table else 0)
    limits = {**NO_LIMITS, **limit}
    found = _puts_of(probe, topology, threads=threads, transactional=True, **limits)
    probe.demand("several early commits", str(found), holds=len(found) >= 2 * threads)
    probe.expect([puts] * len(found), found)


def _puts_of(probe: Probe, topology: Topology, *, threads: int = 1, **config: Any) -> list[int]:
    """For each commit of each thread, how many puts of new keys came since its last commit."""
    probe.events.clear()
    app = SmallApplication(
        probe,
        topology,
        threads=threads,
        exactly_once=True,
        max_poll_records=1,
        **_committing_late(),
        **config,
    )
    app.start()
    began = app.world.now
    for number in range(30):
        for partition in range(topology.partitions["in"]):
            app.send(b"%04d" % number, partition=f"in-{partition}")
        app.wait(100)
    lasted = app.world.now - began
    probe.need("a run that is shorter than the commit interval", holds=lasted < LONG_MS)
    counts: dict[str, int] = {}
    found = []
    for each in probe.of("store.put", "thread.committed"):
        if each.kind == "store.put":
            counts[each.actor] = counts.get(each.actor, 0) + 1
        elif each.time > began:
            found.append(counts.pop(each.actor, 0))
    return found
