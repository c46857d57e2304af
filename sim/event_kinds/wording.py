"""Values of events in the words of a person."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

__all__ = ["plain", "readable"]

_KEY_OF_TIME = re.compile(rb"([\x20-\x7e]+)(\x00.{7})(?:(.{4})|(\x00.{7}))?", re.DOTALL)
"""A key with the start of its window and a number, or with the end and the start of its session."""


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
