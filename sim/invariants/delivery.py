"""Input records against commits: none is lost, and under exactly-once none counts twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = [
    "CommitEndsTheTransaction",
    "CommittedInputIsLogged",
    "CommittedInputWasProcessed",
    "EachInputCountsOnce",
]

Input = tuple[str, int]
"""A partition, and the offset of one of its records."""

_Owner = tuple[str, str]
"""A thread, and one of its tasks."""

_Write = tuple[str, bytes, bytes | None]
"""A write: the changelog, the key and the value."""


class CommittedInputWasProcessed(Invariant):
    """A committed offset never passes an unprocessed record, and never goes back."""

    name = "a committed input offset covers only what was processed"
    requirement = "TASK-005"
    situation = "an input offset was committed after an earlier one"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._processed: set[Input] = set()
        self._committed: dict[str, int] = {}
        # By input, its task; and the inputs of which the task that runs now has processed a record.
        self._tasks: dict[str, str] = {}
        self._begun: set[str] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "task.state": self._state,
            "task.processed": self._process,
            # A record that cannot be processed is done when it is left out.
            "record.dropped": self._process,
            "offsets.committed": self._commit,
        }

    def _state(self, event: Event) -> Iterable[str]:
        if event.attributes["after"] == "RUNNING":
            mine = {each for each, task in self._tasks.items() if task == event.task}
            self._begun -= mine
        return ()

    def _process(self, event: Event) -> Iterable[str]:
        self._processed.add((event.partition, event.offset))
        self._tasks[event.partition] = event.task
        self._begun.add(event.partition)
        return ()

    def _commit(self, event: Event) -> Iterator[str]:
        for partition, offset in event.attributes["offsets"].items():
            before = self._committed.get(partition, 0)
            self.tried |= before > 0
            if offset < before:
                yield f"the committed offset of {partition} went back from {before} to {offset}"
            yield from self._unprocessed(partition, before, offset)
            self._committed[partition] = max(before, offset)

    def _unprocessed(self, partition: str, before: int, offset: int) -> Iterator[str]:
        for record in self.history.visible(partition, before):
            if record.offset >= offset:
                break
            if (partition, record.offset) in self._processed:
                continue
            if not self.history.forgotten.is_skipped(partition, record.offset):
                yield (
                    f"{partition} was committed at {offset}, but its record at {record.offset} "
                    "was never processed"
                )

    def at_end(self) -> Iterator[str]:
        """Everything was processed and committed, up to the last marker.

        A task of Kafka commits a position behind markers only of inputs that it has processed a
        record of: StreamTask#committableOffsetsAndMetadata.
        """
        for partition in sorted({each for each, _ in self._processed} | self._committed.keys()):
            end, offset = self.history.log(partition).end, self._committed.get(partition, 0)
            if self.history.of_kafka and partition not in self._begun:
                end = max((each.offset + 1 for each in self.history.visible(partition)), default=0)
                end = max(end, offset)
            # After a reset to the end, be it behind a marker, there is nothing to commit.
            if offset != end and self.history.forgotten.resets.get(partition, -1) < end:
                yield f"{partition} ends at {end}, but only {offset} was committed"


class EachInputCountsOnce(Invariant):
    """Under exactly-once each input record is part of exactly one committed transaction (O3)."""

    name = "each input record is processed in exactly one committed transaction"
    requirement = "EOS-001"
    situation = "an input record was processed a second time"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._producers: dict[str, int] = {}
        # By producer, the inputs processed in its transaction, and the offsets added to it.
        self._pending: dict[int, list[Input]] = defaultdict(list)
        self._added: dict[int, dict[str, int]] = defaultdict(dict)
        self._counted: dict[Input, int] = {}
        self._processed: set[Input] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        if not self.history.exactly_once:
            return {}
        return {
            "thread.producer": self._new_producer,
            "task.processed": self._process,
            "record.dropped": self._process,
            "offsets.added": self._add,
            "transaction.decided": self._decide,
        }

    def _new_producer(self, event: Event) -> Iterator[str]:
        producer = event.attributes["producer"]
        self._producers[event.actor] = producer
        self._pending[producer] = []
        self._added[producer] = {}
        yield from ()

    def _process(self, event: Event) -> Iterable[str]:
        read = event.partition, event.offset
        self.tried |= read in self._processed
        self._processed.add(read)
        self._pending[self._producers[event.actor]].append(read)
        return ()

    def _add(self, event: Event) -> Iterator[str]:
        self._added[event.attributes["producer"]].update(event.attributes["offsets"])
        yield from ()

    def _decide(self, event: Event) -> Iterator[str]:
        producer = event.attributes["producer"]
        processed, added = self._pending.pop(producer, []), self._added.pop(producer, {})
        self._pending[producer], self._added[producer] = [], {}
        if not event.attributes["commit"]:
            return
        for partition, offset in processed:
            if offset >= added.get(partition, -1):
                yield (
                    f"the record of {partition} at {offset} was processed in a transaction that "
                    f"committed {added.get(partition, 'no offset')} for its partition"
                )
            count = self._counted[partition, offset] = self._counted.get((partition, offset), 0) + 1
            if count > 1:
                yield f"the record of {partition} at {offset} counts {count} times"

    def at_end(self) -> Iterator[str]:
        """Every processed input was committed in the end."""
        for partition in sorted({each for each, _ in self._counted}):
            for record in self.history.visible(partition):
                skipped = self.history.forgotten.is_skipped(partition, record.offset)
                if (partition, record.offset) not in self._counted and not skipped:
                    yield f"the record of {partition} at {record.offset} counts 0 times"


class CommitEndsTheTransaction(Invariant):
    """A commit decides all that a thread has written, with or without offsets (KAFKA-14294)."""

    name = "a commit leaves no transaction open"
    requirement = "EOS-002"
    situation = "a thread that had written records committed"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._producers: dict[str, int] = {}
        # The producers that have written records.
        self._writers: set[int] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        if not self.history.exactly_once:
            return {}
        return {
            "thread.producer": self._new_producer,
            "log.appended": self._append,
            "thread.committed": self._commit,
        }

    def _append(self, event: Event) -> Iterable[str]:
        self._writers.add(event.attributes["producer"])
        return ()

    def _new_producer(self, event: Event) -> Iterator[str]:
        self._producers[event.actor] = event.attributes["producer"]
        yield from ()

    def _commit(self, event: Event) -> Iterator[str]:
        producer = self._producers[event.actor]
        self.tried |= producer in self._writers
        for partition, log in self.history.logs.items():
            if log.undecided.get(producer):
                yield f"{event.actor} has committed, but its records in {partition} are undecided"


class CommittedInputIsLogged(Invariant):
    """Under at-least-once, offsets are committed only after the writes are in the log."""

    name = "what an input has changed is in the changelog when its offset is committed"
    requirement = "ALOS-001"
    situation = "a write reached its changelog before its input was committed"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._actors: dict[int, str] = {}
        # By owner, the last input of the task, and its writes that are not in a log yet, each with
        # the number of the event and the input that caused it. A zombie may process the same
        # inputs as the owner.
        self._inputs: dict[_Owner, Input] = {}
        self._written: dict[_Owner, dict[_Write, list[tuple[int, Input]]]] = defaultdict(dict)
        # By uncommitted input, the owners that have processed it.
        self._takers: dict[Input, dict[_Owner, None]] = defaultdict(dict)
        self._partitions: set[str] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        if self.history.exactly_once:
            return {}
        return {
            "thread.producer": self._new_producer,
            "task.state": self._state,
            "task.processed": self._process,
            "store.put": self._put,
            "log.appended": self._append,
            "offsets.committed": self._commit,
        }

    def _new_producer(self, event: Event) -> Iterable[str]:
        self._actors[event.attributes["producer"]] = event.actor
        return ()

    def _state(self, event: Event) -> Iterable[str]:
        # A task that begins to run processes uncommitted inputs again, and repeats its writes.
        owner = event.actor, event.task
        self._written.pop(owner, None)
        self._inputs.pop(owner, None)
        for takers in self._takers.values():
            takers.pop(owner, None)
        return ()

    def _process(self, event: Event) -> Iterable[str]:
        read, owner = (event.partition, event.offset), (event.actor, event.task)
        self._inputs[owner] = read
        self._partitions.add(event.partition)
        if event.offset >= self.history.committed.get(event.partition, 0):
            self._takers[read][owner] = None
        return ()

    def _put(self, event: Event) -> Iterable[str]:
        owner, more = (event.actor, event.task), event.attributes
        read = self._inputs.get(owner)
        # A store whose changelog is the input itself logs nothing.
        if read is None or event.partition in self._partitions:
            return ()
        if read in self._takers:
            write = event.partition, more["key"], more["value"]
            self._written[owner].setdefault(write, []).append((event.sequence, read))
        return ()

    def _append(self, event: Event) -> Iterable[str]:
        write = event.partition, event.attributes["key"], event.attributes["value"]
        actor = self._actors.get(event.attributes["producer"])
        for (owner, _), written in self._written.items():
            if actor in (owner, None) and write in written:
                self.tried = True
                del written[write][0]
                if not written[write]:
                    del written[write]
                break
        return ()

    def _commit(self, event: Event) -> Iterator[str]:
        offsets = event.attributes["offsets"]
        due = [read for read in self._takers if read[1] < offsets.get(read[0], 0)]
        for read in due:
            lacking = [self._unlogged(read, owner) for owner in self._takers.pop(read)]
            # One owner that has processed and logged it is enough. What a reset went past is gone.
            is_lost = self.history.forgotten.is_skipped(*read)
            if lacking and all(lacking) and not is_lost:
                partition, offset = read
                yield from (
                    f"{partition} was committed at {offsets[partition]}, but the change of "
                    f"{key!r} by its record at {offset} in task {task} is not in {changelog}"
                    for task, changelog, key in lacking[0]
                )

    def _unlogged(self, read: Input, owner: _Owner) -> list[tuple[str, str, bytes]]:
        """The changes by an input that an owner has not logged: task, changelog and key."""
        found = sorted(
            (number, changelog, key)
            for (changelog, key, _), times in self._written.get(owner, {}).items()
            for number, each in times
            if each == read
        )
        return [(owner[1], changelog, key) for _, changelog, key in found]
