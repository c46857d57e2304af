"""Free pieces of the heap are used up before a process forks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from streamproof.conformance import heap_holes

PROGRAM = """
import ctypes, json
from streamproof.conformance.heap_holes import _Heap, fill_holes

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = _Heap

def free():
    found = libc.mallinfo2()
    return found.fordblks - found.keepcost

texts = [bytes(3000 + number % 7) for number in range(2000)]
del texts[::2]
before = free()
fill_holes()
print(before, free())
"""


def test_no_free_piece_is_left() -> None:
    """But for a few that are too small for anything."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    before, after = map(int, done.stdout.split())
    assert before > 1_000_000
    assert after < 10_000


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may lack what tells the free pieces."""

    class Library:
        """A library without any of these functions."""

        def __init__(self, _: object) -> None:
            pass

    monkeypatch.setattr(heap_holes.ctypes, "CDLL", Library)

    heap_holes.fill_holes()
