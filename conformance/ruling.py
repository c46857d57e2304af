"""A ruling on one promise: the result of judging a crash, a loss of power, or a world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from streamproof.conformance.program_text import NO_ANSWER

__all__ = ["Ruling"]


class Ruling(NamedTuple):
    """The ruling on one promise; ``broken`` is empty if the promise held.

    Attributes:
        read: the expression that shows the finding, in a program that runs.
        answer: the wrong value of that expression.
        beside: another expression, and its value, without which the answer would be right.
        after_replay: whether the finding shows only after a replay of the changelog.
        reopened: whether the store was closed and opened again after the replay.
        store: the number of the judged store in the program.
        traceback: the part of the subject in the traceback, if the subject raised.
        legal: all right values of the expression, if they are known.
        wiped: whether the store was wiped first, because it had asked for that.
    """

    requirement: str
    expected: str = ""
    broken: str = ""
    read: str = ""
    answer: Any = NO_ANSWER
    beside: tuple[str, Any] | None = None
    after_replay: bool = False
    reopened: bool = False
    store: int = 0
    traceback: str = ""
    legal: Sequence[Any] = ()
    wiped: bool = False
