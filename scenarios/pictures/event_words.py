"""What each kind of event is: where it belongs, its glyph, its weight, and what to say of it.

Whatever is named here may be missing from an event, because a trace that was kept may be of
another release: what is not there is shown as ``?``, and a kind that is not known by its own name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from streamproof.sim.trace import Event

__all__ = [
    "GLYPHS",
    "KINDS",
    "Kind",
    "harmless",
    "kind_of",
    "literals",
    "plain",
    "readable",
    "sentence",
    "told",
    "visible",
]

GLYPHS: dict[str, str] = {
    "X": "here it was found that a promise is broken",
    "!": "a crash, or something else that ends work",
    "^": "a start, or a repair",
    "v": "a clean stop",
    "z": "it stands still",
    "R": "the group shares its tasks out",
    "j": "a member joins",
    ">": "work is given, or begins",
    "<": "work is given up",
    "F": "fenced, left out, or lost",
    "~": "a task waits, or has waited long enough",
    "*": "a record is processed",
    "=": "a row is written to a store",
    "+": "a record is appended to a log",
    "-": "records are deleted from a log",
    "o": "a store is opened",
    "$": "records are restored",
    "]": "what was in memory is on the disk now",
    "C": "a commit",
    "x": "an abort",
    "W": "a directory is wiped",
    "?": "nobody knows whether it was done",
    ".": "anything else",
}
"""Every sign that a picture may have, with its meaning, in the order of the legend."""


class Kind(NamedTuple):
    """What is known of the events of one kind.

    Attributes:
        lane: where it takes place: ``world``, ``log``, ``groups``, ``transactions``, ``instance``,
            ``task``, ``store`` or ``disk``.
        source: where it comes from, in the same words, or ``sender`` for who sent a record; empty
            if from nowhere else.
        glyph: its sign, of ``GLYPHS``.
        group: what it is filtered by.
        weight: 0 is noise, 1 a detail, 2 a step, 3 a turning point.
        words: one sentence without its end, with the names of attributes in braces.
    """

    lane: str
    source: str
    glyph: str
    group: str
    weight: int
    words: str


KINDS: dict[str, Kind] = {
    "application.started": Kind("world", "", "^", "other", 1, "the application has tasks {tasks}"),
    "coordinator.away": Kind("groups", "", "!", "faults", 2, "the coordinator of {what} is away"),
    "coordinator.back": Kind("groups", "", "^", "starts", 1, "the coordinator of {what} is back"),
    "disk.emptied": Kind("disk", "", "^", "starts", 2, "the disk has space again"),
    "disk.filled": Kind("disk", "", "!", "faults", 3, "the disk is full from now on"),
    "disk.full": Kind("disk", "", "!", "faults", 3, "the disk is full: {store} cannot be written"),
    "disk.power_lost": Kind(
        "disk", "", "!", "faults", 3, "the power fails; flushes lost, not synced: {flushes}"
    ),
    "global.applied": Kind(
        "instance",
        "log",
        "$",
        "restoring",
        0,
        "the global store {store} takes {partition} up to {offset}",
    ),
    "global.restored": Kind("instance", "", ">", "restoring", 1, "the global stores are restored"),
    "group.assigned": Kind(
        "groups", "instance", "R", "group", 2, "generation {generation}: {shares}"
    ),
    "group.left_out": Kind(
        "instance", "groups", "F", "group", 3, "{actor} learns that the group has left it out"
    ),
    "group.member_left_out": Kind(
        "groups", "", "F", "group", 3, "{member} was not heard of: the group leaves it out"
    ),
    "group.probed": Kind(
        "groups", "instance", "R", "group", 2, "a rebalance to agree on version {version}"
    ),
    "input.paused": Kind(
        "instance", "log", "~", "waiting", 1, "{partition} is paused: its buffer is full"
    ),
    "instance.crashed": Kind(
        "instance", "", "!", "faults", 3, "{actor} is killed: what was in memory only is gone"
    ),
    "instance.paused": Kind("instance", "", "z", "starts", 2, "{actor} is told to hold its work"),
    "instance.resumed": Kind("instance", "", "^", "starts", 2, "{actor} is told to go on"),
    "instance.started": Kind(
        "instance", "", "^", "starts", 3, "{actor} starts, with release {release}"
    ),
    "instance.stood_still": Kind(
        "instance", "", "z", "faults", 3, "{actor} stands still, and does not know it"
    ),
    "instance.went_on": Kind(
        "instance", "", "^", "faults", 3, "{actor} goes on as if no time had passed"
    ),
    "instance.stopped": Kind("instance", "", "v", "starts", 3, "{actor} is stopped{leaks}"),
    "log.appended": Kind("log", "sender", "+", "log", 1, "{partition} @{offset}: {key} = {value}"),
    "log.compacted": Kind(
        "log", "", "-", "log", 1, "{partition} is compacted, records gone: {removed}"
    ),
    "log.deleted": Kind(
        "log", "", "-", "log", 2, "{partition} is deleted up to {offset}, by {reason}"
    ),
    "network.connected": Kind(
        "instance", "", "^", "starts", 3, "{actor} can reach the brokers again"
    ),
    "network.cut": Kind("instance", "", "!", "faults", 3, "{actor} cannot reach the brokers"),
    "network.reply_lost": Kind(
        "instance", "", "?", "faults", 2, "carried out, and the reply is lost: {what}"
    ),
    "network.request_lost": Kind(
        "instance", "", "?", "faults", 2, "lost before it was carried out: {what}"
    ),
    "offsets.added": Kind(
        "transactions",
        "sender",
        "+",
        "transactions",
        1,
        "the transaction takes offsets in: {offsets}",
    ),
    "offsets.committed": Kind("groups", "", "C", "transactions", 2, "committed offsets: {offsets}"),
    "restore.batch": Kind(
        "store",
        "log",
        "$",
        "restoring",
        0,
        "{store} is restored up to {offset}, {remaining} to go",
    ),
    "restore.end": Kind(
        "store", "", "$", "restoring", 2, "{store} is restored, records in all: {total}"
    ),
    "restore.start": Kind(
        "store", "log", "$", "restoring", 2, "{store} is restored from {start} on, to {end}"
    ),
    "restore.suspended": Kind(
        "store", "", "<", "restoring", 2, "restoring {store} is suspended, records so far: {total}"
    ),
    "state.cleaned": Kind(
        "disk", "instance", "W", "faults", 3, "the directory of {task} is cleaned up: not in use"
    ),
    "state.found": Kind(
        "disk", "", "o", "stores", 1, "at the start {task} has offsets that add up to {total}"
    ),
    "state.opened": Kind(
        "disk", "instance", "o", "stores", 0, "looks into the directory of {task}"
    ),
    "store.closing": Kind("disk", "store", "]", "stores", 2, "{store} is closed with {rows}, {at}"),
    "store.committed": Kind("store", "task", "C", "stores", 1, "{store} commits {at}"),
    "store.flushed": Kind("disk", "store", "]", "stores", 2, "{store} is flushed to the disk"),
    "store.found": Kind("store", "disk", "o", "stores", 2, "{store} is found with {rows}, {at}"),
    "store.opened": Kind("store", "disk", "o", "stores", 2, "{store} is opened: {at}{wipe}"),
    "store.put": Kind("store", "task", "=", "stores", 1, "{store}: {key} = {value}"),
    "store.rebuilt": Kind(
        "store", "disk", "$", "restoring", 2, "{store} is rebuilt in another format, {at}"
    ),
    "store.restored": Kind(
        "store", "log", "$", "restoring", 2, "{store} takes {records} up to {offset}"
    ),
    "store.running": Kind(
        "store", "", ">", "stores", 2, "{store} begins to work with {rows}, {at}"
    ),
    "task.closed": Kind("task", "instance", "<", "tasks", 2, "{task} is closed{closing}"),
    "task.corrupted": Kind(
        "task", "", "F", "faults", 3, "{task} is corrupted: its stores cannot be trusted"
    ),
    "task.enforced": Kind(
        "task", "", "~", "waiting", 2, "{task} goes on without the empty {inputs}"
    ),
    "task.processed": Kind(
        "task", "log", "*", "tasks", 1, "{task} processes {partition} @{offset}"
    ),
    "task.punctuated": Kind("task", "", "*", "tasks", 1, "{task} punctuates by {clock}"),
    "task.state": Kind("task", "instance", ">", "tasks", 1, "{task}: {before} → {after}"),
    "task.waiting": Kind("task", "", "~", "waiting", 1, "{task} waits: {waiting}"),
    "task.wiped": Kind("disk", "instance", "W", "faults", 3, "everything of {task} is wiped"),
    "thread.answered": Kind(
        "instance", "groups", ".", "group", 0, "{actor} is answered in version {version}"
    ),
    "thread.assigned": Kind(
        "instance", "groups", ">", "group", 2, "{actor} is given {active}{standby}"
    ),
    "thread.committed": Kind(
        "instance", "", "C", "transactions", 2, "{actor} knows it committed: {offsets}"
    ),
    "thread.died": Kind("instance", "", "!", "faults", 3, "{actor} dies of {reason}"),
    "thread.lost": Kind("instance", "", "F", "group", 3, "{actor} has lost its tasks{reason}"),
    "thread.producer": Kind(
        "instance", "transactions", ".", "transactions", 1, "{actor} has producer {producer}"
    ),
    "thread.staged": Kind("instance", "", "=", "stores", 1, "its stores have staged {bytes} bytes"),
    "thread.stopped": Kind("instance", "", "v", "starts", 2, "{actor} is stopped"),
    "thread.subscribed": Kind(
        "groups", "instance", "j", "group", 1, "{actor} joins, and owns {owned}"
    ),
    "thread.timed_out": Kind("instance", "", "?", "faults", 3, "{actor} gives up: {reason}"),
    "transaction.decided": Kind(
        "transactions", "sender", "C", "transactions", 2, "{transactional_id} {commit}"
    ),
    "transaction.id_expired": Kind(
        "transactions", "", "F", "transactions", 2, "{transactional_id} is forgotten: it was silent"
    ),
    "transaction.marker": Kind(
        "log",
        "transactions",
        "C",
        "transactions",
        1,
        "{transactional_id} {commit}, as {partition} shows",
    ),
    "transaction.timed_out": Kind(
        "transactions",
        "",
        "x",
        "transactions",
        3,
        "{transactional_id} took too long: it is aborted",
    ),
    "update.batch": Kind(
        "store", "log", "$", "restoring", 0, "the standby of {store} is up to {offset}"
    ),
    "update.start": Kind(
        "store", "log", "$", "restoring", 2, "a standby of {store} begins at {start}"
    ),
    "update.suspended": Kind(
        "store", "", "<", "restoring", 2, "the standby of {store} ends: {reason}"
    ),
    "updater.died": Kind("instance", "", "!", "faults", 3, "{actor} dies: {reason}"),
    "updater.metrics": Kind("instance", "", ".", "other", 0, "metrics: {remaining} remain"),
    "workload.ended": Kind("world", "", "v", "other", 1, "all {records} of {topic} are sent"),
    "world.healed": Kind("world", "", "^", "starts", 2, "from now on nothing goes wrong any more"),
}
"""What is known of each kind."""

_UNKNOWN = Kind("world", "", ".", "other", 1, "")

_CLOSINGS = {
    "CLEAN": " cleanly",
    "DIRTY": ": what was not committed is dropped",
    "CORRUPTED": ": its offsets are forgotten",
}

_KEY_OF_TIME = re.compile(rb"([\x20-\x7e]+)(\x00.{7})(?:(.{4})|(\x00.{7}))?", re.DOTALL)
"""A key with the start of its window and a number, or with the end and the start of its session."""

_LITERAL = re.compile(r"""b'(?:[^'\\]|\\.)*'|b"(?:[^"\\]|\\.)*\"""")
"""Bytes as Python writes them."""


def kind_of(event: Event) -> Kind:
    """What is known of the kind of an event, with what the event itself changes about it."""
    kind = KINDS.get(event.kind)
    if kind is None:
        lane = "instance" if event.actor.startswith("instance-") else "world"
        return _UNKNOWN._replace(lane=lane)
    if event.attributes.get("commit") is False:
        kind = kind._replace(glyph="x")
    if event.kind.startswith("coordinator.") and "trans" in str(event.attributes.get("what")):
        kind = kind._replace(lane="transactions")
    if event.kind == "transaction.marker" and event.offset < 0:
        kind = kind._replace(lane="groups")
    if event.kind == "instance.started" and event.time == 0:
        kind = kind._replace(weight=1)
    after = event.attributes.get("after")
    if after in {"SUSPENDED", "CLOSED"}:
        kind = kind._replace(glyph="<")
    if after in {"CREATED", "RESTORING", "CLOSED"} or event.attributes.get("wipe") is False:
        # The event before or after it tells the same.
        kind = kind._replace(weight=0)
    return kind


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
        "actor": event.actor,
        "task": f"task {event.task}",
        "partition": event.partition,
        "offset": str(event.offset) if event.offset >= 0 else "nowhere",
        "at": f"offset {event.offset}" if event.offset >= 0 else "no offset",
    }
    fields |= _special(event, store)
    return visible(kind.words.format_map(fields))


class _Fields(dict[str, str]):
    """The words of an event; what it does not have is a question mark."""

    def __missing__(self, name: str) -> str:
        return "?"


def _special(event: Event, store: str) -> dict[str, str]:
    """The words that are more than the value of an attribute."""
    more = event.attributes
    words = {"store": str(more.get("store") or store or event.partition)}
    if event.partition.startswith("group:"):
        words["partition"] = f"the group {event.partition.removeprefix('group:')}"
    elif store and "-changelog-" in event.partition:
        words["partition"] = f"changelog {store}-{event.partition.rpartition('-')[2]}"
    if isinstance(rows := more.get("rows"), list):
        words["rows"] = f"{len(rows)} row{'s' if len(rows) != 1 else ''}"
    for name, say in _SAYINGS.items():
        if name in more:
            words[name] = say(more[name])
    if event.kind == "group.assigned":
        words["shares"] = _shares(more.get("clients"))
    elif event.kind == "thread.lost":
        reason = more.get("reason")
        words["reason"] = "" if reason in {None, "NoneType"} else f": {plain(reason)}"
    return words


_SAYINGS: dict[str, Callable[[Any], str]] = {
    "after": lambda state: str(state).lower(),
    "before": lambda state: str(state).lower(),
    "closing": lambda closing: _CLOSINGS.get(str(closing), ""),
    "commit": lambda commit: "commits" if commit else "aborts",
    "leaks": lambda leaks: f", and still in use is: {plain(leaks)}" if leaks else " cleanly",
    "records": lambda count: f"{count} record{'s' if count != 1 else ''}",
    "standby": lambda tasks: f", and {plain(tasks)} as standby" if tasks else "",
    "wipe": lambda wipe: ", so it must be wiped" if wipe else "",
}
"""How the values of some attributes are said."""


def _shares(clients: object) -> str:
    """Who has which tasks, as ``instance-0 has 0_0, and 0_1 as standby``."""
    if not isinstance(clients, Mapping):
        return "?"
    found = []
    for name, share in sorted(clients.items()):
        more = [
            f"{plain(share[role])} as {role}" for role in ("standby", "warmup") if share.get(role)
        ]
        found.append(", ".join([f"{name} has {plain(share.get('active'))}", *more]))
    return "; ".join(found)


def _unknown(event: Event) -> str:
    words = [event.kind.replace(".", " ").replace("_", " "), event.task, event.partition]
    if event.offset >= 0:
        words.append(f"@{event.offset}")
    words += [f"{name}: {plain(value)}" for name, value in event.attributes.items()]
    return f"{event.actor}: {' '.join(each for each in words if each)}"


def plain(value: object) -> str:
    """Any value of an event as a person would write it."""
    if value is None:
        return "nothing"
    if isinstance(value, bytes):
        return readable(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{plain(key)}: {plain(each)}" for key, each in value.items()) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(plain(each) for each in value) or "none"
    return str(value)


def readable(data: bytes) -> str:
    """A key or a value in print: ``key-0``, ``key-0@60000`` of a window, ``key-0@12–227``."""
    match = _KEY_OF_TIME.fullmatch(data)
    if match is None:
        return repr(data)[2:-1]
    key, first, number, second = match.groups()
    name, time = key.decode("ascii"), int.from_bytes(first)
    if second is not None:
        return f"{name}@{int.from_bytes(second)}–{time}"
    count = int.from_bytes(number or b"")
    return f"{name}@{time}#{count}" if count else f"{name}@{time}"


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
