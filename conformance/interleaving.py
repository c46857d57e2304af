"""Two calls on two threads that meet at a chosen line: one waits in the middle of the other.

Threads that run freely meet wherever the scheduler lets them, so a race is found by luck. Here one
call stops before its n-th line of the subject, and the other call runs meanwhile. A store that
protects those lines with a lock lets the other call wait; the first one then goes on after a
moment, and nothing is wrong.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Literal, TypeVar

from streamproof.conformance.crash.triggers import trace_lines

__all__ = ["Pause", "Who", "meet"]

Who = Literal["other", "own"]
"""Which call waits in the middle: the one on a thread of its own, or the one on this thread."""

T = TypeVar("T")

PATIENCE_S = 0.2
"""How long a call waits in the middle of the other, in seconds. A busy machine needs this much."""


class Pause:
    """The line of a call before which its thread waits for another thread.

    Args:
        line: the number of the line of the subject; 0 for no line.
        patience_s: how long the thread waits, in seconds. The other may need a lock that it holds.

    Attributes:
        line: that number.
        lines: the lines of the subject that the call has run, each a file and a number.
        was_vain: whether the other thread had not finished when the patience ended.
    """

    def __init__(self, line: int, patience_s: float = PATIENCE_S) -> None:
        self.lines: list[tuple[str, int]] = []
        self.was_vain = False
        self.line = line
        self._patience_s = patience_s
        self._reached = threading.Event()
        self._finished = threading.Event()

    def within(self, call: Callable[[], T]) -> T:
        """Make the call on this thread, and wait before its line."""
        trace_lines(self._on_line)
        try:
            return call()
        finally:
            sys.settrace(None)
            # A call with fewer lines waits nowhere.
            self._reached.set()

    def beside(self, call: Callable[[], T]) -> T:
        """Make the call on this thread while the other waits."""
        self._reached.wait()
        try:
            return call()
        finally:
            self._finished.set()

    def _on_line(self, frame: FrameType) -> None:
        self.lines.append((frame.f_code.co_filename, frame.f_lineno))
        if len(self.lines) == self.line:
            self._reached.set()
            self.was_vain = not self._finished.wait(self._patience_s)


def meet(other: Callable[[], Any], own: Callable[[], object], pause: Pause, who: Who) -> Any:
    """Make one call on a thread of its own and one on this thread, and return what the first gave.

    Args:
        other: the call on a thread of its own.
        own: the call on this thread.
        pause: the line at which one of them waits for the other.
        who: which of them waits.

    Raises:
        Exception: what one of the calls raised.
    """
    ended: list[tuple[Any, BaseException | None]] = []

    def work() -> None:
        try:
            ended.append(((pause.within if who == "other" else pause.beside)(other), None))
        except BaseException as error:
            ended.append((None, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        (pause.beside if who == "other" else pause.within)(own)
    finally:
        thread.join()
    (answer, error) = ended[0]
    if error is not None:
        raise error
    return answer
