"""A violation in plain words, with the rows and offsets that show it.

The state of the logs at that moment is folded from the events up to it, as for invariants.
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
"""The most differing rows that are shown."""

MOST_PARTITIONS = 4
"""The most partitions whose end is shown."""

MOST_READERS = 4
"""The most readers of a named record that are shown."""

MOST_CHARACTERS = 600
"""The most characters of a message that are shown. A message may list hundreds of records."""

Rows = dict[bytes, bytes | None]


class Difference(NamedTuple):
    """A row in which a store and its changelog differ.

    Attributes:
        key: the key of the row.
        held: the value in the store, and its record.
        told: the value in the changelog, and its record.
    """

    key: str
    held: str
    told: str


class ExplainedViolation(NamedTuple):
    """A violation with the facts that explain it.

    Attributes:
        requirement: the broken requirement.
        invariant: the broken invariant, as a sentence without its end.
        message: the message of the violation.
        where: the event that broke it, in a few words.
        facts: further facts, one sentence each.
        differences: the rows in which the store and its changelog differ.
        others: the number of other violations.
    """

    requirement: str
    invariant: str
    message: str
    where: str
    facts: tuple[str, ...]
    differences: tuple[Difference, ...]
    others: int


def explain(played: RecordedRun) -> ExplainedViolation | None:
    """The first violation of a run; ``None`` without one."""
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
    """The tasks that processed the input records that a violation names."""
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
    """The rows in which the store differs from its changelog, if the event has the rows."""
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
    """The rows by the changelog, up to the offset that the store has to reach."""
    rows: Rows = {}
    for record in history.visible(event.partition):
        # A found or closed store has to match its offset, a running one the end of its changelog.
        if event.kind != "store.running" and record.offset > event.offset:
            break
        rows[record.key] = record.value
    return {key: value for key, value in rows.items() if value is not None}


def _from(log: Log, key: bytes, value: bytes | None) -> str:
    """A value, and the last record with it, if there is one."""
    words = visible(plain(value))
    for record in reversed(log.records):
        if record.key == key and record.value == value:
            undecided = any(record.offset in each for each in log.undecided.values())
            fate = "undecided " if undecided else "aborted " if record.offset in log.aborted else ""
            return f"{words} (the {fate}record at {record.offset})"
    return words
