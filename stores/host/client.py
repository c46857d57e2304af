"""A store in another process: a StateStore that sends each call to its host, as one line.

``init`` starts the process, or takes one that has closed its last store. With ``close``, or with
the last iterator that is still open then, the process ends, or waits for another store.
"""

from __future__ import annotations

import contextlib
import copy
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.json import Decoder

from streamproof.errors import UsageError
from streamproof.stores.api import (
    AT_LEAST_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    ChangelogRecord,
    IsolationLevel,
    Position,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.capabilities import Capabilities, Kind
from streamproof.stores.checkpoint import changelog_partition
from streamproof.stores.errors import InvalidStateStoreError, StoreError, TaskCorruptedError
from streamproof.stores.host.process import (
    DIRECTORY,
    HostCommand,
    HostProcess,
    die_with_hosts,
    host_for,
    kill_hosts,
)
from streamproof.stores.host.remote_calls import NOTHING, Calls, OpenIterators
from streamproof.stores.host.remote_reads import (
    NUMBER,
    TIMED,
    VALUE,
    KeyValueReads,
    SessionReads,
    View,
    WindowReads,
)
from streamproof.stores.sessions import SessionWithTimestampStore
from streamproof.stores.timestamps import KeyValueWithTimestampStore, ValueAndTimestamp
from streamproof.stores.windows import Windowed, WindowWithTimestampStore

__all__ = ["HostFactory", "RemoteStore", "die_with_hosts", "kill_hosts"]

_is_true = Decoder(bool)
_offset: Decoder[int | None] = Decoder(int | None)
_offsets = Decoder(list[tuple[str, int, int]])


class HostFactory:
    """Makes stores that live in a host. The host is asked once for its name and capabilities.

    Args:
        command: the command that starts a host; ``{dir}`` stands for the directory of the task.
        label: the name of the host in messages; by default its command.

    Attributes:
        hello: the host's name, version and claims.
        capabilities: the capabilities that the host claims.
        reopens: whether a host opens one store after another.
        takes_name: whether a host makes stores of the names that it is told.
        name: the name of the stores.

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
            with HostProcess.start(self.command, directory) as host:
                self.hello = host.hello()
                host.leave()
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        self.reopens = self.hello.reopens and DIRECTORY not in command
        self.takes_name = self.hello.names
        self.name = "store"
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
                f"{error}. Correct its capabilities."
            ) from error
        version = self.hello.protocol
        is_too_new = version == 1 and (found.kind != "key-value" or found.change_logging)
        if is_too_new or found.metrics:
            served = "a key-value store without change_logging and" if version == 1 else "a store"
            raise UsageError(
                f"The store host {self.command.label!r} claims more than version {version} of the "
                f"protocol can serve. Claim {served} without metrics."
            )
        return found

    def __call__(self) -> RemoteStore:
        """A store that is not open."""
        return _STORES[self.capabilities.kind](self.name, self.command, self.capabilities)

    def named(self, name: str) -> HostFactory:
        """The same for stores of another name, each in a process of its own."""
        found = copy.copy(self)
        found.name = name
        return found


def _let_close(host: HostProcess) -> None:
    """Let a host close a store that asks for a wipe, if the host can open the store again then."""
    if host.reopens:
        with contextlib.suppress(StoreError):
            # A store that was not opened may refuse to be closed.
            with contextlib.suppress(InvalidStateStoreError):
                host.call(NOTHING, "close", {})
            host.release()
            return
    host.kill()


class _Closed(NamedTuple):
    """A host that has closed a store, which was its last one then."""

    host: HostProcess
    openings: int

    def is_last(self) -> bool:
        """Whether the host has not opened another one, and answers for this one."""
        is_last = self.host.openings == self.openings
        return is_last and self.host.protocol > 1 and self.host.is_alive


class RemoteStore(Calls, StateStore):
    """A store in a host. Its subclasses have the methods of a kind of store.

    Args:
        name: the name of the store.
        command: the command that starts its host, and its name in messages.
        capabilities: the capabilities that the host claims.
    """

    _view: type[View]

    def __init__(self, name: str, command: HostCommand, capabilities: Capabilities) -> None:
        self._name = name
        self._command = command
        self.capabilities = capabilities
        self._host: HostProcess | None = None
        self._closed: _Closed | None = None
        self._commits = 0
        self._iterators = OpenIterators()

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
        """As the store says; it is closed if its host is dead, or has opened another store."""
        host = self._host
        if host is not None and host.protocol == 1:
            return host.is_alive
        return self._can_be_asked() and self._send(_is_true, "is_open")

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Let a host open the store."""
        host = host_for(self._command, context.state_dir)
        host.openings += 1
        guarantee = context.app_configs.get(PROCESSING_GUARANTEE_CONFIG, AT_LEAST_ONCE)
        try:
            host.call(
                NOTHING,
                "open",
                {
                    "name": self._name,
                    "directory": str(context.state_dir),
                    "task": context.task_id,
                    "changelog": changelog_partition(context, self._name),
                    "guarantee": guarantee.removesuffix("_v2").replace("_", "-"),
                    "config": {key: str(value) for key, value in context.app_configs.items()},
                },
            )
        except TaskCorruptedError:
            _let_close(host)
            raise
        except BaseException:
            host.kill()
            raise
        self._host, self._context = host, context
        # The iterators of an earlier opening are those of another process.
        self._iterators = OpenIterators()
        context.register(root, self.restore)

    def close(self) -> None:
        """Close the store, and release the host as soon as no iterator is open.

        Raises:
            ProcessorStateError: the host died before, so that the store was not closed.
        """
        host, self._host = self._host, None
        if host is None:
            if self._can_be_asked():
                self._send(NOTHING, "close")
            return
        self._closed = _Closed(host, host.openings)
        try:
            # Version 1 does not say that an iterator can be asked after the close of its store.
            for iterator in list(self._iterators) if host.protocol == 1 else ():
                iterator.close()
            host.call(NOTHING, "close", {})
        except BaseException:
            # Nobody knows in which state the store is.
            host.reopens = False
            raise
        finally:
            self._log(host)
            self._iterators.release_with_last(host)

    def flush(self) -> None:
        self._send(NOTHING, "flush")

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        self._send(NOTHING, "commit", offsets=_listed(changelog_offsets))
        self._commits += 1

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return self._send(
            _offset, "committed_offset", topic=partition.topic, partition=partition.partition
        )

    @property
    def position(self) -> Position:
        """The input offsets that the content reflects, if the host claims to know them."""
        if not self.capabilities.position:
            return Position()
        found = self._send(_offsets, "position")
        return Position({TopicPartition(topic, number): at for topic, number, at in found})

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Apply changelog records. Those of streamproof have no headers."""
        context = self._context
        if context is None or self._host_of().protocol == 1:
            self._send(NOTHING, "restore", entries=list(batch))
            return
        entries: list[tuple[Any, ...]] = [(*record, []) for record in batch]
        topic, partition = changelog_partition(context, self._name) or (None, None)
        self._send(NOTHING, "restore", topic=topic, partition=partition, entries=entries)

    def approximate_num_uncommitted_entries(self) -> int:
        return self._send(NUMBER, "approximate_num_uncommitted_entries")

    def approximate_num_uncommitted_bytes(self) -> int:
        return self._send(NUMBER, "approximate_num_uncommitted_bytes")

    def new_transaction(self) -> StateStore:
        """A transaction, if the host claims explicit transactions; else the store itself."""
        if not self.capabilities.explicit_transactions:
            return self
        return _TRANSACTIONS[self._kind](self, self._send(NUMBER, "new_transaction"))

    def read_only(self, isolation_level: IsolationLevel) -> Any:
        """A view; the store itself, unless the host claims to have views."""
        if not self.capabilities.read_only_views:
            return self
        return self._view(self, self._send(NUMBER, "read_only", isolation=isolation_level.name))

    def _can_be_asked(self) -> bool:
        """Whether a host is there for the open store, or still for the closed one."""
        if self._host is not None:
            return self._host.is_alive
        return self._closed is not None and self._closed.is_last()

    def _host_of(self) -> HostProcess:
        if self._host is not None:
            return self._host
        if self._closed is not None and self._closed.is_last():
            return self._closed.host
        raise InvalidStateStoreError(
            f"Store {self._name!r} is not open; call init() before using it."
        )


class _KeyValueView(View, KeyValueReads):
    """A view of a key-value store."""


class _WindowView(View, WindowReads):
    """A view of a window store."""


class _SessionView(View, SessionReads):
    """A view of a session store."""


class RemoteKeyValueStore(RemoteStore, KeyValueReads, KeyValueWithTimestampStore):
    """A key-value store in a host. Without timestamps it refuses the methods that need them."""

    _view = _KeyValueView

    def put(self, key: bytes, value: bytes | None) -> None:
        self._ask(NOTHING, "put", key, value)

    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        return self._ask(VALUE, "put_if_absent", key, value)

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        self._ask(NOTHING, "put_all", list(entries))

    def delete(self, key: bytes) -> bytes | None:
        return self._ask(VALUE, "delete", key)

    def put_with_timestamp(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self._ask(NOTHING, "put_with_timestamp", key, value, timestamp)

    def put_if_absent_with_timestamp(
        self, key: bytes, value: bytes | None, timestamp: int
    ) -> ValueAndTimestamp | None:
        return self._ask(TIMED, "put_if_absent_with_timestamp", key, value, timestamp)

    def put_all_with_timestamp(
        self, entries: Iterable[tuple[bytes, ValueAndTimestamp | None]]
    ) -> None:
        self._ask(NOTHING, "put_all_with_timestamp", list(entries))

    def delete_with_timestamp(self, key: bytes) -> ValueAndTimestamp | None:
        return self._ask(TIMED, "delete_with_timestamp", key)


class _Dropping(RemoteStore):
    """What windows and sessions share."""

    @property
    def dropped_records(self) -> int:
        """How many records were dropped because they came too late, as the host counts them."""
        return self._send(NUMBER, "dropped_records")


class RemoteWindowStore(_Dropping, WindowReads, WindowWithTimestampStore):
    """A window store in a host. Without timestamps it refuses the methods that need them."""

    _view = _WindowView

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        self._ask(NOTHING, "put", key, value, window_start)

    def put_with_timestamp(
        self, key: bytes, value: bytes | None, timestamp: int, window_start: int | None = None
    ) -> None:
        self._ask(NOTHING, "put_with_timestamp", key, value, timestamp, window_start)


class RemoteSessionStore(_Dropping, SessionReads, SessionWithTimestampStore):
    """A session store in a host. Without timestamps it refuses the methods that need them."""

    _view = _SessionView

    def put(self, session: Windowed, aggregate: bytes | None) -> None:
        self._ask(NOTHING, "put", session, aggregate)

    def remove(self, session: Windowed) -> None:
        self._ask(NOTHING, "remove", session)

    def put_with_timestamp(
        self, session: Windowed, aggregate: bytes | None, timestamp: int
    ) -> None:
        self._ask(NOTHING, "put_with_timestamp", session, aggregate, timestamp)


class _Transaction(RemoteStore):
    """A transaction of a remote store. The class of its store comes with it."""

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
        """As the transaction says; one whose store is closed or committed is over in version 1."""
        if self._cannot_tell():
            is_over = self._is_over or self._store._commits != self._began  # noqa: SLF001
            return self._store.is_open and not is_over
        return self._can_be_asked() and self._send(_is_true, "is_open")

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        super().commit(changelog_offsets)
        self._is_over = True

    def close(self) -> None:
        """Roll back. A transaction that has ended does not change."""
        if self.is_open if self._cannot_tell() else self._can_be_asked():
            self._send(NOTHING, "close")
        self._is_over = True

    def new_transaction(self) -> StateStore:
        """Another transaction of the same store, which does not end with this one."""
        return _TRANSACTIONS[self._kind](self._store, self._send(NUMBER, "new_transaction"))

    def _cannot_tell(self) -> bool:
        host = self._store._host  # noqa: SLF001
        return host is not None and host.protocol == 1

    def _can_be_asked(self) -> bool:
        return self._store._can_be_asked()  # noqa: SLF001

    def _host_of(self) -> HostProcess:
        return self._store._host_of()  # noqa: SLF001 - it has none of its own


class _KeyValueTransaction(_Transaction, RemoteKeyValueStore):
    """A transaction of a key-value store."""


class _WindowTransaction(_Transaction, RemoteWindowStore):
    """A transaction of a window store."""


class _SessionTransaction(_Transaction, RemoteSessionStore):
    """A transaction of a session store."""


_TRANSACTIONS: dict[Kind, type[_Transaction]] = {
    "key-value": _KeyValueTransaction,
    "window": _WindowTransaction,
    "session": _SessionTransaction,
}

_STORES: dict[Kind, type[RemoteStore]] = {
    "key-value": RemoteKeyValueStore,
    "window": RemoteWindowStore,
    "session": RemoteSessionStore,
}


def _listed(offsets: Mapping[TopicPartition, int | None]) -> list[tuple[str, int, int | None]]:
    return [(topic, number, offset) for (topic, number), offset in offsets.items()]
