"""A comparison of two runs as text of 80 columns or more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import NamedTuple

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from streamproof.scenarios.comparison import Comparison, EventPair, Measured
from streamproof.scenarios.event_words import look_of, told
from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.scenarios.state.diff import counted
from streamproof.sim.event_kinds.wording import plain
from streamproof.sim.run_state import process_of
from streamproof.sim.trace import Event

__all__ = [
    "EventRow",
    "differing_events",
    "measured_row",
    "outcome_of",
    "output_rows",
    "render_comparison",
    "sentences",
]

MAX_ROWS = 40
"""The most differences that are shown."""

MAX_OUTPUTS = 12
"""The most keys of outputs that are shown."""

MAX_KINDS = 12
"""The most kinds of events whose counts are shown."""

WEIGHTS = (1, 2, 3)
"""The weights of differences: details, steps, turning points. Light ones are left out if too many
differences remain."""

_PARTING = "▶"

_MAX_KEYS = 3
"""The most differing rows of a store that are shown."""


def render_comparison(comparison: Comparison, width: int = 120) -> str:
    """Two runs side by side, as lines of text.

    Args:
        comparison: the comparison of the runs.
        width: the number of columns, at least 60.
    """
    file = StringIO()
    console = Console(file=file, width=width, color_system=None, force_terminal=False)
    for part in _parts(comparison):
        console.print(part)
    lines = (line.rstrip() for line in file.getvalue().splitlines())
    return "\n".join(lines) + "\n"


def _parts(comparison: Comparison) -> Iterator[RenderableType]:
    yield _runs(comparison)
    if comparison.settings:
        yield _heading("Their plans differ in:")
        yield _table(["setting", "first", "second"], comparison.settings)
    yield from _events(comparison)
    if comparison.parting is None:
        return
    yield _heading("Effect:")
    for sentence in sentences(comparison):
        yield Text(sentence)
    if comparison.outputs:
        yield _heading("Outputs that differ:")
        yield _table(["output", "key", "first", "second"], output_rows(comparison))
        if len(comparison.outputs) > MAX_OUTPUTS:
            yield Text(f"and {counted(len(comparison.outputs) - MAX_OUTPUTS, 'more key')}")
    if comparison.measured:
        yield _heading("In numbers:")
        yield _table(["", "first", "second", "more in"], map(measured_row, comparison.measured))
    if comparison.kinds:
        yield _heading("By kind of event:")
        kinds = sorted(comparison.kinds, key=lambda each: (-abs(each[1] - each[2]), each[0]))
        yield _table(
            ["kind", "first", "second"],
            [(kind, f"{one:,}", f"{other:,}") for kind, one, other in kinds[:MAX_KINDS]],
        )
        if len(kinds) > MAX_KINDS:
            yield Text(f"and {counted(len(kinds) - MAX_KINDS, 'more kind')}")


def _heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for each in columns:
        table.add_column(each, overflow="fold")
    for row in rows:
        table.add_row(*(Text(each) for each in row))
    return table


# The runs as a whole.


def _runs(comparison: Comparison) -> Table:
    runs = comparison.first, comparison.second
    table = _table(
        ["", "first", "second"],
        [
            ["run", *(each.name for each in runs)],
            ["defects", *(", ".join(each.defects) or "none" for each in runs)],
            ["events", *(f"{len(each.events):,}" for each in runs)],
            ["outcome", *map(outcome_of, runs)],
            ["digest", *(each.digest[:12] for each in runs)],
        ],
    )
    for column in table.columns[1:]:
        column.ratio = 1
    return table


def outcome_of(played: RecordedRun) -> str:
    """What came of a run, in a sentence without its end."""
    if not played.violations:
        return "all promises are kept"
    first = played.violations[0]
    return f"{first.requirement} is broken: {first.message}"


# Their events.


def _events(comparison: Comparison) -> Iterator[RenderableType]:
    if comparison.parting is None:
        yield _heading("The runs are the same, event by event.")
        return
    yield _heading(f"The first {counted(comparison.common, 'event')} are the same. Then:")
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("", width=1)
    table.add_column("ms", justify="right")
    table.add_column("first", ratio=1, overflow="fold")
    table.add_column("second", ratio=1, overflow="fold")
    rows, more = differing_events(comparison)
    for row in rows:
        table.add_row(row.sign, row.ms, Text(row.first), Text(row.second))
        if row.sign == _PARTING:
            table.add_section()
    yield table
    yield from map(Text, more)
    yield Text("= in both  ▶ first difference  < only first  > only second  ≠ differs")


class EventRow(NamedTuple):
    """One step of both runs, in words.

    Attributes:
        sign: whether both runs have it, or which one.
        ms: its virtual time.
        first: its words in the first run; empty if only the other run has it.
        second: its words in the second run.
    """

    sign: str
    ms: str
    first: str
    second: str


def differing_events(comparison: Comparison) -> tuple[list[EventRow], list[str]]:
    """The steps around and after the first difference, and what was left out of them."""
    if comparison.parting is None:
        return [], []
    names = _store_names(comparison)
    end = min(
        run.events[-1].time if run.events else 0 for run in (comparison.first, comparison.second)
    )
    new = [row for row in comparison.different if not _is_told_by(row, comparison.parting)]
    rest = [row for row in new if row.event.time <= end]
    shown = _shown(rest)
    rows = [
        *(_row("=", each, names) for each in comparison.before),
        _row(_PARTING, comparison.parting, names),
        *(_row(_sign(each), each, names) for each in shown[:MAX_ROWS]),
    ]
    more = []
    if len(shown) > MAX_ROWS:
        more.append(f"and {counted(len(shown) - MAX_ROWS, 'more difference')} of this weight")
    if len(shown) < len(rest):
        more.append(f"{counted(len(rest) - len(shown), 'detail')} left out")
    if len(rest) < len(new):
        after = counted(len(new) - len(rest), "event")
        more.append(f"{after} left out: one run goes on after the other has ended at {end:,} ms")
    return rows, more


def _shown(rows: Sequence[EventPair]) -> Sequence[EventPair]:
    """The weightiest differences, and as many of the others as fit."""
    found: Sequence[EventPair] = rows
    for weight in WEIGHTS:
        heavy = [row for row in rows if look_of(row.event).weight >= weight]
        found = heavy or found
        if len(found) <= MAX_ROWS:
            break
    return found


def _is_told_by(row: EventPair, parting: EventPair) -> bool:
    return all(each is None or each in parting for each in row)


def _sign(row: EventPair) -> str:
    if row.first is None:
        return ">"
    return "<" if row.second is None else "≠"


def _store_names(comparison: Comparison) -> dict[str, str]:
    """The stores, by changelog."""
    return {
        event.partition: event.attributes["store"]
        for run in (comparison.first, comparison.second)
        for event in run.events
        if event.kind == "store.opened"
    }


def _row(sign: str, row: EventPair, names: Mapping[str, str]) -> EventRow:
    first, second = row
    cells = _cell(first, second, names), _cell(second, first, names)
    return EventRow(sign, f"{row.event.time:,}", *cells)


def _cell(event: Event | None, other: Event | None, names: Mapping[str, str]) -> str:
    """The words of an event, and where it differs from that of the other run."""
    if event is None:
        return ""
    told_of = told(event, names.get(event.partition, ""))
    process = process_of(event.actor)
    words = told_of if told_of.startswith(process) else f"{process}: {told_of}"
    if other is None or other.kind != event.kind:
        return words
    more = list(_differing_rows(event, other))
    if not more and told_of == told(other, names.get(other.partition, "")):
        more = list(_differing_attributes(event, other))
    return f"{words}; {', '.join(more)}" if more else words


def _differing_rows(event: Event, other: Event) -> Iterator[str]:
    """The rows of a store that differ from those of the other run."""
    if "rows" in event.attributes:
        rows, others = (dict(each.attributes["rows"]) for each in (event, other))
        keys = [key for key in sorted(rows | others) if rows.get(key) != others.get(key)]
        yield from (f"{plain(key)} = {plain(rows.get(key))}" for key in keys[:_MAX_KEYS])
        if len(keys) > _MAX_KEYS:
            yield "…"


def _differing_attributes(event: Event, other: Event) -> Iterator[str]:
    """The other differences, where both events have the same words."""
    if event.time != other.time:
        yield f"at {event.time:,} ms"
    for name, value in event.attributes.items():
        if other.attributes.get(name) != value:
            yield f"{name}: {plain(value)}"


# The effect.


def measured_row(each: Measured) -> tuple[str, str, str, str]:
    """A number that differs: its name, its values, and which run has more."""
    unit = " ms" if each.measure.is_time else ""
    more = abs(each.first - each.second)
    which = "first" if each.first > each.second else "second"
    return (
        each.measure.name,
        f"{each.first:,}{unit}",
        f"{each.second:,}{unit}",
        f"{which}, by {more:,}{unit}",
    )


def sentences(comparison: Comparison) -> Iterator[str]:
    """The effect of the differences, in words."""
    broken = [
        sorted({each.requirement for each in run.violations})
        for run in (comparison.first, comparison.second)
    ]
    if broken[0] == broken[1]:
        yield f"Both runs {'break ' + _and(broken[0]) if broken[0] else 'keep all promises'}."
    else:
        yield f"The first run {_kept(broken[0])}, and the second {_kept(broken[1])}."
    if not comparison.outputs:
        yield "Readers of the outputs get the same from both."
    for which, sign in (("first", 1), ("second", -1)):
        more = [
            _more(each) for each in comparison.measured if sign * (each.first - each.second) > 0
        ]
        if more:
            yield f"The {which} has {_and(more)}."


def output_rows(comparison: Comparison) -> list[tuple[str, str, str, str]]:
    """Output, key, and the values in both runs, for the first keys that differ."""
    return [
        (each.topic, plain(each.key), _values(each.first), _values(each.second))
        for each in comparison.outputs[:MAX_OUTPUTS]
    ]


def _values(values: Sequence[bytes | None]) -> str:
    shown = ["deleted" if each is None else plain(each) for each in values]
    return ", then ".join(shown) or "nothing"


def _kept(broken: Sequence[str]) -> str:
    return f"breaks {_and(broken)}" if broken else "keeps all promises"


def _more(each: Measured) -> str:
    least, most = sorted([each.first, each.second])
    if each.measure.is_time:
        return f"a {each.measure.name} of {most:,} ms, not {least:,} ms"
    return f"more {each.measure.name} ({most:,}, not {least:,})"


def _and(words: Sequence[str]) -> str:
    *rest, last = words
    return f"{', '.join(rest)} and {last}" if rest else last
