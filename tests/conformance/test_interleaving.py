"""One call waits before a chosen line while another thread makes its own call."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from streamproof.conformance.interleaving import Pause, Who, meet

PATIENCE_S = 0.05


class Cell:
    """A value that a reader gets in two lines, and that a writer sets."""

    def __init__(self) -> None:
        self.value = 0
        self.lock = threading.Lock()

    def twice(self) -> tuple[int, int]:
        """The value before the third line, and the value from then on."""
        first = self.value
        second = self.value
        return first, second

    def locked(self) -> int:
        """The value, under the lock."""
        with self.lock:
            return self.value

    def write(self) -> None:
        """Add one, and then another one."""
        self.value += 1
        self.value += 1

    def write_locked(self) -> None:
        """Add one, under the lock."""
        with self.lock:
            self.value += 1


@pytest.mark.parametrize(
    ("line", "seen"), [(0, (0, 0)), (1, (2, 2)), (2, (0, 2)), (3, (0, 0)), (9, (0, 0))]
)
def test_a_reader_waits_before_its_line(line: int, seen: tuple[int, int]) -> None:
    """The whole write lies between the two lines, each time."""
    cell = Cell()

    found = meet(cell.twice, cell.write, Pause(line), "other")

    # Without such a line, the reader goes first.
    assert (found, cell.value) == (seen, 2)


@pytest.mark.parametrize(("line", "seen"), [(1, 0), (2, 1), (9, 2)])
def test_a_writer_waits_before_its_line(line: int, seen: int) -> None:
    """The read sees the lines before, and no later one."""
    cell = Cell()

    found = meet(lambda: cell.twice()[0], cell.write, Pause(line), "own")

    assert found == seen


def test_a_lock_is_no_deadlock() -> None:
    """The reader goes on after a moment, and the writer gets the lock."""
    cell, pause = Cell(), Pause(2, PATIENCE_S)

    found = meet(cell.locked, cell.write_locked, pause, "other")

    assert (found, cell.value, pause.was_vain) == (0, 1, True)


def test_the_lines_of_the_subject_are_counted() -> None:
    """Those of this module count, and those of the suite do not."""
    cell, pause = Cell(), Pause(0)

    meet(cell.twice, cell.write, pause, "other")

    assert {file for file, _ in pause.lines} == {__file__}
    assert (len(pause.lines), pause.was_vain) == (3, False)


@pytest.mark.parametrize("who", ["other", "own"])
@pytest.mark.parametrize("fails", ["read", "write"])
def test_an_error_of_either_is_raised(who: Who, fails: str) -> None:
    """And no thread is left waiting."""

    def fail() -> Any:
        raise ValueError("on purpose")

    cell = Cell()
    calls = {"read": cell.twice, "write": cell.write, fails: fail}

    with pytest.raises(ValueError, match="on purpose"):
        meet(calls["read"], calls["write"], Pause(1, PATIENCE_S), who)

    assert threading.active_count() == 1
