"""The common part of the iterators of all stores: order, bounds, peeking, and closing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar
from weakref import WeakSet

from streamproof.stores.errors import InvalidStateStoreError

__all__ = ["Row", "RowIterator", "StoreIterator", "is_inverted", "prefix_end"]

Row = tuple[bytes, bytes]

K = TypeVar("K")
V = TypeVar("V")

_logger = logging.getLogger("streamproof.stores")


class StoreIterator(Generic[K, V]):
    """An EntryIterator over rows that are already in order and within bounds.

    Args:
        store_name: the name of the store, for messages.
        rows: the rows; an iterator in C keeps the scan fast.
        registry: the open iterators of the store, which closes them together with itself.
        on_close: releases the resources of the rows; it is called once.

    Attributes:
        closed: whether the iterator was closed.
    """

    __slots__ = ("__weakref__", "_advance", "_on_close", "_peeked", "_store_name", "closed")

    def __init__(
        self,
        store_name: str,
        rows: Iterator[tuple[K, V]],
        registry: WeakSet[StoreIterator[Any, Any]],
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self._store_name = store_name
        # Keeping the bound method instead of the rows saves one lookup for each row.
        self._advance: Callable[[], tuple[K, V]] = rows.__next__
        self._peeked: tuple[K, V] | None = None
        self._on_close = on_close
        self.closed = False
        registry.add(self)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[K, V]:
        row = self._peeked
        if row is None:
            return self._advance()
        self._peeked = None
        return row

    def peek_next_key(self) -> K:
        """The key of the next row, without advancing.

        Raises:
            StopIteration: no row is left.
            InvalidStateStoreError: the iterator or its store is closed.

        Source: Kafka, KeyValueIterator#peekNextKey.
        """
        if self._peeked is None:
            self._peeked = self._advance()
        return self._peeked[0]

    def close(self) -> None:
        """Release the rows; closing twice is harmless."""
        name = self._store_name

        def reject() -> NoReturn:
            raise InvalidStateStoreError(
                f"The iterator over store {name!r} is closed, or its store is; open a new one."
            )

        self.closed = True
        self._advance = reject
        self._peeked = None
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        self.close()


RowIterator = StoreIterator[bytes, bytes]
"""An iterator over the rows of a key-value store."""


def is_inverted(from_key: bytes | None, to_key: bytes | None) -> bool:
    """Whether the first bound of a range is beyond the second; if so, a warning is logged.

    The warning names the usual cause, as Kafka's does: a serializer of signed numbers does not keep
    their order.
    Source: Kafka, RocksDBStore#range and InMemoryKeyValueStore#getKeyValueIterator.
    """
    if from_key is None or to_key is None or from_key <= to_key:
        return False
    _logger.warning(
        "Returning an empty iterator for a range whose lower bound %r is greater than its "
        "upper bound %r. Keys are compared as unsigned bytes: does the serializer of the "
        "keys keep their order (signed integers do not)?",
        from_key,
        to_key,
    )
    return True


def prefix_end(prefix: bytes) -> bytes | None:
    """The smallest key after every key that starts with ``prefix``.

    ``None`` if no such key exists: the prefix is empty, or has no other bytes than 0xFF.
    """
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None
