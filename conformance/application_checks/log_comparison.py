"""Two runs of an application compared by what their logs have: one without faults, one with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from streamproof.scenarios.kafka.application import RealRecord
from streamproof.scenarios.kafka.application_file import ApplicationFile, Output
from streamproof.scenarios.kafka.user_play import CHANGELOG

__all__ = ["Difference", "Logs", "compared", "differences"]

Logs = Mapping[str, Sequence[RealRecord]]
"""The committed records of each partition."""

Values = list[bytes | None]

MOST_SHOWN = 8
"""The most values of a key that a message has."""

LONGEST_VALUE = 60
"""The most characters of a value in a message."""


class Difference(NamedTuple):
    """What differs from a run without faults.

    Attributes:
        requirement: the promise that is broken.
        shape: the way in which it is broken.
        topic: where it shows.
        expected: what the run without faults has.
        found: what the run with faults has.
    """

    requirement: str
    shape: str
    topic: str
    expected: str
    found: str


def compared(file: ApplicationFile, logs: Logs) -> set[str]:
    """The requirements for which a run without faults has something to compare."""
    found = set()
    for output in file.outputs:
        if any(_of_topic(logs, output.topic)):
            found |= {"APP-001"} if file.exactly_once else {_at_least_once(output)}
            if output.ordered and file.exactly_once:
                found.add("APP-002")
    if file.compares_state and _rows(file, logs):
        found.add("APP-005")
    return found


def differences(file: ApplicationFile, expected: Logs, found: Logs) -> list[Difference]:
    """What breaks a promise of an application in a run with faults.

    Args:
        file: the application, with its claims.
        expected: the logs of a run without faults.
        found: the logs of a run with faults.
    """
    told: list[Difference] = []
    for output in file.outputs:
        before, after = (_by_key(logs, output.topic) for logs in (expected, found))
        for partition, key in sorted(before.keys() | after.keys()):
            values = before.get((partition, key), []), after.get((partition, key), [])
            broken = _broken(file, output, *values)
            if broken is not None:
                told.append(Difference(*broken, output.topic, *_words(partition, key, *values)))
    if file.compares_state:
        told += _state_differences(_rows(file, expected), _rows(file, found))
    return told


def _at_least_once(output: Output) -> str:
    return "APP-004" if output.table else "APP-003"


def _broken(
    file: ApplicationFile, output: Output, before: Values, after: Values
) -> tuple[str, str] | None:
    """The requirement that the values of a key break, and how; ``None`` if they are right."""
    lost, more = Counter(before) - Counter(after), Counter(after) - Counter(before)
    if not file.exactly_once:
        if output.table:
            return ("APP-004", "another-last-row") if before[-1:] != after[-1:] else None
        # What comes twice may come; what never comes is lost.
        return ("APP-003", "lost") if set(before) - set(after) else None
    if lost and more:
        return "APP-001", "other-values"
    if lost or more:
        return "APP-001", "lost" if lost else "repeated"
    if output.ordered and before != after:
        return "APP-002", "another-order"
    return None


def _of_topic(logs: Logs, topic: str) -> Iterator[tuple[str, Sequence[RealRecord]]]:
    for partition, records in logs.items():
        if partition.rpartition("-")[0] == topic:
            yield partition, records


def _by_key(logs: Logs, topic: str) -> dict[tuple[str, bytes], Values]:
    """The values of each key of a topic, in order."""
    found: dict[tuple[str, bytes], Values] = {}
    for partition, records in _of_topic(logs, topic):
        for each in records:
            found.setdefault((partition, each.key), []).append(each.value)
    return found


def _rows(file: ApplicationFile, logs: Logs) -> dict[tuple[str, bytes], bytes]:
    """The rows of all stores, from the changelogs."""
    outputs = {each.topic for each in file.outputs}
    rows: dict[tuple[str, bytes], bytes] = {}
    for partition, records in logs.items():
        topic = partition.rpartition("-")[0]
        left_out = any(topic.endswith(f"-{each}{CHANGELOG}") for each in file.state.leave_out)
        if topic in outputs or left_out:
            continue
        for each in records:
            if each.value is None:
                rows.pop((partition, each.key), None)
            else:
                rows[partition, each.key] = each.value
    return rows


def _state_differences(
    before: Mapping[tuple[str, bytes], bytes], after: Mapping[tuple[str, bytes], bytes]
) -> Iterator[Difference]:
    for partition, key in sorted(before.keys() | after.keys()):
        expected, found = before.get((partition, key)), after.get((partition, key))
        if expected != found:
            missing = "lost" if found is None else "unexpected"
            yield Difference(
                "APP-005",
                missing if None in (expected, found) else "another-row",
                partition.rpartition("-")[0],
                f"the row {_text(expected)} for the key {_text(key)} in {partition}",
                f"{_text(found)}",
            )


def _words(partition: str, key: bytes, before: Values, after: Values) -> tuple[str, str]:
    """The values of a key in both runs, from where they begin to differ."""
    same = next(
        (at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]),
        min(len(before), len(after)),
    )
    where = f"for the key {_text(key)} in {partition}, after {same} records that are as expected"
    return f"{_values(before[same:])} {where}", _values(after[same:])


def _values(values: Values) -> str:
    texts = [_text(each) for each in values]
    if not texts:
        return "no more"
    more = f" and {len(texts) - MOST_SHOWN} more" if len(texts) > MOST_SHOWN else ""
    return ", ".join(texts[:MOST_SHOWN]) + more


def _text(value: bytes | None) -> str:
    if value is None:
        return "no row"
    text = value.decode("utf-8", "backslashreplace")
    text = text if text.isprintable() else repr(value)
    return f"{text[:LONGEST_VALUE]}{'…' if len(text) > LONGEST_VALUE else ''}"
