"""Stores in a small application: the calls that the runtime makes, and those it lets through."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.conformance.runtime_checks.small_application import (
    STORE,
    SmallApplication,
    table_and_input,
)
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.topology import ProcessorContext
from streamproof.stores.api import KeyValueStore, TopicPartition
from streamproof.stores.errors import InvalidStateStoreError, UnsupportedOperationError

__all__: list[str] = []

FORBIDDEN: dict[str, Callable[[KeyValueStore], Any]] = {
    "init": lambda store: store.init(None, store),  # type: ignore[arg-type]
    "commit": lambda store: store.commit({TopicPartition("app-rows-changelog", 0): 7}),
    "close": lambda store: store.close(),
}
"""The calls that only the runtime may make."""


@scripted("LIFE-012")
def processors_cannot_end_a_store(probe: Probe) -> None:
    """Call init, commit, close and flush from a processor, on a store of the task and a global."""
    for more in (
        {},
        {"statestore_cache_max_bytes": 1_000},
        {"transactional": True},
        {"persistent": False},
    ):
        curious = _Curious()
        app = SmallApplication(
            probe,
            table_and_input(curious.process, table_partitions=1),
            commit_interval_ms=10_000,
            transaction_timeout_ms=20_000,
            **more,
        )
        app.start()
        before = len(app.called("init", "commit", "close"))
        app.send(b"a")
        with suppress(InvalidStateStoreError):
            # A runtime whose store was closed by a processor cannot go on.
            app.wait(1_000)
        expected = [
            (store, method, "flushed" if method == "flush" else "refused")
            for store in (STORE, "global")
            for method in (*FORBIDDEN, "flush")
        ]
        probe.expect(expected, curious.answers)
        reached = [each.method for each in app.called("init", "commit", "close")[before:]]
        probe.demand("no call to reach the store", f"these: {reached}", holds=not reached)


class _Curious:
    """A processor that tries what only the runtime may do.

    Attributes:
        answers: the store, the method, and what became of the call.
    """

    def __init__(self) -> None:
        self.answers: list[tuple[str, str, str]] = []

    def process(self, context: ProcessorContext, _topic: str, _record: LogEntry) -> None:
        """Try every call on the store of the task, and on the global one."""
        for name in (STORE, "global"):
            store = context.store(name)
            for method, call in FORBIDDEN.items():
                self.answers.append((name, method, _outcome(call, store)))
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                store.flush()
            told = any(each.category is DeprecationWarning for each in heard)
            self.answers.append((name, "flush", "flushed" if told else "flushed in silence"))


def _outcome(call: Callable[[KeyValueStore], Any], store: KeyValueStore) -> str:
    try:
        call(store)
    except UnsupportedOperationError:
        return "refused"
    except Exception as error:
        return type(error).__name__
    return "carried out"


@scripted("TASK-051")
def nobody_flushes(probe: Probe) -> None:
    """Process, commit, close and reopen stores with full memtables; restore, and read a table.

    Copy a store to a standby.
    """
    for more in ({}, {"transactional": True}, {"statestore_cache_max_bytes": 1_000}):
        app = SmallApplication(probe, flush_probability=1.0, **more)
        app.start()
        app.send(b"a", b"b", b"c", pause_ms=200)
        app.wait(1_000)
        app.stop()
        app.start()
        app.send(b"d", pause_ms=500)
        app.stop()
        probe.need("a commit", holds=bool(app.called("commit")))
        probe.need("a full memtable", holds=bool(probe.of("store.flushed")))
        _expect_no_flush(probe, app)
    for more in ({"exactly_once": False}, {"exactly_once": True, "transactional": True}):
        _recover(probe, **more)
        _copy(probe, **more)


def _copy(probe: Probe, **more: Any) -> None:
    """Let the standby of a second instance follow a store, for longer than a commit interval."""
    standbys = AssignorConfig(num_standby_replicas=1)
    app = SmallApplication(probe, assignor=standbys, commit_interval_ms=20, **more)
    app.start()
    app.start_second()
    app.wait(10_000)
    first = len(app.calls)
    app.send(b"a", b"b", b"c", pause_ms=500)
    app.wait(5_000)
    copies = {each.store for each in app.calls[first:] if each.method == "restore"}
    commits = [each for each in app.calls[first:] if each.method == "commit"]
    has_committed = any(each.store in copies for each in commits)
    probe.need("a commit of a standby", holds=has_committed)
    _expect_no_flush(probe, app)


def _recover(probe: Probe, **more: Any) -> None:
    """Restore a store and read a table anew, for longer than a commit interval, after a crash."""
    app = SmallApplication(
        probe,
        table_and_input(table_partitions=1),
        persistent=False,
        max_poll_records=5,
        commit_interval_ms=20,
        **more,
    )
    keys = [b"%d" % number for number in range(100)]
    app.start()
    app.send(*keys)
    app.send(*keys, partition="table-0")
    app.wait(5_000)
    app.crash()
    first = len(app.calls)
    app.start()
    app.wait(1_000)
    for name, what in ((STORE, "a store in its restoration"), ("global", "a global store")):
        calls = [each.method for each in app.calls[first:] if each.store.name == name]
        steps = "restore" in calls and "commit" in calls[calls.index("restore") :]
        probe.need(f"restored records and a commit of {what}", holds=steps)
    _expect_no_flush(probe, app)


def _expect_no_flush(probe: Probe, app: SmallApplication) -> None:
    times = [each.time for each in app.called("flush")]
    probe.demand("no call of flush", f"calls at {times} ms", holds=not times)


@scripted("TASK-052")
def requested_commits_follow(probe: Probe) -> None:
    """Request a commit from a processor, long before the commit interval is over."""

    def process(context: ProcessorContext, _: str, record: LogEntry) -> None:
        context.store(STORE).put(record.key, record.value)
        if record.key == b"commit":
            context.request_commit()

    app = SmallApplication(
        probe, table_and_input(process), commit_interval_ms=10_000, transaction_timeout_ms=20_000
    )
    app.start()
    app.send(b"a")
    app.wait(1_000)
    probe.expect([], probe.of("thread.committed"))
    app.send(b"commit")
    app.wait(1_000)
    offsets = [each.attributes["offsets"] for each in probe.of("thread.committed")]
    probe.expect([{"in-0": 2}], offsets)
