"""A run as a Chrome trace, which Perfetto shows: https://ui.perfetto.dev, "Open trace file".

A process of the trace is an instance. A thread of the trace is a thread of the instance, or a task
on one, with a slice for each state of the task. Each event gets a microsecond of its own, in its
own millisecond or in the next free one. So slices are strictly nested, as Perfetto requires.

Source: the Trace Event Format.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from streamproof.scenarios.pictures.lanes import Item, Picture
from streamproof.sim.trace import Event

__all__ = ["render_perfetto"]

MICROSECONDS = 1_000
"""The microseconds in a millisecond: traces count microseconds, and events milliseconds."""

BROKERS = "brokers and coordinators"
"""The process for events outside all instances."""

_GONE = {"CREATED", "CLOSED"}
"""The states of a task without a slice."""

Entry = dict[str, Any]


def render_perfetto(picture: Picture) -> str:
    """The picture as JSON, with all events."""
    tracks = _Tracks(picture)
    for each in picture.items:
        tracks.see(each)
    tracks.end()
    run = picture.played
    about = {"name": picture.name, "digest": run.digest, "defects": list(run.defects)}
    if found := picture.violation:
        about["violation"] = f"{found.invariant} ({found.requirement}): {found.message}"
    return json.dumps(
        {"traceEvents": tracks.entries, "displayTimeUnit": "ms", "otherData": about},
        separators=(",", ":"),
    )


class _Tracks:
    """Makes the entries of a trace, event by event.

    Args:
        picture: the run to draw.

    Attributes:
        entries: the entries so far.
    """

    def __init__(self, picture: Picture) -> None:
        self.entries: list[Entry] = []
        self._found_at = picture.found_at
        # The numbers of the known processes by name, and of their threads by process and name.
        self._processes: dict[str, int] = {}
        self._threads: defaultdict[str, dict[str, int]] = defaultdict(dict)
        # The state of each task that has a slice, by process and track.
        self._states: dict[tuple[str, str], str] = {}
        self._now = -1
        self._leaves: defaultdict[int, list[int]] = defaultdict(list)
        self._comes: defaultdict[int, list[int]] = defaultdict(list)
        kinds = {each.event.sequence: each.event.kind for each in picture.items}
        flows = ("log.appended", "store.put", "task.processed", "store.restored")
        for number, arrow in enumerate(picture.arrows):
            if kinds.get(arrow.source) in flows and kinds.get(arrow.target) in flows:
                self._leaves[arrow.source].append(number)
                self._comes[arrow.target].append(number)

    def see(self, item: Item) -> None:
        """Add the entries of an event."""
        event = item.event
        self._now = max(event.time * MICROSECONDS, self._now + 1)
        process, thread = self._place(item)
        if event.kind == "task.state":
            self._change(process, thread, str(event.attributes.get("after", "?")))
        elif event.kind in {"instance.crashed", "instance.stopped"}:
            self._stop(event.actor)
        self._slice(item, process, thread)
        self._flows(event, process, thread)
        self._counters(event, process)
        if item.look.weight >= 3 or event.sequence == self._found_at:
            scope = "g" if event.sequence == self._found_at else "p"
            name = f"✗ {item.words}" if event.sequence == self._found_at else item.words
            self._add("i", name, process, thread, s=scope, cat=item.look.group)

    def end(self) -> None:
        """Close all open slices at the end of the run."""
        self._now += 1
        for process in list(self._processes):
            self._stop(process)

    def _place(self, item: Item) -> tuple[str, str]:
        """The process and the thread of an event."""
        event = item.event
        process, _, thread = event.actor.partition("/")
        if item.lane in {"log", "groups", "transactions", "clients", "world"}:
            return BROKERS, item.lane
        return process, f"task {event.task} on {thread or process}" if event.task else (
            thread or "process"
        )

    def _change(self, process: str, thread: str, after: str) -> None:
        """Record that a task enters another state."""
        place = (process, thread)
        before = self._states.pop(place, None)
        if before is not None:
            self._add("E", before, process, thread)
        if after not in _GONE:
            self._states[place] = after.lower()
            self._add("B", after.lower(), process, thread, cat="state")

    def _stop(self, process: str) -> None:
        """Record the end of a process: its slices end, and its memory counts as empty."""
        for place in [each for each in self._states if each[0] == process]:
            self._add("E", self._states.pop(place), *place)

    def _slice(self, item: Item, process: str, thread: str) -> None:
        event = item.event
        details = {"event": event.sequence, "kind": event.kind, "matters": item.matters}
        if event.partition:
            details |= {"partition": event.partition, "offset": event.offset}
        self._add(
            "X", item.words, process, thread, dur=1, cat=item.look.group or "other", args=details
        )

    def _flows(self, event: Event, process: str, thread: str) -> None:
        for number in self._comes[event.sequence]:
            self._add("f", "data", process, thread, id=number, bp="e", cat="flow")
        for number in self._leaves[event.sequence]:
            self._add("s", "data", process, thread, id=number, cat="flow")

    def _counters(self, event: Event, process: str) -> None:
        more = event.attributes
        name = f"{event.task} {event.partition}"
        if event.kind == "thread.staged":
            actor = event.actor.rpartition("/")[2]
            self._count(process, f"uncommitted bytes of {actor}", more.get("bytes"))
        elif event.kind == "thread.committed":
            actor = event.actor.rpartition("/")[2]
            self._count(process, f"uncommitted bytes of {actor}", 0)
        elif event.kind == "restore.batch":
            self._count(process, f"remaining of {name}", more.get("remaining"))
        elif event.kind == "restore.start":
            self._count(process, f"remaining of {name}", more.get("end", 0) - more.get("start", 0))
        elif event.kind in {"restore.end", "restore.suspended"}:
            self._count(process, f"remaining of {name}", 0)

    def _count(self, process: str, name: str, value: object) -> None:
        if isinstance(value, int):
            self._add("C", name, process, "process", args={"value": value})

    def _add(self, phase: str, name: str, process: str, thread: str, **more: Any) -> None:
        pid = self._processes.get(process)
        if pid is None:
            pid = self._processes[process] = len(self._processes) + 1
            self._name("process_name", pid, 0, process)
        threads = self._threads[process]
        tid = threads.get(thread)
        if tid is None:
            tid = threads[thread] = len(threads) + 1
            self._name("thread_name", pid, tid, thread)
        self.entries.append(
            {"ph": phase, "name": name, "pid": pid, "tid": tid, "ts": self._now, **more}
        )

    def _name(self, what: str, pid: int, tid: int, name: str) -> None:
        self.entries.append(
            {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}}
        )
