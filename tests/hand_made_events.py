"""Events that tests write by hand, with all attributes that their kinds require."""

from __future__ import annotations

from typing import Any, get_origin

from streamproof.sim.event_kinds import KINDS
from streamproof.sim.trace import Event

_NOTHING: dict[Any, Any] = {bool: False, int: 0, str: "", bytes: b""}
"""By type, the value of an attribute that does not matter. Other types have empty containers."""


def made(
    sequence: int,
    actor: str,
    kind: str,
    *,
    time: int = 0,
    task: str = "",
    partition: str = "",
    offset: int = -1,
    **attributes: Any,
) -> Event:
    """An event; attributes that are left out have a value that says nothing.

    A test names what it is about. So it goes on when a kind gets another attribute.
    """
    required = {
        name: _nothing(each.type)
        for name, each in KINDS[kind].attributes.items()
        if name not in attributes
    }
    return Event(sequence, time, actor, kind, task, partition, offset, {**required, **attributes})


def _nothing(kind: Any) -> Any:
    """A value of a type that says nothing."""
    if kind in _NOTHING:
        return _NOTHING[kind]
    container = get_origin(kind)
    return container() if container in (dict, list, tuple) else None
