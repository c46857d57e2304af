"""Values with the timestamp of their record: the interfaces of KIP-258 and the stored format.

A timestamped store keeps ``timestamp ++ value`` on disk: eight bytes more than a plain store. Its
changelog holds the value alone, and the timestamp is the timestamp of the changelog record.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Iterable
from typing import NamedTuple, Protocol, overload

from streamproof.stores.api import (
    NO_TIMESTAMP,
    EntryIterator,
    KeyValueStore,
    ReadOnlyKeyValueStore,
)
from streamproof.stores.errors import ProcessorStateError

__all__ = [
    "NO_TIMESTAMP",
    "KeyValueWithTimestampStore",
    "ReadOnlyKeyValueWithTimestampStore",
    "ValueAndTimestamp",
    "decode_value_and_timestamp",
    "encode_value_and_timestamp",
    "split",
]

_LONG = struct.Struct(">q")


class ValueAndTimestamp(NamedTuple):
    """A value and the timestamp of its record, in milliseconds (KIP-258).

    ``NO_TIMESTAMP`` marks a value that was written before the store kept timestamps.
    """

    value: bytes
    timestamp: int

    @staticmethod
    def make(value: bytes | None, timestamp: int) -> ValueAndTimestamp | None:
        """A value with its timestamp; ``None`` without a value (Kafka: ValueAndTimestamp#make)."""
        return None if value is None else ValueAndTimestamp(value, timestamp)


@overload
def encode_value_and_timestamp(value: bytes, timestamp: int) -> bytes: ...
@overload
def encode_value_and_timestamp(value: None, timestamp: int) -> None: ...
@overload
def encode_value_and_timestamp(value: bytes | None, timestamp: int) -> bytes | None: ...
def encode_value_and_timestamp(value: bytes | None, timestamp: int) -> bytes | None:
    """The stored form: the timestamp as a signed 64-bit number, big-endian, then the value."""
    return None if value is None else _LONG.pack(timestamp) + value


def decode_value_and_timestamp(stored: bytes) -> ValueAndTimestamp:
    """The value and the timestamp from their stored form.

    Raises:
        ProcessorStateError: the stored bytes are too short to hold a timestamp.
    """
    try:
        (timestamp,) = _LONG.unpack_from(stored)
    except struct.error as error:
        raise ProcessorStateError(
            f"A stored value is {len(stored)} bytes long, too short for its timestamp: the store "
            "holds values without timestamps, or is damaged. Wipe the store's directory and "
            "restore from the changelog."
        ) from error
    return ValueAndTimestamp(stored[_LONG.size :], timestamp)


def split(stamped: ValueAndTimestamp | None) -> tuple[bytes | None, int]:
    """The value and the timestamp, as two arguments; a deletion has no timestamp."""
    return (None, NO_TIMESTAMP) if stamped is None else (stamped.value, stamped.timestamp)


class ReadOnlyKeyValueWithTimestampStore(ReadOnlyKeyValueStore, Protocol):
    """The methods of a query for values and timestamps (KIP-258).

    ``read_only`` of a store with timestamps returns such a view.
    """

    def get_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        """The value of ``key`` with its timestamp; ``None`` if the store does not have the key."""
        ...

    def range_with_timestamp(
        self, from_key: bytes | None, to_key: bytes | None
    ) -> EntryIterator[bytes, ValueAndTimestamp]:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending."""
        ...

    def all_with_timestamp(self) -> EntryIterator[bytes, ValueAndTimestamp]:
        """Every entry, ascending."""
        ...


class KeyValueWithTimestampStore(KeyValueStore):
    """A key-value store that keeps the timestamp of each record (KIP-258).

    The store also has the methods of a plain key-value store. They return the value without its
    timestamp, and write a value with the timestamp of the current record, or with ``NO_TIMESTAMP``
    if no record is being processed.
    """

    @abstractmethod
    def get_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        """The value of ``key`` with its timestamp; ``None`` if the store does not have the key."""

    @abstractmethod
    def put_with_timestamp(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Set the value of ``key`` and its timestamp. A value of ``None`` deletes the key."""

    def put_value_and_timestamp(self, key: bytes, stamped: ValueAndTimestamp | None) -> None:
        """``put_with_timestamp`` for a pair; ``None`` deletes the key.

        Source: KIP-258, putWithTimestamp(K, ValueAndTimestamp).
        """
        self.put_with_timestamp(key, *split(stamped))

    def put_if_absent_with_timestamp(
        self, key: bytes, value: bytes | None, timestamp: int
    ) -> ValueAndTimestamp | None:
        """Set the value of ``key`` if it has none; return the value from before, or ``None``."""
        existing = self.get_with_timestamp(key)
        if existing is None:
            self.put_with_timestamp(key, value, timestamp)
        return existing

    def put_value_and_timestamp_if_absent(
        self, key: bytes, stamped: ValueAndTimestamp | None
    ) -> ValueAndTimestamp | None:
        """``put_if_absent_with_timestamp`` for a pair.

        Source: KIP-258, putIfAbsentWithTimestamp(K, ValueAndTimestamp).
        """
        return self.put_if_absent_with_timestamp(key, *split(stamped))

    @abstractmethod
    def put_all_with_timestamp(
        self, entries: Iterable[tuple[bytes, ValueAndTimestamp | None]]
    ) -> None:
        """Put all entries in order; if one key is ``None``, none is written."""

    def delete_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        """Delete ``key`` and return its previous value, or ``None``."""
        old = self.get_with_timestamp(key)
        self.put_with_timestamp(key, None, NO_TIMESTAMP)
        return old

    @abstractmethod
    def range_with_timestamp(
        self, from_key: bytes | None, to_key: bytes | None
    ) -> EntryIterator[bytes, ValueAndTimestamp]:
        """The entries from ``from_key`` to ``to_key``, both inclusive, ascending."""

    def all_with_timestamp(self) -> EntryIterator[bytes, ValueAndTimestamp]:
        """Every entry, ascending."""
        return self.range_with_timestamp(None, None)
