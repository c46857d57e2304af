"""Stores that are wrong in ways that a suite must survive: each factory is one of them."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from streamproof.stores.api import StateStore, StateStoreContext
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.memory import InMemoryKeyValueStore
from streamproof.stores.rocksdb import RocksDBStore

NAME = "bad"
MARKUP = "</script><script>alert(1)</script>"
HOSTILE = f"\x1b[2J\x07{MARKUP}\udcff\r\nstreamproof: \N{BELL}" + "x" * 5000


class _Shape:
    """A store that has the methods of another one, but inherits nothing; some may be left out."""

    capabilities = InMemoryKeyValueStore.capabilities
    hidden: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._inner = InMemoryKeyValueStore(NAME)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in self.hidden:
            raise AttributeError(name)
        return getattr(self._inner, name)


class _NoDelete(_Shape):
    hidden = ("delete",)


def without_delete() -> Any:
    """Lacks a method."""
    return _NoDelete()


class _DeleteRaises(InMemoryKeyValueStore):
    def delete(self, key: bytes) -> bytes | None:
        raise RuntimeError("delete is not done yet")


def delete_raises() -> StateStore:
    """A method raises."""
    return _DeleteRaises(NAME)


class _Panic(BaseException):
    """As a binding raises it when the native side panics."""


class _DeletePanics(InMemoryKeyValueStore):
    def delete(self, key: bytes) -> bytes | None:
        raise _Panic("called Option::unwrap() on a None value")

    def close(self) -> None:
        super().close()
        raise _Panic("and once more")


def delete_panics() -> StateStore:
    """A method raises what is not an Exception, and so does close."""
    return _DeletePanics(NAME)


class _GetReturnsText(InMemoryKeyValueStore):
    def get(self, key: bytes) -> Any:
        value = super().get(key)
        return None if value is None else value.decode("latin-1")


def get_returns_text() -> StateStore:
    """Answers with str where bytes are due."""
    return _GetReturnsText(NAME)


class _OpenIsMethod(_Shape):
    def is_open(self) -> bool:
        return self._inner.is_open


def is_open_is_a_method() -> Any:
    """A property misses its decorator."""
    return _OpenIsMethod()


class _Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no representation")


class _OddError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")


class _Unprintable(InMemoryKeyValueStore):
    def put_if_absent(self, key: bytes, value: bytes | None) -> Any:
        raise _OddError

    def approximate_num_entries(self) -> Any:
        return _Odd()

    def put_all(self, entries: Any) -> None:
        super().put_all(entries)
        raise ValueError(_Odd)

    def delete(self, key: bytes) -> Any:
        return _Odd()


def unprintable() -> StateStore:
    """Its errors and answers raise when they are printed."""
    return _Unprintable(NAME)


class _PutHangs(InMemoryKeyValueStore):
    def put(self, key: bytes, value: bytes | None) -> None:
        time.sleep(3600)


def put_hangs() -> StateStore:
    """A call that never returns."""
    return _PutHangs(NAME)


class _DurablePutHangs(RocksDBStore):
    def put(self, key: bytes, value: bytes | None) -> None:
        threading.Event().wait()


def durable_put_hangs() -> StateStore:
    """A call that never returns, in a store that is crashed and opened twice as well."""
    return _DurablePutHangs(NAME)


class _CommitExits(RocksDBStore):
    def commit(self, changelog_offsets: Any) -> None:
        os._exit(3)


def commit_exits() -> StateStore:
    """Ends the process."""
    return _CommitExits(NAME)


class _CommitSegfaults(RocksDBStore):
    def commit(self, changelog_offsets: Any) -> None:
        ctypes.string_at(0)


def commit_segfaults() -> StateStore:
    """Ends the process, as native code does."""
    return _CommitSegfaults(NAME)


class _ExitsLater(InMemoryKeyValueStore):
    def get(self, key: bytes) -> bytes | None:
        frame = sys._getframe()

        def leave(*_: object) -> None:
            os._exit(5)

        # The caller is left alone until it has returned into the suite.
        while frame.f_back is not None and "checks" not in frame.f_code.co_filename:
            frame = frame.f_back
        frame.f_trace = leave
        sys.settrace(lambda *_: None)
        return super().get(key)


def exits_later() -> StateStore:
    """Ends the process while no call is under way."""
    return _ExitsLater(NAME)


class _KillsStarter(InMemoryKeyValueStore):
    def delete(self, key: bytes) -> bytes | None:
        os.kill(os.getppid(), 9)
        time.sleep(3600)
        return None


def kills_starter() -> StateStore:
    """Kills the process that starts the checks, as running out of memory may do."""
    return _KillsStarter(NAME)


class _EndlessScan(InMemoryKeyValueStore):
    capabilities = Capabilities(
        persistent=False,
        manages_offsets=False,
        iterator_view="weak",
        transactional=True,
        read_only_views=True,
    )

    def all(self) -> Iterator[tuple[bytes, bytes]]:  # type: ignore[override]
        return itertools.repeat((b"a", b"1"))

    def read_only(self, isolation_level: Any) -> Any:
        return self


def endless_scan() -> StateStore:
    """An iterator that never ends."""
    return _EndlessScan(NAME)


class _Views(InMemoryKeyValueStore):
    capabilities = Capabilities(
        persistent=False,
        manages_offsets=False,
        iterator_view="weak",
        transactional=True,
        read_only_views=True,
    )

    def read_only(self, isolation_level: Any) -> Any:
        raise RuntimeError("no view")


def view_raises() -> StateStore:
    """Claims views, and raises when it is asked for one."""
    return _Views(NAME)


class _Hostile(InMemoryKeyValueStore):
    @property
    def name(self) -> str:
        return HOSTILE

    def delete(self, key: bytes) -> bytes | None:
        raise OSError(HOSTILE)

    def put_if_absent(self, key: bytes, value: bytes | None) -> Any:
        return HOSTILE


def hostile() -> StateStore:
    """Long messages with control characters, markup and half a surrogate pair."""
    return _Hostile(NAME)


hostile.__doc__ = "[bold]hostile[/] " + HOSTILE.encode("utf-8", "replace").decode()


class _Chatty(InMemoryKeyValueStore):
    def put(self, key: bytes, value: bytes | None) -> None:
        sys.stdout.write('{"id": 1, "status": 0}\n')
        sys.stdout.flush()
        os.write(1, b"not json\n")
        sys.stderr.write("noise\n")
        super().put(key, value)


def chatty() -> StateStore:
    """Prints to standard output, which must not disturb anything."""
    os.write(1, b"loading\n")
    return _Chatty(NAME)


class _Spawning(InMemoryKeyValueStore):
    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])


def spawning() -> StateStore:
    """Starts a process that it never ends."""
    return _Spawning(NAME)


class _ClassProperty(InMemoryKeyValueStore):
    def __init__(self) -> None:
        super().__init__(NAME)

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        return InMemoryKeyValueStore.capabilities


class _WrongCapabilities(InMemoryKeyValueStore):
    capabilities = {"persistent": True}  # type: ignore[assignment]  # noqa: RUF012


def wrong_capabilities() -> StateStore:
    """Declares its capabilities as a dictionary."""
    return _WrongCapabilities(NAME)


def factory_raises() -> StateStore:
    """Raises."""
    raise ConnectionError("no database\nat hand")


def factory_needs_arguments(directory: str) -> StateStore:
    """Takes an argument."""
    return InMemoryKeyValueStore(directory)


def factory_returns_none() -> None:
    """Returns nothing."""


def factory_exits() -> StateStore:
    """Ends the process."""
    raise SystemExit(0)


not_callable = "a string"
