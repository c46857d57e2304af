"""Two runs side by side: where they part, what is different from there on, and what came of it.

The events of each actor and task are aligned apart from those of the others, and without their
numbers, times and offsets: one more event, or one more record, makes nothing different that
follows it.
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
from streamproof.sim.trace import Event

__all__ = ["Comparison", "EventPair", "Measured", "Setting", "compare"]

CONTEXT = 3
"""So many events before the first difference are shown."""

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
"""Attributes by which two events are the same thing that happens."""

_TELLING = ("rows", "total", "wipe", "waiting", "bytes", "leaks", "release")
"""Attributes that may be different in two events of the same thing, and are worth a look then."""

_OPENINGS = ("store.opened", "store.found", "store.running")
"""Events whose offset is worth a look as well."""

_What = tuple[str, ...]


class Setting(NamedTuple):
    """Something that is different in the plans of two runs.

    Attributes:
        name: as in the plan: ``config.max_task_idle_ms``.
        first: what it is in the first run.
        second: what it is in the second run.
    """

    name: str
    first: str
    second: str


class EventPair(NamedTuple):
    """What happens in both runs, or in one of them.

    Attributes:
        first: in the first run; ``None`` if it does not happen there.
        second: in the second run; ``None`` if it does not happen there.
    """

    first: Event | None
    second: Event | None

    @property
    def event(self) -> Event:
        """One of them, the earlier one if there are two."""
        found = [each for each in self if each is not None]
        return min(found, key=lambda each: (each.time, each.sequence))


class Measured(NamedTuple):
    """A number that is different.

    Attributes:
        measure: what was counted.
        first: in the first run.
        second: in the second run.
    """

    measure: Measure
    first: int
    second: int


@dataclass(frozen=True)
class Comparison:
    """Two runs, and what is different.

    Attributes:
        first: a run.
        second: another one.
        settings: what is different in their plans.
        common: how many events are the same at their beginning.
        before: the last few of these.
        parting: the first difference; ``None`` if there is none.
        different: all that is different from there on, in the order of time.
        measured: the numbers that are different.
        kinds: of each kind of event of which one has more, how many each has.
    """

    first: RecordedRun
    second: RecordedRun
    settings: Sequence[Setting]
    common: int
    before: Sequence[EventPair]
    parting: EventPair | None
    different: Sequence[EventPair]
    measured: Sequence[Measured]
    kinds: Sequence[tuple[str, int, int]]


def compare(first: RecordedRun, second: RecordedRun) -> Comparison:
    """Two runs side by side.

    Args:
        first: a run, as one with a defect.
        second: another one, as the same without it.
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
        [each for each in measured if each.first != each.second],
        [
            (kind, counts[0][kind], counts[1][kind])
            for kind in sorted(counts[0] | counts[1])
            if counts[0][kind] != counts[1][kind]
        ],
    )


def _is_same(first: Event | None, second: Event | None) -> bool:
    """Whether two runs are the same at one place; the settings that the first event tells aside."""
    if first is None or second is None:
        return False
    if first.kind == second.kind == "application.started":
        return True
    return first == second


def _parting(pair: EventPair, different: Iterable[EventPair]) -> EventPair:
    """The first difference: what of two events at the same place the other run does not have."""
    first, second = pair
    if first is None or second is None or _what(first) == _what(second):
        return pair
    alone = [each for row in different if None in row for each in row]
    found = EventPair(first if first in alone else None, second if second in alone else None)
    return pair if found == (None, None) else found


def _when(row: EventPair) -> tuple[int, bool, int]:
    return row.event.time, row.first is None, row.event.sequence


# What is different in the plans.


def _settings(first: RecordedRun, second: RecordedRun) -> Iterator[Setting]:
    plans = _told(first), _told(second)
    for name in sorted(plans[0].keys() | plans[1].keys()):
        one, other = (plan.get(name, "") for plan in plans)
        if one != other:
            yield Setting(name, one, other)


def _told(run: RecordedRun) -> dict[str, str]:
    """The settings of a run: of its plan, or else those that its events tell."""
    if run.plan is None:
        return {name: str(value) for name, value in run.settings.items()}
    return dict(_flat("", run.plan))


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    """The settings that are in another one, by their full names."""
    for each in fields(value):
        name, found = f"{prefix}{each.name}", getattr(value, each.name)
        if is_dataclass(found):
            yield from _flat(f"{name}.", found)
        else:
            is_list = isinstance(found, tuple)
            yield name, ", ".join(map(str, found)) if is_list else str(found)


# What is different in the events.


def _different(first: Iterable[Event], second: Iterable[Event]) -> Iterator[EventPair]:
    """What is different, lane by lane."""
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
    """What happens, whenever that is, and at whatever offset."""
    more = event.attributes
    told = (repr(more[name]) for name in _SAME_BY if name in more)
    return event.kind, event.task, event.partition, *told


def _matched(first: Sequence[_What], second: Sequence[_What]) -> dict[int, int]:
    """Which events of a lane are the same thing, by their places; both are in the same order."""
    found: dict[int, int] = {}
    spans = [(0, len(first), 0, len(second))]
    while spans:
        begin, end, other_begin, other_end = spans.pop()
        # Most often there is one more, or one less, and nothing else to find.
        while begin < end and other_begin < other_end and first[begin] == second[other_begin]:
            found[begin] = other_begin
            begin, other_begin = begin + 1, other_begin + 1
        while begin < end and other_begin < other_end and first[end - 1] == second[other_end - 1]:
            end, other_end = end - 1, other_end - 1
            found[end] = other_end
        pairs = _anchors(first[begin:end], second[other_begin:other_end])
        anchors = [(begin + index, other_begin + other) for index, other in pairs]
        found.update(anchors)
        # What is between two of them is looked at anew, by itself.
        borders = [(begin - 1, other_begin - 1), *anchors, (end, other_end)]
        for (at, other), (next_at, next_other) in pairwise(borders):
            if anchors and at + 1 < next_at and other + 1 < next_other:
                spans.append((at + 1, next_at, other + 1, next_other))
    return found


def _anchors(first: Sequence[_What], second: Sequence[_What]) -> list[tuple[int, int]]:
    """Places at which both have the same thing, in order.

    What both have equally often is the surest: the n-th is held against the n-th. Only if there is
    no such thing, that is done with all.
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
    """The place of each event that is wanted, and the how manieth of its like it is."""
    seen: Counter[_What] = Counter()
    for place, what in enumerate(events):
        if what in wanted:
            seen[what] += 1
            yield place, (what, seen[what])


def _longest_chain(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The most pairs that are in the same order on both sides, in n log n steps.

    Args:
        pairs: in the order of their first numbers.
    """
    # By the length of a chain less one: the least end of such a chain, and the pair that it is of.
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
    """What is worth a look where it is not the same in two events of the same thing."""
    told = [event.attributes.get(name) for name in _TELLING]
    return [*told, event.offset] if event.kind in _OPENINGS else told
