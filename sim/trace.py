"""The trace of a simulated world: a stream of events, with watchers and a digest.

The digest covers every event. Two runs with the same configuration, workload and choices have the
same digest, on any machine, whether or not the events are kept. If two digests differ,
:func:`first_divergence` finds the first event that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

__all__ = ["Divergence", "Event", "Trace", "Watcher", "first_divergence"]

_HASHED_BYTES = 1 << 16
"""The number of bytes that are hashed at a time, because hashing each event takes longer."""


class Event(Struct, frozen=True, gc=False):
    """One thing that happened in a run; docs/events.md lists the kinds.

    Attributes:
        sequence: the number of the event within its run, from 0.
        time: virtual milliseconds since the start of the run.
        actor: the process, thread or broker that acted, as ``instance-0/thread-1``.
        kind: the kind of the event, as ``task.commit``.
        task: the id of the task; empty if the event is about no task.
        partition: the partition, as ``topic-0``; empty if the event is about no partition.
        offset: the offset; -1 if the event is about no offset.
        attributes: everything else, by the names that the kind has for it.
    """

    sequence: int
    time: int
    actor: str
    kind: str
    task: str
    partition: str
    offset: int
    attributes: dict[str, Any]

    @property
    def process(self) -> str:
        """The process that the actor belongs to: ``instance-0``."""
        return self.actor.partition("/")[0]

    def __str__(self) -> str:
        words = [f"#{self.sequence} at {self.time} ms: {self.actor} {self.kind}"]
        words += [each for each in (self.task, self.partition) if each]
        if self.offset >= 0:
            words.append(f"@{self.offset}")
        words += [f"{name}={value!r}" for name, value in self.attributes.items()]
        return " ".join(words)


Watcher = Callable[[Event], None]


class Trace:
    """The events of one run, in order.

    Args:
        now: the virtual time.
        watchers: functions that get each event as it happens, such as invariants and trace files.

    Attributes:
        count: the number of events so far.
    """

    def __init__(self, now: Callable[[], float], watchers: Iterable[Watcher] = ()) -> None:
        self._now = now
        self._watchers = list(watchers)
        self._encode_into = msgspec.msgpack.Encoder(order="deterministic").encode_into
        self._hash = blake2b(digest_size=16)
        self._unhashed = bytearray()
        self.count = 0

    def watch(self, watcher: Watcher) -> None:
        """Tell a function of each event from here on."""
        self._watchers.append(watcher)

    def emit(
        self,
        kind: str,
        actor: str,
        *,
        task: str = "",
        partition: str = "",
        offset: int = -1,
        **attributes: Any,
    ) -> None:
        """Emit an event that happens now."""
        event = Event(
            self.count, int(self._now()), actor, kind, task, partition, offset, attributes
        )
        self.count += 1
        self._encode_into(event, self._unhashed, -1)
        if len(self._unhashed) >= _HASHED_BYTES:
            self._take_in()
        for watch in self._watchers:
            watch(event)

    @property
    def digest(self) -> str:
        """32 hexadecimal digits that identify the sequence of all events so far."""
        self._take_in()
        return self._hash.hexdigest()

    def _take_in(self) -> None:
        self._hash.update(self._unhashed)
        self._unhashed.clear()


class Divergence(NamedTuple):
    """The first pair of events that differ between two runs; ``None`` for a run that has ended.

    Attributes:
        common: the last event that both runs share; ``None`` if they differ from the start.
    """

    first: Event | None
    second: Event | None
    common: Event | None

    def __str__(self) -> str:
        before = f"after {self.common}" if self.common else "from the start"
        first, second = (str(each) if each else "the end" for each in self[:2])
        return f"The runs differ {before}\n  first:  {first}\n  second: {second}"


def first_divergence(first: Iterable[Event], second: Iterable[Event]) -> Divergence | None:
    """The first difference between two runs; ``None`` if they are equal."""
    common = None
    for one, other in zip_longest(first, second):
        if one != other:
            return Divergence(one, other, common)
        common = one
    return None
