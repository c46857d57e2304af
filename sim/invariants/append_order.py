"""The records of a producer in a changelog: in the order of the writes, and each once."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["AppendsKeepTheirOrder"]

_Row = tuple[bytes, bytes | None]


@dataclass
class _Writes:
    """The writes of one thread into one store, since it has its producer.

    Attributes:
        ahead: those of which no later one is in the log.
        behind: those that are in the log, or before one that is.
    """

    ahead: deque[_Row] = field(default_factory=deque)
    behind: set[_Row] = field(default_factory=set)


class AppendsKeepTheirOrder(Invariant):
    """A partition has the records of a producer in their order, each once (KIP-98).

    A record may be missing, because an abort has dropped it. With record caches, the order of the
    writes is not that of the records. A batch that comes before an earlier one that is still on its
    way is sent again, and ends no producer (KAFKA-5494).
    """

    name = "a changelog has the records of a producer in their order, each once"
    requirement = "ALOS-003"
    situation = "a producer had to send a batch again, and its records arrived"
    drawn_from: ClassVar = {
        "plan": {"activation": [0.5]},
        "settings": {"statestore_cache_max_bytes": [0]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        # By producer, its thread, and by thread, its producer.
        self._threads: dict[int, str] = {}
        self._producers: dict[str, int] = {}
        self._writes: defaultdict[str, dict[str, _Writes]] = defaultdict(dict)
        self._is_cached = False
        # The producers whose batches were refused, and processes whose requests were lost.
        self._troubled: set[int | str] = set()

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._start,
            "thread.producer": self._new_producer,
            "store.put": self._put,
            "log.appended": self._appended,
            "broker.refused": self._refused,
            "network.request_lost": self._lost,
            "network.request_held": self._lost,
            "network.reply_lost": self._lost,
            "thread.lost": self._gives_up,
        }

    def _start(self, event: Event) -> Iterable[str]:
        self._is_cached = event.attributes["statestore_cache_max_bytes"] > 0
        return ()

    def _new_producer(self, event: Event) -> Iterable[str]:
        thread, producer = event.actor, event.attributes["producer"]
        self._threads.pop(self._producers.get(thread, -1), None)
        self._threads[producer], self._producers[thread] = thread, producer
        self._writes[thread] = {}
        return ()

    def _refused(self, event: Event) -> Iterable[str]:
        self._troubled.add(event.attributes["producer"])
        return ()

    def _lost(self, event: Event) -> Iterable[str]:
        if event.attributes["what"] == "produce":
            self._troubled.add(event.process)
        return ()

    def _gives_up(self, event: Event) -> Iterator[str]:
        # A batch that was given up, or whose answer was lost, may really lack one before it.
        is_out_of_order = event.attributes["reason"] == "OutOfOrderSequenceError"
        if is_out_of_order and event.process not in self._troubled:
            yield (
                f"{event.actor} gives up its tasks because a batch overtook another one, although "
                "it can be sent again once the other one is there"
            )

    def _put(self, event: Event) -> Iterable[str]:
        # The most frequent event of a world, so this takes no detour.
        if self._is_cached:
            return ()
        writes = self._writes[event.actor]
        found = writes.get(event.partition)
        if found is None:
            found = writes[event.partition] = _Writes()
        found.ahead.append((event.attributes["key"], event.attributes["value"]))
        return ()

    def _appended(self, event: Event) -> Iterable[str]:
        more = event.attributes
        thread = self._threads.get(more["producer"])
        if thread is None:
            return ()
        writes = self._writes[thread].get(event.partition)
        if writes is None:
            return ()
        self.tried |= bool(self._troubled) and not self._troubled.isdisjoint(
            (more["producer"], thread.partition("/")[0])
        )
        row = more["key"], more["value"]
        ahead = writes.ahead
        if row in ahead:
            while (passed := ahead.popleft()) != row:
                writes.behind.add(passed)
            writes.behind.add(row)
            return ()
        if row not in writes.behind:
            return ()
        value = "a tombstone" if row[1] is None else repr(row[1])
        what = f"{event.partition} has {value} of {row[0]!r} at {event.offset}"
        return [f"{what}, after a later write of {thread}, or a second time"]
