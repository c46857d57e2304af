"""The timestamps of tables: each operator gives its rows and its output the time of their inputs.

The values of the topology ``table-operators`` name the input records that they were made from, and
each value is sent once. So the logs of the inputs say which timestamp a value must have.

Sources: KIP-258, Test Plan; Kafka, KTableSource, KTableFilter, KTableKTableInnerJoin and
KStreamAggregate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.topology import partition_for
from streamproof.sim.trace import Event

__all__ = [
    "AggregatesHaveTheLatestTime",
    "DerivedRowsKeepTheirTime",
    "JoinedRowsHaveTheLaterTime",
    "RestoredRowsHaveTheirTimes",
    "SourceRowsHaveTheTimeOfTheirRecord",
]

APPLICATION = "table-operators"

_CHANGELOG = f"{APPLICATION}-{{}}-changelog"


class _TableTimes(Invariant):
    """An invariant on the timestamps in the topics and in the stores of some operators.

    Attributes:
        topics: the topics whose records it judges, changelogs of stores included.
    """

    topics: ClassVar[frozenset[str]]
    drawn_from = {  # noqa: RUF012 - a ClassVar of the base class
        "topologies": [APPLICATION],
        "upgrades": [""],
        "plan": {"persistent": [True]},
        "workload": {"late": [0.5], "keys": [2, 5]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._is_observed = False
        self._partitions: Mapping[str, int] = {}
        # By value, the timestamp of the input record that has it.
        self._times: dict[bytes, int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._begin,
            "log.appended": self._append,
            "store.closing": self._look,
        }

    def _begin(self, event: Event) -> Iterator[str]:
        self._is_observed = event.actor == APPLICATION
        self._partitions = event.attributes["partitions"]
        yield from ()

    def _append(self, event: Event) -> Iterator[str]:
        if not self._is_observed:
            return
        more, topic = event.attributes, event.partition.rpartition("-")[0]
        if topic in ("left", "right", "events") and more["value"] is not None:
            self._times[more["value"]] = more["timestamp"]
        if topic in self.topics:
            yield from self._judge(event, more["key"], more["value"], more["timestamp"])

    def _look(self, event: Event) -> Iterator[str]:
        if not self._is_observed or event.partition.rpartition("-")[0] not in self.topics:
            return
        rows, times = event.attributes["rows"], event.attributes["timestamps"]
        if len(times) != len(rows):
            yield f"the store of {event.partition} has {len(rows)} rows, but {len(times)} times"
            return
        for (key, value), time in zip(rows, times, strict=True):
            yield from self._judge(event, key, value, time)

    def _judge(self, event: Event, key: bytes, value: bytes | None, time: int) -> Iterator[str]:
        wanted = self._deleted(key) if value is None else self._wanted(key, value)
        if time not in wanted:
            possible = " or ".join(map(str, sorted(wanted))) or "that of an input record"
            yield f"{event.partition} has {key!r} = {value!r} at {time}; its time is {possible}"

    def _deleted(self, key: bytes) -> AbstractSet[int]:
        """The possible times of a deletion: it follows some record of its key."""
        return {
            record.timestamp
            for topic in ("left", "right", "events")
            for record in self.history.log(self._partition(topic, key)).records
            if record.key == key
        }

    def _wanted(self, key: bytes, value: bytes) -> AbstractSet[int]:
        """The possible times of a value of a key."""
        raise NotImplementedError

    def _partition(self, topic: str, key: bytes) -> str:
        return f"{topic}-{partition_for(key, self._partitions[topic])}"

    def _time_of(self, value: bytes) -> AbstractSet[int]:
        return {self._times[value]} if value in self._times else set()


class SourceRowsHaveTheTimeOfTheirRecord(_TableTimes):
    """A table that is read from a topic keeps the timestamp of each record."""

    name = "a row of a source table has the timestamp of its record"
    requirement = "TS-101"
    situation = "a source table kept a record that came late"
    topics = frozenset(_CHANGELOG.format(each) for each in ("left", "right"))

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._latest = -1

    def _wanted(self, key: bytes, value: bytes) -> AbstractSet[int]:
        wanted = self._time_of(value)
        self.tried |= any(time < self._latest for time in wanted)
        self._latest = max([self._latest, *wanted])
        return wanted


class DerivedRowsKeepTheirTime(_TableTimes):
    """A filter and a mapping of values pass the timestamp of a row on."""

    name = "a filtered or mapped row keeps its timestamp"
    requirement = "TS-102"
    situation = "a row that came late was filtered and mapped"
    topics = frozenset(("filtered", "mapped"))

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._latest = -1

    def _wanted(self, key: bytes, value: bytes) -> AbstractSet[int]:
        wanted = self._time_of(value.removesuffix(b"!"))
        self.tried |= any(time < self._latest for time in wanted)
        self._latest = max([self._latest, *wanted])
        return wanted


class JoinedRowsHaveTheLaterTime(_TableTimes):
    """A join of two tables gives its result the later timestamp of its two rows."""

    name = "a joined row has the later timestamp of its two rows"
    requirement = "TS-103"
    situation = "each table had the later row of a join once"
    topics = frozenset(("joined",))

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._later: set[bool] = set()

    def _wanted(self, key: bytes, value: bytes) -> AbstractSet[int]:
        left, _, right = value.partition(b"|")
        if left not in self._times or right not in self._times:
            return set()
        times = self._times[left], self._times[right]
        if times[0] != times[1]:
            self._later.add(times[0] > times[1])
        self.tried = len(self._later) == 2
        return {max(times)}


class AggregatesHaveTheLatestTime(_TableTimes):
    """An aggregate has the latest timestamp of all records that went into it.

    Under at-least-once, after a fault, a record may be processed again, or a zombie may overwrite
    an aggregate. A reset of the input may leave records out. Then the aggregate has the timestamp
    of its last record, or a later one of its key.
    """

    name = "an aggregate has the latest timestamp of its records"
    requirement = "TS-104"
    situation = "a record came late to an aggregate"
    topics = frozenset(("out", _CHANGELOG.format("latest")))

    def _wanted(self, key: bytes, value: bytes) -> AbstractSet[int]:
        last = value.partition(b"|")[2]
        times: list[int] = []
        events = self._partition("events", key)
        for record in self.history.visible(events):
            if record.key == key and record.value is not None:
                times.append(record.timestamp)
                if record.value == last:
                    break
        else:
            return set()
        self.tried |= times[-1] < max(times)
        # Whether the records that a reset has gone past went into the aggregate is not known.
        is_known = self.history.exactly_once or not self.history.has_failed
        if is_known and not self.history.forgotten.has_skipped(events):
            return {max(times)}
        return {time for time in self._deleted(key) if time >= times[-1]}


class RestoredRowsHaveTheirTimes(_TableTimes):
    """A row that was restored has the timestamp of its changelog record."""

    name = "a restored row has the timestamp of its changelog record"
    requirement = "TS-105"
    situation = "a table with timestamps was restored"
    topics = frozenset(_CHANGELOG.format(each) for each in ("left", "right", "latest"))

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._restored: set[tuple[str, str]] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._begin,
            "store.opened": self._open,
            "store.restored": self._restore,
            "store.running": self._look,
        }

    def _open(self, event: Event) -> Iterator[str]:
        self._restored.discard((event.process, event.partition))
        yield from ()

    def _restore(self, event: Event) -> Iterator[str]:
        self._restored.add((event.process, event.partition))
        yield from ()

    def _judge(self, event: Event, key: bytes, value: bytes | None, time: int) -> Iterator[str]:
        if (event.process, event.partition) not in self._restored:
            return
        self.tried = True
        wanted = {
            record.timestamp
            for record in self.history.log(event.partition).records
            if (record.key, record.value) == (key, value)
        }
        # Under at-least-once, the disk may have kept a row whose changelog record was lost.
        if wanted and time not in wanted:
            yield (
                f"{event.process} has restored {key!r} = {value!r} of {event.partition} at {time}, "
                f"but its changelog has it at {sorted(wanted)}"
            )
