"""A run as a page: one file that needs no network, no server and no other file.

All text of a run is in one block of JSON, which is data to a browser, or passes through Jinja's
escaping. The page's own security policy forbids any script but its own, and loading anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined

from streamproof.scenarios.event_words import sentence, visible
from streamproof.scenarios.pictures import templates
from streamproof.scenarios.pictures.durability import Holding, Level
from streamproof.scenarios.pictures.lanes import Item, Picture
from streamproof.sim.event_kinds import GLYPHS
from streamproof.sim.event_kinds.wording import plain

__all__ = ["MOST_EVENTS", "asset", "environment", "render_html"]

MOST_EVENTS = 20_000
"""The most events in a page. A larger page would be too large to open or to send. Events that
matter come first, then the last events of the run."""

MOST_CHARACTERS = 400
"""The most characters of a detail of an event."""

Row = TypeVar("Row", Holding, Level)

_HARMLESS = {ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}
"""JSON escapes for characters that could end the block of JSON in the page, or a line of it."""


def render_html(picture: Picture) -> str:
    """The whole page as one file. It works from disk, as an attachment, and on any host."""
    css, script = asset("picture.css"), asset("picture.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    items = _kept(picture)
    used = {each.look.glyph for each in items}
    page = environment().get_template("picture.html.j2")
    return page.render(
        picture=picture,
        found=picture.violation,
        shown=len(items),
        legend=[(glyph, what) for glyph, what in GLYPHS.items() if glyph in used],
        data=json.dumps(_data(picture, items), separators=(",", ":")).translate(_HARMLESS),
        css=css,
        script=script,
        script_hash=f"sha256-{digest}",
    )


def _kept(picture: Picture) -> Sequence[Item]:
    """The events of the page."""
    items = picture.items
    matters = min(sum(each.matters for each in items), MOST_EVENTS)
    left = {True: matters, False: MOST_EVENTS - matters}
    kept = []
    for each in reversed(items):
        if left[each.matters]:
            left[each.matters] -= 1
            kept.append(each)
    return kept[::-1]


class _Words:
    """Numbers texts, so that each is in the page once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text."""
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def all(self) -> list[str]:
        """The texts, by their numbers."""
        return list(self._numbers)


def _data(picture: Picture, items: Sequence[Item]) -> dict[str, Any]:
    """The data for the script. The order of the fields of a row is fixed in the script, too."""
    words = _Words()
    column = {each.key: number for number, each in enumerate(picture.lanes)}
    events = [
        [
            each.event.sequence,
            each.event.time,
            column[each.lane],
            column.get(each.source, -1),
            words.number(each.event.kind),
            words.number(each.look.group),
            each.look.glyph,
            int(each.matters),
            each.words,
            words.number(visible(each.event.actor)),
            _details(each),
            int(each.look.weight >= 3),
            each.repeats,
        ]
        for each in items
    ]
    stock = picture.stock
    known = {each.event.sequence for each in items}
    # The page shows the content just before a crash, so the event before each one counts, too.
    kept = sorted(known | {each - 1 for each in known})
    return {
        "events": events,
        "lanes": [[each.key, each.kind, each.title, each.instance] for each in picture.lanes],
        "arrows": [
            [each.source, each.target, words.number(each.what)]
            for each in picture.arrows
            if each.source in known and each.target in known
        ],
        "words": words.all,
        "spans": [
            [column[each.lane], each.start, each.end, int(each.is_volatile)]
            for each in stock.spans
            if each.lane in column and _first(kept, each.start) < _first(kept, each.end)
        ],
        "moments": {
            column[key]: _thinned(found, kept)
            for key, found in stock.holdings.items()
            if key in column
        },
        "ends": {key: _thinned(found, kept) for key, found in stock.ends.items()},
        "committed": {key: _thinned(found, kept) for key, found in stock.committed.items()},
        "found": picture.found_at,
        "gap": picture.long_gap,
    }


def _thinned(rows: Sequence[Row], kept: Sequence[int]) -> list[Row]:
    """The rows that are valid at some kept event; each is valid until the next row."""
    ends = [*(each[0] for each in rows[1:]), sys.maxsize]
    return [
        each
        for each, end in zip(rows, ends, strict=True)
        if _first(kept, each[0]) < _first(kept, end)
    ]


def _first(kept: Sequence[int], sequence: int) -> int:
    """The place of the first kept event with this number or a larger one."""
    return bisect_left(kept, sequence)


def _details(item: Item) -> list[list[str]]:
    event = item.event
    details = [["task", event.task], ["partition", event.partition]]
    if event.offset >= 0:
        details.append(["offset", str(event.offset)])
    details += [[name, plain(value)] for name, value in event.attributes.items()]
    return [[visible(name), _cut(visible(value))] for name, value in details if value]


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def asset(name: str) -> str:
    """A style sheet or a script of the pages."""
    return resources.files(templates).joinpath(name).read_text("utf-8")


@cache
def environment() -> Environment:
    """The templates of the pages."""
    found = Environment(
        loader=PackageLoader(templates.__name__, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters["sentence"] = sentence
    return found
