"""Records of logs, as folds over a log need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

__all__ = ["AppendedRecord", "Visible", "VisibleRecord"]


class VisibleRecord(Protocol):
    """A record of a log."""

    @property
    def key(self) -> bytes: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def offset(self) -> int: ...


class AppendedRecord(Protocol):
    """A record of a log, visible or not."""

    @property
    def offset(self) -> int: ...
    @property
    def producer(self) -> int: ...


Visible = Callable[[str, int], Iterable[VisibleRecord]]
"""The visible records of a partition, from an offset on."""
