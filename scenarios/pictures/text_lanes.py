"""A run as text lanes: time runs downwards, one line an event, with the violation at the end.

Each event has a fixed sign (see ``GLYPHS``), and the caller chooses the width of the lines. So two
pictures can be compared line by line, and a picture can be pasted into any text.
"""

from __future__ import annotations

import textwrap
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from streamproof.scenarios.event_words import sentence
from streamproof.scenarios.pictures.durability import OpenSpan
from streamproof.scenarios.pictures.lanes import Item, Lane, Picture, chosen, merged
from streamproof.scenarios.pictures.violation_text import ExplainedViolation
from streamproof.sim.event_kinds import GLYPHS

__all__ = ["MIN_WIDTH", "render_text"]

MIN_WIDTH = 60
"""The least width of a picture, in columns. A narrower one has no space for words."""

CELL = 3
"""The width of a lane, in columns."""

SHARE = 0.37
"""The share of the width that lanes may take. Words take the rest."""

_PRESENT, _VOLATILE, _GAP = "│", "┊", "⋮"
_ALWAYS = {"world", "log", "groups", "transactions", "clients", "disk"}


def render_text(picture: Picture, *, width: int = 100, most: int = 40) -> str:
    """The picture as text, with a line end after each line.

    Args:
        picture: the run to draw.
        width: the width of a line, in columns; at least ``MIN_WIDTH``.
        most: the most events to show, of those that matter; 0 shows all events.
    """
    width = max(width, MIN_WIDTH)
    shown = chosen(picture, most)
    lanes, stands = merged(picture, shown, int(width * SHARE) // CELL)
    lines = [*_heading(picture, shown, width), ""]
    if shown:
        grid = _Grid(picture, lanes, stands, shown, width)
        lines += [*grid.header(), *grid.lines(), ""]
    lines += _ending(picture, width)
    lines += ["", *_legend(shown, width)]
    return "".join(f"{each.rstrip()}\n" for each in lines)


def _wrapped(text: str, width: int, indent: str = "", first: str | None = None) -> list[str]:
    """A text in lines; the first line may have another indent."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    ) or [""]


def _heading(picture: Picture, shown: Sequence[Item], width: int) -> Iterator[str]:
    yield from _wrapped(f"{picture.name}: {', '.join(picture.about)}", width, "  ", "")
    for name, what in picture.defects:
        yield from _wrapped(
            f"Defect {name}: {what}" if what else f"Defect {name}.", width, "  ", ""
        )
    drawn = sum(1 + each.repeats for each in shown)
    more = (
        ""
        if drawn == sum(each.matters + each.repeats for each in picture.items)
        else f"; {drawn:,} are shown"
    )
    yield f"{picture.count}{more}."


class _Grid:
    """The lanes and the lines in them.

    Args:
        picture: the run to draw.
        lanes: the lanes, from left to right.
        stands: by original lane, the lane that it is merged into.
        shown: the events to show.
        width: the width of a line, in columns.
    """

    def __init__(
        self,
        picture: Picture,
        lanes: Sequence[Lane],
        stands: Mapping[str, str],
        shown: Sequence[Item],
        width: int,
    ) -> None:
        self._lanes = lanes
        self._stands = stands
        self._shown = shown
        self._width = width
        self._long_gap = picture.long_gap
        self._column = {each.key: number for number, each in enumerate(lanes)}
        self._spans: defaultdict[str, list[OpenSpan]] = defaultdict(list)
        for span in sorted(picture.stock.spans, key=lambda each: each.start):
            self._spans[span.lane].append(span)
        self._time = max(len("ms"), *(len(f"{each.event.time:,}") for each in shown))
        self._number = max(len("event"), *(len(f"#{each.event.sequence}") for each in shown))
        self._margin = self._time + 1 + self._number + 2

    def header(self) -> Iterator[str]:
        """The names of the lanes, each in full on a line of its own."""
        for number, lane in enumerate(self._lanes):
            before = f"{_PRESENT:{CELL}}" * number
            name = lane.title
            if lane.kind in {"task", "store"} and not self._is_inside(number):
                name = f"{name} of {lane.instance}"
            yield f"{' ' * self._margin}{before}┌ {name}"[: self._width]
        line = f"{_PRESENT:{CELL}}" * len(self._lanes)
        yield f"{'ms':>{self._time}} {'event':>{self._number}}  {line}"

    def _is_inside(self, number: int) -> bool:
        """Whether the lane of the instance is to the left and already names the instance."""
        instance = self._lanes[number].instance
        return any(each.key == instance for each in self._lanes[:number])

    def lines(self) -> Iterator[str]:
        """A line for each event."""
        before = None
        for item in self._shown:
            event = item.event
            if before is not None and event.time - before >= self._long_gap:
                lives = "".join(
                    f"{_GAP if self._sign(each, event.sequence) != ' ' else ' ':{CELL}}"
                    for each in self._lanes
                )
                yield f"{' ' * self._margin}{lives}{event.time - before:,} ms later"
            before = event.time
            margin = f"{event.time:>{self._time},} {f'#{event.sequence}':>{self._number}}  "
            line = f"{margin}{self._cells(item.lane, item.source, item.look.glyph, event.sequence)}"
            more = f" (and {item.repeats:,} before it)" if item.repeats else ""
            left = self._width - len(line) - len(more)
            words = item.words if len(item.words) <= left else f"{item.words[: left - 1]}…"
            yield f"{line}{words}{more}"

    def _cells(self, lane: str, source: str, glyph: str, sequence: int) -> str:
        cells = [f"{self._sign(each, sequence):{CELL}}" for each in self._lanes]
        line = list("".join(cells))
        end = self._column[self._stands[lane]] * CELL
        start = self._column[self._stands[source]] * CELL if source else end
        low, high = sorted((start, end))
        for place in range(low + 1, high):
            line[place] = "┼" if place % CELL == 0 and line[place] != " " else "─"
        if start < end:
            line[start], line[end - 1] = "├", "▸"
        elif start > end:
            line[start], line[end + 1] = "┤", "◂"
        line[end] = glyph
        return "".join(line)

    def _sign(self, lane: Lane, sequence: int) -> str:
        """The sign of a lane at an event of another lane."""
        if lane.kind in _ALWAYS:
            return _PRESENT
        spans = self._spans[lane.key]
        number = bisect_right(spans, sequence, key=lambda each: each.start) - 1
        if number < 0 or sequence >= spans[number].end:
            return " "
        return _VOLATILE if spans[number].is_volatile else _PRESENT


def _ending(picture: Picture, width: int) -> Iterator[str]:
    """The violation, or a line that says that every invariant held."""
    found = picture.violation
    if found is not None:
        yield from _broken(found, width)
    elif not picture.surprises:
        yield f"{picture.held}."
    if picture.surprises:
        held = f"{picture.held}, but this" if found is None else "This"
        yield from _wrapped(f"{held} is not the expected run:", width, "  ", "X ")
        for each in picture.surprises:
            yield from _wrapped(f"{sentence(each)}.", width, "    ", "  - ")
    if picture.command:
        yield f"To see it again: {picture.command}"


def _broken(found: ExplainedViolation, width: int) -> Iterator[str]:
    yield from _wrapped(f"{found.requirement} is broken: {found.invariant}.", width, "  ", "X ")
    yield from _wrapped(f"{sentence(found.message)}.", width, "  ")
    yield from _wrapped(f"Found {found.where}.", width, "  ")
    for each in found.facts:
        yield from _wrapped(each, width, "    ", "  - ")
    for key, held, told in found.differences:
        words = f"{key}: the store has {held}; its changelog says {told}."
        yield from _wrapped(words, width, "    ", "  - ")
    if found.others:
        yield f"  Other broken invariants: {found.others}."


def _legend(shown: Sequence[Item], width: int) -> Iterator[str]:
    """The meaning of each sign that the picture contains."""
    used = {each.look.glyph for each in shown}
    meanings = [f"{glyph} {what}" for glyph, what in GLYPHS.items() if glyph in used]
    meanings += [
        f"{_PRESENT} open, with all data on the disk",
        f"{_VOLATILE} open, and a crash would lose data",
        "─▸ from the source to the event",
    ]
    yield from _wrapped("; ".join(meanings), width, "        ", "Legend: ")
