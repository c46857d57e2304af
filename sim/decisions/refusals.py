"""Which records cannot be processed or written, and what a handler says to that.

A value cannot be read, a processor refuses it, or the record has no valid timestamp, as records
from before Kafka 0.10. What the simulator has no code for, it knows by the beginning of the value.

Sources: KIP-93 (timestamps), KIP-161 (deserialisation), KIP-1033 (processing), KIP-1034 (dead
letters), KIP-210 and KIP-1065 (production).
"""

from __future__ import annotations

from typing import Literal

__all__ = [
    "MAX_MESSAGE_BYTES",
    "NO_VALID_TIMESTAMP",
    "REFUSED",
    "UNREADABLE",
    "Handler",
    "ProductionHandler",
    "Refusal",
    "is_left_out",
    "is_too_large",
    "refusal",
]

Handler = Literal["fail", "continue"]
"""Ends the thread, or leaves the record out and goes on."""

ProductionHandler = Literal["retry", "fail", "continue"]
"""The same for output records; ``retry`` gives the task another try if the error may pass, and is
``fail`` if it will not (KIP-1065)."""

MAX_MESSAGE_BYTES = 1_048_588
"""``max.message.bytes`` of a topic by default."""

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


def is_too_large(key: bytes, value: bytes | None, most: int) -> bool:
    """Whether the brokers refuse an output record for its size, at any later time as well.

    Args:
        key: the key.
        value: the value.
        most: ``max.message.bytes`` of the topic.
    """
    return len(key) + len(value or b"") > most


def is_left_out(handler: ProductionHandler) -> bool:
    """Whether a record that will never be taken is left out, rather than the thread ended.

    Source: Kafka, RecordCollectorImpl#recordSendError.
    """
    return handler == "continue"
