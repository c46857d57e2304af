"""The lines of recordings while they are written, and what follows from them for the moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from streamproof.scenarios.kafka.recording import SUFFIX, RecordedLine, event_of
from streamproof.sim.trace import Event

__all__ = ["Followed", "FollowedLine", "Rest"]


class FollowedLine(NamedTuple):
    """An event that was just recorded.

    Attributes:
        event: the event; its number and its time do not count.
        go: the name of the file that lets the process go on; empty if it does not stand still.
    """

    event: Event
    go: str


class Followed:
    """Reads what is added to the recordings of a directory.

    Args:
        directory: the directory.
        prefix: what is left out of all names.
    """

    def __init__(self, directory: Path, prefix: str = "") -> None:
        self._directory = directory
        self._prefix = prefix.encode()
        self._read: dict[Path, int] = {}
        # Events at which a process stands still once the step is done.
        self._later: dict[tuple[Path, int], Event] = {}
        self._decoder = msgspec.json.Decoder(RecordedLine)

    def new(self) -> Iterator[FollowedLine]:
        """The events since the last call; those of one process are in order."""
        for path in sorted(self._directory.glob(f"*{SUFFIX}")):
            for line in self._added(path):
                go = f"go-{path.stem}-{line.number}" if line.hold else ""
                if line.about == "hold":
                    yield FollowedLine(self._later.pop((path, line.of)), go)
                elif line.later:
                    self._later[path, line.number] = event_of(line, 0, 0, 0)
                elif not line.about:
                    yield FollowedLine(event_of(line, 0, 0, 0), go)

    def _added(self, path: Path) -> Iterator[RecordedLine]:
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            # What comes after the last end of a line is not written to its end yet.
            text, end, _ = file.read().rpartition(b"\n")
        self._read[path] = self._read.get(path, 0) + len(text) + len(end)
        for each in text.replace(self._prefix, b"").splitlines():
            yield self._decoder.decode(each)


class Rest:
    """Whether an application has processed and committed all its input, and no standby lags.

    Args:
        tasks: the inputs of each task.
        settle_s: how long the application goes on after that by the clock, in seconds.
        reads_committed: whether the application sees no record of an open or aborted transaction.
            Under at-least-once Kafka Streams sees all.

    Attributes:
        settle_s: the same.
    """

    def __init__(
        self,
        tasks: Mapping[str, Iterable[str]],
        settle_s: float = 0.0,
        *,
        reads_committed: bool = True,
    ) -> None:
        self.settle_s = settle_s
        self._tasks = tasks
        self._reads_committed = reads_committed
        self._ends: dict[str, int] = {}
        # By partition, the offset after the last record that the application sees; and by partition
        # and producer, that after the last one whose transaction is not decided.
        self._records: dict[str, int] = {}
        self._undecided: dict[tuple[str, int], int] = {}
        # The inputs of which the task that runs now has processed a record.
        self._begun: set[str] = set()
        self._committed: dict[str, int] = {}
        self._running: dict[str, str] = {}
        # The generation of the group that each thread follows.
        self._generations: dict[str, int] = {}
        self._standbys = _Standbys()

    def see(self, event: Event) -> None:
        """Take an event in."""
        self._standbys.see(event)
        match event.kind:
            case "log.appended" | "transaction.marker":
                self._see_log(event)
            case "task.processed":
                self._begun.add(event.partition)
            case "offsets.committed":
                self._committed.update(event.attributes["offsets"])
            case "task.state":
                if event.attributes["after"] == "RUNNING":
                    self._running[event.task] = event.process
                    self._begun -= set(self._tasks.get(event.task, ()))
                elif self._running.get(event.task) == event.process:
                    del self._running[event.task]
            case "thread.assigned":
                self._generations[event.actor] = event.attributes["generation"]
            case "thread.died" | "thread.stopped":
                self._generations.pop(event.actor, None)
            case "instance.crashed":
                self._drop(event.actor)

    def _see_log(self, event: Event) -> None:
        if event.offset < 0:
            return
        partition, producer = event.partition, event.attributes["producer"]
        self._ends[partition] = event.offset + 1
        if event.kind == "transaction.marker":
            end = self._undecided.pop((partition, producer), 0)
            if event.attributes["commit"]:
                self._records[partition] = max(end, self._records.get(partition, 0))
        elif event.attributes["transactional"] and self._reads_committed:
            self._undecided[partition, producer] = event.offset + 1
        else:
            self._records[partition] = event.offset + 1

    def _drop(self, process: str) -> None:
        self._running = {task: at for task, at in self._running.items() if at != process}
        for each in [each for each in self._generations if each.startswith(f"{process}/")]:
            del self._generations[each]

    def known_at(self, now: float) -> float:
        """The time of which ``is_reached`` tells, by the monotonic clock.

        Args:
            now: when the newest event was taken in.
        """
        return now

    def is_reached(self, up: Iterable[str]) -> bool:
        """Whether all tasks run in these processes, and nothing is left to commit or to copy.

        All threads follow the same generation of the group then.
        """
        if len(set(self._generations.values())) != 1:
            return False
        inputs = [partition for each in self._tasks.values() for partition in each]
        return set(self._running) == set(self._tasks) and (
            set(self._running.values()) <= set(up)
            and all(map(self._is_done, inputs))
            and self._standbys.have(self._records)
        )

    def _is_done(self, partition: str) -> bool:
        """Whether nothing is left to commit of an input.

        Kafka commits a position behind markers only of inputs that it has processed a record of.
        """
        committed = self._committed.get(partition, 0)
        if committed == self._ends.get(partition, 0):
            return True
        return partition not in self._begun and committed >= self._records.get(partition, 0)


class _Standbys:
    """How far the standbys of an application follow their changelogs."""

    def __init__(self) -> None:
        self._changelogs: dict[str, set[str]] = {}
        # By thread, its standbys; and by thread and changelog, the next offset that it applies.
        self._given: dict[str, set[str]] = {}
        self._positions: dict[tuple[str, str], int] = {}

    def see(self, event: Event) -> None:
        """Take an event in."""
        thread = event.actor.replace("/updater-", "/thread-")
        match event.kind:
            case "thread.assigned":
                self._given[thread] = set(event.attributes["standby"])
            case "store.opened":
                self._changelogs.setdefault(event.task, set()).add(event.partition)
            case "update.start":
                self._positions[thread, event.partition] = event.attributes["start"]
            case "update.batch":
                self._positions[thread, event.partition] = event.offset + 1
            case "update.suspended":
                self._positions.pop((thread, event.partition), None)
            case "thread.died" | "thread.stopped" | "instance.crashed":
                self._forget(event.actor)

    def _forget(self, actor: str) -> None:
        """Take in that a thread or a process has ended."""
        for thread in [each for each in self._given if f"{each}/".startswith(f"{actor}/")]:
            del self._given[thread]
        for thread, changelog in [*self._positions]:
            if thread not in self._given:
                del self._positions[thread, changelog]

    def have(self, ends: Mapping[str, int]) -> bool:
        """Whether all standbys have all records.

        Args:
            ends: by changelog, the offset after its last record; that of others is 0.
        """
        return all(
            self._positions.get((thread, each), -1) >= ends.get(each, 0)
            for thread, tasks in self._given.items()
            for task in tasks
            for each in self._changelogs.get(task, ())
        )
