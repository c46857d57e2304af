"""Describes events in plain words, and makes text from a run safe to show.

The words of each kind are in :mod:`streamproof.sim.event_kinds`. A saved trace may be of another
release, so an event may lack attributes that the words name, or be of an unknown kind. A missing
attribute is shown as ``?``, and an unknown kind by its name.
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
"""A bytes literal of Python."""


def look_of(event: Event) -> Look:
    """The look of an event in pictures."""
    kind = KINDS.get(event.kind)
    if kind is not None:
        return kind.look_of(event)
    return _UNKNOWN._replace(lane="instance") if event.actor.startswith("instance-") else _UNKNOWN


def told(event: Event, store: str = "") -> str:
    """An event in plain words, on one line.

    Args:
        event: the event.
        store: the name of the store of the event, if it is known.
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
    """The words for the attributes of an event; a missing attribute is a question mark."""

    def __missing__(self, name: str) -> str:
        return "?"


def _partition(event: Event, store: str) -> str:
    """A partition in words; one of a group or of the named store is shown as such."""
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
    """The values of all bytes literals in a text."""
    return [ast.literal_eval(each) for each in _LITERAL.findall(text)]


def sentence(text: str) -> str:
    """A text with a capital letter at its start, unless its first word is a name."""
    return f"{text[:1].upper()}{text[1:]}" if text.partition(" ")[0].isalpha() else text


def visible(text: str) -> str:
    """A harmless text in which bytes literals are decoded, so that people can read them."""
    return harmless(_LITERAL.sub(lambda match: readable(ast.literal_eval(match[0])), text))


def harmless(text: str) -> str:
    """A text on one line, without characters that hide text or reverse its direction."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    if character in "\t\r\n":
        return " "
    return f"⟨U+{ord(character):04X}⟩"
