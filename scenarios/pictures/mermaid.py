"""A run as a Mermaid sequence diagram, for pull requests and tickets.

Source: the grammar of Mermaid's sequence diagrams. A message ends at ``#`` or ``;`` or the end of
the line, and ``%%{`` begins a directive anywhere. So every character that may have a meaning is
written as its code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamproof.scenarios.pictures.lanes import Item, Picture, chosen, merged

__all__ = ["render_mermaid"]

MOST_LANES = 9
"""The most participants. A diagram with more is too wide to read in a ticket."""

MOST_CHARACTERS = 110
"""The most characters of a message."""

WRAPPED = 60
"""The most characters of a line in a note."""

_UNSAFE = re.compile(r"[^\w ,.:@=/()'+*?!–→…✗-]", re.ASCII)
"""All characters except those known to be harmless. Only ASCII letters count as harmless."""


def render_mermaid(picture: Picture, *, most: int = 60) -> str:
    """The picture as a sequence diagram, with a line end after each line and no fence around it.

    Args:
        picture: the run to draw.
        most: the most messages and notes, of those that matter; 0 shows all events.
    """
    shown = chosen(picture, most)
    lanes, stands = merged(picture, shown, MOST_LANES)
    names = {each.key: f"p{number}" for number, each in enumerate(lanes)}
    lines = ["sequenceDiagram"]
    for each in lanes:
        title = f"{each.title} of {each.instance}" if each.kind in {"task", "store"} else each.title
        lines.append(f"    participant {names[each.key]} as {_safe(title)}")
    for item in shown:
        lane = names[stands[item.lane]]
        source = names[stands[item.source]] if item.source else lane
        lines.append(f"    {_line(item, lane, source)}")
    ends = f"{names[lanes[0].key]},{names[lanes[-1].key]}" if len(lanes) > 1 else "p0"
    if not lanes:
        lines.append("    participant p0 as the run")
    lines += [f"    Note over {ends}: {each}" for each in _notes(picture)]
    return "".join(f"{each}\n" for each in lines)


def _line(item: Item, lane: str, source: str) -> str:
    words = item.words
    if len(words) > MOST_CHARACTERS:
        words = f"{words[: MOST_CHARACTERS - 1]}…"
    more = f" (and {item.repeats:,} before it)" if item.repeats else ""
    text = _safe(f"{item.event.time:,} ms {words}{more}")
    if item.look.glyph == "X":
        return f"Note over {lane}: {_safe('✗ FOUND HERE, ')}{text}"
    if item.look.glyph == "!":
        return f"{lane}-x{lane}: {text}"
    if source == lane:
        return f"Note over {lane}: {text}"
    return f"{source}->>{lane}: {text}"


def _notes(picture: Picture) -> Iterator[str]:
    """The last notes: the defects and the violation."""
    for name, what in picture.defects:
        yield _broken_up(f"Defect {name}: {what}" if what else f"Defect {name}")
    found = picture.violation
    if found is None:
        yield picture.held
        return
    yield _broken_up(f"✗ {found.requirement} is broken: {found.invariant}")
    yield _broken_up(found.message)


def _broken_up(text: str) -> str:
    """A text in lines: Mermaid does not wrap notes."""
    lines, line = [], ""
    for word in (text or "?").split(" "):
        if line and len(line) + len(word) >= WRAPPED:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return "<br/>".join(_safe(each) for each in [*lines, line])


def _safe(text: str) -> str:
    """A text without any character that Mermaid would interpret."""
    return _UNSAFE.sub(lambda match: f"#{ord(match[0])};", text.replace("\n", " "))
