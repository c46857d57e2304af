"""A ruling on one promise: the result of judging a crash, a loss of power, or a world."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Ruling"]


class Ruling(NamedTuple):
    """One promise, and how it fared; ``broken`` is empty where it held.

    Attributes:
        read: the expression that shows what was found, in a program that runs.
        after_replay: whether it shows only after the changelog was replayed.
        reopened: whether the store was closed and opened again after that.
        store: the number of the store of the program that the ruling is about.
    """

    requirement: str
    expected: str = ""
    broken: str = ""
    read: str = ""
    after_replay: bool = False
    reopened: bool = False
    store: int = 0
