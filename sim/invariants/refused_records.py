"""Records that cannot be processed: left out if the handler says so, once, with a dead letter.

The log tells which records these are: nobody believes the reason that the runtime gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from streamproof.sim.decisions.refusals import refusal
from streamproof.sim.invariants.invariant import Invariant, Observer
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["DeadLettersAreComplete", "OnlyRefusedRecordsAreDropped"]

_HANDLED = {
    "default_timestamp_extractor": ["continue"],
    "deserialization_exception_handler": ["continue"],
    "processing_exception_handler": ["continue"],
}


class OnlyRefusedRecordsAreDropped(Invariant):
    """A record is left out if it cannot be processed and its handler says so, and only then."""

    name = "a record is left out only if it cannot be processed and its handler says so"
    requirement = "TASK-077"
    situation = "a task came to a record that it could not process"
    drawn_from: ClassVar = {"settings": _HANDLED, "workload": {"unprocessable": [0.2]}}

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._handlers: Mapping[str, str] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {
            "application.started": self._start,
            "task.processed": self._process,
            "record.dropped": self._drop,
        }

    def _start(self, event: Event) -> Iterator[str]:
        self._handlers = event.attributes["handlers"]
        yield from ()

    def _reason(self, event: Event) -> str:
        record = next(iter(self.history.log(event.partition).since(event.offset)), None)
        if record is None or record.offset != event.offset:
            return ""
        return refusal(record.timestamp, record.value)

    def _process(self, event: Event) -> Iterable[str]:
        # Most worlds have no such records, and most handlers say to fail.
        if "continue" not in self._handlers.values():
            return ()
        reason = self._reason(event)
        if not reason:
            return ()
        where = f"{event.partition}@{event.offset}"
        return [f"{event.task} processes {where}, which cannot be processed: {reason}"]

    def _drop(self, event: Event) -> Iterator[str]:
        where, reason = f"{event.partition}@{event.offset}", self._reason(event)
        self.tried = True
        if not reason:
            yield f"{event.task} leaves {where} out, which could be processed"
        elif self._handlers[reason] != "continue":
            yield f"{event.task} leaves {where} out, although the handler for {reason} says to fail"


class DeadLettersAreComplete(Invariant):
    """Each record that was left out is in the topic of dead letters: under exactly-once, once."""

    name = "each record that was left out has a dead letter, under exactly-once a single one"
    requirement = "TASK-078"
    situation = "a record was left out where there is a topic of dead letters"
    drawn_from: ClassVar = {
        "settings": {**_HANDLED, "errors_dead_letter_queue_topic_name": ["dead-letters"]},
        "workload": {"unprocessable": [0.2]},
    }

    def __init__(self, history: LogHistory) -> None:
        super().__init__(history)
        self._topic = ""
        self._dropped: dict[tuple[str, int], None] = {}

    @property
    def observers(self) -> Mapping[str, Observer]:
        return {"application.started": self._start, "record.dropped": self._drop}

    def _start(self, event: Event) -> Iterator[str]:
        self._topic = event.attributes["handlers"].get("dead_letters", "")
        yield from ()

    def _drop(self, event: Event) -> Iterator[str]:
        self._dropped[event.partition, event.offset] = None
        yield from ()

    def at_end(self) -> Iterator[str]:
        if not self._topic:
            return
        letters = Counter(
            (record.key, record.value) for record in self.history.visible(f"{self._topic}-0")
        )
        # Two tombstones of a key have the same dead letter.
        dropped = Counter(
            (record.key, record.value)
            for partition in sorted({partition for partition, _ in self._dropped})
            for record in self.history.visible(partition)
            if (partition, record.offset) in self._dropped
            # What was deleted before its offset was committed has no letter that counts.
            and not self.history.forgotten.is_skipped(partition, record.offset)
        )
        self.tried = bool(dropped)
        for letter, count in sorted(dropped.items(), key=repr):
            found = letters[letter]
            if found < count or (found > count and self.history.exactly_once):
                key, value = letter
                yield f"{key!r} = {value!r} was left out {count} times, but has {found} letters"
