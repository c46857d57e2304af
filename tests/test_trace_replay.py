"""Traces are shown as the runs that wrote them were, and what cannot be shown is said in a line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import run

from streamproof.commands.replay import replay
from streamproof.errors import UsageError
from streamproof.runs.trace_runs import read_runs
from streamproof.scenarios.pictures import picture, render_text
from streamproof.scenarios.play import play
from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.scenarios.scenario_reader import find
from streamproof.scenarios.scenario_reader import read as read_scenario
from streamproof.sim.trace import Event
from streamproof.sim.trace_files import TraceFile

BROKEN, KEPT = "KIP-892-commit-order@defect", "KIP-892-commit-order@fixed"


@cache
def played(target: str) -> RecordedRun:
    """A run of the library."""
    name, _, variant = target.partition("@")
    scenario = read_scenario(find(name))
    return play(scenario, scenario.setups[variant]).played


def written(path: Path, name: str, events: Sequence[Event]) -> Path:
    """A trace with one run in it."""
    path.parent.mkdir(exist_ok=True)
    with TraceFile(path, name) as file:
        for each in events:
            file(each)
    return path


def body(text: str) -> str:
    """A picture in text without its heading, which has what no event tells."""
    return text.partition("\n\n")[2]


@pytest.mark.parametrize("target", [BROKEN, KEPT, "KAFKA-9274@defect", "KIP-1035-tombstone@staged"])
def test_the_picture_of_a_trace_is_that_of_the_run_that_wrote_it(
    target: str, tmp_path: Path
) -> None:
    """Every lane, event, arrow, span and number in it, and what was found to be broken."""
    there = played(target)
    path = written(tmp_path / "run.parquet", there.name, there.events)
    (here,) = read_runs([path], [])
    assert here.name == there.name
    assert here.events == there.events
    assert here.violations == there.violations
    drawn, again = picture(there), picture(here)
    for name in ("lanes", "items", "arrows", "stock", "violation", "count"):
        assert getattr(again, name) == getattr(drawn, name), name
    assert drawn.stock.holdings
    texts = {
        body(render_text(picture(replace(each, command="")), most=0)) for each in (there, here)
    }
    assert len(texts) == 1
    guarantee = "exactly-once" if there.exactly_once else "at-least-once"
    assert render_text(again).splitlines()[0].startswith(f"{there.name}: {guarantee}, stores")


def test_a_run_of_a_campaign_is_named(tmp_path: Path) -> None:
    """Its events may be in several files, in any order; those of other runs are left alone."""
    events = played(BROKEN).events
    written(tmp_path / "events" / "one.parquet", "row 1", events[40:])
    written(tmp_path / "events" / "two.parquet", "row 2", played(KEPT).events)
    written(tmp_path / "events" / "six.parquet", "row 1", events[:40])
    one, two = read_runs([tmp_path], ["row 1", "row 2"])
    assert (one.events, one.story) == (events, "")
    assert two.events == played(KEPT).events
    assert one.command == f"streamproof replay {tmp_path} --run 'row 1'"
    written(tmp_path / "events" / "copy.parquet", "row 1", events[:3])
    (one,) = read_runs([tmp_path], ["row 1"])
    assert one.events == events
    assert "3 more" not in one.story
    assert one.story.startswith("It was there more than once, and counts once:")


def test_of_several_runs_ten_are_listed(tmp_path: Path) -> None:
    """In one line, whatever they are called."""
    for number in range(12):
        written(tmp_path / f"{number}.parquet", f"run\n{number:02}", played(KEPT).events[:1])
    with pytest.raises(UsageError) as caught:
        read_runs([tmp_path], [])
    message = str(caught.value)
    assert "has 12 runs: 'run\\n00', 'run\\n01'" in message
    assert "'run\\n09', and 2 more. Name one with --run." in message
    assert "run\\n10" not in message
    assert "\n" not in message
    with pytest.raises(UsageError, match=r"There is no run 'run 1' in .*: it has 12 runs: "):
        read_runs([tmp_path], ["run 1"])


def renumbered(events: Sequence[Event]) -> list[Event]:
    """The same events, counted from 0."""
    fields = ("time", "actor", "kind", "task", "partition", "offset", "attributes")
    return [
        Event(number, *(getattr(each, name) for name in fields))
        for number, each in enumerate(events)
    ]


def test_a_run_that_cannot_be_judged_is_refused(tmp_path: Path) -> None:
    """Events are missing at the beginning or in between, or one tells too little."""
    events = list(played(KEPT).events)
    processed = next(each for each in events if each.kind == "task.processed")
    for kept, message in (
        ([], "There are no events in "),
        (
            [*events[:5], *events[6:]],
            f"there are {len(events) - 1}, and the last one has the number",
        ),
        (renumbered(events[1:]), "The run begins with instance.started, and should begin with"),
        (renumbered([events[0], processed]), "Something is missing before that."),
        (
            [*events, Event(len(events), 0, "brokers", "coordinator.back", "", "", -1, {})],
            "missing required field `what`",
        ),
    ):
        path = written(tmp_path / "run.parquet", "a", kept)
        with pytest.raises(UsageError, match=re.escape(message)):
            read_runs([path], [])


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """It was cut off, is of a newer version, or has nulls."""
    path = written(tmp_path / "run.parquet", "a", played(KEPT).events)
    table = pq.read_table(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UsageError, match="If the file was cut off, make it again"):
        read_runs([path], [])
    newer = table.replace_schema_metadata({"streamproof.events": "2"})
    pq.write_table(newer, path)
    with pytest.raises(
        UsageError, match="is a trace of version 2, but this streamproof reads version 1"
    ):
        read_runs([path], [])
    pq.write_table(table.set_column(0, "run", pa.nulls(len(table), pa.string())), path)
    with pytest.raises(UsageError, match="has events of no run: the column 'run' has no nulls"):
        read_runs([path], [])
    pq.write_table(table.set_column(5, "task", pa.nulls(len(table), pa.string())), path)
    with pytest.raises(UsageError, match="Run 'a' cannot be shown: Event 0 of run 'a' has no task"):
        read_runs([path], [])
    written(path, "a", played(KEPT).events)
    damaged = bytearray(path.read_bytes())
    damaged[8:2_000] = bytes(1_992)
    path.write_bytes(damaged)
    with pytest.raises(UsageError, match="cannot be read to its end"):
        read_runs([path], [])
    with pytest.raises(UsageError, match="There is no "):
        read_runs([tmp_path / "none.parquet"], [])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"subject": "rocksdb"}, "--subject"),
        ({"set_": ["threads=2"]}, "--set"),
        ({"defect": ["keeps-unclean-store"]}, "--defect"),
        ({"seed": 0}, "--seed"),
        ({"work_dir": Path()}, "--work-dir"),
        ({"format_": "parquet"}, "--format parquet"),
        ({"run": ["b"]}, "There is no run 'b'"),
        ({"compare_": True}, "--compare needs two runs, and these are 1"),
    ],
)
def test_what_a_trace_cannot_be_asked_is_refused(
    options: dict[str, Any], named: str, tmp_path: Path
) -> None:
    """What is in it has happened."""
    path = written(tmp_path / "run.parquet", "a", played(KEPT).events)
    with pytest.raises(UsageError, match=f"^{named}"):
        replay([str(path)], **options)
    with pytest.raises(UsageError, match="one kind at a time"):
        replay([str(path), "KAFKA-20685"])


def test_a_trace_is_shown_at_a_terminal(tmp_path: Path) -> None:
    """In words, in a file, up to a moment, event by event, and beside another one."""
    written(tmp_path / "wrong.parquet", "wrong", played(BROKEN).events)
    written(tmp_path / "right.parquet", "right", played(KEPT).events)
    wrong = run("replay", "wrong.parquet", cwd=tmp_path, code=1).stdout
    broken = played(BROKEN).violations[0].requirement
    assert wrong.startswith(f"✗ wrong  {broken} is broken, ")
    assert f"X {broken} is broken" in wrong
    assert wrong.splitlines()[-1] == "  $ streamproof replay wrong.parquet"
    page = run("replay", "right.parquet", "--format", "html", "--out", "shown", cwd=tmp_path)
    assert page.stdout.splitlines()[1] == "shown/right.html"
    assert "every promise is kept" in page.stdout
    both = ("replay", ".", "--run", "wrong", "--run", "right")
    beside = run(*both, "--compare", cwd=tmp_path, code=1, columns=120).stdout
    assert "Then:" in beside
    walked = run(*both, "--step", "--until", "500", cwd=tmp_path, code=1, stdin="n\nq\n").stdout
    assert "right: exactly-once; " in walked
    assert walked.count("step> ") == 2
