"""Charts as SVG, without scripts and libraries, each with a text that says the same.

Colours come from the style sheet, by the class of a status, so that a chart follows the theme. No
chart says anything by colour alone: segments carry the glyph of their status, columns a pattern,
and every chart has a label that can be read aloud.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup, escape

from streamproof.conformance.verdict_rule import Outcome, Shown
from streamproof.reports.pipeline.site.site_data import Distribution
from streamproof.reports.safe_text import cell

__all__ = ["NOT_KEPT", "Interval", "columns", "intervals", "lines", "quantiles", "strip"]

NOT_KEPT: tuple[Shown, ...] = ("fail", "known", "error", "skip", "no result")
"""The statuses in a column, from its foot. Kept requirements are left out: they are so many that
the rest could not be seen."""

# In units of the drawing, which is scaled to the width that it is shown in.
_WIDTH = 640.0
_HEIGHT = 240.0
_MARGIN = 24.0  # At the right, for half of the last label.
_LEFT = 44.0
_BOTTOM = 40.0
_TOP = 12.0
_NAMES = 190.0
_ROW = 24.0
_STRIP_WIDTH = 260.0
_STRIP_HEIGHT = 18.0


class Interval(NamedTuple):
    """A 95 % interval of a probability, with its label; ``failed``: a fault was seen."""

    label: str
    low: float
    high: float
    failed: bool


@lru_cache(maxsize=4096)
def strip(statuses: tuple[Shown | Outcome, ...], versions: tuple[str, ...]) -> Markup:
    """The statuses of all versions in one line, the oldest at the left; equal ones are joined."""
    step = _STRIP_WIDTH / max(len(statuses), 1)
    shapes, words, index = [], [], 0
    for status, run in groupby(statuses):
        count = len(list(run))
        x, length = index * step, count * step
        words.append(f"{status} {_span(versions[index], versions[index + count - 1])}")
        shapes.append(
            f'<g class="f-{_slug(status)}"><rect x="{x:.1f}" y="0.5" width="{length - 1:.1f}" '
            f'height="{_STRIP_HEIGHT - 1:g}" rx="2"/>{_glyph(status, x + length / 2, length)}</g>'
        )
        index += count
    label = escape(cell("; ".join(words), 1000))
    return Markup(  # noqa: S704 (escaped above, part by part)
        f'<svg class="strip" viewBox="0 0 {_STRIP_WIDTH:g} {_STRIP_HEIGHT:g}" role="img" '
        f'aria-label="{label}"><title>{label}</title>{"".join(shapes)}</svg>'
    )


def columns(tallies: Sequence[dict[Shown, int]], versions: Sequence[str], label: str) -> Markup:
    """How many requirements were asked of each version and not kept, as stacked columns."""
    highest = max((sum(tally[status] for status in NOT_KEPT) for tally in tallies), default=0)
    scale = _Scale(max(highest, 5))
    step = (_WIDTH - _LEFT) / max(len(tallies), 1)
    wide = min(step * 0.8, 36.0)
    # All boxes of a status are one shape, because a printer draws a pattern anew for each shape.
    boxes: dict[Shown, list[str]] = {status: [] for status in NOT_KEPT}
    columns = []
    for index, tally in enumerate(tallies):
        x, total = _LEFT + index * step + (step - wide) / 2, 0
        for status in NOT_KEPT:
            if tally[status]:
                foot, top = scale.y(total), scale.y(total + tally[status])
                boxes[status].append(f"M{x:.1f} {foot:.1f}V{top:.1f}h{wide:.1f}V{foot:.1f}z")
                total += tally[status]
        told = [f"{tally[status]} {status}" for status in NOT_KEPT if tally[status]]
        words = f"{cell(versions[index], 40)}: {', '.join(told) or 'nothing'}"
        columns.append(
            f'<rect class="column" x="{x:.1f}" y="{_TOP:g}" width="{wide:.1f}" '
            f'height="{_HEIGHT - _BOTTOM - _TOP:g}">'
            f"{_title(words)}</rect>"
        )
    paths = [
        f'<path class="c-{_slug(status)}" d="{"".join(found)}"/>'
        for status, found in boxes.items()
        if found
    ]
    shapes = [*scale.lines(), *paths, *columns, *_labels(versions, step)]
    return _chart(shapes, label, "asked, and not kept", "version")


def lines(points: Sequence[tuple[str, float]], label: str, across: str) -> Markup:
    """A share between 0 and 1 over dates or versions, as a line with its points."""
    scale = _Scale(100)
    step = (_WIDTH - _LEFT) / max(len(points), 1)
    places = [
        (_LEFT + (index + 0.5) * step, scale.y(100 * share))
        for index, (_, share) in enumerate(points)
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    shapes = [*scale.lines(), f'<polyline class="line" points="{path}"/>']
    for (x, y), (name, share) in zip(places, points, strict=True):
        title = _title(f"{cell(name, 40)}: {100 * share:.1f} %")
        shapes.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.2">{title}</circle>')
    shapes += _labels([name for name, _ in points], step)
    return _chart(shapes, label, "kept, in % of asked", across)


def intervals(found: Sequence[Interval], label: str) -> Markup:
    """95 % intervals of small probabilities on a logarithmic axis, one line for each."""
    # With no fault seen, an interval begins at 0, which a logarithmic axis does not have: there
    # it begins with an arrow at the left, and its upper end is what sets the scale.
    lowest = min((each.low or each.high / 3 for each in found), default=0.1)
    decades = max(1, min(8, math.ceil(-math.log10(max(lowest, 1e-8)))))
    right = _WIDTH - 16
    height = len(found) * _ROW + 48

    def x(probability: float) -> float:
        share = 1 + math.log10(max(probability, 10.0**-decades)) / decades
        return _NAMES + share * (right - _NAMES)

    shapes = []
    for decade in range(decades + 1):
        at = x(10.0**-decade)
        shapes += [
            _line("grid", at, at, 4, height - 38),
            _text(at, height - 24, f"{100 * 10.0**-decade:g} %", "middle" if decade else "end"),
        ]
    for index, each in enumerate(found):
        y = (index + 0.5) * _ROW + 4
        begin, end = (x(each.low) if each.low > 0 else _NAMES), x(each.high)
        title = _title(f"{cell(each.label, 60)}: {_percent(each.low)} to {_percent(each.high)}")
        start = _line("", begin, begin, y - 5, y + 5) if each.low > 0 else _arrow(begin, y)
        shapes += [
            _text(_NAMES - 10, y + 4, cell(each.label, 26), "end", "name"),
            f'<g class="i-{"fail" if each.failed else "pass"}">{title}{start}',
            _line("", begin, end, y, y),
            _line("", end, end, y - 5, y + 5),
            "</g>",
        ]
    what = "probability that one kill shows a fault, 95 % interval"
    shapes.append(_text((_NAMES + right) / 2, height - 6, what, "middle", "axis"))
    return _svg(shapes, label, height)


def quantiles(found: Sequence[Distribution], label: str) -> Markup:
    """Each distribution as a line from its minimum to its maximum, a box up to p90, and its p50."""
    right = _WIDTH - 40
    height = len(found) * _ROW + 48
    highest = max((each.maximum for each in found), default=1.0) or 1.0

    def x(value: float) -> float:
        return _NAMES + value / highest * (right - _NAMES)

    shapes = []
    for tick in _ticks(highest):
        shapes += [
            _line("grid", x(tick), x(tick), 4, height - 38),
            _text(x(tick), height - 24, f"{tick:,g}"),
        ]
    for index, each in enumerate(found):
        y = (index + 0.5) * _ROW + 4
        title = _title(
            f"{cell(each.group, 60)}: median {each.p50:,.6g} {cell(each.unit, 20)}, "
            f"90 % at most {each.p90:,.6g}, 99 % at most {each.p99:,.6g}"
        )
        width = max(x(each.p90) - x(each.minimum), 1)
        shapes += [
            _text(_NAMES - 10, y + 4, cell(each.group, 26), "end", "name"),
            f'<g class="box">{title}',
            _line("", x(each.minimum), x(each.maximum), y, y),
            f'<rect x="{x(each.minimum):.1f}" y="{y - 6:g}" width="{width:.1f}" height="12"/>',
            _line("median", x(each.p50), x(each.p50), y - 7, y + 7),
            "</g>",
        ]
    unit = cell(found[0].unit, 20) if found else ""
    shapes.append(_text((_NAMES + right) / 2, height - 6, unit, "middle", "axis"))
    return _svg(shapes, label, height)


class _Scale:
    """The vertical axis of a chart that begins at 0."""

    def __init__(self, highest: float) -> None:
        self._ticks = _ticks(highest)
        self._highest = highest

    def y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - value / self._highest * (_HEIGHT - _BOTTOM - _TOP)

    def lines(self) -> list[str]:
        shapes = []
        for tick in self._ticks:
            y = self.y(tick)
            shapes.append(_line("grid" if tick else "base", _LEFT, _WIDTH, y, y))
            shapes.append(_text(_LEFT - 6, y + 4, f"{tick:,g}", "end"))
        return shapes


def _ticks(highest: float) -> list[float]:
    """Round numbers from 0 on, at most six, the last not above ``highest``."""
    power = 10.0 ** math.floor(math.log10(highest))
    steps = [power * factor for factor in (0.1, 0.2, 0.5, 1.0, 2.0)]
    step = next(step for step in steps if highest / step <= 5.5)
    return [index * step for index in range(int(highest / step + 1e-9) + 1)]


def _labels(names: Sequence[str], step: float) -> list[str]:
    """Names below the axis: as many as fit, and always the last, which is the newest."""
    longest = max((len(cell(name, 12)) for name in names), default=1)
    every = max(1, math.ceil((longest * 6.6 + 8) / step)) if step else 1
    last = len(names) - 1
    return [
        _text(_LEFT + (index + 0.5) * step, _HEIGHT - _BOTTOM + 16, cell(name, 12))
        for index, name in enumerate(names)
        if (last - index) % every == 0
    ]


def _chart(shapes: list[str], label: str, up: str, across: str) -> Markup:
    place = f"translate(10 {(_HEIGHT - _BOTTOM) / 2:g}) rotate(-90)"
    return _svg(
        [
            *shapes,
            _text(_LEFT + (_WIDTH - _LEFT) / 2, _HEIGHT - 6, across, "middle", "axis"),
            f'<text class="axis" transform="{place}" text-anchor="middle">{escape(up)}</text>',
        ],
        label,
        _HEIGHT,
    )


def _svg(shapes: list[str], label: str, height: float) -> Markup:
    words = escape(cell(label, 1000))
    return Markup(  # noqa: S704 (escaped where it was put together)
        f'<svg class="chart" viewBox="0 0 {_WIDTH + _MARGIN:g} {height:g}" role="img" '
        f'aria-label="{words}">'
        f"{''.join(shapes)}</svg>"
    )


def _line(kind: str, x1: float, x2: float, y1: float, y2: float) -> str:
    name = f' class="{kind}"' if kind else ""
    return f'<line{name} x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, words: str, anchor: str = "middle", kind: str = "tick") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(words)}</text>'


def _title(words: str) -> str:
    """The tooltip of a shape."""
    return f"<title>{escape(words)}</title>"


def _glyph(status: str, middle: float, length: float) -> str:
    if length < 9:
        return ""
    place = f'x="{middle - 5.5:.1f}" y="3.5" width="11" height="11"'
    return f'<use href="#i-{_slug(status)}" {place}/>'


def _arrow(x: float, y: float) -> str:
    return f'<path d="M{x + 5:.1f} {y - 4:.1f} L{x:.1f} {y:.1f} L{x + 5:.1f} {y + 4:.1f}"/>'


def _percent(probability: float) -> str:
    return f"{100 * probability:.3g} %"


def _span(first: str, last: str) -> str:
    names = [cell(each, 40) or "without a version" for each in dict.fromkeys((first, last))]
    return " to ".join(names)


def _slug(status: str) -> str:
    return status.replace(" ", "-")
