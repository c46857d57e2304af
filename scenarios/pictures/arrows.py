"""The arrows of a picture: they follow data and decisions from event to event."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from streamproof.sim.trace import Event

__all__ = ["Arrow", "Links"]


class Arrow(NamedTuple):
    """An arrow from one event to another.

    Attributes:
        source: the number of the event at its start.
        target: the number of the event at its end.
        what: the thing that moves along it, in a few words.
    """

    source: int
    target: int
    what: str


_Key = tuple[str, ...]


class Links:
    """Finds the arrows of a run, event by event.

    Attributes:
        arrows: the arrows that were found.
        senders: by id of a producer, its owner: a thread, or ``workload``.
        origins: by the number of an event of the brokers, the event of the application that
            requested it.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.arrows: list[Arrow] = []
        self.senders: dict[int, str] = {}
        self.origins: dict[int, Event] = {}
        # The number of the last event of a kind, by the fields that tell such events apart.
        self._last: dict[_Key, int] = {}
        # Writes to a store that have not reached its changelog, oldest first.
        self._sent: defaultdict[tuple[str, bytes, bytes | None], list[Event]] = defaultdict(list)
        # By partition, the offsets of its records, and the numbers of their events.
        self._offsets: defaultdict[str, list[int]] = defaultdict(list)
        self._events: defaultdict[str, list[int]] = defaultdict(list)
        self._ways: dict[str, Callable[[Event], None]] = {
            "thread.producer": self._named,
            "store.put": self._put,
            "log.appended": self._appended,
            "task.processed": self._processed,
            "store.restored": self._restored,
            "offsets.added": self._added,
            "transaction.decided": self._decided,
            "transaction.timed_out": self._timed_out,
            "transaction.marker": self._marked,
            "offsets.committed": self._committed,
            "thread.subscribed": self._subscribed,
            "group.assigned": self._shared_out,
            "thread.assigned": self._assigned,
            "store.flushed": self._wrote,
            "store.closing": self._wrote,
            "task.wiped": self._wiped,
            "state.cleaned": self._wiped,
            "instance.crashed": self._crashed,
            "store.found": self._found,
            "task.state": self._changed,
        }
        for each in events:
            self.see(each)

    def see(self, event: Event) -> None:
        """Take an event in."""
        way = self._ways.get(event.kind)
        if way is not None:
            way(event)

    def _draw(self, source: int | None, event: Event, what: str) -> None:
        if source is not None and source < event.sequence:
            self.arrows.append(Arrow(source, event.sequence, what))

    # Records.

    def _named(self, event: Event) -> None:
        self.senders[event.attributes.get("producer", -1)] = event.actor

    def _put(self, event: Event) -> None:
        more = event.attributes
        self._sent[event.partition, more.get("key", b""), more.get("value")].append(event)
        source = self._last.get(("processed", event.actor, event.task))
        self._draw(source, event, "what it changes")

    def _appended(self, event: Event) -> None:
        more = event.attributes
        self._offsets[event.partition].append(event.offset)
        self._events[event.partition].append(event.sequence)
        waiting = self._sent.get((event.partition, more.get("key", b""), more.get("value")), [])
        producer = more.get("producer", -1)
        # A process that died may have sent the same write: the producer tells them apart.
        sender = self.senders.get(producer)
        origin = next((each for each in waiting if sender in {None, each.actor}), None)
        if origin is not None:
            waiting.remove(origin)
            self.origins[event.sequence] = origin
            self.senders.setdefault(producer, origin.actor)
            self._draw(origin.sequence, event, "to its changelog")

    def _records(self, partition: str, offset: int, count: int) -> list[int]:
        """The events of the last records of a partition, up to an offset."""
        end = bisect_right(self._offsets[partition], offset)
        return self._events[partition][max(end - count, 0) : end]

    def _processed(self, event: Event) -> None:
        for sequence in self._records(event.partition, event.offset, 1):
            self._draw(sequence, event, "the record")
        self._last["processed", event.actor, event.task] = event.sequence
        started = self._last.pop(("fresh", event.actor, event.task), None)
        if started is not None:
            committed = self._last.get(("committed", event.partition))
            self._draw(committed, event, "it begins at the committed offset")

    def _restored(self, event: Event) -> None:
        count = event.attributes.get("records", 0)
        for sequence in self._records(event.partition, event.offset, count):
            self._draw(sequence, event, "restored")

    # Commits.

    def _added(self, event: Event) -> None:
        producer = str(event.attributes.get("producer"))
        self._last["added", producer] = event.sequence

    def _decided(self, event: Event) -> None:
        more = event.attributes
        producer = str(more.get("producer"))
        self._draw(self._last.pop(("added", producer), None), event, "its offsets")
        end = str(more.get("commit"))
        self._last["decided", str(more.get("transactional_id")), end] = event.sequence

    def _timed_out(self, event: Event) -> None:
        name = str(event.attributes.get("transactional_id"))
        self._last["decided", name, str(False)] = event.sequence

    def _marked(self, event: Event) -> None:
        more = event.attributes
        key = ("decided", str(more.get("transactional_id")), str(more.get("commit")))
        decided = self._last.get(key)
        if decided is None:
            # A new producer aborted the open transaction of its predecessor, which has no event.
            return
        self._draw(decided, event, "the marker")
        # The event of the offsets comes right before that of the marker that committed them.
        committed = self._last.get(("offsets",))
        if event.partition.startswith("group:") and committed == event.sequence - 1:
            self.arrows.append(Arrow(decided, committed, "the offsets"))
        if more.get("complete"):
            del self._last[key]

    def _committed(self, event: Event) -> None:
        self._last["offsets",] = event.sequence
        for partition in event.attributes.get("offsets", ()):
            self._last["committed", partition] = event.sequence

    # Tasks and their owners.

    def _subscribed(self, event: Event) -> None:
        self._last["joined", event.actor] = event.sequence

    def _shared_out(self, event: Event) -> None:
        for key in [each for each in self._last if each[0] == "joined"]:
            self._draw(self._last.pop(key), event, "what it has")
        self._last["shared", str(event.attributes.get("generation"))] = event.sequence

    def _assigned(self, event: Event) -> None:
        shared = self._last.get(("shared", str(event.attributes.get("generation"))))
        self._draw(shared, event, "its share")

    def _changed(self, event: Event) -> None:
        if event.attributes.get("after") == "RUNNING":
            self._last["fresh", event.actor, event.task] = event.sequence

    # Disks.

    def _place(self, event: Event) -> _Key:
        return ("disk", event.process, event.task, event.partition)

    def _wrote(self, event: Event) -> None:
        self._last[self._place(event)] = event.sequence

    def _wiped(self, event: Event) -> None:
        place = self._place(event)[:3]
        for key in [each for each in self._last if each[:3] == place]:
            self._last[key] = event.sequence
        self._last[place] = event.sequence

    def _crashed(self, event: Event) -> None:
        for waiting in self._sent.values():
            waiting[:] = [each for each in waiting if not each.actor.startswith(f"{event.actor}/")]

    def _found(self, event: Event) -> None:
        place = self._place(event)
        source = max(self._last.get(place, -1), self._last.get(place[:3], -1))
        self._draw(source if source >= 0 else None, event, "what is on the disk")
