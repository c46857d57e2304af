"""What one kind of events is declared with: every part that a reader of traces needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from streamproof.sim.run_state import Moment
from streamproof.sim.trace import Event

__all__ = [
    "ACTORS",
    "GLYPHS",
    "Absent",
    "Actor",
    "Attribute",
    "Effect",
    "EventKind",
    "Footprint",
    "Group",
    "Lane",
    "Look",
]

Actor = Literal[
    "application",
    "brokers",
    "process",
    "thread",
    "updater",
    "global",
    "workload",
    "nemesis",
    "client",
]

ACTORS: dict[Actor, tuple[str, str]] = {
    "application": ("`count`", "the application, by its `application.id`"),
    "brokers": ("`brokers`", "all brokers together"),
    "process": ("`instance-0`", "a process"),
    "thread": ("`instance-0/thread-1`", "a stream thread of a process"),
    "updater": ("`instance-0/updater-1`", "the state updater of a thread"),
    "global": ("`instance-0/global`", "the thread of a process that keeps global stores"),
    "workload": ("`workload`", "the source of the input records"),
    "nemesis": ("`nemesis`", "the source of faults"),
    "client": ("`client-0`", "a client that asks interactive queries"),
}
"""The actor of an event: the form of its name, and its role."""

GLYPHS: dict[str, str] = {
    "X": "here a broken promise was found",
    "!": "a crash, or something else that ends work",
    "^": "a start, or a repair",
    "v": "a clean stop",
    "z": "it stands still",
    "R": "the group distributes its tasks",
    "j": "a member joins",
    ">": "work is given, or begins",
    "<": "work is given up",
    "F": "fenced, removed from the group, or lost",
    "~": "a task waits, or has waited long enough",
    "*": "a record is processed",
    "=": "a row is written to a store",
    "+": "a record is appended to a log",
    "-": "records are deleted from a log",
    "o": "a store is opened",
    "$": "records are restored",
    "]": "memory is written to the disk",
    "C": "a commit",
    "q": "a store is queried",
    "x": "an abort",
    "W": "a directory is wiped",
    "?": "nobody knows whether it was done",
    ".": "anything else",
}
"""Every sign that a picture may have, with its meaning, in the order of the legend."""

Lane = Literal[
    "world", "log", "groups", "transactions", "clients", "instance", "task", "store", "disk"
]
"""Where in a picture an event takes place."""

Group = Literal[
    "faults",
    "starts",
    "group",
    "tasks",
    "waiting",
    "stores",
    "restoring",
    "log",
    "transactions",
    "queries",
    "other",
]
"""What events are filtered by in a picture."""


class Attribute(NamedTuple):
    """A value that each event of a kind has.

    Attributes:
        type: its type in Python.
        meaning: the meaning of the value.
        said: puts the value into words, where ``wording.plain`` does not suffice.
    """

    type: Any
    meaning: str
    said: Callable[[Any], str] | None = None


class Look(NamedTuple):
    """How pictures show the events of a kind.

    Attributes:
        lane: where the event takes place.
        source: the lane that it comes from, or ``sender`` for the lane that sent the record;
            empty if it comes from no other lane.
        glyph: its sign, of ``GLYPHS``.
        group: the group that filters select it by.
        weight: 0 is noise, 1 a detail, 2 a step, 3 a turning point.
        words: one sentence without its end. Braces hold the names of attributes, or ``actor``,
            ``task``, ``partition``, ``offset``, ``store``, or ``at`` for the offset in words.
    """

    lane: Lane
    source: Lane | Literal["", "sender"]
    glyph: str
    group: Group
    weight: int
    words: str


class Footprint(NamedTuple):
    """What the events of a kind read and write, by which slicing finds their causes.

    Each entry is a text with the fields of the event between braces. An event depends on the last
    earlier event that wrote a fact it reads.

    Attributes:
        writes: the facts that such an event changes or decides.
        reads: the facts that it depends on. Of alternatives, separated by ``|``, the first one
            counts that some event has written.
    """

    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()


class Absent(NamedTuple):
    """A part that a kind does without.

    Attributes:
        reason: why nothing is lost by that.
    """

    reason: str


Effect = Callable[[Moment, Event], None]
"""Applies an event to the state of the run before it."""


@dataclass(frozen=True, kw_only=True)
class EventKind:
    """One kind of events. Every part has to be given: one that is not needed is ``Absent``.

    Attributes:
        name: the kind, as events have it.
        meaning: the meaning of the event.
        actor: the role of the actor.
        about: which of ``task``, ``partition`` and ``offset`` the event has. With a question mark,
            the field may be empty, or -1.
        attributes: the attributes of every such event.
        look: how pictures show it.
        adapted: changes the look of a single event, where its attributes ask for that.
        footprint: the facts that it reads and writes.
        effect: its change of the state of the run.
    """

    name: str
    meaning: str
    actor: Actor
    look: Look
    footprint: Footprint | Absent
    effect: Effect | Absent
    about: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    adapted: Callable[[Event, Look], Look] | None = None

    def look_of(self, event: Event) -> Look:
        """How pictures show one event of this kind."""
        return self.look if self.adapted is None else self.adapted(event, self.look)
