"""What was found wrong, in plain words, with the rows and offsets that show it.

What the logs say at that moment is told by the events up to it, as it is told to invariants.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from streamproof.scenarios.event_words import harmless, literals, visible
from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.sim.event_kinds.wording import plain
from streamproof.sim.invariants import InvariantViolation
from streamproof.sim.invariants.log_history import Log, LogHistory
from streamproof.sim.trace import Event

__all__ = ["Difference", "ExplainedViolation", "explain"]

MOST_DIFFERENCES = 5
"""So many rows that differ are shown."""

MOST_PARTITIONS = 4
"""Of so many partitions it is shown where they end."""

MOST_READERS = 4
"""So many of those who processed a record that is named are shown."""

MOST_CHARACTERS = 600
"""So much is shown of what an invariant says: it may list hundreds of records."""

Rows = dict[bytes, bytes | None]


class Difference(NamedTuple):
    """A row in which a store and its changelog differ.

    Attributes:
        key: of the row.
        held: what the store has, and from which record.
        told: what the changelog says, and in which record.
    """

    key: str
    held: str
    told: str


class ExplainedViolation(NamedTuple):
    """What did not hold.

    Attributes:
        requirement: the promise that is broken.
        invariant: what must hold, as a sentence without its end.
        message: what is wrong.
        where: the event by which it was found, in a few words.
        facts: what else there is to know, a sentence each.
        differences: the rows in which the store that it is about and its changelog differ.
        others: how many other violations there were.
    """

    requirement: str
    invariant: str
    message: str
    where: str
    facts: tuple[str, ...]
    differences: tuple[Difference, ...]
    others: int


def explain(played: RecordedRun) -> ExplainedViolation | None:
    """The first thing that did not hold in a run; ``None`` if everything held."""
    if not played.violations:
        return None
    found = played.violations[0]
    history = LogHistory(exactly_once=played.exactly_once)
    for each in played.events:
        if found.event is not None and each.sequence > found.event.sequence:
            break
        history.see(each)
    message = visible(found.message)
    if len(message) > MOST_CHARACTERS:
        message = f"{message[: MOST_CHARACTERS - 1]}…"
    event = found.event
    return ExplainedViolation(
        harmless(found.requirement),
        harmless(found.invariant),
        message,
        "at the end of the run"
        if event is None
        else f"by event #{event.sequence}, {harmless(event.kind)} at {event.time:,} ms",
        (*_facts(found, history), *_readers(played, found, history)),
        tuple(_differences(found, history)),
        len(played.violations) - 1,
    )


def _facts(found: InvariantViolation, history: LogHistory) -> Iterator[str]:
    event = found.event
    rows = event.attributes.get("rows") if event else None
    if event is not None and isinstance(rows, list):
        offset = f"is at offset {event.offset}" if event.offset >= 0 else "has no offset"
        count = f"{len(rows)} row{'s' if len(rows) != 1 else ''}"
        yield visible(f"The store has {count} and {offset}.")
    for partition in _partitions(found, history):
        log = history.log(partition)
        words = [f"{partition} ends at {log.end}"]
        if partition in history.committed:
            words.append(f"is committed up to {history.committed[partition]}")
        undecided = sum(map(len, log.undecided.values()))
        for size, fate in ((len(log.aborted), "aborted"), (undecided, "undecided")):
            if size:
                words.append(f"has {size} {fate} record{'s' if size != 1 else ''}")
        yield visible(f"{', '.join(words)}.")


def _readers(played: RecordedRun, found: InvariantViolation, history: LogHistory) -> Iterator[str]:
    """Who processed the records of inputs that a violation names."""
    partitions = _partitions(found, history)
    offsets = {int(each) for each in _words(found) if each.isdecimal()}
    events = [
        each
        for each in played.events
        if each.kind == "task.processed"
        and each.partition in partitions
        and each.offset in offsets
        and (found.event is None or each.sequence <= found.event.sequence)
    ]
    for each in events[-MOST_READERS:]:
        yield visible(
            f"{each.partition} @{each.offset} was processed by {each.actor}, in event "
            f"#{each.sequence} at {each.time:,} ms."
        )


def _words(found: InvariantViolation) -> set[str]:
    """The words of a message; the name of a partition or a task is one word."""
    return set(re.findall(r"[\w.-]+", found.message))


def _partitions(found: InvariantViolation, history: LogHistory) -> list[str]:
    """The partitions that a violation is about."""
    words = _words(found)
    if found.event is not None:
        words.add(found.event.partition)
    return [each for each in history.logs if each in words][:MOST_PARTITIONS]


def _differences(found: InvariantViolation, history: LogHistory) -> Iterator[Difference]:
    """Where the store differs from its changelog, as far as the event says what is in it."""
    event = found.event
    if event is None or not isinstance(event.attributes.get("rows"), list):
        return
    held: Rows = {row[0]: row[1] for row in event.attributes["rows"]}
    said = _said(event, history)
    wrong = [key for key in {**said, **held} if held.get(key) != said.get(key)]
    named = literals(found.message)
    wrong.sort(key=lambda key: key not in named)
    log = history.log(event.partition)
    for key in wrong[:MOST_DIFFERENCES]:
        yield Difference(
            visible(plain(key)), _from(log, key, held.get(key)), _from(log, key, said.get(key))
        )


def _said(event: Event, history: LogHistory) -> Rows:
    """What the changelog says, up to where the store has to be."""
    rows: Rows = {}
    for record in history.visible(event.partition):
        # What is found or closed has to be as new as its offset; what runs, as its changelog.
        if event.kind != "store.running" and record.offset > event.offset:
            break
        rows[record.key] = record.value
    return {key: value for key, value in rows.items() if value is not None}


def _from(log: Log, key: bytes, value: bytes | None) -> str:
    """A value, and the last record that says so, if there is one."""
    words = visible(plain(value))
    for record in reversed(log.records):
        if record.key == key and record.value == value:
            undecided = any(record.offset in each for each in log.undecided.values())
            fate = "undecided " if undecided else "aborted " if record.offset in log.aborted else ""
            return f"{words} (the {fate}record at {record.offset})"
    return words
