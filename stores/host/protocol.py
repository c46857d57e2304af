"""What is on the wire between a client and a store host: one JSON object a line.

Bytes are base64 there. The page docs/store-host.md is the specification.
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

PROTOCOL = 1
"""The version that we speak."""

MAX_LINE_BYTES = 64 * 1024 * 1024
"""No line is longer than this."""

V = TypeVar("V")
"""What stands beside the key of a row: a value, or a value with its timestamp."""

KINDS: dict[str, type[StoreError]] = {
    "invalid-state": InvalidStateStoreError,
    "null-argument": NullArgumentError,
    "invalid-argument": InvalidArgumentError,
    "state-corrupted": TaskCorruptedError,
    "io": ProcessorStateError,
    "unsupported": UnsupportedOperationError,
}
"""The error that each kind of failure stands for."""


class HostFailure(Struct):
    """Why there is no answer."""

    kind: str
    message: str = ""


class HostReply(Struct):
    """An answer to a request; exactly one of ``ok`` and ``error`` is there."""

    id: int
    ok: msgspec.Raw = field(default_factory=msgspec.Raw)
    error: HostFailure | None = None


class Hello(Struct):
    """What a host says of itself."""

    protocol: int
    name: str = ""
    version: str = ""
    capabilities: dict[str, Any] = field(default_factory=dict)


class Page(Struct, Generic[V]):
    """Some rows of an iterator; ``done`` says that there are no more."""

    rows: list[tuple[bytes, V]]
    done: bool


def kind_of(error: Exception) -> str:
    """The kind of failure that an error is; that of its nearest class that has one."""
    for each in type(error).__mro__:
        for kind, known in KINDS.items():
            if each is known:
                return kind
    return "error"
