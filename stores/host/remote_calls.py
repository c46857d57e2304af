"""The calls of a store in a host: requests with arguments, and iterators that live in the host."""

from __future__ import annotations

from collections import deque
from typing import Any, Generic, Self, TypeVar
from weakref import WeakSet, finalize

from msgspec.json import Decoder

from streamproof.stores.api import StateStoreContext
from streamproof.stores.capabilities import Kind
from streamproof.stores.host.operations import OPERATIONS
from streamproof.stores.host.process import HostProcess
from streamproof.stores.host.protocol import K, Page, V
from streamproof.stores.iterators import StoreIterator

__all__ = ["NOTHING", "PAGE_ROWS", "Calls", "HostIterator", "OpenIterators", "Rows"]

PAGE_ROWS = 500
"""The largest number of rows of an iterator for which one request asks."""

SINGLE_ROWS = 4
"""How many rows are asked for one by one before the pages begin to grow."""

T = TypeVar("T")

NOTHING: Decoder[Any] = Decoder()
"""Of an answer that says no more than that it was done."""


class Rows(Generic[K, V]):
    """The types of the rows of an iterator.

    Args:
        key: the type of the keys.
        page: the type of some rows, as ``Page[key, value]``.
    """

    def __init__(self, key: Any, page: type[Page[K, V]]) -> None:
        self.key: Decoder[K | None] = Decoder(key | None)
        self.page: Decoder[Page[K, V]] = Decoder(page)


class OpenIterators(WeakSet[StoreIterator[Any, Any]]):
    """The iterators of a store. After its close, they keep their host as long as one is open."""

    def __init__(self) -> None:
        super().__init__()
        self._left: HostProcess | None = None

    def release_with_last(self, host: HostProcess) -> None:
        """From now on, the host has nothing to do but to serve the iterators that are open."""
        self._left = host
        self.release_if_done()

    def release_if_done(self) -> None:
        """Release the host if its store is closed and no iterator is open."""
        host = self._left
        if host is not None and all(each.closed for each in self):
            self._left = None
            if host.is_alive:
                host.release()


class Calls:
    """The calls that a remote store, its transactions and its views share."""

    _kind: Kind
    _name: str
    _on: int | None = None
    """The number of the handle; ``None`` for the store itself."""

    _context: StateStoreContext | None = None
    _iterators: OpenIterators

    def _host_of(self) -> HostProcess:
        raise NotImplementedError

    def _send(self, answer: Decoder[T], op: str, **fields: Any) -> T:
        """Send a request for the store or the handle."""
        if self._on is not None:
            fields["on"] = self._on
        host = self._host_of()
        try:
            return host.call(answer, op, fields)
        finally:
            self._log(host)

    def _log(self, host: HostProcess) -> None:
        """Send what the store has logged to the changelog, if the runtime keeps one."""
        for key, value, timestamp in host.take_logged():
            if self._context is not None and self._context.changelog is not None:
                self._context.changelog(self._name, key, value, timestamp)

    def _ask(self, answer: Decoder[T], op: str, *arguments: Any) -> T:
        """Perform an operation of this kind of store."""
        operation = OPERATIONS[self._kind][op]
        fields = dict(zip(operation.fields, arguments, strict=True))
        context = self._context
        if operation.does == "write" and context is not None and context.record_metadata:
            fields["record"] = [*context.record_metadata, context.record_timestamp]
        return self._send(answer, op, **fields)

    def _scan(self, rows: Rows[K, V], op: str, *arguments: Any) -> HostIterator[K, V]:
        """Open an iterator."""
        number = self._ask(_number, op, *arguments)
        pages = _Pages(self._host_of(), number, rows)
        return HostIterator(self._name, pages, self._iterators)


_number = Decoder(int)


class HostIterator(StoreIterator[K, V]):
    """An iterator that lives in a host until it is closed, whatever else is called meanwhile."""

    def __init__(self, name: str, pages: _Pages[K, V], registry: OpenIterators) -> None:
        super().__init__(name, pages, registry, pages.close)
        self._pages = pages
        self._registry = registry
        # Who forgets an iterator does not close it, and its host must leave all the same.
        finalize(self, registry.release_if_done).atexit = False

    def peek_next_key(self) -> K:
        """The key of the next row, without advancing."""
        if self.closed or self._peeked is not None or not self._pages.can_peek:
            return super().peek_next_key()
        key = self._pages.peek()
        if key is None:
            raise StopIteration
        return key

    def close(self) -> None:
        """Release the rows; closing twice is harmless."""
        super().close()
        self._registry.release_if_done()


class _Pages(Generic[K, V]):
    """The rows of an iterator of a host."""

    def __init__(self, host: HostProcess, number: int, types: Rows[K, V]) -> None:
        self._host = host
        self._number = number
        self._types = types
        self._is_open = True
        self._is_done = False
        self._ahead: deque[tuple[K, V]] = deque()
        self._in_a_row = 0
        self._last = host.requests
        # A host of version 1 shows rows as of its answer, and cannot be asked for a key.
        self.can_peek = host.protocol > 1

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[K, V]:
        """The next row, which may begin a new page."""
        while not self._ahead:
            if self._is_done:
                raise StopIteration
            page = self._call(self._types.page, "next", limit=self._limit())
            self._is_done = page.done
            self._ahead.extend(page.rows)
        return self._ahead.popleft()

    def _limit(self) -> int:
        """How many rows to ask for.

        Rows that came ahead of time do not show what is written before they are read. So a page
        has one row, unless many rows are read with no other request in between.
        """
        if not self.can_peek:
            return PAGE_ROWS
        alone = self._last == self._host.requests
        self._in_a_row = self._in_a_row + 1 if alone else 0
        return int(min(2 ** max(self._in_a_row - SINGLE_ROWS, 0), PAGE_ROWS))

    def peek(self) -> K | None:
        """The key of the next row; ``None`` if there is no such row."""
        if self._ahead:
            return self._ahead[0][0]
        return self._call(self._types.key, "peek_next_key")

    def _call(self, answer: Decoder[T], op: str, **fields: Any) -> T:
        found = self._host.call(answer, op, {"iterator": self._number, **fields})
        self._last = self._host.requests
        return found

    def close(self) -> None:
        """Close the iterator of the host."""
        if self._is_open and self._host.is_alive:
            self._is_open = False
            self._call(NOTHING, "close_iterator")
