"""Records in a changelog that the owner of the task has neither written nor read.

Under at-least-once no zombie is fenced. It may append to the changelog while another thread runs
the task. That owner only writes to the changelog, so it never reads those records, and its offsets
pass them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet

from streamproof.sim.invariants.visible_records import AppendedRecord
from streamproof.sim.trace import Event
from streamproof.sim.upgraded_formats import NEWER

__all__ = ["ForeignAppends"]


class ForeignAppends:
    """The records of changelogs that the processes with the task have not seen.

    A record of a producer that its thread has replaced may still arrive: it was given up, and its
    task has begun anew without it.

    Args:
        since: gives the records of a partition from an offset on.

    Attributes:
        partitions: the changelogs to which a zombie has ever appended.
    """

    def __init__(self, since: Callable[[str, int], Iterable[AppendedRecord]]) -> None:
        self._since = since
        # The inputs that are the changelogs of tables. Their task reads all records.
        self._inputs: set[str] = set()
        # By process and thread, the id of the producer that it has.
        self._producers: dict[str, dict[str, int]] = {}
        # The changelogs of the tasks that run, or are restored to a known end, by process and task.
        self._running: dict[tuple[str, str], set[str]] = {}
        self._offsets: dict[tuple[str, str], set[int]] = {}
        # The next offset of a restoration, by process and changelog.
        self._next: dict[tuple[str, str], int] = {}
        # How far a newer format was built from a changelog, by process and changelog.
        self._rebuilt: dict[tuple[str, str], int] = {}
        self.partitions: set[str] = set()

    def of(self, process: str, partition: str) -> AbstractSet[int]:
        """The offsets of a changelog that a process has not seen."""
        return self._offsets.get((process, partition), frozenset())

    def start_of(self, process: str, partition: str) -> int:
        """The next offset of the restoration of a changelog in a process."""
        return self._next.get((process, partition), 0)

    @property
    def observers(self) -> Mapping[str, Callable[[Event], None]]:
        """By kind of event, the observer of such events."""
        return {
            "thread.producer": self._new_producer,
            "store.found": self._found,
            "store.running": self._run,
            "restore.start": self._restore,
            "update.start": self._start,
            "store.restored": self._restored,
            "store.rebuilt": self._note_rebuilt,
            "store.opened": self._opened,
            "task.closed": self._closed,
            "task.recycled": self._closed,
            "instance.crashed": self._gone,
            "instance.stopped": self._gone,
            "log.appended": self._appended,
        }

    def _new_producer(self, event: Event) -> None:
        producers = self._producers.setdefault(event.process, {})
        producers[event.actor] = event.attributes["producer"]

    def _found(self, event: Event) -> None:
        if event.attributes["is_input"]:
            self._inputs.add(event.partition)

    def _run(self, event: Event) -> None:
        if not event.attributes["is_input"]:
            self._running.setdefault((event.process, event.task), set()).add(event.partition)

    def _start(self, event: Event) -> None:
        self._next[event.process, event.partition] = event.attributes["start"]

    def _restore(self, event: Event) -> None:
        """A restoration has an end, and nobody reads what is appended after that."""
        self._start(event)
        if event.partition in self._inputs:
            return
        self._running.setdefault((event.process, event.task), set()).add(event.partition)
        for each in self._since(event.partition, event.attributes["end"]):
            self._note(event.process, event.partition, each.offset, each.producer)

    def _closed(self, event: Event) -> None:
        self._running.pop((event.process, event.task), None)

    def _gone(self, event: Event) -> None:
        process = event.process
        # A recorded process has its first producer before anybody hears of its start.
        self._producers.pop(process, None)
        for each in [each for each in self._running if each[0] == process]:
            del self._running[each]

    def _appended(self, event: Event) -> None:
        partition, producer = event.partition, event.attributes["producer"]
        for (process, _), partitions in self._running.items():
            if partition in partitions:
                self._note(process, partition, event.offset, producer)

    def _note(self, process: str, partition: str, offset: int, producer: int) -> None:
        """Take note of a record behind the end of what a process reads, if another one wrote it."""
        if producer not in self._producers.get(process, {}).values():
            self._offsets.setdefault((process, partition), set()).add(offset)
            self.partitions.add(partition)

    def _restored(self, event: Event) -> None:
        """Take note that a process has read a part of a changelog, compacted records included."""
        place = event.process, event.partition
        seen = range(self._next.get(place, 0), event.offset + 1)
        self._next[place] = seen.stop
        self._offsets.get(place, set()).difference_update(seen)

    def _note_rebuilt(self, event: Event) -> None:
        self._rebuilt[event.process, event.partition] = event.offset

    def _opened(self, event: Event) -> None:
        """Take note that a process uses a newer format, built from records that it has read."""
        place = event.process, event.partition
        if event.attributes["place"].endswith(NEWER) and place in self._rebuilt:
            seen = range(self._rebuilt.pop(place) + 1)
            self._offsets.get(place, set()).difference_update(seen)
