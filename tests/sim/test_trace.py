"""A trace is digested, watched and kept, and two of them can be told apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproof.errors import UsageError
from streamproof.sim.trace import Event, Trace, first_divergence
from streamproof.sim.trace_files import BATCH, SCHEMA, TraceFile, read_trace


class Clock:
    """A time that is set by hand."""

    now = 0


def some_events(trace: Trace, clock: Clock, count: int) -> None:
    """A few events of different shapes."""
    for number in range(count):
        clock.now = number // 3
        trace.emit("tick", "broker", number=number)
        trace.emit("task.commit", "instance-0", task="0_1", partition="in-0", offset=number)


def test_an_event_has_its_number_and_its_time() -> None:
    """Counted from 0; the time is that of the clock, in whole milliseconds."""
    clock, seen = Clock(), []
    trace = Trace(lambda: clock.now + 0.9, [seen.append])
    some_events(trace, clock, 2)
    assert [(each.sequence, each.time) for each in seen] == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert str(seen[0]) == "#0 at 0 ms: broker tick number=0"
    assert str(seen[3]) == "#3 at 0 ms: instance-0 task.commit 0_1 in-0 @1"


def test_the_digest_is_known() -> None:
    """The same on any machine, with and without a watcher: so it is written down here."""
    digests = set()
    for watchers in ([], [lambda _: None]):
        clock = Clock()
        trace = Trace(lambda clock=clock: clock.now, watchers)  # type: ignore[misc]
        some_events(trace, clock, 10)
        digests.add(trace.digest)
    assert digests == {"090d9c048c560aa77b749f4edb5adb20"}


@given(st.integers(0, 9), st.sampled_from(["time", "kind", "actor", "attributes", "order"]))
def test_any_difference_changes_the_digest(at: int, what: str) -> None:
    """One event of ten with another time, kind, actor or attribute, or in another place."""

    def digest(*, changed: bool) -> str:
        clock = Clock()
        trace = Trace(lambda: clock.now)
        numbers = list(range(10))
        if changed and what == "order":
            numbers.insert((at + 1) % 9, numbers.pop(at))
        for number in numbers:
            other = changed and number == at
            clock.now = 7 if other and what == "time" else 5
            trace.emit(
                "x" if other and what == "kind" else "y",
                "a" if other and what == "actor" else "b",
                number=-1 if other and what == "attributes" else number,
            )
        return trace.digest

    same_order = what == "order" and (at + 1) % 9 == at
    assert (digest(changed=True) == digest(changed=False)) is same_order


def test_a_file_keeps_every_event(tmp_path: Path) -> None:
    """More than one batch of them, with all that they say, under the schema."""
    clock, seen = Clock(), []
    path = tmp_path / "trace.parquet"
    with TraceFile(path, "run-1") as file:
        some_events(Trace(lambda: clock.now, [seen.append, file]), clock, BATCH)
    assert len(seen) == 2 * BATCH
    assert list(read_trace(path)) == seen
    table = pq.read_table(path)
    assert table.column("run").unique().to_pylist() == ["run-1"]
    assert table.column("offset").to_pylist()[:4] == [-1, 0, -1, 1]


def test_the_first_difference_is_named() -> None:
    """With the event before it; a run that ends earlier differs, too."""

    def events(*kinds: str) -> list[Event]:
        seen: list[Event] = []
        trace = Trace(lambda: 0, [seen.append])
        for kind in kinds:
            trace.emit(kind, "a")
        return seen

    assert first_divergence(events("x", "y"), events("x", "y")) is None
    found = first_divergence(events("x", "y", "z"), events("x", "q", "z"))
    assert found is not None
    assert str(found) == (
        "The runs differ after #0 at 0 ms: a x\n"
        "  first:  #1 at 0 ms: a y\n"
        "  second: #1 at 0 ms: a q"
    )
    found = first_divergence(events(), events("x"))
    assert found is not None
    assert str(found) == (
        "The runs differ from the start\n  first:  the end\n  second: #0 at 0 ms: a x"
    )


def write(path: Path, content: Any) -> Path:
    """A file that is no trace."""
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        pq.write_table(content, path)
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read as a trace"),
        (b"PAR1 and no more", "cannot be read as a trace"),
        (pa.table({"x": [1]}), "not a trace: it has no column 'run'"),
        (
            SCHEMA.set(2, pa.field("time", pa.float64())).empty_table(),
            "a column 'time' of type double instead of int64",
        ),
        (
            SCHEMA.with_metadata({"streamproof.events": "7"}).empty_table(),
            "is a trace of version 7, but this streamproof reads version 1",
        ),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, content: Any, message: str) -> None:
    """A missing file, a broken one, and one of something else: one line that says so."""
    path = write(tmp_path / "file.parquet", content)
    with pytest.raises(UsageError, match=message):
        list(read_trace(path))


def test_other_programs_may_write_traces(tmp_path: Path) -> None:
    """With more columns, in another order, without a version, and with texts of another type."""
    table = pa.table(
        {
            "mine": [1.5],
            "attributes": pa.array(["{}"], pa.large_string()),
            "offset": [-1],
            "partition": [""],
            "task": [""],
            "kind": ["world.healed"],
            "actor": ["nemesis"],
            "time": [12],
            "sequence": [0],
            "run": ["a"],
        }
    )
    pq.write_table(table, tmp_path / "file.parquet")
    assert list(read_trace(tmp_path / "file.parquet")) == [
        Event(0, 12, "nemesis", "world.healed", "", "", -1, {})
    ]


def test_a_trace_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    """Without its end, a file is no trace."""
    path = tmp_path / "trace.parquet"
    clock = Clock()
    with TraceFile(path, "run") as file:
        some_events(Trace(lambda: clock.now, [file]), clock, 100)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UsageError, match="cannot be read as a trace"):
        list(read_trace(path))
