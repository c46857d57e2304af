"""What an event says in plain words, and how text from a run is shown safely.

The words of each kind are in :mod:`streamproof.sim.event_kinds`. An event may lack anything that
they name, because a trace that was kept may be of another release: what is missing is shown as
``?``, and a kind that is not known by its own name.
"""

from __future__ import annotations

import ast
import re

from streamproof.sim.event_kinds import KINDS, Look
from streamproof.sim.event_kinds.wording import plain, readable
from streamproof.sim.invariants.log_history import GROUP_TARGET
from streamproof.sim.trace import Event

__all__ = ["harmless", "literals", "look_of", "sentence", "told", "visible"]

_UNKNOWN = Look("world", "", ".", "other", 1, "")

_LITERAL = re.compile(r"""b'(?:[^'\\]|\\.)*'|b"(?:[^"\\]|\\.)*\"""")
"""Bytes as Python writes them."""


def look_of(event: Event) -> Look:
    """How pictures show an event."""
    kind = KINDS.get(event.kind)
    if kind is not None:
        return kind.look_of(event)
    return _UNKNOWN._replace(lane="instance") if event.actor.startswith("instance-") else _UNKNOWN


def told(event: Event, store: str = "") -> str:
    """What an event says, on one line, in plain words.

    Args:
        event: the event.
        store: the name of the store that it is about, if that is known.
    """
    kind = KINDS.get(event.kind)
    if kind is None:
        return visible(_unknown(event))
    fields = _Fields({name: plain(value) for name, value in event.attributes.items()})
    fields |= {
        name: each.said(event.attributes[name])
        for name, each in kind.attributes.items()
        if each.said is not None and name in event.attributes
    }
    fields |= {
        "actor": event.actor,
        "task": f"task {event.task}",
        "partition": _partition(event, store),
        "offset": str(event.offset) if event.offset >= 0 else "nowhere",
        "at": f"offset {event.offset}" if event.offset >= 0 else "no offset",
        "store": str(event.attributes.get("store") or store or event.partition),
    }
    return visible(kind.look.words.format_map(fields))


class _Fields(dict[str, str]):
    """The words of an event; what it does not have is a question mark."""

    def __missing__(self, name: str) -> str:
        return "?"


def _partition(event: Event, store: str) -> str:
    """A partition by what it is for: a group, or a store of this name."""
    if event.partition.startswith(GROUP_TARGET):
        return f"the group {event.partition.removeprefix(GROUP_TARGET)}"
    if store and "-changelog-" in event.partition:
        return f"changelog {store}-{event.partition.rpartition('-')[2]}"
    return event.partition


def _unknown(event: Event) -> str:
    words = [event.kind.replace(".", " ").replace("_", " "), event.task, event.partition]
    if event.offset >= 0:
        words.append(f"@{event.offset}")
    words += [f"{name}: {plain(value)}" for name, value in event.attributes.items()]
    return f"{event.actor}: {' '.join(each for each in words if each)}"


def literals(text: str) -> list[bytes]:
    """All bytes that a text names, as Python writes them."""
    return [ast.literal_eval(each) for each in _LITERAL.findall(text)]


def sentence(text: str) -> str:
    """A text with a capital letter at its start, unless it starts with the name of something."""
    return f"{text[:1].upper()}{text[1:]}" if text.partition(" ")[0].isalpha() else text


def visible(text: str) -> str:
    """Text as :func:`harmless` has it, in which bytes that Python wrote can be read."""
    return harmless(_LITERAL.sub(lambda match: readable(ast.literal_eval(match[0])), text))


def harmless(text: str) -> str:
    """Text on one line, with nothing in it that hides, or turns what is beside it around."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    if character in "\t\r\n":
        return " "
    return f"⟨U+{ord(character):04X}⟩"
