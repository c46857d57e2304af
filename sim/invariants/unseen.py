"""Records that came into a changelog behind the back of the task that owns it.

Under at-least-once nobody fences a zombie: what it appends while another thread runs the task is
in the changelog, and the owner, which only writes there, never reads it. Its offsets go past it.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from streamproof.sim.trace import Event

__all__ = ["Unseen"]


class Unseen:
    """What processes that run a task have not seen of its changelog.

    Attributes:
        partitions: the changelogs to which a zombie ever appended.
    """

    def __init__(self) -> None:
        # By process, the ids of the producers that it ever had.
        self._producers: dict[str, set[int]] = {}
        # The changelogs of the tasks that run now, by process and task.
        self._running: dict[tuple[str, str], set[str]] = {}
        self._offsets: dict[tuple[str, str], set[int]] = {}
        # Where a restoration goes on, by process and changelog.
        self._next: dict[tuple[str, str], int] = {}
        self.partitions: set[str] = set()

    def of(self, process: str, partition: str) -> AbstractSet[int]:
        """The offsets of a changelog that a process has not seen."""
        return self._offsets.get((process, partition), frozenset())

    def see(self, event: Event) -> None:
        """Take an event in."""
        process = event.process
        match event.kind:
            case "thread.producer":
                self._producers.setdefault(process, set()).add(event.attributes["producer"])
            case "store.running" if not event.attributes["is_input"]:
                self._running.setdefault((process, event.task), set()).add(event.partition)
            case "restore.start" | "update.start":
                self._next[process, event.partition] = event.attributes["start"]
            case "store.restored":
                self._restored((process, event.partition), event.offset)
            case "task.closed":
                self._running.pop((process, event.task), None)
            case "instance.crashed" | "instance.stopped":
                for each in [each for each in self._running if each[0] == process]:
                    del self._running[each]
            case "log.appended":
                self._appended(event)

    def _appended(self, event: Event) -> None:
        for (process, _), partitions in self._running.items():
            own = event.attributes["producer"] in self._producers.get(process, ())
            if event.partition in partitions and not own:
                self._offsets.setdefault((process, event.partition), set()).add(event.offset)
                self.partitions.add(event.partition)

    def _restored(self, place: tuple[str, str], offset: int) -> None:
        """A process has read a part of a changelog after all, and what was compacted there."""
        seen = range(self._next.get(place, 0), offset + 1)
        self._next[place] = seen.stop
        self._offsets.get(place, set()).difference_update(seen)
