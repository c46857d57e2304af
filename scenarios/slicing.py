"""Slicing: which events of a run are needed to understand a violation.

What an event reads and writes is the ``footprint`` of its kind. The walk starts at the
event that broke the promise, and at everything that the message of the violation names. From each
event it goes back to the last events that wrote the things this one read. Being earlier is not
enough: of hundreds of writes to a key only the last one counts, and of all commits only the last
one before a loss.

Source: Weiser, Program Slicing (1981); Agrawal and Horgan, Dynamic Program Slicing (1990).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from string import Formatter
from typing import Any, NamedTuple

from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.sim.event_kinds import KINDS, Footprint
from streamproof.sim.invariants import InvariantViolation
from streamproof.sim.trace import Event

__all__ = ["what_matters"]

MOST_TIMES = 3
"""How many of the last writes count for an input, and for a task that has changed owners. For
anything else only the last write counts."""

SEVERAL = ("input", "owner", "owned", "state")
"""The things of which the last ``MOST_TIMES`` writes count."""


MENTIONED = (
    "value {partition} {blob} {other}",
    "row {process} {partition} {blob}",
    "key {partition} {blob}",
    "stamp {partition} {number}",
    "record {partition} {number}",
    "input {partition} {number}",
    "committed {partition}",
    "written {thread} {partition}",
    "restoring {process} {partition}",
    "updating {process} {partition}",
    "owner {thread} {task}",
    "task {thread} {task}",
    "assigned {thread}",
    "subscribed {thread}",
    "thread {thread}",
    "staged {thread}",
    "owned {task}",
    "state {task}",
    "waiting {task}",
)
"""The things that the message of a violation may be about."""

MENTIONED_ALONE = (
    "restoring {process} {task}",
    "files {process} {task}",
    "looked {process} {task}",
)
"""Further things that a message without a partition may be about. With a partition, a message is
about the store of that partition."""

ABOUT = {
    "ALOS": ("touched {partition} {blob}",),
    "ASSIGN": ("shares",),
    "EOS-003": ("moment {number}",),
    "IDLE": ("end {partition}",),
    "REBAL": ("shares",),
    "TASK-005": ("paused {partition}",),
    "TASK-007": ("looked {process}", "begun {process}", "named {process} {word}"),
    "TASK-012": ("deleted {partition}",),
    "UPGRADE": ("shares",),
}
"""Further things that a message is about, by the broken requirement or its area."""


def what_matters(played: RecordedRun) -> frozenset[int]:
    """The sequence numbers of the events that explain the first violation; empty without one.

    Args:
        played: the run, with its events.
    """
    if not played.violations:
        return frozenset()
    index = _Index(played.events)
    return frozenset(_BackwardWalk(index, played.events).back_from(played.violations[0]))


Fields = dict[str, Any]
"""The fields of an event by the names that footprints use; absent fields are left out."""


class _Write(NamedTuple):
    """One event that has written something, with the fields of the part that did."""

    sequence: int
    fields: Fields


class _Index:
    """The events of a run by what they have written.

    Args:
        events: of a run, in order, from its first.

    Attributes:
        parts: by number of an event, its parts, if the event is about several things.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self._writes: dict[str, list[_Write]] = defaultdict(list)
        self.parts: dict[int, list[_Write]] = {}
        spread = _Spread()
        for event in events:
            parts = [_Write(event.sequence, fields) for fields in spread.parts(event)]
            if len(parts) > 1:
                self.parts[event.sequence] = parts
            for write in parts:
                for template in _footprint(event).writes:
                    what = _filled(template, write.fields)
                    if what:
                        self._writes[what].append(write)

    def last(self, what: str, before: int, times: int = 1) -> list[_Write]:
        """The last writes of a thing before an event, at most as many as asked for."""
        writes = self._writes.get(what, [])
        end = bisect_left(writes, before, key=lambda each: each.sequence)
        return writes[max(end - times, 0) : end]


_NO_FOOTPRINT = Footprint()


def _footprint(event: Event) -> Footprint:
    """The reads and writes of an event; none if its kind is unknown or has no footprint."""
    kind = KINDS.get(event.kind)
    found = None if kind is None else kind.footprint
    return found if isinstance(found, Footprint) else _NO_FOOTPRINT


def _filled(template: str, fields: Fields) -> str:
    """A template filled with the fields of an event; empty if a field is missing."""
    try:
        return template.format_map(fields)
    except KeyError:
        return ""


def _said(event: Event) -> Fields:
    """The fields of an event by itself, without any earlier event."""
    fields = dict(event.attributes)
    fields["actor"] = event.actor
    fields["process"] = event.process
    for name in ("task", "partition"):
        if getattr(event, name):
            fields[name] = getattr(event, name)
    if event.offset >= 0:
        fields["offset"] = event.offset
    return fields


def _kept(record: Fields) -> Fields:
    """The fields of a committed record, which counts like one without a transaction."""
    return {"partition": record["partition"], "kept": record["offset"]}


class _Spread:
    """Divides events that are about many things into parts, one for each of them.

    A batch that was restored is about its records, a decision about those of its transaction, a
    commit about the inputs whose offset it moves, an assignment about the tasks that are new or
    gone.
    """

    def __init__(self) -> None:
        self._spread: dict[str, Callable[[Event], Iterator[Fields]]] = {
            "log.appended": self._appended,
            "task.processed": self._processed,
            "transaction.decided": self._decided,
            "transaction.marker": self._marked,
            "store.opened": self._opened,
            "store.restored": self._restored_batch,
            "global.opened": self._opened,
            "global.applied": self._restored_batch,
            "offsets.added": self._moved,
            "offsets.committed": self._committed_offsets,
            "thread.assigned": self._assigned,
        }
        self._owners: dict[int, str] = {}
        # By partition, the offsets and keys of its records.
        self._records: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
        # By producer: its records and inputs that are not decided, and those without their marker.
        self._undecided: dict[int, list[Fields]] = defaultdict(list)
        self._unmarked: dict[int, list[Fields]] = defaultdict(list)
        self._inputs: dict[str, list[Fields]] = defaultdict(list)
        # How far each store of a process is restored, which tasks a thread has, what is committed.
        self._restored: dict[tuple[str, str], int] = {}
        self._active: dict[str, set[str]] = defaultdict(set)
        self._committed: dict[str, int] = {}

    def parts(self, event: Event) -> Iterator[Fields]:
        """An event as a whole, and then its parts."""
        fields = _said(event)
        fields.update(self._about_producer(event))
        yield fields
        spread = self._spread.get(event.kind)
        if spread is not None:
            for part in spread(event):
                yield {**fields, **part}

    def _about_producer(self, event: Event) -> Fields:
        """The owner of the producer, and the loser of an aborted transaction."""
        producer = event.attributes.get("producer")
        if event.kind == "thread.producer":
            self._owners[event.attributes["producer"]] = event.actor
        owner = self._owners.get(producer) if producer is not None else None
        if owner is None:
            # The event comes from outside the application.
            return {"arrived": event.attributes.get("timestamp")}
        if event.attributes.get("commit", True):
            return {"owner": owner}
        return {"owner": owner, "loser": owner, "loser_process": owner.partition("/")[0]}

    def _appended(self, event: Event) -> Iterator[Fields]:
        more = event.attributes
        self._records[event.partition].append((event.offset, more["key"]))
        if more["transactional"]:
            names = {"partition": event.partition, "offset": event.offset}
            record = {**names, "key": more["key"], "value": more["value"]}
            self._undecided[more["producer"]].append(record)
        yield from ()

    def _processed(self, event: Event) -> Iterator[Fields]:
        self._inputs[event.actor].append({"input": event.partition, "offset": event.offset})
        yield from ()

    def _decided(self, event: Event) -> Iterator[Fields]:
        producer, commit = event.attributes["producer"], event.attributes["commit"]
        records = self._undecided.pop(producer, [])
        self._unmarked[producer] += records
        yield from map(_kept, records) if commit else records
        yield from self._inputs.pop(self._owners.get(producer, ""), [])

    def _marked(self, event: Event) -> Iterator[Fields]:
        producer = event.attributes["producer"]
        for lists in (self._unmarked, self._undecided):
            here = [each for each in lists[producer] if each["partition"] == event.partition]
            lists[producer] = [each for each in lists[producer] if each not in here]
            yield from () if event.attributes["commit"] else here

    def _opened(self, event: Event) -> Iterator[Fields]:
        self._restored[event.process, event.partition] = event.offset
        yield from ()

    def _restored_batch(self, event: Event) -> Iterator[Fields]:
        here = event.process, event.partition
        records = self._records[event.partition]
        first = bisect_left(records, (self._restored.get(here, -1) + 1, b""))
        end = bisect_left(records, (event.offset + 1, b""))
        self._restored[here] = event.offset
        yield from ({"offset": offset, "key": key} for offset, key in records[first:end])

    def _moved(self, event: Event) -> Iterator[Fields]:
        for partition, offset in event.attributes["offsets"].items():
            yield {"partition": partition, "offset": offset}

    def _committed_offsets(self, event: Event) -> Iterator[Fields]:
        for part in self._moved(event):
            if self._committed.get(part["partition"]) != part["offset"]:
                self._committed[part["partition"]] = part["offset"]
                yield part

    def _assigned(self, event: Event) -> Iterator[Fields]:
        active = set(event.attributes["active"])
        changed = active ^ self._active[event.actor]
        self._active[event.actor] = active
        yield from ({"task": task} for task in sorted(changed))


class _BackwardWalk:
    """Goes back from a violation to the events that led to it."""

    def __init__(self, index: _Index, events: Iterable[Event]) -> None:
        self._index = index
        self._events = list(events)
        self._found: set[int] = set()
        # A part of an event is followed once; the fields of a part are one object.
        self._followed: set[int] = set()
        self._left: list[_Write] = []

    def back_from(self, violation: InvariantViolation) -> set[int]:
        """The sequence numbers of all events that the walk reaches."""
        event = violation.event
        if event is not None:
            self._take([_Write(event.sequence, _said(event)), *self._meant(event, violation)])
        before = len(self._events) if event is None else event.sequence + 1
        for what in _mentioned(violation, self._events):
            is_one = what.partition(" ")[0] not in SEVERAL
            writes = self._index.last(what, before, 1 if is_one else MOST_TIMES)
            self._take(writes)
            for each in writes:
                self._take_uses(each, before)
        while self._left:
            self._follow(self._left.pop())
        return self._found

    def _meant(self, event: Event, violation: InvariantViolation) -> list[_Write]:
        """The last parts of the event of the violation that are about a partition it names."""
        said = _WORD.findall(violation.message)
        parts = self._index.parts.get(event.sequence, [])
        meant = [each for each in parts if each.fields.get("partition") in said]
        return meant[-MOST_TIMES:]

    def _take_uses(self, write: _Write, before: int) -> None:
        """Also take the later uses of an input record, and not only where it came from."""
        source = self._events[write.sequence]
        if source.kind == "log.appended" and "arrived" in write.fields:
            used = f"input {source.partition} {source.offset}"
            self._take(self._index.last(used, before, MOST_TIMES))
            self._take(self._index.last(f"committed {source.partition}", before))

    def _take(self, writes: Iterable[_Write]) -> None:
        for each in writes:
            self._found.add(each.sequence)
            if id(each.fields) not in self._followed:
                self._followed.add(id(each.fields))
                self._left.append(each)

    def _follow(self, write: _Write) -> None:
        """Take the writes that an event has read."""
        for reads in _footprint(self._events[write.sequence]).reads:
            for template in reads.split(" | "):
                what = _filled(template, write.fields)
                writes = self._index.last(what, write.sequence) if what else []
                if writes:
                    self._take(writes)
                    break


_BLOB = re.compile(r"b'(?:[^'\\]|\\.)*'|b\"(?:[^\"\\]|\\.)*\"")
_TOPIC = re.compile(r"([A-Za-z0-9_.-]+), key ")
_TIME = re.compile(r" at (\d+)")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")


def _mentioned(violation: InvariantViolation, events: Iterable[Event]) -> Iterator[str]:
    """The things that a violation is about, by its requirement and the words of its message."""
    words = _words(violation, events)
    requirement = violation.requirement
    about = ABOUT.get(requirement, ABOUT.get(requirement.partition("-")[0], ()))
    alone = () if words["partition"] else MENTIONED_ALONE
    for template in (*about, *MENTIONED, *alone):
        names = [name for _, name, _, _ in Formatter().parse(template) if name]
        for values in product(*(words[name] for name in names)):
            yield template.format_map(dict(zip(names, values, strict=True)))


def _words(violation: InvariantViolation, events: Iterable[Event]) -> dict[str, list[str]]:
    """The words of a message, grouped by the kind of thing that they name."""
    message, event = violation.message, violation.event
    blobs = list(dict.fromkeys(_BLOB.findall(message)))
    said = dict.fromkeys(_WORD.findall(_BLOB.sub("", message)))
    # A message about results names a topic: any of its partitions may be meant.
    found = _TOPIC.match(message)
    topic = found[1] if found else None
    partitions: dict[str, None] = {}
    tasks: dict[str, None] = {}
    threads: dict[str, None] = {}
    for each in events:
        if each.partition in said or each.partition.rpartition("-")[0] == topic:
            partitions[each.partition] = None
        if each.task in said:
            tasks[each.task] = None
        if each.actor in said:
            threads[each.actor] = None
    processes = [name.partition("/")[0] for name in threads]
    if event is not None:
        processes.append(event.process)
    return {
        "blob": blobs,
        "other": [*blobs, "None"],
        "partition": list(partitions),
        "task": list(tasks),
        "thread": list(threads),
        "process": list(dict.fromkeys(processes)),
        # Numbers of results are no offsets; only the time of a result can be looked up.
        "number": _TIME.findall(message) if topic else [word for word in said if word.isdecimal()],
        "word": list(said),
    }
