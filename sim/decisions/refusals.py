"""Which records cannot be processed, and what a handler says to that.

A value cannot be read, a processor refuses it, or the record has no valid timestamp, as records
from before Kafka 0.10. What the simulator has no code for, it knows by the beginning of the value.

Sources: KIP-93 (timestamps), KIP-161 (deserialisation), KIP-1033 (processing), KIP-1034 (dead
letters).
"""

from __future__ import annotations

from typing import Literal

__all__ = ["NO_VALID_TIMESTAMP", "REFUSED", "UNREADABLE", "Handler", "Refusal", "refusal"]

Handler = Literal["fail", "continue"]
"""Ends the thread, or leaves the record out and goes on."""

Refusal = Literal["", "timestamp", "deserialization", "processing"]
"""Why a record cannot be processed; empty if it can."""

UNREADABLE = b"unreadable:"
"""Values that begin like this cannot be deserialised."""

REFUSED = b"refused:"
"""The processor raises at values that begin like this, before it has done anything."""

NO_VALID_TIMESTAMP = -1
"""The timestamp of a record without one."""


def refusal(timestamp: int, value: bytes | None) -> Refusal:
    """Why a record cannot be processed.

    The value is deserialised before the timestamp is extracted, and both before the processing.
    """
    if value is not None and value.startswith(UNREADABLE):
        return "deserialization"
    if timestamp < 0:
        return "timestamp"
    return "processing" if value is not None and value.startswith(REFUSED) else ""
