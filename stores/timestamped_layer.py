"""The common part of stores with timestamps of all kinds: a layer over a store of stored bytes.

Below the layer, a value is ``timestamp ++ value``, and no store looks into it. Above the layer are
values, or values with their timestamps. A changelog record has the plain value; the restoration
puts the timestamp of the record before it. No code guesses from the bytes of a value whether a
timestamp is in it: a plain value may begin with any eight bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

from streamproof.stores.api import (
    NO_TIMESTAMP,
    ChangelogRecord,
    EntryIterator,
    IsolationLevel,
    RestoreCallback,
    StateStore,
    StateStoreContext,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import InvalidArgumentError, InvalidStateStoreError
from streamproof.stores.timestamps import (
    ValueAndTimestamp,
    decode_value_and_timestamp,
    encode_value_and_timestamp,
)
from streamproof.stores.transactions import Transaction
from streamproof.stores.wrapped import WrappedStateStore

__all__ = [
    "PLAIN",
    "TIMESTAMPED",
    "DecodedIterator",
    "TimestampedLayer",
    "TimestampedTransaction",
    "ValueFormat",
]

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S", bound=StateStore)


class ValueFormat(NamedTuple):
    """How a value and its timestamp are stored, and how they are read back.

    Attributes:
        encode: the stored form of a value and its timestamp; ``None`` for ``None``.
        decode: the value and the timestamp of a stored form.
        value: the value of a stored form.
    """

    encode: Callable[[bytes | None, int], bytes | None]
    decode: Callable[[bytes], ValueAndTimestamp]
    value: Callable[[bytes], bytes]


def _value_of(stored: bytes) -> bytes:
    # A slice alone would be faster, but it would take damaged bytes, too short for a timestamp, for
    # an empty value.
    return stored[8:] if len(stored) >= 8 else decode_value_and_timestamp(stored).value


def _same(value: bytes) -> bytes:
    return value


TIMESTAMPED = ValueFormat(encode_value_and_timestamp, decode_value_and_timestamp, _value_of)
"""The format of KIP-258."""

PLAIN = ValueFormat(
    lambda value, _: value, lambda stored: ValueAndTimestamp(stored, NO_TIMESTAMP), _same
)
"""The plain format: a write drops the timestamp, and a read finds none."""


class DecodedIterator(Generic[K, V]):
    """An iterator over stored rows that decodes their values."""

    __slots__ = ("_decode", "_rows")

    def __init__(self, rows: EntryIterator[K, bytes], decode: Callable[[bytes], V]) -> None:
        self._rows = rows
        self._decode = decode

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[K, V]:
        key, stored = next(self._rows)
        return key, self._decode(stored)

    def peek_next_key(self) -> K:
        """The key that ``next`` will return, without advancing."""
        return self._rows.peek_next_key()

    def close(self) -> None:
        """Release the rows; closing twice is harmless."""
        self._rows.close()

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


class TimestampedLayer(WrappedStateStore[S]):
    """Keeps a timestamp with each value, over a store of bytes of the same kind.

    The inner store may have transactions. Transactions and views of this store then read and write
    values with timestamps too.

    Args:
        inner: the store of ``timestamp ++ value``.

    Raises:
        InvalidArgumentError: ``inner`` is on a disk, in the directory of plain values.
    """

    _form = TIMESTAMPED
    _context: StateStoreContext | None = None

    def __init__(self, inner: S) -> None:
        super().__init__(inner)
        self._require_format(inner)
        self._use(inner, TIMESTAMPED)

    def _require_format(self, inner: S) -> None:
        stored: Any = inner
        while (below := getattr(stored, "inner", None)) is not None:
            stored = below
        if hasattr(stored, "format_version") and not getattr(stored, "holds_timestamps", False):
            raise InvalidArgumentError(
                f"Store {inner.name!r} keeps its rows in a {type(stored).__name__}, in the "
                "directory of plain values, which must not share files with values with "
                "timestamps. Use a store of the format with timestamps, or one in memory."
            )

    def _use(self, inner: S, form: ValueFormat) -> None:
        """Make ``inner`` the live store, whose values are stored in the format ``form``."""
        self._inner = inner
        self._form = form

    @property
    def capabilities(self) -> Capabilities:
        """What the inner store promises, with timestamps."""
        inner = getattr(self._inner, "capabilities", Capabilities())
        return replace(inner, timestamped=True)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the inner store, and register a callback that restores with timestamps."""
        self._inner.init(context, root)
        self._context = context
        restore = context.restore_callbacks.get(root.name)
        if restore is not None:
            context.register(root, self._restoring(restore))

    def _restoring(self, restore: RestoreCallback) -> RestoreCallback:
        encode = self._form.encode

        def restore_stored(records: Sequence[ChangelogRecord]) -> None:
            restore([r._replace(value=encode(r.value, r.timestamp)) for r in records])

        return restore_stored

    def new_transaction(self) -> StateStore:
        """A transaction that keeps timestamps; this store, if the inner one has none (KIP-892)."""
        staged = self._inner.new_transaction()
        if staged is self._inner:
            return self
        if not isinstance(staged, Transaction):
            raise InvalidStateStoreError(
                f"Store {self.name!r} returned no transaction; wrap a store whose "
                "new_transaction() returns one."
            )
        transaction = self._transaction_over(staged)
        transaction._context = self._context  # noqa: SLF001 - a transaction is one of its kind
        transaction._use(staged, self._form)  # noqa: SLF001 - as above
        return transaction

    def _transaction_over(self, staged: Any) -> TimestampedTransaction:
        """A transaction of this kind of store, over one of the inner store."""
        raise NotImplementedError

    def _record_timestamp(self) -> int:
        return NO_TIMESTAMP if self._context is None else self._context.record_timestamp


class TimestampedTransaction(TimestampedLayer[Any], Transaction):
    """The common part of transactions whose staged values have timestamps.

    Source: KIP-892, Transaction.
    """

    @property
    def isolation_level(self) -> IsolationLevel:
        """What this transaction sees of other transactions' writes."""
        level: IsolationLevel = self._inner.isolation_level
        return level

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Do nothing: a transaction needs no opening."""
