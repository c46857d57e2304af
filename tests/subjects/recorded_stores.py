"""The built-in stores, which write down what the suite asks of them.

The factory ``rocksdb_window`` makes the built-in store ``rocksdb-window``. Each line of the file
that the environment variable names has the name of a method or attribute of a store, a transaction,
a view or an iterator, and the function of a check that asked for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from streamproof.stores.builtin import BUILTIN

RECORD = "STREAMPROOF_TEST_RECORD"

_CHECKS = str(Path("conformance", "checks"))
_SEEN: set[tuple[str, str]] = set()


def note(name: str) -> None:
    """Write a name down with the check that asks for it, once in each process."""
    asked = (name, _asker())
    if not name.startswith("_") and asked not in _SEEN:
        _SEEN.add(asked)
        with Path(os.environ[RECORD]).open("a", encoding="utf-8") as file:
            file.write(" ".join(asked) + "\n")


def _asker() -> str:
    """The outermost function of a check that waits for the answer; empty if there is none."""
    frame, asker = sys._getframe(), ""
    while frame.f_back is not None:
        frame = frame.f_back
        if _CHECKS in frame.f_code.co_filename:
            asker = f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}"
    return asker


class RecordedEntries:
    """An iterator whose methods are written down."""

    def __init__(self, entries: Any) -> None:
        self._entries = entries

    def __getattr__(self, name: str) -> Any:
        note(name)
        return getattr(self._entries, name)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._entries.close()


class RecordedStore:
    """A store, a transaction or a view whose methods and attributes are written down."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        note(name)
        value = getattr(self._store, name)
        return self._recording(value) if callable(value) else value

    def _recording(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            answer = method(*arguments, **named)
            if answer is self._store:
                return self
            if hasattr(answer, "peek_next_key"):
                return RecordedEntries(answer)
            is_store = hasattr(answer, "get") or hasattr(answer, "fetch")
            return RecordedStore(answer) if is_store else answer

        return call


def __getattr__(name: str) -> Callable[[], RecordedStore]:
    known = name.replace("_", "-")
    if known not in BUILTIN:
        raise AttributeError(name)

    def make() -> RecordedStore:
        return RecordedStore(BUILTIN[known]())

    return make
