"""A small application in a world without faults, whose stores note every call of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from streamproof.conformance.runtime_checks.probe import Probe
from streamproof.errors import SuiteError
from streamproof.sim.application import Application, StreamsConfig
from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.disks import Flushed, InstanceDisk, SimulatedDisk
from streamproof.sim.instances import Instance
from streamproof.sim.releases import Formats, Release
from streamproof.sim.tasks.task_states import TaskState
from streamproof.sim.topology import Process, ProcessorContext, Subtopology, Topology
from streamproof.sim.world import World
from streamproof.stores.api import (
    ChangelogRecord,
    KeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.wrapped import WrappedKeyValueStore

__all__ = ["STORE", "Call", "SmallApplication", "WatchedStore", "copying", "table_and_input"]

STORE = "rows"
"""The name of the store of every task."""


class Call(NamedTuple):
    """A call of the runtime on a store.

    Attributes:
        time: the virtual time of the call, in milliseconds.
        store: the store.
        method: the name of the method.
        argument: the context of ``init``, the offsets of ``commit``, the key of ``put``, or the
            number of records of ``restore``.
    """

    time: int
    store: WatchedStore
    method: str
    argument: Any


class WatchedStore(WrappedKeyValueStore):
    """Passes every call on, and notes the calls that a runtime makes or must not make."""

    def __init__(
        self, inner: KeyValueStore, note: Callable[[WatchedStore, str, Any], None]
    ) -> None:
        super().__init__(inner)
        self._note = note

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the inner store."""
        self._note(self, "init", context)
        super().init(context, root)
        restore = context.restore_callbacks[root.name]

        def noted(batch: Sequence[ChangelogRecord]) -> None:
            self._note(self, "restore", len(batch))
            restore(batch)

        context.restore_callbacks[root.name] = noted

    def close(self) -> None:
        """Close the inner store."""
        if self.is_open:
            self._note(self, "close", None)
        super().close()

    def flush(self) -> None:
        """Flush the inner store."""
        self._note(self, "flush", None)
        super().flush()

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit the inner store."""
        self._note(self, "commit", dict(changelog_offsets))
        super().commit(changelog_offsets)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write into the inner store."""
        self._note(self, "put", key)
        super().put(key, value)


class _WatchedDisk(SimulatedDisk):
    """A disk whose stores note every call."""

    def __init__(self, world: World, name: str, note: Callable[..., None], **more: Any) -> None:
        super().__init__(world, name, **more)
        self._note = note

    def _make(self, name: str, *, transactional: bool, formats: Formats) -> KeyValueStore:
        store = super()._make(name, transactional=transactional, formats=formats)
        return WatchedStore(store, self._note)

    def fill_memtable(self, store: KeyValueStore) -> Flushed:
        """Let the inner store write its memory."""
        return super().fill_memtable(store.inner if isinstance(store, WatchedStore) else store)


def copying(context: ProcessorContext, _: str, record: LogEntry) -> None:
    """Put the record into the store of the task."""
    context.store(STORE).put(record.key, record.value)


def table_and_input(
    process: Process = copying,
    *,
    partitions: int = 1,
    table_partitions: int = 0,
    stores: tuple[str, ...] = (STORE,),
) -> Topology:
    """A task for each partition of ``in``, and a global store ``global`` of ``table``, if any."""
    return Topology(
        "app",
        (Subtopology(("in",), process, stores),),
        {"in": partitions, **({"table": table_partitions} if table_partitions else {})},
        global_stores={"global": "table"} if table_partitions else {},
    )


class SmallApplication:
    """An application with one instance.

    Its guarantee and its rules for stores are those of the run, if the check names no other.

    Args:
        probe: the probe of the check.
        topology: the topology.
        threads: the number of its stream threads.
        make_disk: makes its disk; without it, the disk has model stores that note every call.
        persistent: whether model stores keep their data on the disk.
        config: fields of its ``StreamsConfig``.

    Attributes:
        world: the world.
        application: the application.
        instance: the instance.
        calls: the calls of the runtime on its stores.
    """

    def __init__(
        self,
        probe: Probe,
        topology: Topology | None = None,
        *,
        threads: int = 1,
        make_disk: Callable[[World], InstanceDisk] | None = None,
        persistent: bool = True,
        **config: Any,
    ) -> None:
        settings = {
            "exactly_once": probe.guarantee == "exactly-once",
            "store_rules": "proposal" if probe.spec == "kips" else "kafka",
            "flush_probability": 0.0,
            "session_timeout_ms": 6_000,
            **config,
        }
        self.world = probe.world()
        self.calls: list[Call] = []
        self.config = StreamsConfig(**settings)
        self.application = Application(self.world, topology or table_and_input(), self.config)
        disk = (
            _WatchedDisk(self.world, "instance-0", self._note, persistent=persistent)
            if make_disk is None
            else make_disk(self.world)
        )
        self.instance = Instance(self.application, "instance-0", threads, disk=disk)
        self._sent = 0

    def _note(self, store: WatchedStore, method: str, argument: Any) -> None:
        self.calls.append(Call(self.world.now, store, method, argument))

    def joined_by(self, release: Release) -> Instance:
        """A second instance of one thread, with model stores of its own, started in a release."""
        disk = SimulatedDisk(self.world, "instance-1")
        other = Instance(self.application, "instance-1", 1, disk=disk)
        other.release = release
        other.start()
        return other

    def start(self) -> None:
        """Start the instance, and let its tasks begin to run.

        Raises:
            SuiteError: a task does not run after a minute.
        """
        self.instance.start()
        for _ in range(60):
            self.wait(1_000)
            if self._running() == self.application.tasks.keys():
                return
        raise SuiteError(f"After a minute, only the tasks {sorted(self._running())} run.")

    def start_second(self) -> None:
        """Start a second instance with one thread, whose model stores note every call."""
        disk = _WatchedDisk(self.world, "instance-1", self._note)
        Instance(self.application, "instance-1", 1, disk=disk).start()

    def _running(self) -> set[str]:
        return {
            task.id
            for thread in self.instance.threads
            for task in thread.tasks.values()
            if task.state is TaskState.RUNNING
        }

    def stop(self) -> None:
        """Let the instance close everything and end."""
        self.world.time.run(until=self.world.time.process(self.instance.stop()))

    def crash(self) -> None:
        """Kill the process."""
        self.instance.crash()

    def wait(self, milliseconds: int) -> None:
        """Let time pass."""
        self.world.time.run(until=self.world.now + milliseconds)

    def send(self, *keys: bytes, partition: str = "in-0", pause_ms: int = 0) -> None:
        """Records with these keys and a value of one byte; after each, this pause."""
        for key in keys:
            self._sent += 1
            record = {"key": key, "value": b"v", "timestamp": self.world.now}
            self.application.cluster.produce(partition, [record])
            if pause_ms:
                self.wait(pause_ms)

    def fill_memtables(self) -> None:
        """Let all open stores write their memory to the disk."""
        for store in self.instance.disk.open_stores:
            self.instance.disk.fill_memtable(store)

    def called(self, *methods: str) -> list[Call]:
        """The calls of these methods."""
        return [each for each in self.calls if each.method in methods]
