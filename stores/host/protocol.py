"""The messages between a client and a store host: one JSON object on each line.

Bytes are encoded in base64. The page docs/store-host.md is the specification.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct, field

from streamproof.stores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    NullArgumentError,
    ProcessorStateError,
    StoreError,
    TaskCorruptedError,
    UnsupportedOperationError,
)

__all__ = [
    "KINDS",
    "MAX_LINE_BYTES",
    "PROTOCOL",
    "Hello",
    "HostFailure",
    "HostReply",
    "Page",
    "kind_of",
]

PROTOCOL = 2
"""The newest version of the protocol. Hosts of each older version are served, too."""

MAX_LINE_BYTES = 64 * 1024 * 1024
"""The longest line that is allowed."""

K = TypeVar("K")
"""The type of the key in a row: a key, the start of a window, or a key with its window."""

V = TypeVar("V")
"""The type of the value in a row: a value, or a value with its timestamp."""

KINDS: dict[str, type[StoreError]] = {
    "invalid-state": InvalidStateStoreError,
    "null-argument": NullArgumentError,
    "invalid-argument": InvalidArgumentError,
    "state-corrupted": TaskCorruptedError,
    "io": ProcessorStateError,
    "unsupported": UnsupportedOperationError,
}
"""The error for each kind of failure."""


class HostFailure(Struct):
    """Why a request failed."""

    kind: str
    message: str = ""


class HostReply(Struct):
    """The answer to a request, with exactly one of ``ok`` and ``error``.

    ``logged`` has what the store has sent to its changelog meanwhile: key, value, timestamp.
    """

    id: int
    ok: msgspec.Raw = field(default_factory=msgspec.Raw)
    error: HostFailure | None = None
    logged: list[tuple[bytes, bytes | None, int]] = field(default_factory=list)


class Hello(Struct):
    """The host's name, version and claims.

    ``reopens`` says whether it opens one store after another, and ``names`` whether it makes stores
    of the names that it is told.
    """

    protocol: int
    name: str = ""
    version: str = ""
    reopens: bool = False
    names: bool = False
    capabilities: dict[str, Any] = field(default_factory=dict)


class Page(Struct, Generic[K, V]):
    """Some rows of an iterator; ``done`` says that these are the last."""

    rows: list[tuple[K, V]]
    done: bool


def kind_of(error: Exception) -> str:
    """The kind of failure of an error: that of its nearest class that has one."""
    for each in type(error).__mro__:
        for kind, known in KINDS.items():
            if each is known:
                return kind
    return "error"
