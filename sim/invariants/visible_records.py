"""The records that a guarantee makes visible, as folds over a log need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

__all__ = ["Visible", "VisibleRecord"]


class VisibleRecord(Protocol):
    """A record of a log."""

    @property
    def key(self) -> bytes: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def offset(self) -> int: ...


Visible = Callable[[str, int], Iterable[VisibleRecord]]
"""The visible records of a partition, from an offset on."""
