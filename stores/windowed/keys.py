"""How keys of windows and sessions become bytes, as Kafka writes them to the changelog.

All numbers are big-endian and never negative, so bytes and numbers sort alike.

Source: Kafka, WindowKeySchema and SessionKeySchema.
"""

from __future__ import annotations

import struct

from streamproof.stores.errors import InvalidArgumentError, ProcessorStateError
from streamproof.stores.windows import LONG_MAX, Window, Windowed

__all__ = [
    "SESSION_SUFFIX_BYTES",
    "WINDOW_SUFFIX_BYTES",
    "key_bounds",
    "parse_session_key",
    "parse_window_key",
    "require_session",
    "require_time",
    "session_key",
    "window_key",
    "windowed",
]

_WINDOW_SUFFIX = struct.Struct(">qi")
_SESSION_SUFFIX = struct.Struct(">qq")

WINDOW_SUFFIX_BYTES = _WINDOW_SUFFIX.size
"""The number of bytes after the key of a window: its start and the sequence number."""

SESSION_SUFFIX_BYTES = _SESSION_SUFFIX.size
"""The number of bytes after the key of a session: its end and its start."""


def window_key(key: bytes, start: int, sequence: int = 0) -> bytes:
    """``key ++ start ++ sequence`` (Kafka: WindowKeySchema#toStoreKeyBinary)."""
    return key + _WINDOW_SUFFIX.pack(start, sequence)


def parse_window_key(raw: bytes) -> tuple[bytes, int, int]:
    """The key, the window start and the sequence number of ``window_key``.

    Raises:
        ProcessorStateError: the bytes are too short.
    """
    if len(raw) < WINDOW_SUFFIX_BYTES:
        raise _too_short(raw, "window")
    start, sequence = _WINDOW_SUFFIX.unpack_from(raw, len(raw) - WINDOW_SUFFIX_BYTES)
    return raw[:-WINDOW_SUFFIX_BYTES], start, sequence


def session_key(key: bytes, start: int, end: int) -> bytes:
    """``key ++ end ++ start`` (Kafka: SessionKeySchema#toBinary)."""
    return key + _SESSION_SUFFIX.pack(end, start)


def parse_session_key(raw: bytes) -> Windowed:
    """The key and the session of ``session_key``.

    Raises:
        ProcessorStateError: the bytes are too short.
    """
    if len(raw) < SESSION_SUFFIX_BYTES:
        raise _too_short(raw, "session")
    end, start = _SESSION_SUFFIX.unpack_from(raw, len(raw) - SESSION_SUFFIX_BYTES)
    return Windowed(raw[:-SESSION_SUFFIX_BYTES], Window(start, end))


def windowed(key: bytes, start: int, window_size_ms: int) -> Windowed:
    """A key and its window, which ends at the latest possible time.

    Source: Kafka, WindowKeySchemaTest#testSerializeDeserializeOverflowWindowSize.
    """
    return Windowed(key, Window(start, min(start + window_size_ms, LONG_MAX)))


def key_bounds(
    key_from: bytes | None, key_to: bytes | None, largest_suffix: bytes
) -> tuple[bytes, bytes | None]:
    """Inclusive bounds of the rows that may belong to the keys between two keys.

    Keys differ in length, so rows do not sort like their keys: a row of a key with a late time
    sorts behind the rows of a longer key that begins with the first key. The lower bound is the key
    itself, because each of its rows begins with the key. The upper bound is the largest row of any
    key up to ``key_to``: a row of ``key_to``, or of one of its prefixes.

    Args:
        key_from: the smallest key; ``None`` leaves the side open.
        key_to: the largest key; ``None`` leaves the side open.
        largest_suffix: the largest suffix of a key in its rows.
    """
    low = b"" if key_from is None else key_from
    if key_to is None:
        return low, None
    prefixes = (key_to[:length] for length in range(len(key_to) + 1))
    return low, max(prefix + largest_suffix for prefix in prefixes)


def require_time(time: int, what: str) -> None:
    """Raise InvalidArgumentError unless ``time`` is 0 or later and fits into 64 bits."""
    if not 0 <= time <= LONG_MAX:
        raise InvalidArgumentError(
            f"The {what} {time} is out of range; give milliseconds from 0 to {LONG_MAX}."
        )


def require_session(session: Windowed) -> None:
    """Raise InvalidArgumentError unless the session starts at 0 or later and ends no earlier."""
    start, end = session.window
    require_time(start, "session start")
    require_time(end, "session end")
    if end < start:
        raise InvalidArgumentError(
            f"The session ends at {end}, before its start at {start}; give an end from {start} on."
        )


def _too_short(raw: bytes, kind: str) -> ProcessorStateError:
    return ProcessorStateError(
        f"The key {raw!r} is too short for a {kind}: another kind of store wrote it, or the key is "
        "damaged. Wipe the store's directory and restore from the changelog."
    )
