"""Global stores: complete before any task runs, and started over where they cannot go on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = [
    "GlobalStoresEqualTheirTopics",
    "GlobalStoresStartOver",
    "ProcessesGetTheirGlobalStores",
]

_TOPOLOGY = "global-table-join"


class GlobalStoresEqualTheirTopics(Invariant):
    """When a process has its global stores, they have what their topics say up to their offsets.

    A commit with an offset beyond the last record would lose the record after it, but only once a
    process begins there; so commits are watched as well.
    """

    name = "a global store has what its topic says before any task runs"
    requirement = "TASK-074"
    situation = "a process got a global store with rows that the process before had left"
    drawn_from: ClassVar = {"topologies": [_TOPOLOGY], "kinds": ["crash", "bounce"]}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By process, the partitions of each of its global stores, and those with an offset.
        self._partitions: dict[str, dict[str, list[str]]] = {}
        self._resumed: set[str] = set()
        # By process and partition, the offset of the last record in a store.
        self._last: dict[tuple[str, str], int] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "instance.started": self._started,
            "global.opened": self._opened,
            "global.applied": self._applied,
            "global.committed": self._committed,
            "global.restored": self._restored,
        }

    def _started(self, event: Event) -> Iterator[str]:
        self._partitions[event.actor] = {}
        self._resumed.discard(event.actor)
        yield from ()

    def _opened(self, event: Event) -> Iterator[str]:
        stores = self._partitions.setdefault(event.process, {})
        stores.setdefault(event.attributes["store"], []).append(event.partition)
        if event.offset >= 0:
            self._resumed.add(event.process)
        yield from self._applied(event)

    def _applied(self, event: Event) -> Iterator[str]:
        self._last[event.process, event.partition] = event.offset
        yield from ()

    def _committed(self, event: Event) -> Iterator[str]:
        for partition, offset in event.attributes["offsets"].items():
            last = self._last.get((event.process, partition), -1)
            if offset > last:
                yield (
                    f"{event.process} commits {offset} of {partition} for a global store whose "
                    f"last record is that at {last}"
                )

    def _restored(self, event: Event) -> Iterator[str]:
        offsets = event.attributes["offsets"]
        for store, partitions in self._partitions.get(event.process, {}).items():
            rows = dict(event.attributes["rows"][store])
            self.tried |= bool(rows) and event.process in self._resumed
            for partition in partitions:
                yield from self._compare(event, rows, partition, offsets.get(partition, -1))

    def _compare(
        self, event: Event, rows: Mapping[bytes, bytes], partition: str, offset: int
    ) -> Iterator[str]:
        """Compare the rows with one partition: a key is in one partition only."""
        fold: dict[bytes, bytes | None] = {}
        # Of these keys, a compaction may have taken the record that counts: because a later one
        # was there, or because it was aborted.
        replaced: set[bytes] = set()
        clean = self.history.compacted.get(partition, 0)
        aborted = self.history.log(partition).aborted
        for record in self.history.visible(partition):
            if record.offset < clean and record.offset in aborted:
                replaced.add(record.key)
            if record.offset <= offset:
                fold[record.key] = record.value
            elif record.offset < clean:
                replaced.add(record.key)
            else:
                break
        for key, wanted in sorted(fold.items()):
            there = rows.get(key)
            if key in replaced:
                continue
            if there != wanted and not self.history.forgotten.explains(
                partition, key, there, wanted
            ):
                yield (
                    f"{event.process} has {key!r} = {there!r} in its global store of {partition}, "
                    f"whose records up to {offset} say {wanted!r}"
                )


class GlobalStoresStartOver(Invariant):
    """A global store whose next record is gone is wiped before it reads on (KAFKA-10306)."""

    name = "a global store whose next record is gone is read from the start of its topic"
    requirement = "TASK-075"
    situation = "a global store was opened whose next record was gone"
    drawn_from: ClassVar = {
        "topologies": [_TOPOLOGY],
        "kinds": ["crash", "bounce"],
        "plan": {"activation": [0.9], "persistent": [True], "safety_ms": [60_000]},
        "settings": {"topic_segment_ms": [0], "transactional": [True]},
        "workload": {"retention_ms": [1_000], "max_pause_ms": [3_000]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By process, the partition whose record is gone, and its offset.
        self._gone: dict[str, tuple[str, int]] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "global.opened": self._opened,
            "global.applied": self._goes_on,
            "global.restored": self._goes_on,
            "global.wiped": self._over,
            "instance.crashed": self._over,
            "instance.stopped": self._over,
        }

    def _opened(self, event: Event) -> Iterator[str]:
        following = event.offset + 1
        if 0 < following < self.history.forgotten.starts.get(event.partition, 0):
            self.tried = True
            self._gone[event.process] = event.partition, following
        yield from ()

    def _goes_on(self, event: Event) -> Iterable[str]:
        if event.process not in self._gone:
            return ()
        partition, offset = self._gone[event.process]
        if event.kind == "global.applied" and event.partition != partition:
            # The records of another partition may have come first.
            return ()
        del self._gone[event.process]
        where = f"the global store of {partition} in {event.process}"
        return [f"{where} goes on, although the record at {offset} that it needs next is gone"]

    def _over(self, event: Event) -> Iterable[str]:
        self._gone.pop(event.process, None)
        return ()


class ProcessesGetTheirGlobalStores(Invariant):
    """Once faults have stopped, no process is kept from starting by its global stores."""

    name = "once faults have stopped, every process has its global stores"
    requirement = "TASK-076"
    situation = "a process with global stores on its disk was killed, and came back"
    drawn_from: ClassVar = {
        "topologies": [_TOPOLOGY],
        "kinds": ["crash"],
        "settings": {"flush_probability": [0.5]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._has_stores = False
        # By process that was started last and has no global stores yet, why not.
        self._waiting: dict[str, str] = {}
        self._killed: set[str] = set()
        # Processes that end because of a wipe; the run may end before they are started again.
        self._wiped: set[str] = set()
        # Instances that an operator has retired: they may die before they have stopped.
        self._retired: set[str] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "instance.started": self._started,
            "instance.crashed": self._crashed,
            "instance.stopped": self._stopped,
            "instance.retired": self._retire,
            "global.opened": self._opened,
            "global.restored": self._restored,
            "global.wiped": self._wipe,
        }

    def _started(self, event: Event) -> Iterator[str]:
        self._waiting[event.actor] = "it has started and does not have them"
        self._wiped.discard(event.actor)
        self._retired.discard(event.actor)
        yield from ()

    def _wipe(self, event: Event) -> Iterator[str]:
        self._wiped.add(event.process)
        yield from ()

    def _crashed(self, event: Event) -> Iterator[str]:
        if event.actor in self._wiped | self._retired:
            self._waiting.pop(event.actor, None)
        else:
            self._waiting[event.actor] = "it has ended and was not started again"
        self._killed.add(event.actor)
        yield from ()

    def _stopped(self, event: Event) -> Iterator[str]:
        self._waiting.pop(event.actor, None)
        yield from ()

    def _retire(self, event: Event) -> Iterator[str]:
        self._retired.add(event.actor)
        yield from self._stopped(event)

    def _opened(self, event: Event) -> Iterator[str]:
        self._has_stores = True
        self.tried |= event.attributes["persistent"] and event.process in self._killed
        yield from ()

    def _restored(self, event: Event) -> Iterator[str]:
        self._waiting.pop(event.process, None)
        self._wiped.discard(event.process)
        yield from ()

    def at_end(self) -> Iterator[str]:
        for process, reason in sorted(self._waiting.items()) if self._has_stores else ():
            yield f"{process} lacks its global stores: {reason}"
