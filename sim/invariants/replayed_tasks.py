"""Tasks whose processors are called again with what the events tell, to know what they had to send.

A replayed task begins with the rows that the real one has told when it began to run. Then it gets
the same records and punctuations. It uses the processor of the topology, and nothing of the
runtime around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.topology import PunctuationType, Punctuator, TaskSpec, partition_for
from streamproof.stores.api import KeyValueStore
from streamproof.stores.timestamps import ValueAndTimestamp

__all__ = ["GlobalRows", "OutputRecord", "ReplayedTask"]

Rows = dict[bytes, tuple[bytes, int]]
"""By key, the value and its timestamp."""

GlobalRows = Mapping[str, Rows]
"""By global store, its rows. Whoever has them changes them as the store changes."""


class OutputRecord(NamedTuple):
    """A record that a task has to send to one of its sinks.

    Attributes:
        is_update: whether it tells a write of a store, so that a record cache may hide it.
    """

    partition: str
    key: bytes
    value: bytes | None
    timestamp: int
    is_update: bool


class _ReplayedStore:
    """The rows of a store, as the processor has left them."""

    def __init__(self, task: ReplayedTask, name: str, rows: Rows) -> None:
        self._task = task
        self._name = name
        self._rows = rows

    def get(self, key: bytes) -> bytes | None:
        row = self._rows.get(key)
        return None if row is None else row[0]

    def get_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        row = self._rows.get(key)
        return None if row is None else ValueAndTimestamp(*row)

    def put(self, key: bytes, value: bytes | None) -> None:
        self.put_with_timestamp(key, value, self._task.record_time)

    def put_with_timestamp(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        if value is None:
            self._rows.pop(key, None)
            timestamp = self._task.record_time
        else:
            self._rows[key] = value, timestamp
        self._task.tell_update(self._name, key, value, timestamp)

    def all(self) -> Iterator[tuple[bytes, bytes]]:
        return self.prefix_scan(b"")

    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        found = sorted(self._rows.items())
        return ((key, row[0]) for key, row in found if key.startswith(prefix))


class ReplayedTask:
    """A task that runs, as its processor sees it.

    Args:
        spec: the task.
        partitions: the number of partitions of each topic.
        stream_time: the largest timestamp that was processed before the task began.
        global_rows: the rows of the global stores of the process.

    Attributes:
        stream_time: the largest timestamp that was processed.
        record_time: the timestamp of the record that is processed, or the time of the punctuation.
    """

    def __init__(
        self,
        spec: TaskSpec,
        partitions: Mapping[str, int],
        stream_time: int,
        global_rows: GlobalRows,
    ) -> None:
        self._spec = spec
        self._globals = {
            name: _ReplayedStore(self, name, rows) for name, rows in global_rows.items()
        }
        self._partitions = partitions
        self._stores: dict[str, _ReplayedStore] = {}
        self._punctuators: dict[tuple[str, int], Punctuator] = {}
        self._sent: list[OutputRecord] = []
        self.stream_time = stream_time
        self.record_time = stream_time
        spec.subtopology.init(self)

    def hold(self, changelog: str, rows: list[list[bytes]], timestamps: list[int]) -> None:
        """Begin with these rows in the store of a changelog."""
        times = timestamps or [self.stream_time] * len(rows)
        held = {key: (value, time) for (key, value), time in zip(rows, times, strict=True)}
        for name, each in self._spec.changelogs.items():
            if each == changelog:
                self._stores[name] = _ReplayedStore(self, name, held)

    @property
    def is_known(self) -> bool:
        """Whether the rows of all its stores are known."""
        return self._stores.keys() == self._spec.changelogs.keys()

    def process(self, topic: str, record: LogEntry) -> list[OutputRecord]:
        """Process a record, and return what the task has to send."""
        self.stream_time = max(self.stream_time, record.timestamp)
        self.record_time = record.timestamp
        self._spec.subtopology.process(self, topic, record)
        return self._taken()

    def punctuate(self, clock: str, interval_ms: int, time: int) -> list[OutputRecord]:
        """Call a punctuator, and return what the task has to send."""
        self.record_time = time
        self._punctuators[clock, interval_ms](time)
        return self._taken()

    def _taken(self) -> list[OutputRecord]:
        sent, self._sent = self._sent, []
        return sent

    def tell_update(self, store: str, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Send the write of a store on, if the topology says so."""
        sink = self._spec.subtopology.forwarded.get(store)
        if sink is not None:
            self._send(sink, key, value, timestamp, is_update=True)

    def _send(
        self, topic: str, key: bytes, value: bytes | None, timestamp: int, *, is_update: bool
    ) -> None:
        partition = f"{topic}-{partition_for(key, self._partitions[topic])}"
        self._sent.append(OutputRecord(partition, key, value, timestamp, is_update))

    # What the processor asks for.

    def store(self, name: str) -> KeyValueStore:
        """A store of the task or of its process."""
        return cast(KeyValueStore, self._stores.get(name) or self._globals[name])

    def forward(
        self, topic: str, key: bytes, value: bytes | None, timestamp: int | None = None
    ) -> None:
        """Note a record that the task has to send."""
        time = self.record_time if timestamp is None else timestamp
        self._send(topic, key, value, time, is_update=False)

    def schedule(self, interval_ms: int, kind: PunctuationType, punctuator: Punctuator) -> None:
        """Note a punctuator. The events tell when it is called."""
        self._punctuators[kind, interval_ms] = punctuator

    def request_commit(self) -> None:
        """Do nothing: the events tell when a task is committed."""

    def defect(self, name: str) -> bool:
        """Whether the processor makes a mistake: never."""
        del name
        return False
