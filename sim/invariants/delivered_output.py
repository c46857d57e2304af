"""Under at-least-once, output: in its topic before the commit, as the processor gives it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.decisions.refusals import MAX_MESSAGE_BYTES, is_too_large
from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.invariants.replayed_tasks import OutputRecord, ReplayedTask, Rows
from streamproof.sim.topologies import TOPOLOGIES
from streamproof.sim.topology import Topology
from streamproof.sim.trace import Event

__all__ = ["OutputIsInItsTopic"]

_Input = tuple[str, int]
"""A partition, and the offset of one of its records."""

_Row = tuple[str, bytes, bytes | None, int]
"""A record of an output: the partition, the key, the value and the timestamp."""

_NOBODY = -1
"""The producer of a thread that has told of none."""

_NO_TIME = -1
"""The time that an input has reached before its first record."""


@dataclass(eq=False)
class _Sent:
    """A record that a thread has to send.

    Attributes:
        row: the record.
        is_there: whether its topic has it.
        is_hidden: whether a record cache may have replaced it by a later update of its key.
    """

    row: _Row
    is_there: bool = False
    is_hidden: bool = False

    @property
    def is_missing(self) -> bool:
        """Whether its topic must still get it."""
        return not (self.is_there or self.is_hidden)


@dataclass
class _Run:
    """A task, from when it begins to run in a thread.

    Attributes:
        task: the task, with its processor called again.
        punctuated: what its punctuations since the last commit have to send.
        latest: by partition and key, the last update.
    """

    task: ReplayedTask
    punctuated: list[_Sent] = field(default_factory=list)
    latest: dict[tuple[str, bytes], _Sent] = field(default_factory=dict)


@dataclass
class _GlobalStores:
    """The global stores of a process.

    Attributes:
        rows: by store, its rows.
        offsets: by partition, the offset of the last record that its store has.
    """

    rows: dict[str, Rows] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)


class OutputIsInItsTopic(Invariant):
    """An offset is committed only once the output of its records is there (KIP-98).

    Under at-least-once, nothing else holds an input and its output together. What the output must
    be follows from the processor of the topology: it is called again with the rows that the task
    had at first, and with the records that it has processed since then. Nobody knows what a
    topology that is not built in must send, nor what the processors of an application of Kafka do,
    nor what a global store has that has read a topic during its compaction.
    """

    name = "the output of an input is in its topic when its offset is committed, and nothing else"
    requirement = "ALOS-004"
    situation = "an input with output was committed"

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._topology: Topology | None = None
        self._sinks: set[str] = set()
        # By process, its global stores, if their rows are known.
        self._globals: dict[str, _GlobalStores] = {}
        self._partitions: dict[str, int] = {}
        self._is_cached = False
        self._most_bytes = MAX_MESSAGE_BYTES
        self._producers: dict[str, int] = {}
        # By thread and task, what runs now.
        self._running: dict[tuple[str, str], _Run] = {}
        # By uncommitted input, what each has to send that has processed it; a zombie may be one.
        self._taken: dict[_Input, list[list[_Sent]]] = defaultdict(list)
        # By producer and record, what it has to send, each as often as it was sent.
        self._awaited: dict[tuple[int, _Row], list[_Sent]] = defaultdict(list)
        # Producers of tasks whose output nobody knows.
        self._unknown: set[int] = set()
        # By input, the largest timestamp that was committed; and by offset, those that were not.
        self._times: dict[str, int] = {}
        self._processed: dict[str, dict[int, int]] = defaultdict(dict)

    @property
    def observers(self) -> Mapping[str, Observer]:
        if self.history.exactly_once:
            return {}
        return {
            "application.started": self._start,
            "thread.producer": self._new_producer,
            "instance.started": self._begin_process,
            "global.restored": self._hold_globals,
            "global.applied": self._apply_globally,
            "task.state": self._state,
            "store.running": self._hold,
            "task.processed": self._process,
            "task.punctuated": self._punctuate,
            "input.reset": self._reset,
            "log.appended": self._append,
            "offsets.committed": self._commit,
            "thread.committed": self._commit_punctuations,
        }

    def _start(self, event: Event) -> Iterable[str]:
        family = TOPOLOGIES.get(event.actor)
        more = event.attributes
        self._partitions = more["partitions"]
        self._is_cached = more["statestore_cache_max_bytes"] > 0
        self._most_bytes = more["output_max_message_bytes"]
        if family is not None:
            topology = family.topology(self._partitions[family.topology(1).inputs[0]])
            self._topology = topology
            self._sinks = {topic for each in topology.subtopologies for topic in each.sinks}
        return ()

    def _begin_process(self, event: Event) -> Iterable[str]:
        self._globals.pop(event.actor, None)
        return ()

    def _hold_globals(self, event: Event) -> Iterable[str]:
        rows = {
            store: {key: (value, _NO_TIME) for key, value in each}
            for store, each in event.attributes["rows"].items()
        }
        self._globals[event.process] = _GlobalStores(rows, dict(event.attributes["offsets"]))
        return ()

    def _apply_globally(self, event: Event) -> Iterable[str]:
        stores, more = self._globals.get(event.process), event.attributes
        if stores is None:
            # They are not restored yet.
            return ()
        start = stores.offsets.get(event.partition, -1) + 1
        stores.offsets[event.partition] = event.offset
        log = self.history.log(event.partition)
        batch = [each for each in log.since(start) if each.offset <= event.offset]
        if len(batch) != more["records"]:
            # A compaction has removed some records before they were read, and nobody knows which.
            del self._globals[event.process]
            return ()
        rows = stores.rows[more["store"]]
        for each in batch:
            if each.value is None:
                rows.pop(each.key, None)
            else:
                rows[each.key] = each.value, each.timestamp
        return ()

    def _new_producer(self, event: Event) -> Iterable[str]:
        self._producers[event.actor] = event.attributes["producer"]
        return ()

    def _state(self, event: Event) -> Iterable[str]:
        owner = event.actor, event.task
        self._running.pop(owner, None)
        spec = None if self._topology is None else self._topology.tasks.get(event.task)
        if spec is not None and event.attributes["after"] == "RUNNING":
            time = max(self._times.get(each, _NO_TIME) for each in spec.inputs)
            stores = self._globals.get(event.process, _GlobalStores())
            self._running[owner] = _Run(ReplayedTask(spec, self._partitions, time, stores.rows))
        return ()

    def _hold(self, event: Event) -> Iterable[str]:
        run, more = self._running.get((event.actor, event.task)), event.attributes
        if run is not None:
            run.task.hold(event.partition, more["rows"], more["timestamps"])
        return ()

    def _process(self, event: Event) -> Iterable[str]:
        read = event.partition, event.offset
        self._processed[event.partition][event.offset] = event.attributes["timestamp"]
        sent = self._awaits_output(event)
        if event.offset >= self.history.committed.get(event.partition, 0):
            self._taken[read].append(sent)
        return ()

    def _awaits_output(self, event: Event) -> list[_Sent]:
        """Await the output of a record that a task processes; nothing if it is not known."""
        run = self._known_run(event)
        record = next(self.history.log(event.partition).since(event.offset), None)
        if run is None or record is None or record.offset != event.offset:
            self._forget(event)
            return []
        topic = event.partition.rpartition("-")[0]
        return self._awaits(event, run, run.task.process(topic, cast(LogEntry, record)))

    def _punctuate(self, event: Event) -> Iterable[str]:
        run, more = self._known_run(event), event.attributes
        if run is None:
            self._forget(event)
            return ()
        sent = run.task.punctuate(more["clock"], more["interval_ms"], more["timestamp"])
        run.punctuated += self._awaits(event, run, sent)
        return ()

    def _known_run(self, event: Event) -> _Run | None:
        """The task that an event is about, if what it has to send is known."""
        run = self._running.get((event.actor, event.task))
        if run is None or self._topology is None:
            return None
        has_globals = event.process in self._globals or not self._topology.global_stores
        return run if run.task.is_known and has_globals else None

    def _forget(self, event: Event) -> None:
        """Judge a task no more: what it has to send is not known."""
        self._running.pop((event.actor, event.task), None)
        self._unknown.add(self._producers.get(event.actor, _NOBODY))

    def _awaits(self, event: Event, run: _Run, records: Iterable[OutputRecord]) -> list[_Sent]:
        """Await records of a task, but for those that their topics refuse."""
        found = []
        producer = self._producers.get(event.actor, _NOBODY)
        for each in records:
            if is_too_large(each.key, each.value, self._most_bytes):
                continue
            sent = _Sent(each[:4])
            found.append(sent)
            self._awaited[producer, sent.row].append(sent)
            if self._is_cached and each.is_update:
                place = each.partition, each.key
                if place in run.latest:
                    run.latest[place].is_hidden = True
                run.latest[place] = sent
        return found

    def _append(self, event: Event) -> Iterator[str]:
        if event.partition.rpartition("-")[0] not in self._sinks:
            return
        more = event.attributes
        row = event.partition, more["key"], more["value"], more["timestamp"]
        awaited = self._awaited.get((more["producer"], row))
        if awaited:
            # A cache sends one of several equal updates, and that may be any.
            sent = next((each for each in awaited if not each.is_hidden), awaited[0])
            awaited.remove(sent)
            sent.is_there = True
        elif more["producer"] not in self._unknown:
            yield (
                f"{event.partition} has {more['key']!r} = {more['value']!r} with timestamp "
                f"{more['timestamp']}, but no record that was processed leads to that, or not so "
                "often"
            )

    def _reset(self, event: Event) -> Iterable[str]:
        # What a reset goes past was never committed, and leaves no time.
        processed = self._processed[event.partition]
        for offset in [each for each in processed if each < event.offset]:
            del processed[offset]
        return ()

    def _commit(self, event: Event) -> Iterator[str]:
        offsets = event.attributes["offsets"]
        for partition, offset in offsets.items():
            self._commit_time(partition, offset)
        for read in [each for each in self._taken if each[1] < offsets.get(each[0], 0)]:
            taken = self._taken.pop(read)
            self.tried |= any(taken)
            # One that has sent everything is enough. What a reset went past is gone.
            if self.history.forgotten.is_skipped(*read):
                continue
            missing = [[each for each in sent if each.is_missing] for sent in taken]
            if all(missing):
                yield from (
                    f"{read[0]} was committed at {offsets[read[0]]}, but the output of its record "
                    f"at {read[1]} is not in its topic: {_shown(each)}"
                    for each in missing[0]
                )

    def _commit_time(self, partition: str, offset: int) -> None:
        processed = self._processed[partition]
        for each in [each for each in processed if each < offset]:
            time = processed.pop(each)
            self._times[partition] = max(time, self._times.get(partition, _NO_TIME))

    def _commit_punctuations(self, event: Event) -> Iterator[str]:
        for task in event.attributes["tasks"]:
            run = self._running.get((event.actor, task))
            if run is None:
                continue
            sent, run.punctuated = run.punctuated, []
            yield from (
                f"{event.actor} has committed task {task}, but the output of a punctuation is not "
                f"in its topic: {_shown(each)}"
                for each in sent
                if each.is_missing
            )


def _shown(sent: _Sent) -> str:
    partition, key, value, timestamp = sent.row
    return f"{partition} lacks {key!r} = {value!r} with timestamp {timestamp}"
