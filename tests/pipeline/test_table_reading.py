"""Reading runs for the tables: each once, and none that cannot be read sinks the others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_runs import draw_runs, write_runs
from table_oracle import Told

from streamproof.conformance.results import SCHEMA_VERSION
from streamproof.errors import UsageError
from streamproof.reports import run_log as runlog
from streamproof.reports.pipeline.tables import log_rows as logs
from streamproof.reports.pipeline.tables.log_rows import read_log
from streamproof.reports.pipeline.tables.sources import find_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamproof.reports.pipeline.tables.api import Tables

SEED = 3
"""Draws runs whose first has failures."""


@pytest.fixture
def told(tmp_path: Path) -> Told:
    """A run that is complete, has several subjects, and breaks promises."""
    runs = draw_runs(SEED, 60)
    run = next(each for each in runs if each.footer and each.failures and len(each.results) > 5)
    return write_runs(tmp_path, [run])[0]


def lines_of(told: Told) -> list[bytes]:
    return Path(told.path).read_bytes().splitlines(keepends=True)


def changed(told: Told, **changes: Any) -> list[bytes]:
    """The lines of a log, with other values in the header or in all results."""
    found = []
    for line in lines_of(told):
        record = msgspec.json.decode(line)
        record.update({name: value for name, value in changes.items() if name in record})
        found.append(msgspec.json.encode(record) + b"\n")
    return found


def problem_of(path: Path | str) -> dict[str, Any]:
    """What is wrong with a log that cannot be read: the one row that comes of it."""
    rows = read_log(str(path))
    assert list(rows) == ["problems"]
    return {name: values[0] for name, values in rows["problems"].items()}


def test_a_whole_log_has_a_row_for_everything_that_was_planned(told: Told) -> None:
    rows = read_log(told.path)

    header = told.log.header
    assert len(rows["results"]["status"]) == len(header.subjects) * len(header.requirements)
    assert rows["runs"]["complete"] == [True]
    assert "problems" not in rows


def test_a_log_whose_run_died_counts_and_has_no_verdict(told: Told) -> None:
    whole = lines_of(told)
    Path(told.path).write_bytes(b"".join(whole[:-1]) + whole[-1][:20])

    rows = read_log(told.path)

    assert rows["runs"]["complete"] == [False]
    assert rows["runs"]["stated"] == [""]
    assert rows["runs"]["results"] == [len(told.log.results)]


@pytest.mark.parametrize(
    ("content", "line", "kind", "what"),
    [
        (b"", 0, "unreadable", "is empty"),
        (b"\x00\xff\x00\xff", 0, "unreadable", "not a whole header"),
        (b'{"type":"note"}\n', 0, "unreadable", "first line must be the header"),
        (b'{"type":"header","schema_version":99}\n', 1, "newer", "upgrade"),
    ],
)
def test_what_is_no_log_is_one_problem(
    tmp_path: Path, content: bytes, line: int, kind: str, what: str
) -> None:
    path = tmp_path / "run.ndjson"
    path.write_bytes(content)

    problem = problem_of(path)

    assert (problem["path"], problem["line"], problem["kind"]) == (str(path), line, kind)
    assert what in problem["what"]
    assert str(path) not in problem["what"]


def test_the_line_that_cannot_be_read_is_named(told: Told) -> None:
    whole = lines_of(told)
    Path(told.path).write_bytes(b"".join([*whole[:2], b'{"type":"result"}\n', *whole[2:]]))

    assert problem_of(told.path)["line"] == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"examples": 2**70},
        {"examples": -1},
        {"crash_points": {"line": 5, "boundary": -3}},
        {"crash_points": {"enospc": -3}},
        {"wiped": -1},
        {"duration_s": 1e308},
        {"duration_s": -1e308},
        {"seed": 2**63},
    ],
)
def test_numbers_that_no_run_can_have_do_not_get_into_sums(
    told: Told, changes: dict[str, Any]
) -> None:
    Path(told.path).write_bytes(b"".join(changed(told, **changes)))

    assert "out of range" in problem_of(told.path)["what"]


def test_a_log_that_is_too_large_is_not_read(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_LOG_BYTES", 100)

    assert problem_of(told.path)["kind"] == "too large"


def test_a_log_that_is_gone_when_its_turn_comes_is_a_problem(tmp_path: Path) -> None:
    assert "No such file" in problem_of(tmp_path / "gone.ndjson")["what"]


def test_a_failure_counts_whose_result_was_lost(told: Told) -> None:
    kept = [each for each in lines_of(told) if b'"type":"result"' not in each]
    Path(told.path).write_bytes(b"".join(kept))

    results = read_log(told.path)["results"]

    found = dict(
        zip(
            zip(results["subject"], results["requirement"], strict=True),
            results["status"],
            strict=True,
        )
    )
    failed = {(each.subject, each.requirement): each for each in told.log.failures}
    assert failed
    for key, status in found.items():
        expected = ("known" if failed[key].known else "fail") if key in failed else "no result"
        assert status == expected


def test_a_failure_that_is_not_known_outweighs_a_known_one(told: Told) -> None:
    failure = told.log.failures[0]
    both = [msgspec.structs.replace(failure, known=known) for known in ("", "a known bug")]
    kept = [each for each in lines_of(told) if b'"type":"result"' not in each]
    kept = [each for each in kept if b'"type":"failure"' not in each]
    kept[1:1] = [msgspec.json.encode(each) + b"\n" for each in both]
    Path(told.path).write_bytes(b"".join(kept))

    results = read_log(told.path)["results"]

    place = list(zip(results["subject"], results["requirement"], strict=True)).index(
        (failure.subject, failure.requirement)
    )
    assert results["status"][place] == "fail"


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_log_is_read_at_once_or_line_by_line_with_the_same_outcome(
    told: Told, data: st.DataObject
) -> None:
    """Whatever becomes of its lines; a log that is fine is read at once."""
    lines = lines_of(told)
    path = Path(told.path)
    assert runlog._read_at_once(path) == runlog._read_by_lines(path) == told.log
    path = path.with_name("changed.ndjson")
    place = data.draw(st.integers(0, len(lines) - 1))
    line = lines[place]
    cut = data.draw(st.integers(0, len(line)))
    lines[place : place + 1] = data.draw(
        st.sampled_from(
            [
                [],
                [line, line],
                [line, b"\n"],
                [line[:-1]],
                [line.replace(b"{", b"{\n", 1)],
                [line[:-1], lines[-1], b"\n"],
                [line[:cut], data.draw(st.binary(max_size=2)), line[cut:]],
            ]
        )
    )
    path.write_bytes(b"".join(lines))

    at_once = runlog._read_at_once(path)

    # What is not read at once is left to the lines. What is, must be the same there.
    if at_once is not None:
        assert at_once == runlog._read_by_lines(path)


# Finding what is to be read.


def test_logs_are_found_by_file_directory_and_pattern_and_each_once(tmp_path: Path) -> None:
    paths = [tmp_path / "a" / "run.ndjson", tmp_path / "b" / "c" / "other.ndjson"]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"12345")
    (tmp_path / "a" / "report.html").touch()
    (tmp_path / "link").symlink_to(tmp_path / "a")

    found = find_sources(tmp_path, paths[0], f"{tmp_path}/**/*.ndjson", tmp_path / "link")

    assert found.logs == sorted(map(str, paths))
    assert found.campaigns == []
    assert found.size == 10


def test_a_campaign_is_found_as_a_whole(tmp_path: Path) -> None:
    campaign = tmp_path / "nightly"
    (campaign / "logs" / "row").mkdir(parents=True)
    (campaign / "campaign.json").write_text("{}")
    (campaign / "logs" / "row" / "run.ndjson").touch()

    found = find_sources(tmp_path)

    assert found.campaigns == [str(campaign)]
    assert found.logs == []


def test_nothing_to_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is nothing"):
        find_sources(tmp_path / "runs-*")
    with pytest.raises(UsageError, match=r"no run log in it \(\*\.ndjson\)"):
        find_sources(tmp_path)


def test_a_name_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.ndjson")).touch()

    with pytest.raises(UsageError, match="not UTF-8"):
        find_sources(tmp_path)


def test_a_log_as_such_may_have_any_name(told: Told, tmp_path: Path) -> None:
    path = tmp_path / "renamed.txt"
    shutil.copy(told.path, path)

    assert find_sources(path).logs == [str(path)]


# With Spark.


def tables(spark: SparkSession, directory: Path) -> Tables:
    from streamproof.reports.pipeline.tables.api import load_tables

    return load_tables(directory, spark=spark)


def test_runs_count_once_and_problems_are_told(spark: SparkSession, tmp_path: Path) -> None:
    """One run is there in five ways, another has its id, and there is rubbish."""
    run = next(each for each in draw_runs(SEED, 60) if each.footer and each.failures)
    told = write_runs(tmp_path / "good", [run])[0]
    whole = lines_of(told)
    embellished = [each.replace(b'"fail"', b'"pass"') for each in whole if b"failure" not in each]
    others = {
        "copy": whole,
        "embellished": embellished,
        "cut": whole[:-2],
        "namesake": changed(told, command="streamproof verify another"),
        "newer": changed(told, schema_version=SCHEMA_VERSION + 1),
        "rubbish": [b"PK\x03\x04"],
    }
    for name, lines in others.items():
        (tmp_path / f"{name}.ndjson").write_bytes(b"".join(lines))

    found = tables(spark, tmp_path)

    problems = {Path(row["path"]).stem: row for row in found.problems().to_dict("records")}
    kinds = {name: row["kind"] for name, row in problems.items()}
    copy = "copy" if "copy" in kinds else "run"
    last = "namesake" if "namesake" in kinds else copy
    assert kinds == {
        copy: "duplicate",
        "embellished": "conflict",
        "cut": "conflict",
        last: "same id",
        "newer": "newer",
        "rubbish": "unreadable",
    }
    counted = found.runs()
    assert sorted(counted["command"]) == sorted([run.header.command, "streamproof verify another"])
    assert len(found.results()) == 2 * len(run.header.subjects) * len(run.header.requirements)
    statuses = set(found.results()["status"])
    assert "fail" in statuses or "known" in statuses


def test_only_problems_is_an_answer_too(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "run.ndjson").write_text("nothing of use\n")

    found = tables(spark, tmp_path)

    assert len(found.problems()) == 1
    assert found.matrix().empty
    assert list(found.verdicts()["subject"]) == []


def test_importing_the_reports_brings_neither_spark_nor_pandas() -> None:
    code = (
        "import sys, streamproof.cli, streamproof.reports, streamproof.reports.pipeline.tables;"
        "print([each for each in ('pyspark', 'pandas') if each in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"
