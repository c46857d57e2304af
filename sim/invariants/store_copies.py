"""The copies of all stores, folded from events: what each shows, committed or not, and as of when.

A copy is the store of an active task or of a standby in one process. The fold knows what was found
at the opening, restored, written and committed. So it says what a query must show, without asking
the runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streamproof.sim.invariants.visible_records import Visible
from streamproof.sim.trace import Event

__all__ = ["Copies", "Copy", "Possible"]

Possible = Mapping[bytes, frozenset[bytes | None]]
"""By key, the values that a copy may have; ``None`` is no entry. A key without a value here has no
entry."""

ABSENT: frozenset[bytes | None] = frozenset([None])


@dataclass
class Copy:
    """One copy of a store, while it is open.

    Attributes:
        thread: the thread that has it.
        task: the id of its task.
        rows: by key, the values that the store may have without its staged writes.
        staged: the writes that wait for a commit of the store.
        staged_since: when the first of them was made; -1 without any.
        position: by input, the offset that the rows reflect.
        staged_position: by input, the offset that the staged writes reflect.
        processed: by input, the last processed offset since the store was found.
        committed_processed: the same as of the last commit of the store.
        offset: the offset of the last record that was found or restored.
        is_mixed_until: while the offset is smaller, rows may be newer than the offset says.
        has_run: whether its task has run with it, as an active one. Until the task is closed, such
            a copy may have writes that no commit covers.
    """

    thread: str
    task: str
    rows: dict[bytes, frozenset[bytes | None]]
    position: dict[str, int]
    offset: int
    staged: dict[bytes, bytes | None] = field(default_factory=dict)
    staged_since: int = -1
    staged_position: dict[str, int] = field(default_factory=dict)
    processed: dict[str, int] = field(default_factory=dict)
    committed_processed: dict[str, int] = field(default_factory=dict)
    is_mixed_until: int = -1
    has_run: bool = False

    @property
    def is_mixed(self) -> bool:
        """Whether the rows may come from different moments, as in a repeated restoration."""
        return self.offset < self.is_mixed_until

    def shows(self, *, committed: bool) -> Possible:
        """The values that a query may show, past the staged writes or with them."""
        if committed:
            return self.rows
        return {**self.rows, **{key: frozenset([value]) for key, value in self.staged.items()}}

    def reflects(self, *, committed: bool) -> dict[str, int]:
        """The position that goes with these values."""
        return self.position if committed else _latest(self.position, self.staged_position)

    def at_most(self, *, committed: bool) -> dict[str, int]:
        """By input, the largest offset that these values can reflect, however writes are cached."""
        return _latest(self.position, self.committed_processed if committed else self.processed)


def _latest(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    """The larger offset of each input, as positions are merged (KIP-796)."""
    return {each: max(first.get(each, -1), second.get(each, -1)) for each in {**first, **second}}


class Copies:
    """The open copies of all stores.

    Args:
        visible: the records of a changelog that a restoration may read.

    Attributes:
        settings: the attributes of ``application.started``.
        states: by thread and task, the name of the state of the task.
    """

    def __init__(self, visible: Visible) -> None:
        self._visible = visible
        self._open: dict[tuple[str, str], Copy] = {}
        # The same copies once more, by thread and task.
        self._of_task: dict[tuple[str, str], dict[tuple[str, str], Copy]] = {}
        self.settings: Mapping[str, Any] = {}
        self.states: dict[tuple[str, str], str] = {}
        # By thread and task, the input record that is being processed; None in a punctuation.
        self._current: dict[tuple[str, str], tuple[str, int] | None] = {}

    @property
    def observers(self) -> Mapping[str, Callable[[Event], None]]:
        """By kind of event, the observer of such events."""
        return {
            "application.started": self._start,
            "instance.crashed": self._gone,
            "instance.stopped": self._gone,
            "store.committed": self._commit,
            "store.found": self._found,
            "store.put": self._put,
            # Nothing is staged then, and the rows are those of the offset, as at an opening.
            "store.recycled": self._found,
            "store.restored": self._restored,
            "task.closed": self._closed,
            "task.processed": self._process,
            "task.punctuated": self._punctuate,
            "task.state": self._state,
        }

    @property
    def stages(self) -> bool:
        """Whether stores stage their writes until they commit."""
        return bool(self.settings.get("transactional"))

    @property
    def caches(self) -> bool:
        """Whether record caches hide writes from the events."""
        return bool(self.settings.get("statestore_cache_max_bytes"))

    def of(self, process: str, partition: str) -> Copy | None:
        """The open copy of a changelog in a process."""
        return self._open.get((process, partition))

    def following(self, partition: str) -> list[tuple[str, Copy]]:
        """The open copies that read a changelog, each with its process: no task has run on them."""
        return [
            (process, copy)
            for (process, changelog), copy in self._open.items()
            if changelog == partition and not copy.has_run
        ]

    def runs(self, copy: Copy) -> bool:
        """Whether a copy belongs to a running active task."""
        return self.states.get((copy.thread, copy.task)) == "RUNNING"

    def suspended(self, process: str) -> set[str]:
        """The tasks that threads of a process are about to close."""
        prefix = f"{process}/"
        return {
            task
            for (thread, task), state in self.states.items()
            if state == "SUSPENDED" and thread.startswith(prefix)
        }

    def running(self, task: str) -> list[str]:
        """The threads in which a task runs."""
        return [
            thread
            for (thread, name), state in self.states.items()
            if (name, state) == (task, "RUNNING")
        ]

    def _start(self, event: Event) -> None:
        self.settings = event.attributes

    def _state(self, event: Event) -> None:
        self.states[event.actor, event.task] = event.attributes["after"]
        if event.attributes["after"] == "RUNNING":
            for copy in self._copies(event):
                copy.has_run = True

    def _found(self, event: Event) -> None:
        rows = dict(event.attributes.get("rows", ()))
        copy = Copy(
            event.actor,
            event.task,
            {key: frozenset([value]) for key, value in rows.items()},
            dict(event.attributes.get("position", {})),
            event.offset,
        )
        place = event.process, event.partition
        if place in self._open:
            before = self._open[place]
            del self._of_task[before.thread, before.task][place]
        self._open[place] = copy
        self._of_task.setdefault((copy.thread, copy.task), {})[place] = copy
        fold: dict[bytes, bytes | None] = {}
        last = -1
        for record in self._visible(event.partition, 0):
            last = record.offset
            if record.offset <= event.offset:
                fold[record.key] = record.value
        if {key: value for key, value in fold.items() if value is not None} != rows:
            copy.is_mixed_until = last

    def _restored(self, event: Event) -> None:
        copy = self.of(event.process, event.partition)
        if copy is None:
            return
        batch = []
        for record in self._visible(event.partition, copy.offset + 1):
            if record.offset > event.offset:
                break
            batch.append(record)
        is_known = len(batch) == event.attributes["records"]
        for record in batch:
            # Compaction may have removed any record of a batch that is too short.
            before = frozenset() if is_known else copy.rows.get(record.key, ABSENT)
            copy.rows[record.key] = before | {record.value}
        copy.offset = max(copy.offset, event.offset)

    def _process(self, event: Event) -> None:
        self._current[event.actor, event.task] = event.partition, event.offset
        for copy in self._copies(event):
            copy.processed[event.partition] = event.offset
            if not self.stages:
                copy.committed_processed[event.partition] = event.offset

    def _punctuate(self, event: Event) -> None:
        self._current[event.actor, event.task] = None

    def _put(self, event: Event) -> None:
        copy = self.of(event.process, event.partition)
        if copy is None:
            return
        key, value = event.attributes["key"], event.attributes["value"]
        if self.stages:
            copy.staged[key] = value
            if copy.staged_since < 0:
                copy.staged_since = event.time
        else:
            copy.rows[key] = frozenset([value])
        current = self._current.get((event.actor, event.task))
        if current is not None:
            # Under at-least-once, a task repeats inputs whose writes the store has kept.
            partition, offset = current
            position = copy.staged_position if self.stages else copy.position
            position[partition] = max(offset, position.get(partition, -1))

    def _commit(self, event: Event) -> None:
        copy = self.of(event.process, event.partition)
        if copy is None:
            return
        copy.rows |= {key: frozenset([value]) for key, value in copy.staged.items()}
        copy.position = _latest(copy.position, copy.staged_position)
        copy.committed_processed = dict(copy.processed)
        copy.staged.clear()
        copy.staged_position.clear()
        copy.staged_since = -1

    def _copies(self, event: Event) -> Iterable[Copy]:
        """The open copies of the task of an event."""
        return self._of_task.get((event.actor, event.task), {}).values()

    def _closed(self, event: Event) -> None:
        self._drop([(event.actor, event.task)])

    def _gone(self, event: Event) -> None:
        prefix = f"{event.actor}/"
        self._drop([task for task in self._of_task if task[0].startswith(prefix)])
        self.states = {at: each for at, each in self.states.items() if not at[0].startswith(prefix)}

    def _drop(self, tasks: Iterable[tuple[str, str]]) -> None:
        for task in tasks:
            for place in self._of_task.pop(task, {}):
                del self._open[place]
