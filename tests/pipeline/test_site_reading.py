"""From run logs to a report, by way of the tables: what Spark says is what the pages show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from test_table_campaigns import broken_row, world_row, write_campaign
from typer.testing import CliRunner

from streamproof.cli import app
from streamproof.conformance.results import (
    SCHEMA_VERSION,
    CheckRecord,
    Failure,
    Footer,
    Header,
    RequirementResult,
    Status,
    SubjectInfo,
    SubjectVerdict,
)
from streamproof.errors import StreamproofError, UsageError
from streamproof.reports.pipeline.campaigns.chunk_files import RowRecords
from streamproof.reports.pipeline.site import site_rows as reading
from streamproof.reports.pipeline.site.site_builder import arrange
from streamproof.reports.pipeline.site.site_data import SiteRows
from streamproof.reports.pipeline.site.site_rows import read_rows
from streamproof.reports.run_log import RunLogWriter
from streamproof.sim.situations import situations_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

REQUIREMENTS = {"KV-001": "put then get", "CRASH-001": "content matches the offset"}


def write_log(path: Path, version: str, day: int, statuses: list[Status]) -> Path:
    """The log of a run of one version on a day in March, with a status for each requirement."""
    results = [
        RequirementResult(
            subject="store",
            requirement=requirement,
            title=title,
            promise=f"It holds that {title}.",
            source="KIP-1035",
            level="MUST",
            core=True,
            status=status,
            reason="" if status == "pass" else f"why {status}",
            checks=["crash.commit"],
            examples=30,
            crash_points={"line": 400} if requirement == "CRASH-001" else {},
            wiped=3 if requirement == "CRASH-001" else 0,
            strength="strong" if status == "pass" else "",
            mutants=2,
        )
        for (requirement, title), status in zip(REQUIREMENTS.items(), statuses, strict=True)
    ]
    broken = "fail" in statuses
    verdict = SubjectVerdict(
        subject="store",
        verdict="failure" if broken else "success",
        summary="",
        core={},
        extended={},
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with RunLogWriter(path) as log:
        log.write(_header(version, day))
        log.write(CheckRecord(subject="store", check="crash.commit", situations={"a flush": 0}))
        for result in results:
            log.write(result)
            if result.status == "fail":
                log.write(_failure(result))
        log.write(
            Footer(
                finished_at=f"2026-03-{day:02d}T10:20:00+00:00",
                duration_s=300.0,
                verdict=verdict.verdict,
                exit_code=int(broken),
                verdicts=[verdict],
                reproduce="streamproof verify store",
            )
        )
    return path


def _header(version: str, day: int) -> Header:
    return Header(
        schema_version=SCHEMA_VERSION,
        run_id=f"202603{day:02d}T101500Z-{day}",
        tool_version="0.1.0",
        started_at=f"2026-03-{day:02d}T10:15:00+00:00",
        seed=day,
        profile="quick",
        guarantee="exactly-once",
        spec="kips",
        only=[],
        command=f"streamproof verify store --seed {day}",
        subjects=[
            SubjectInfo(
                name="store",
                description="A store.",
                package="stores",
                version=version,
                capabilities={"persistent": True, "windows": False, "durability": "process"},
            )
        ],
        requirements=list(REQUIREMENTS),
    )


def _failure(result: RequirementResult) -> Failure:
    return Failure(
        subject=result.subject,
        requirement=result.requirement,
        check="crash.commit",
        title=result.title,
        promise=result.promise,
        source=result.source,
        level=result.level,
        tried="tried",
        program="program",
        expected="expected",
        found="found",
        reproduce="streamproof verify store --only CRASH-001",
        shape="early-value",
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of a broken version that do not agree, one of its fix, and one that is no log."""
    directory = tmp_path_factory.mktemp("runs")
    write_log(directory / "1" / "run.ndjson", "1.9", 1, ["pass", "fail"])
    write_log(directory / "2" / "run.ndjson", "1.9", 2, ["pass", "pass"])
    write_log(directory / "3" / "run.ndjson", "1.10", 3, ["pass", "pass"])
    (directory / "4").mkdir()
    (directory / "4" / "run.ndjson").write_text("no log\n")
    return directory


@pytest.fixture(scope="module")
def rows(spark: SparkSession, runs: Path) -> SiteRows:
    """What a report on these runs is made from, compared with the first; read by Spark, once."""
    assert spark.version
    return read_rows([runs], [runs / "1"])


def test_rows_say_what_the_logs_say(rows: SiteRows) -> None:
    cells = {(cell.version, cell.requirement): cell for cell in rows.cells}
    assert cells.keys() == {(v, r) for v in ("1.9", "1.10") for r in REQUIREMENTS}
    crash = cells["1.9", "CRASH-001"]
    assert (crash.status, crash.latest, crash.runs, crash.seeds) == ("fail", "pass", 2, 2)
    assert (crash.crash_points, crash.wiped, crash.caught) == (800, 6, 1)
    assert (crash.examples, crash.mutants) == (60, 2)
    assert (crash.strength, crash.reason) == ("", "why fail")
    assert crash.low is not None
    assert crash.high is not None
    assert 0 < crash.low < 1 / 800 < crash.high < 0.01
    whole = cells["1.10", "CRASH-001"]
    assert (whole.low, whole.strength) == (0.0, "strong")
    assert cells["1.9", "KV-001"].high is None
    assert [(row.version, row.verdict) for row in rows.verdicts] == [
        ("1.10", "success"),
        ("1.9", "failure"),
    ]
    assert [(row.requirement, row.version, row.runs, row.of_baseline) for row in rows.failures] == [
        *(("CRASH-001", "1.9", 1, False), ("CRASH-001", "1.9", 1, True))
    ]
    (flaky,) = rows.flaky
    assert (flaky.held, flaky.broken, flaky.held_seed, flaky.broken_seed) == (1, 1, 2, 1)
    assert [row.situation for row in rows.unreached] == ["a flush"]
    assert [row.line for row in rows.problems] == [0]
    assert [(row.date, row.counts["pass"], row.counts["fail"]) for row in rows.days] == [
        ("2026-03-01", 1, 1),
        ("2026-03-02", 2, 0),
        ("2026-03-03", 2, 0),
    ]
    assert rows.subjects[0].capabilities == "durability: process, persistent"
    assert [promise.checks for promise in rows.promises] == [["crash.commit"]] * 2
    (series,) = arrange(rows).series
    assert series.versions == ("1.9", "1.10")
    assert series.outcomes == ("failure", "success")


def test_a_mistake_that_was_mended_is_fixed(rows: SiteRows, runs: Path) -> None:
    (change,) = rows.changes
    assert (change.kind, change.requirement) == ("fixed", "CRASH-001")
    assert (change.before, change.after) == ("fail", "pass")
    assert (change.version_before, change.version_after) == ("1.9", "1.10")
    assert rows.baseline == str(runs / "1")
    (old,) = (failure for failure in rows.failures if failure.of_baseline)
    assert (old.requirement, old.version, old.found) == ("CRASH-001", "1.9", "found")


def test_the_command_makes_a_report_of_the_rows(
    rows: SiteRows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def read(*arguments: object, **options: object) -> SiteRows:
        asked.append((arguments, options))
        return rows

    monkeypatch.setattr(reading, "read_rows", read)
    out = tmp_path / "report"
    arguments = ["report", "a", "b", "--baseline", "c", "--master", "local[1]", "--out", str(out)]
    printed = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert asked == [((["a", "b"], ["c"]), {"master": "local[1]", "remote": ""})]
    files = {path for path in out.rglob("*") if path.is_file()}
    assert printed.output.splitlines() == [
        str(out / "index.html"),
        f"3 runs, {len(files) - 1} files",
        "1 problem with what was read, listed in the report",
    ]
    (change,) = json.loads((out / "tables" / "changes.json").read_bytes())
    assert change["kind"] == "fixed"


def test_one_log_alone_is_rendered_as_ever(runs: Path, tmp_path: Path) -> None:
    arguments = ["report", str(runs / "1" / "run.ndjson"), "--out", str(tmp_path)]
    printed = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert [Path(line).name for line in printed.output.splitlines()] == [
        "report.html",
        "junit.xml",
        "summary.md",
        "badge.json",
    ]


def test_a_format_that_there_is_not_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    arguments = ["report", str(tmp_path), "--format", "html,pdf"]
    with pytest.raises(UsageError, match="There is no format 'pdf': --format takes html, json"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_a_directory_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StreamproofError, match="no run log"):
        CliRunner().invoke(app, ["report", str(tmp_path)], catch_exceptions=False)


def test_worlds_of_a_campaign_are_told_by_themselves(spark: SparkSession, tmp_path: Path) -> None:
    """What model stores and mistakes made on purpose show is nothing that a subject breaks."""
    assert spark.version
    found = [
        RowRecords(run=world_row("held", events=50)),
        RowRecords(
            run=world_row("broken", events=90),
            failures=[msgspec.structs.replace(broken_row("broken"), subject="")],
        ),
        RowRecords(
            run=world_row("broken sooner", events=40),
            failures=[
                msgspec.structs.replace(
                    broken_row("broken sooner"), subject="", seed=7, found="the shortest"
                )
            ],
        ),
        RowRecords(
            run=world_row("broken on purpose", subject="rocksdb", version="1.0", defect="one"),
            failures=[broken_row("broken on purpose")],
        ),
        RowRecords(
            run=world_row("broken store", subject="rocksdb", version="1.0"),
            failures=[broken_row("broken store")],
        ),
        RowRecords(
            run=msgspec.structs.replace(
                world_row("silent", scenario="a@fixed", problem="it took too long"),
                kind="scenario",
                outcome="error",
            )
        ),
    ]
    write_campaign(tmp_path / "nightly", found)

    rows = read_rows([tmp_path / "nightly"])

    counts = {
        (row.kind, row.subject, row.defect): (row.count, row.held, row.broken, row.silent)
        for row in rows.worlds
    }
    assert counts == {
        ("scenario", "", ""): (1, 0, 0, 1),
        ("simulate", "", ""): (3, 1, 2, 0),
        ("simulate", "rocksdb", ""): (1, 0, 1, 0),
        ("simulate", "rocksdb", "one"): (1, 0, 1, 0),
    }
    ways = {(row.outcome, row.subject, row.defect): row for row in rows.world_failures}
    assert len(ways) == len(rows.world_failures) == 4
    shortest = ways["fail", "", ""]
    assert (shortest.worlds, shortest.seed, shortest.found) == (2, 7, "the shortest")
    assert ways["error", "", ""].found == "it took too long"
    assert [(row.subject, row.requirement, row.runs) for row in rows.failures] == [
        ("rocksdb", "EOS-101", 1)
    ]
    assert rows.runs == ()
    never = {row.situation: row.runs for row in rows.unreached}
    assert set(never) == set(situations_of([])) - {"a task idled"}
    assert never["a disk was full"] == 5
    assert arrange(rows).outcome == "failure"
