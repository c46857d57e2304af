"""Two runs side by side: the first difference, the differences after it, and their effect.

The events of each actor and task are aligned separately, and without their numbers, times and
offsets. So one more event, or one more record, does not make all later events different.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, is_dataclass
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple

from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.scenarios.run_metrics import MEASURES, Measure
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace import Event

__all__ = ["Comparison", "EventPair", "Measured", "OutputPair", "Setting", "compare"]

CONTEXT = 3
"""The number of events shown before the first difference."""

_SAME_BY = (
    "active",
    "after",
    "before",
    "closing",
    "commit",
    "inputs",
    "key",
    "reason",
    "standby",
    "store",
    "topic",
    "transactional_id",
    "value",
    "what",
)
"""Attributes that two events must share to count as the same step in both runs."""

_TELLING = ("rows", "total", "wipe", "waiting", "bytes", "leaks", "release")
"""Attributes that may differ between two events of the same step. Their differences are shown."""

_OPENINGS = ("store.opened", "store.found", "store.running")
"""Kinds whose offset is shown as well if it differs."""

_INTERNAL = ("-changelog-", "-repartition-")
"""What the names of an application's own topics contain."""

_What = tuple[str, ...]


class Setting(NamedTuple):
    """A setting that differs between the plans of two runs.

    Attributes:
        name: its name in the plan, as ``config.max_task_idle_ms``.
        first: its value in the first run.
        second: its value in the second run.
    """

    name: str
    first: str
    second: str


class EventPair(NamedTuple):
    """One step of both runs, or of one of them.

    Attributes:
        first: its event in the first run; ``None`` without one.
        second: its event in the second run; ``None`` without one.
    """

    first: Event | None
    second: Event | None

    @property
    def event(self) -> Event:
        """The event; the earlier one of two."""
        found = [each for each in self if each is not None]
        return min(found, key=lambda each: (each.time, each.sequence))


class Measured(NamedTuple):
    """A number that differs between two runs.

    Attributes:
        measure: the measure.
        first: its value in the first run.
        second: its value in the second run.
    """

    measure: Measure
    first: int
    second: int


class OutputPair(NamedTuple):
    """What the readers of an output get for one key, where it differs between two runs.

    Attributes:
        topic: the output.
        key: the key.
        first: its values in the first run, in order.
        second: its values in the second run, in order.
    """

    topic: str
    key: bytes
    first: tuple[bytes | None, ...]
    second: tuple[bytes | None, ...]


@dataclass(frozen=True)
class Comparison:
    """Two runs and their differences.

    Attributes:
        first: a run.
        second: another one.
        settings: the settings that differ between their plans.
        common: the number of equal events at the beginning.
        before: the last few of these events.
        parting: the first difference; ``None`` if the runs are equal.
        different: all differences from there on, in the order of time.
        outputs: the keys of outputs whose values differ.
        measured: the numbers that differ.
        kinds: by kind of event, its counts in both runs, where they differ.
    """

    first: RecordedRun
    second: RecordedRun
    settings: Sequence[Setting]
    common: int
    before: Sequence[EventPair]
    parting: EventPair | None
    different: Sequence[EventPair]
    outputs: Sequence[OutputPair]
    measured: Sequence[Measured]
    kinds: Sequence[tuple[str, int, int]]


def compare(first: RecordedRun, second: RecordedRun) -> Comparison:
    """Compare two runs.

    Args:
        first: a run, for example one with a defect.
        second: another run, for example the same one without the defect.
    """
    pairs = [EventPair(*each) for each in zip_longest(first.events, second.events)]
    common = next((index for index, pair in enumerate(pairs) if not _is_same(*pair)), len(pairs))
    different = sorted(_different(first.events[common:], second.events[common:]), key=_when)
    counts = [Counter(event.kind for event in run.events) for run in (first, second)]
    measured = [Measured(each, each.of(first.events), each.of(second.events)) for each in MEASURES]
    return Comparison(
        first,
        second,
        list(_settings(first, second)),
        common,
        pairs[max(common - CONTEXT, 0) : common],
        _parting(pairs[common], different) if common < len(pairs) else None,
        different,
        list(_outputs(first, second)),
        [each for each in measured if each.first != each.second],
        [
            (kind, counts[0][kind], counts[1][kind])
            for kind in sorted(counts[0] | counts[1])
            if counts[0][kind] != counts[1][kind]
        ],
    )


def _is_same(first: Event | None, second: Event | None) -> bool:
    """Whether two runs have the same event at one place, apart from the settings."""
    if first is None or second is None:
        return False
    if first.kind == second.kind == "application.started":
        return True
    return first == second


def _parting(pair: EventPair, different: Iterable[EventPair]) -> EventPair:
    """The first difference: of two events at the same place, those that the other run lacks."""
    first, second = pair
    if first is None or second is None or _what(first) == _what(second):
        return pair
    alone = [each for row in different if None in row for each in row]
    found = EventPair(first if first in alone else None, second if second in alone else None)
    return pair if found == (None, None) else found


def _when(row: EventPair) -> tuple[int, bool, int]:
    return row.event.time, row.first is None, row.event.sequence


# Differences between the plans.


def _settings(first: RecordedRun, second: RecordedRun) -> Iterator[Setting]:
    plans = _told(first), _told(second)
    for name in sorted(plans[0].keys() | plans[1].keys()):
        one, other = (plan.get(name, "") for plan in plans)
        if one != other:
            yield Setting(name, one, other)


def _told(run: RecordedRun) -> dict[str, str]:
    """The settings of a run, from its plan or else from its events."""
    if run.plan is None:
        return {name: str(value) for name, value in run.settings.items()}
    return dict(_flat("", run.plan))


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    """The settings within another one, by their full names."""
    for each in fields(value):
        name, found = f"{prefix}{each.name}", getattr(value, each.name)
        if is_dataclass(found):
            yield from _flat(f"{name}.", found)
        else:
            is_list = isinstance(found, tuple)
            yield name, ", ".join(map(str, found)) if is_list else str(found)


# Differences between the outputs.


def _outputs(first: RecordedRun, second: RecordedRun) -> Iterator[OutputPair]:
    ones, others = _written(first), _written(second)
    for topic, key in sorted(ones.keys() | others.keys()):
        one, other = (tuple(each.get((topic, key), ())) for each in (ones, others))
        if one != other:
            yield OutputPair(topic, key, one, other)


def _written(run: RecordedRun) -> dict[tuple[str, bytes], list[bytes | None]]:
    """What readers of the outputs get, by output and key: no input, and no topic of its own."""
    history = LogHistory(exactly_once=run.exactly_once)
    inputs = set()
    for event in run.events:
        history.see(event)
        if event.kind == "task.processed":
            inputs.add(event.partition)
    found: defaultdict[tuple[str, bytes], list[bytes | None]] = defaultdict(list)
    for partition in sorted(history.logs):
        if partition not in inputs and not any(each in partition for each in _INTERNAL):
            for record in history.visible(partition):
                found[partition.rpartition("-")[0], record.key].append(record.value)
    return found


# Differences between the events.


def _different(first: Iterable[Event], second: Iterable[Event]) -> Iterator[EventPair]:
    """The differences, lane by lane."""
    lanes: defaultdict[tuple[str, str], tuple[list[Event], list[Event]]]
    lanes = defaultdict(lambda: ([], []))
    for index, events in enumerate((first, second)):
        for event in events:
            if event.kind != "updater.metrics":
                lanes[event.actor, event.task or event.partition][index].append(event)
    for one, other in lanes.values():
        yield from _different_in_lane(one, other)


def _different_in_lane(first: Sequence[Event], second: Sequence[Event]) -> Iterator[EventPair]:
    matched = _matched([_what(each) for each in first], [_what(each) for each in second])
    yield from (EventPair(each, None) for index, each in enumerate(first) if index not in matched)
    taken = set(matched.values())
    yield from (EventPair(None, each) for index, each in enumerate(second) if index not in taken)
    for index, other in matched.items():
        if _told_by(first[index]) != _told_by(second[other]):
            yield EventPair(first[index], second[other])


def _what(event: Event) -> _What:
    """The step of an event: the event without its time and offset."""
    more = event.attributes
    told = (repr(more[name]) for name in _SAME_BY if name in more)
    return event.kind, event.task, event.partition, *told


def _matched(first: Sequence[_What], second: Sequence[_What]) -> dict[int, int]:
    """The events of a lane that are the same step in both runs, by their places, in order."""
    found: dict[int, int] = {}
    spans = [(0, len(first), 0, len(second))]
    while spans:
        begin, end, other_begin, other_end = spans.pop()
        # Most often one run has one event more, and all others match.
        while begin < end and other_begin < other_end and first[begin] == second[other_begin]:
            found[begin] = other_begin
            begin, other_begin = begin + 1, other_begin + 1
        while begin < end and other_begin < other_end and first[end - 1] == second[other_end - 1]:
            end, other_end = end - 1, other_end - 1
            found[end] = other_end
        pairs = _anchors(first[begin:end], second[other_begin:other_end])
        anchors = [(begin + index, other_begin + other) for index, other in pairs]
        found.update(anchors)
        # The events between two anchors are matched separately.
        borders = [(begin - 1, other_begin - 1), *anchors, (end, other_end)]
        for (at, other), (next_at, next_other) in pairwise(borders):
            if anchors and at + 1 < next_at and other + 1 < next_other:
                spans.append((at + 1, next_at, other + 1, next_other))
    return found


def _anchors(first: Sequence[_What], second: Sequence[_What]) -> list[tuple[int, int]]:
    """Places at which both runs have the same step, in order.

    A step that both have equally often is the surest: the n-th is matched with the n-th. Only if
    no such step exists, the same is done with all common steps.
    """
    counts = Counter(first), Counter(second)
    sure = {what for what, count in counts[0].items() if counts[1][what] == count}
    sure = sure or counts[0].keys() & counts[1].keys()
    places = {label: place for place, label in _labels(second, sure)}
    return _longest_chain(
        [(place, places[label]) for place, label in _labels(first, sure) if label in places]
    )


def _labels(
    events: Sequence[_What], wanted: AbstractSet[_What]
) -> Iterator[tuple[int, tuple[_What, int]]]:
    """The place of each wanted event, and its count among the events of the same step."""
    seen: Counter[_What] = Counter()
    for place, what in enumerate(events):
        if what in wanted:
            seen[what] += 1
            yield place, (what, seen[what])


def _longest_chain(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest chain of pairs that are in the same order on both sides, in n log n steps.

    Args:
        pairs: in the order of their first numbers.
    """
    # By the length of a chain less one: the least end of such a chain, and the pair of that end.
    ends: list[int] = []
    tails: list[int] = []
    # For each pair, the one before it in the longest chain that ends with it.
    before: list[int] = []
    for index, (_, other) in enumerate(pairs):
        length = bisect_left(ends, other)
        before.append(tails[length - 1] if length else -1)
        ends[length : length + 1] = [other]
        tails[length : length + 1] = [index]
    chain = []
    at = tails[-1] if tails else -1
    while at >= 0:
        chain.append(pairs[at])
        at = before[at]
    return chain[::-1]


def _told_by(event: Event) -> list[Any]:
    """The values that are shown where they differ between two events of the same step."""
    told = [event.attributes.get(name) for name in _TELLING]
    return [*told, event.offset] if event.kind in _OPENINGS else told
