"""The lines of a printed program do what the operations of the program did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamproof.conformance.as_key_value import LATE, rows_of
from streamproof.conformance.checks.overflow_checks import PARTS
from streamproof.conformance.crash.kill_campaign import ends_of_operations
from streamproof.conformance.crash.program import Operation, ProgramBuilder
from streamproof.conformance.crash.program_campaign import _comparison
from streamproof.conformance.lab import Lab
from streamproof.conformance.subject import load_subject


class Noting:
    """A store that keeps what is put into it, in order."""

    def __init__(self) -> None:
        self.puts: list[tuple[bytes, bytes | None]] = []

    def put(self, key: bytes, value: bytes | None) -> None:
        self.puts.append((key, value))

    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        self.puts += entries

    def delete(self, key: bytes) -> None:
        self.puts.append((key, None))


WRITING = (
    ProgramBuilder().put(b"a", b"1").put(b"a", None).put_all([(b"b", b"2"), (b"a", None)]),
    ProgramBuilder().put_many(3, b"1").put_many(1_100, b"xy"),
)


@pytest.mark.parametrize("builder", WRITING)
def test_a_line_writes_what_its_operation_wrote(builder: ProgramBuilder, tmp_path: Path) -> None:
    """Both write what the changelog of the program has."""
    lab = Lab("in-memory", directory=tmp_path)
    operations: list[Operation] = builder.operations[1:]
    for operation in operations:
        written, printed = Noting(), Noting()
        operation.perform(lab, written)
        exec(operation.source(), {"store": printed})  # noqa: S102 - it is our own line.
        assert written.puts == printed.puts
        assert written.puts == [(each.key, each.value) for each in operation.writes]
        assert written.puts


def test_the_parts_of_a_store_are_windows_of_different_times() -> None:
    """Otherwise no segment would be quiet while another one overflows."""
    capabilities = load_subject("rocksdb-window-segments").capabilities
    rows = rows_of(None, capabilities)

    assert len({rows.start_of(key) for key in PARTS}) == len(PARTS)


@pytest.mark.parametrize("subject", ["in-memory-window", "in-memory-session"])
def test_a_late_row_lets_all_others_expire(subject: str, tmp_path: Path) -> None:
    """Otherwise no kill would come while a store deletes them."""
    rows = Lab(subject, directory=tmp_path).rows()
    for key in (*PARTS, LATE):
        rows.put(key, b"1")

    assert list(rows.all()) == [(LATE, b"1")]


def test_a_small_budget_kills_after_flushes_too() -> None:
    """A third of it: a store may promise nothing of a commit but right after its flush."""
    builder = ProgramBuilder()
    for number in range(10):
        builder.put(b"a", b"%d" % number).commit()
        if number in (4, 9):
            builder.then("flush")
    program = builder.build()
    names = [each.name for each in program.operations]

    few = ends_of_operations(program, 6)

    assert len(few) <= 6
    assert [names[each - 1] for each in few].count("flush") == 2
    assert ends_of_operations(program, len(program)) == list(range(1, len(program) + 1))


@pytest.mark.parametrize(
    ("legal", "comparison"),
    [([[], []], "== []"), ([[], [(b"a", b"1")]], "in [[], [(b'a', b'1')]]"), ([0, 0, 0], "== 0")],
)
def test_alternatives_that_are_equal_are_one_right_answer(
    legal: list[Any], comparison: str
) -> None:
    assert _comparison(legal) == comparison
