"""Stores against their changelogs: "atomic" and "consistent" in a running application."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory, LogRecord
from streamproof.sim.trace import Event

__all__ = [
    "ClosedStoreEqualsChangelog",
    "CommittedOffsetIsInTheLog",
    "FoundStoreIsVouchedFor",
    "RunningStoreEqualsChangelog",
]

Rows = dict[bytes, bytes | None]


def _rows(event: Event) -> Rows:
    return dict(event.attributes["rows"])


def _differences(rows: Rows, expected: Rows) -> Iterator[tuple[bytes, bytes | None, bytes | None]]:
    """Each key with a wrong value, with the actual and the expected one."""
    for key in sorted(rows.keys() | expected.keys()):
        there, wanted = rows.get(key), expected.get(key)
        if there != wanted:
            yield key, there, wanted


class _Contents(Invariant):
    """An invariant that compares a store with its changelog."""

    def _fold(self, event: Event, up_to: int | None) -> Rows:
        """The rows by the visible records that the owner of the store has seen."""
        rows: Rows = {}
        unseen = self.history.unseen.of(event.process, event.partition)
        for record in self.history.visible(event.partition):
            if up_to is not None and record.offset > up_to:
                break
            if record.offset not in unseen:
                rows[record.key] = record.value
        return rows

    def _was_written_later(
        self, event: Event, key: bytes, there: bytes | None, wanted: bytes | None
    ) -> bool:
        """Whether the actual value may come from a write after the expected one.

        Under at-least-once a store may have a write that did not reach the changelog before the
        process died: its input is processed again, and the write comes again. Writes after both may
        have been lost with the process, so the first write counts as the expected one.
        """
        if self.history.exactly_once:
            return False
        process = event.process
        stored = self.history.stored.get((process, event.partition), {})
        before = -1
        if any(each.key == key for each in self._covered(event)):
            before, _ = stored.get((key, wanted), (-1, -1))
        return stored.get((key, there), (-1, -1))[1] > before

    def _covered(self, event: Event) -> Iterator[LogRecord]:
        """The records that the offset of a store covers."""
        return (
            each for each in self.history.visible(event.partition) if each.offset <= event.offset
        )

    def _was_compacted(self, event: Event, key: bytes, there: bytes | None) -> bool:
        """Whether a store may have an earlier value because the expected one was compacted away.

        A restoration from a compacted log may stop between a removed record and the record that
        replaced it. Then the store has the value from before both.
        """
        clean_until = self.history.compacted.get(event.partition, 0)
        if clean_until <= event.offset:
            return False
        records = [each for each in self.history.visible(event.partition) if each.key == key]
        earlier: set[bytes | None] = {None}
        earlier.update(each.value for each in records if each.offset <= event.offset)
        return there in earlier and any(
            event.offset < each.offset < clean_until for each in records
        )

    def _is_explained(
        self, event: Event, key: bytes, there: bytes | None, wanted: bytes | None
    ) -> bool:
        """Whether the store may rightly differ from its changelog for a key."""
        return (
            self._was_written_later(event, key, there, wanted)
            or self._was_compacted(event, key, there)
            or self.history.forgotten.explains(
                event.partition, key, there, wanted, unlogged=self._written(event, key)
            )
        )

    def _written(self, event: Event, key: bytes) -> Iterator[bytes | None]:
        """The values of a key that the process has written into the store.

        Under at-least-once, one that never reached the changelog stays until a record replaces it.
        """
        stored = self.history.stored.get((event.process, event.partition), {})
        return (value for each, value in stored if each == key)

    def _compare(self, event: Event, expected: Rows) -> Iterator[str]:
        for key, there, wanted in _differences(_rows(event), expected):
            if not self._is_explained(event, key, there, wanted):
                yield (
                    f"the store of {event.partition} in task {event.task} has {key!r} = {there!r}, "
                    f"but its changelog says {wanted!r}"
                )


class RunningStoreEqualsChangelog(_Contents):
    """A restored store equals its changelog (O2)."""

    name = "a task begins to run with what its changelog says"
    requirement = "TASK-001"
    situation = "a task began to run with entries in its store"

    @property
    def observers(self) -> Mapping[str, Observer]:
        observers = {
            "store.running": self._running,
            "thread.assigned": self._assigned,
            "task.closed": self._closed,
            "thread.died": self._died,
            "instance.crashed": self._gone,
            "instance.stopped": self._gone,
        }
        if not self.history.exactly_once:
            return observers
        return {
            **observers,
            "transaction.decided": self._decided,
            "transaction.marker": self._marked,
        }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By changelog, the producers with transactions open in it when its task began to run.
        self._open: dict[str, set[int]] = {}
        # By task, the last generation in which it was assigned, and its owner.
        self._owners: dict[str, tuple[int, str]] = {}
        # By thread and active task, the ends of all logs when the thread got the task, or closed it
        # to open it anew.
        self._ends: dict[str, dict[str, dict[str, int]]] = {}

    def _assigned(self, event: Event) -> Iterator[str]:
        latest = event.attributes["generation"], event.actor
        ends = self._ends_now()
        active = event.attributes["active"]
        for task in active:
            self._owners[task] = max(latest, self._owners.get(task, latest))
        # The end of a task that the thread keeps is not requested anew.
        before = self._ends.get(event.actor, {})
        self._ends[event.actor] = {task: before.get(task, ends) for task in active}
        yield from ()

    def _closed(self, event: Event) -> Iterable[str]:
        if event.task in self._ends.get(event.actor, ()):
            self._ends[event.actor][event.task] = self._ends_now()
        return ()

    def _ends_now(self) -> dict[str, int]:
        return {partition: log.end for partition, log in self.history.logs.items()}

    def _died(self, event: Event) -> Iterable[str]:
        self._ends.pop(event.actor, None)
        return ()

    def _gone(self, event: Event) -> Iterable[str]:
        for thread in [each for each in self._ends if each.startswith(f"{event.process}/")]:
            del self._ends[thread]
        return ()

    def _decided(self, event: Event) -> Iterator[str]:
        for partition in self._open:
            yield from self._ended(partition, event)

    def _marked(self, event: Event) -> Iterable[str]:
        # A transaction that timed out has no event for the decision, only markers.
        return self._ended(event.partition, event) if event.partition in self._open else ()

    def _ended(self, partition: str, event: Event) -> Iterator[str]:
        producers = self._open.get(partition, set())
        producer = event.attributes["producer"]
        if producer in producers:
            producers.discard(producer)
            if event.attributes["commit"]:
                yield (
                    f"a transaction with records of {partition} was committed after the task "
                    "had begun to run without them"
                )

    def _running(self, event: Event) -> Iterator[str]:
        if self._owners.get(event.task, (0, event.actor))[1] != event.actor:
            # A zombie has restored, long ago, and others went on: it is fenced when it commits.
            return
        if event.attributes["is_input"]:
            # What is not committed is behind it still, and will be processed.
            committed = self.history.committed.get(event.partition, 0)
            yield from self._compare(event, self._fold(event, committed - 1))
            return
        self.tried |= bool(event.attributes["rows"])
        self._open[event.partition] = set(self.history.log(event.partition).undecided)
        yield from self._compare(event, self._fold(event, self._least(event)))

    def _least(self, event: Event) -> int | None:
        """The last offset that the store must have; ``None`` for that of the last record.

        Under at-least-once, a zombie may append after the end was requested. But the end is
        requested after the thread got the task.
        """
        if self.history.exactly_once:
            return None
        got = {} if self.history.of_kafka else self._ends.get(event.actor, {})
        ends = got.get(event.task, {})
        return max(event.offset, ends.get(event.partition, 0) - 1)


class ClosedStoreEqualsChangelog(_Contents):
    """A store that is closed or recycled cleanly matches the changelog up to its offset.

    What was found further than its offset at the opening may still be so, where a restoration was
    given up before it came there.
    """

    name = "a store that is closed cleanly has all that its committed offset covers"
    requirement = "TASK-002"
    situation = "a store with entries was closed cleanly"

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "store.found": self._found,
            "store.closing": self._closing,
            "store.recycled": self._closing,
        }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # The rows at the last opening, by process and changelog.
        self._rows: dict[tuple[str, str], Rows] = {}

    def _found(self, event: Event) -> Iterator[str]:
        self._rows[event.process, event.partition] = _rows(event)
        yield from ()

    def _is_explained(
        self, event: Event, key: bytes, there: bytes | None, wanted: bytes | None
    ) -> bool:
        if super()._is_explained(event, key, there, wanted):
            return True
        opened = self._rows.get((event.process, event.partition), {})
        return opened.get(key) == there and any(
            each.key == key and each.value == there and each.offset > event.offset
            for each in self.history.visible(event.partition)
        )

    def _closing(self, event: Event) -> Iterator[str]:
        self.tried |= bool(event.attributes["rows"])
        yield from self._compare(event, self._fold(event, event.offset))


class FoundStoreIsVouchedFor(_Contents):
    """A store that is opened has all that its offset covers, and nothing that was aborted (O1).

    The content may be ahead of the offset, because a restoration writes without committing. So each
    key may have any value that it had from the offset on.
    """

    name = "a store that is found and kept has what its committed offset covers"
    requirement = "TASK-003"
    situation = "a store with entries was found at an opening and kept"

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"store.found": self._found}

    def _found(self, event: Event) -> Iterator[str]:
        self.tried |= bool(event.attributes["rows"])
        later: dict[bytes, set[bytes | None]] = {}
        for record in self.history.visible(event.partition, event.offset + 1):
            later.setdefault(record.key, set()).add(record.value)
        partition, covered = event.partition, self._fold(event, event.offset)
        for key, there, wanted in _differences(_rows(event), covered):
            if there in later.get(key, ()):
                continue
            if not self._is_explained(event, key, there, wanted):
                yield (
                    f"the store of {partition} in task {event.task} is kept with {key!r} = "
                    f"{there!r} at offset {event.offset}, where its changelog says {wanted!r}"
                )


class CommittedOffsetIsInTheLog(Invariant):
    """A store commits only offsets that the log has, and never a smaller one than before (O1)."""

    name = "a committed offset is within the changelog, and does not go back"
    requirement = "TASK-004"
    situation = "a store committed an offset after an earlier one"

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "store.opened": self._opened,
            "store.committed": self._committed,
            "task.corrupted": self._corrupted,
            "task.closed": self._closed,
        }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._last: dict[tuple[str, str], int] = {}
        # By thread, the corrupted tasks that are not closed yet. Kafka forgets the offsets of their
        # stores, and commits that, before it closes and wipes them
        # (TaskManager#closeDirtyAndRevive).
        self._forgetful: set[tuple[str, str]] = set()

    def _corrupted(self, event: Event) -> Iterable[str]:
        self._forgetful.add((event.actor, event.task))
        return ()

    def _closed(self, event: Event) -> Iterable[str]:
        self._forgetful.discard((event.actor, event.task))
        return ()

    def _opened(self, event: Event) -> Iterable[str]:
        self._last[event.actor, event.partition] = event.offset
        return self._beyond(event)

    def _committed(self, event: Event) -> Iterable[str]:
        here = event.actor, event.partition
        before = self._last.get(here, -1)
        self.tried |= before >= 0
        self._last[here] = event.offset
        is_forgotten = event.offset < 0 and (event.actor, event.task) in self._forgetful
        if event.offset >= before or is_forgotten:
            return self._beyond(event)
        back = f"offset {event.offset} of {event.partition} was committed after {before}"
        return [back, *self._beyond(event)]

    def _beyond(self, event: Event) -> Iterable[str]:
        end = self.history.log(event.partition).end
        if event.offset < end:
            return ()
        return [f"offset {event.offset} of {event.partition} is beyond its end, {end}"]
