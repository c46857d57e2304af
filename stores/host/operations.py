"""The operations that differ between kinds of stores, and the fields of their requests.

An operation has the name of the method that it calls, and its fields are the arguments of that
method, in this order. So the client and a host in Python share one table.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from streamproof.stores.capabilities import Kind
from streamproof.stores.timestamps import ValueAndTimestamp
from streamproof.stores.windows import Window, Windowed

__all__ = ["OPERATIONS", "Operation", "argument"]


class Operation(NamedTuple):
    """An operation on a store, a transaction or a view.

    Attributes:
        fields: the fields of a request, in the order of the arguments of the method.
        does: whether the operation reads a value, opens an iterator (``scan``), or writes.
    """

    fields: tuple[str, ...]
    does: Literal["read", "scan", "write"]


def _reads(*fields: str) -> Operation:
    return Operation(fields, "read")


def _scans(*fields: str) -> Operation:
    return Operation(fields, "scan")


def _writes(*fields: str) -> Operation:
    return Operation(fields, "write")


_TIMES = ("time_from", "time_to")
_SEARCH = ("earliest_session_end", "latest_session_start")

_KEY_VALUE = {
    "get": _reads("key"),
    "put": _writes("key", "value"),
    "delete": _writes("key"),
    "put_if_absent": _writes("key", "value"),
    "put_all": _writes("entries"),
    "range": _scans("from", "to"),
    "reverse_range": _scans("from", "to"),
    "all": _scans(),
    "reverse_all": _scans(),
    "prefix_scan": _scans("prefix"),
    "approximate_num_entries": _reads(),
    "get_with_timestamp": _reads("key"),
    "put_with_timestamp": _writes("key", "value", "timestamp"),
    "delete_with_timestamp": _writes("key"),
    "put_if_absent_with_timestamp": _writes("key", "value", "timestamp"),
    "put_all_with_timestamp": _writes("entries"),
    "range_with_timestamp": _scans("from", "to"),
    "all_with_timestamp": _scans(),
}

_WINDOW = {
    "put": _writes("key", "value", "window_start"),
    "fetch": _reads("key", "window_start"),
    "fetch_between": _scans("key", *_TIMES),
    "backward_fetch_between": _scans("key", *_TIMES),
    "fetch_range": _scans("from", "to", *_TIMES),
    "backward_fetch_range": _scans("from", "to", *_TIMES),
    "fetch_all": _scans(*_TIMES),
    "backward_fetch_all": _scans(*_TIMES),
    "all": _scans(),
    "backward_all": _scans(),
    "put_with_timestamp": _writes("key", "value", "timestamp", "window_start"),
    "fetch_with_timestamp": _reads("key", "window_start"),
    "fetch_between_with_timestamp": _scans("key", *_TIMES),
    "fetch_range_with_timestamp": _scans("from", "to", *_TIMES),
    "fetch_all_with_timestamp": _scans(*_TIMES),
    "all_with_timestamp": _scans(),
}

_SESSION = {
    "put": _writes("session", "value"),
    "remove": _writes("session"),
    "fetch_session": _reads("key", "start", "end"),
    "fetch": _scans("key"),
    "backward_fetch": _scans("key"),
    "fetch_range": _scans("from", "to"),
    "backward_fetch_range": _scans("from", "to"),
    "find_sessions": _scans("key", *_SEARCH),
    "backward_find_sessions": _scans("key", *_SEARCH),
    "find_sessions_range": _scans("from", "to", *_SEARCH),
    "backward_find_sessions_range": _scans("from", "to", *_SEARCH),
    "find_sessions_between": _scans("earliest_session_end", "latest_session_end"),
    "put_with_timestamp": _writes("session", "value", "timestamp"),
    "fetch_session_with_timestamp": _reads("key", "start", "end"),
    "fetch_with_timestamp": _scans("key"),
    "fetch_range_with_timestamp": _scans("from", "to"),
    "find_sessions_with_timestamp": _scans("key", *_SEARCH),
    "find_sessions_range_with_timestamp": _scans("from", "to", *_SEARCH),
}

OPERATIONS: dict[Kind, dict[str, Operation]] = {
    "key-value": _KEY_VALUE,
    "window": _WINDOW,
    "session": _SESSION,
}
"""The operations by the kind of the store."""

_BYTES = ("key", "from", "to", "prefix", "value")
"""The fields that hold bytes, or ``null``."""


def argument(field: str, sent: Any) -> Any:
    """The argument of a method, from the field of a request."""
    if field in _BYTES:
        return msgspec.convert(sent, bytes | None)
    if field == "entries":
        return [(msgspec.convert(key, bytes | None), _written(value)) for key, value in sent]
    if field == "session":
        key, (start, end) = sent
        return Windowed(msgspec.convert(key, bytes | None), Window(start, end))
    return sent


def _written(sent: Any) -> bytes | ValueAndTimestamp | None:
    """A value, or a value with its timestamp, of an entry."""
    if isinstance(sent, list):
        value, timestamp = sent
        return ValueAndTimestamp.make(msgspec.convert(value, bytes | None), timestamp)
    return msgspec.convert(sent, bytes | None)
