"""A store in another process: a StateStore that sends each call to its host, as one line.

Each opening of the store has its own process. ``init`` starts it, and ``close`` ends it.
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar
from weakref import WeakSet

import msgspec
from msgspec.json import Decoder

from streamproof.errors import UsageError
from streamproof.stores.api import (
    AT_LEAST_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    ChangelogRecord,
    EntryIterator,
    IsolationLevel,
    KeyValueIterator,
    Position,
    ReadOnlyKeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import InvalidStateStoreError
from streamproof.stores.host.process import HostCommand, HostProcess, die_with_hosts, kill_hosts
from streamproof.stores.host.protocol import PROTOCOL, Page, V
from streamproof.stores.iterators import StoreIterator
from streamproof.stores.timestamps import KeyValueWithTimestampStore, ValueAndTimestamp

__all__ = ["HostFactory", "RemoteStore", "die_with_hosts", "kill_hosts"]

PAGE_ROWS = 500
"""How many rows of an iterator one request asks for."""

T = TypeVar("T")

_nothing: Decoder[Any] = Decoder()
"""Of an answer that says no more than that it was done."""

_value: Decoder[bytes | None] = Decoder(bytes | None)
_number = Decoder(int)
_offset: Decoder[int | None] = Decoder(int | None)
_offsets = Decoder(list[tuple[str, int, int]])
_timed: Decoder[ValueAndTimestamp | None] = Decoder(ValueAndTimestamp | None)
_page = Decoder(Page[bytes])
_timed_page = Decoder(Page[ValueAndTimestamp])


class HostFactory:
    """Makes stores that live in a host. The host is asked once for its name and capabilities.

    Args:
        command: the command that starts a host; ``{dir}`` stands for the directory of the task.
        label: the name of the host in messages; by default its command.

    Attributes:
        hello: the host's name, version and claims.
        capabilities: the capabilities that the host claims.

    Raises:
        UsageError: the host cannot be started, or does not speak the protocol.
    """

    def __init__(self, command: str, label: str = "") -> None:
        self.command = HostCommand(command, label or command)
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UsageError(
                f"The store host {command!r} is not a valid command line: {error}. Correct its "
                "quotes."
            ) from error
        if not words:
            raise UsageError(
                "The command of the store host is empty. Give one, as in cmd:./my-store-host."
            )
        directory = Path(tempfile.mkdtemp(prefix="streamproof-hello-"))
        try:
            host = HostProcess(self.command, directory)
            self.hello = host.hello()
            host.leave()
        finally:
            kill_hosts()
            shutil.rmtree(directory, ignore_errors=True)
        self.capabilities = self._claimed()

    def _claimed(self) -> Capabilities:
        known = {each.name for each in fields(Capabilities)}
        unknown = sorted(set(self.hello.capabilities) - known)
        if unknown:
            raise UsageError(
                f"The store host {self.command.label!r} claims the unknown capabilities "
                f"{', '.join(unknown)}. Choose from: {', '.join(sorted(known))}."
            )
        try:
            found = msgspec.convert(self.hello.capabilities, Capabilities)
        except msgspec.ValidationError as error:
            raise UsageError(
                f"The store host {self.command.label!r} claims a capability with a wrong value: "
                f"{error}. Correct the answer to hello."
            ) from error
        if found.kind != "key-value" or found.change_logging or found.metrics:
            raise UsageError(
                f"The store host {self.command.label!r} claims more than version {PROTOCOL} of the "
                "protocol can serve. Claim a key-value store without metrics and change_logging."
            )
        return found

    def __call__(self) -> RemoteStore:
        """A store that is not open."""
        return RemoteStore("store", self.command, self.capabilities)


class _Calls:
    """The calls that a remote store, its transactions and its views share.

    Args:
        on: the number of the handle; ``None`` for the store itself.
    """

    _name: str
    _on: int | None = None
    _context: StateStoreContext | None = None
    _iterators: WeakSet[StoreIterator[bytes, Any]]

    def _host_of(self) -> HostProcess:
        raise NotImplementedError

    def _call(self, answer: Decoder[T], op: str, **arguments: Any) -> T:
        if self._on is not None:
            arguments["on"] = self._on
        return self._host_of().call(answer, op, arguments)

    def _write(self, answer: Decoder[T], op: str, **arguments: Any) -> T:
        context = self._context
        if context is not None and context.record_metadata is not None:
            arguments["record"] = [*context.record_metadata, context.record_timestamp]
        return self._call(answer, op, **arguments)

    def get(self, key: bytes) -> bytes | None:
        return self._call(_value, "get", key=key)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        return self._scan(_page, "range", **{"from": from_key, "to": to_key})

    def reverse_range(self, from_key: bytes | None, to_key: bytes | None) -> KeyValueIterator:
        return self._scan(_page, "reverse_range", **{"from": from_key, "to": to_key})

    def all(self) -> KeyValueIterator:
        return self._scan(_page, "all")

    def reverse_all(self) -> KeyValueIterator:
        return self._scan(_page, "reverse_all")

    def prefix_scan(self, prefix: bytes) -> KeyValueIterator:
        return self._scan(_page, "prefix_scan", prefix=prefix)

    def approximate_num_entries(self) -> int:
        return self._call(_number, "approximate_num_entries")

    def get_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        return self._call(_timed, "get_with_timestamp", key=key)

    def range_with_timestamp(
        self, from_key: bytes | None, to_key: bytes | None
    ) -> EntryIterator[bytes, ValueAndTimestamp]:
        return self._scan(_timed_page, "range_with_timestamp", **{"from": from_key, "to": to_key})

    def all_with_timestamp(self) -> EntryIterator[bytes, ValueAndTimestamp]:
        return self._scan(_timed_page, "all_with_timestamp")

    def _scan(self, page: Decoder[Page[V]], op: str, **arguments: Any) -> StoreIterator[bytes, V]:
        number = self._call(_number, op, **arguments)
        pages = _Pages(self._host_of(), number, page)
        return StoreIterator(self._name, pages.rows(), self._iterators, pages.close)


class _Pages(Generic[V]):
    """The rows of an iterator of a host."""

    def __init__(self, host: HostProcess, number: int, page: Decoder[Page[V]]) -> None:
        self._host = host
        self._number = number
        self._page = page
        self._is_open = True

    def rows(self) -> Iterator[tuple[bytes, V]]:
        done = False
        while not done:
            arguments = {"iterator": self._number, "limit": PAGE_ROWS}
            page = self._host.call(self._page, "next", arguments)
            yield from page.rows
            done = page.done

    def close(self) -> None:
        if self._is_open and self._host.is_alive:
            self._host.call(_nothing, "close_iterator", {"iterator": self._number})
        self._is_open = False


class RemoteStore(_Calls, KeyValueWithTimestampStore):
    """A key-value store in a host. Without timestamps it refuses the methods that need them.

    Args:
        name: the name of the store.
        command: the command that starts its host, and its name in messages.
        capabilities: the capabilities that the host claims.
    """

    def __init__(self, name: str, command: HostCommand, capabilities: Capabilities) -> None:
        self._name = name
        self._command = command
        self.capabilities = capabilities
        self._host: HostProcess | None = None
        self._commits = 0
        self._iterators = WeakSet()

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._name

    @property
    def persistent(self) -> bool:
        """As the host claims."""
        return self.capabilities.persistent

    @property
    def manages_offsets(self) -> bool:
        """As the host claims."""
        return self.capabilities.manages_offsets

    @property
    def is_open(self) -> bool:
        """Whether the host has opened the store, and is alive."""
        return self._host is not None and self._host.is_alive

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Start the host, and let it open the store."""
        host = HostProcess(self._command, context.state_dir)
        guarantee = context.app_configs.get(PROCESSING_GUARANTEE_CONFIG, AT_LEAST_ONCE)
        try:
            host.hello()
            host.call(
                _nothing,
                "open",
                {
                    "directory": str(context.state_dir),
                    "task": context.task_id,
                    "guarantee": guarantee.removesuffix("_v2").replace("_", "-"),
                    "config": {key: str(value) for key, value in context.app_configs.items()},
                },
            )
        except BaseException:
            host.kill()
            raise
        self._host, self._context = host, context
        context.register(root, self.restore)

    def close(self) -> None:
        """Close the store, and let the host leave.

        Raises:
            ProcessorStateError: the host died before, so that the store was not closed.
        """
        host, self._host = self._host, None
        if host is None:
            return
        try:
            for iterator in list(self._iterators):
                iterator.close()
            host.call(_nothing, "close", {})
        finally:
            host.leave()

    def flush(self) -> None:
        self._call(_nothing, "flush")

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        self._call(_nothing, "commit", offsets=_listed(changelog_offsets))
        self._commits += 1

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return self._call(
            _offset, "committed_offset", topic=partition.topic, partition=partition.partition
        )

    @property
    def position(self) -> Position:
        """The input offsets that the content reflects, if the host claims to know them."""
        if not self.capabilities.position:
            return Position()
        found = self._call(_offsets, "position")
        return Position({TopicPartition(topic, number): at for topic, number, at in found})

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Apply changelog records."""
        self._call(_nothing, "restore", entries=list(batch))

    def put(self, key: bytes, value: bytes | None) -> None:
        self._write(_nothing, "put", key=key, value=value)

    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        return self._write(_value, "put_if_absent", key=key, value=value)

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        self._write(_nothing, "put_all", entries=list(entries))

    def delete(self, key: bytes) -> bytes | None:
        return self._write(_value, "delete", key=key)

    def put_with_timestamp(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self._write(_nothing, "put_with_timestamp", key=key, value=value, timestamp=timestamp)

    def put_if_absent_with_timestamp(
        self, key: bytes, value: bytes | None, timestamp: int
    ) -> ValueAndTimestamp | None:
        return self._write(
            _timed, "put_if_absent_with_timestamp", key=key, value=value, timestamp=timestamp
        )

    def put_all_with_timestamp(
        self, entries: Iterable[tuple[bytes, ValueAndTimestamp | None]]
    ) -> None:
        self._write(_nothing, "put_all_with_timestamp", entries=list(entries))

    def delete_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        return self._write(_timed, "delete_with_timestamp", key=key)

    def approximate_num_uncommitted_entries(self) -> int:
        return self._call(_number, "approximate_num_uncommitted_entries")

    def approximate_num_uncommitted_bytes(self) -> int:
        return self._call(_number, "approximate_num_uncommitted_bytes")

    def new_transaction(self) -> StateStore:
        """A transaction, if the host claims explicit transactions; else the store itself."""
        if not self.capabilities.explicit_transactions:
            return self
        return RemoteTransaction(self, self._call(_number, "new_transaction"))

    def read_only(self, isolation_level: IsolationLevel) -> ReadOnlyKeyValueStore:
        """A view; the store itself, unless the host claims to have views."""
        if not self.capabilities.read_only_views:
            return self
        return _RemoteView(self, self._call(_number, "read_only", isolation=isolation_level.name))

    def _host_of(self) -> HostProcess:
        if self._host is None:
            raise InvalidStateStoreError(
                f"Store {self._name!r} is not open; call init() before using it."
            )
        return self._host


class RemoteTransaction(RemoteStore):
    """A transaction of a remote store."""

    def __init__(self, store: RemoteStore, on: int) -> None:
        super().__init__(store.name, store._command, store.capabilities)  # noqa: SLF001
        self._store = store
        self._context = store._context  # noqa: SLF001 - it writes the records of the same task
        self._iterators = store._iterators  # noqa: SLF001 - and closes with it
        self._on = on
        self._began = store._commits  # noqa: SLF001 - each of these commits ends all transactions
        self._is_over = False

    @property
    def is_open(self) -> bool:
        """Whether neither the transaction nor its store was committed or closed."""
        is_over = self._is_over or self._store._commits != self._began  # noqa: SLF001
        return self._store.is_open and not is_over

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        super().commit(changelog_offsets)
        self._is_over = True

    def close(self) -> None:
        """Roll back. A transaction that has ended does not change."""
        if self.is_open:
            self._call(_nothing, "close")
        self._is_over = True

    def new_transaction(self) -> StateStore:
        """Another transaction of the same store, which does not end with this one."""
        return RemoteTransaction(self._store, self._call(_number, "new_transaction"))

    def _host_of(self) -> HostProcess:
        return self._store._host_of()  # noqa: SLF001 - it has none of its own


class _RemoteView(_Calls):
    """A view of a remote store, for queries."""

    def __init__(self, store: RemoteStore, on: int) -> None:
        self._store = store
        self._name = store.name
        self._iterators = store._iterators  # noqa: SLF001 - its iterators close with the store
        self._on = on

    def _host_of(self) -> HostProcess:
        return self._store._host_of()  # noqa: SLF001 - it has none of its own

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        return


def _listed(offsets: Mapping[TopicPartition, int | None]) -> list[tuple[str, int, int | None]]:
    return [(topic, number, offset) for (topic, number), offset in offsets.items()]
