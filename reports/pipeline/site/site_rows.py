"""From the compliance tables to the rows of a report."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from streamproof.errors import UsageError
from streamproof.reports.pipeline import load
from streamproof.reports.pipeline.sail import SailError, has_sail, sail_session
from streamproof.reports.pipeline.site.site_data import (
    Day,
    Distribution,
    Flaky,
    Promise,
    ReadingProblem,
    SiteCell,
    SiteFailure,
    SiteRows,
    SiteRun,
    SiteSubject,
    StatusChange,
    Unreached,
    VerdictRow,
    WorldTotals,
)
from streamproof.reports.pipeline.site.spec_separation import specs_told_apart
from streamproof.reports.pipeline.site.world_results import (
    read_world_failures,
    read_worlds,
    rows_with_defects,
)
from streamproof.reports.pipeline.spark import running_session, session
from streamproof.reports.pipeline.tables.columns import COUNTED
from streamproof.reports.pipeline.tables.sources import CAMPAIGN_FILE, Sources, find_sources
from streamproof.sim.situations import situations_of

if TYPE_CHECKING:
    from pandas import DataFrame
    from pyspark.sql import DataFrame as SparkDataFrame

    from streamproof.reports.pipeline.tables.api import Tables

__all__ = ["read_rows"]

_log = logging.getLogger(__name__)

_TABLES = (
    *("strength", "verdicts", "trends", "matrix", "flaky", "requirements", "subjects"),
    *("situations", "marks_never", "restoration_times", "waiting_times"),
)
"""The tables of every report: what takes long comes first."""

_Record = dict[str, Any]
_Row = TypeVar("_Row")

_MEASURES = {
    "records": ("Records of restorations", "records"),
    "duration_ms": ("Duration of restorations", "virtual ms"),
}
"""What is measured of restorations: its title and unit."""


def read_rows(
    paths: Sequence[Path | str],
    baseline: Sequence[Path | str] = (),
    *,
    master: str = "",
    remote: str = "",
) -> SiteRows:
    """Reads run logs and campaigns, with Spark, into the rows of a report.

    Args:
        paths: as :func:`streamproof.reports.pipeline.load` takes them.
        baseline: those of the runs to compare with; none to compare the last two versions of
            each subject.
        master: of Spark.
        remote: a Spark Connect server instead.

    Raises:
        UsageError: there is nothing to read; or PySpark, Java or the master is missing.
    """
    sources = find_sources(*paths)
    few = sources.few and (not baseline or find_sources(*baseline).few)
    # For so little, starting Spark would take longest.
    if few and not (master or remote) and _has_small_engine():
        try:
            with sail_session():
                return _read(sources, paths, baseline)
        except SailError as error:
            _log.warning(
                "Spark makes the tables, which takes longer, because Sail cannot: %s.", error
            )
    return _read(sources, paths, baseline, master=master, remote=remote)


def _has_small_engine() -> bool:
    """Whether Sail can be the engine of this process: it is installed, and no session runs yet.

    Raises:
        UsageError: there is no engine at all.
    """
    if find_spec("pyspark") is None:
        raise UsageError("A report on many runs needs Sail: `pip install 'streamproof[sail]'`.")
    return has_sail() and not running_session()


def _read(
    sources: Sources,
    paths: Sequence[Path | str],
    baseline: Sequence[Path | str],
    *,
    master: str = "",
    remote: str = "",
) -> SiteRows:
    """Read runs with the engine whose session runs, or with Spark."""
    with ExitStack() as stack:
        tables = load(*paths, master=master, remote=remote)
        stack.callback(tables.close)
        before = load(*baseline, master=master, remote=remote) if baseline else None
        if before:
            stack.callback(before.close)
        # The first table reads the logs; the others wait for these rows alone.
        problems = _converted(tables.problems(), ReadingProblem)
        tables.begin(*_TABLES)
        unread = {problem.path for problem in problems}
        campaigns = [
            each for each in sources.campaigns if str(Path(each, CAMPAIGN_FILE)) not in unread
        ]
        spark = session(master, remote)
        worlds = read_worlds(spark, campaigns)
        difference = _records(tables.difference(before)) if before else []
        rows = SiteRows(
            promises=tuple(map(_promise, _records(tables.requirements()))),
            cells=_cells(tables),
            verdicts=_verdicts(tables),
            subjects=_subjects(tables),
            runs=_runs(tables),
            failures=(
                *_failures(tables, rows_with_defects(spark, campaigns)),
                *_no_longer(before, difference),
            ),
            changes=tuple(map(_change, difference)),
            flaky=_converted(tables.flaky(), Flaky),
            problems=problems,
            unreached=_unreached(tables, worlds),
            worlds=worlds,
            world_failures=read_world_failures(spark, campaigns),
            distributions=(*_restorations(tables), *_waits(tables)),
            days=_days(tables),
            baseline=", ".join(map(str, baseline)),
        )
        return specs_told_apart(rows)


def _records(frame: DataFrame) -> list[_Record]:
    return cast(list[_Record], frame.to_dict("records"))


def _converted(frame: DataFrame, kind: type[_Row]) -> tuple[_Row, ...]:
    """Rows of a type whose fields are named like columns; other columns are left out."""
    return tuple(msgspec.convert(record, kind) for record in _records(frame))


def _promise(record: _Record) -> Promise:
    checks = [check for check in record["checks"].split(", ") if check]
    return msgspec.convert({**record, "checks": checks}, Promise)


def _cells(tables: Tables) -> tuple[SiteCell, ...]:
    keys = ("subject", "version", "guarantee", "spec", "requirement")
    evidence = {
        tuple(record[key] for key in keys): record for record in _records(tables.strength())
    }
    return tuple(
        _cell(record, evidence.get(tuple(record[key] for key in keys)))
        for record in _records(tables.matrix())
    )


def _cell(record: _Record, evidence: _Record | None) -> SiteCell:
    found = evidence or {}
    crashes = found.get("crashes", 0)
    return SiteCell(
        subject=record["subject"],
        version=record["version"],
        guarantee=record["guarantee"],
        spec=record["spec"],
        requirement=record["requirement"],
        status=record["combined"],
        latest=record["latest"],
        reason=record["reason"],
        strength=found.get("strength", "") if record["combined"] == "pass" else "",
        mutants=found.get("mutants", 0),
        runs=record["runs"],
        seeds=found.get("seeds", 0),
        examples=found.get("examples", 0),
        operations=found.get("operations", 0),
        crash_points=crashes,
        wiped=found.get("wiped", 0),
        caught=found.get("caught", 0),
        low=found["kill_low"] if crashes else None,
        high=found["kill_high"] if crashes else None,
    )


def _verdicts(tables: Tables) -> tuple[VerdictRow, ...]:
    """The verdicts on judged subjects; one that only ran in worlds and broke nothing has none."""
    return tuple(
        VerdictRow(
            subject=record["subject"],
            version=record["version"],
            guarantee=record["guarantee"],
            spec=record["spec"],
            verdict=record["combined"],
            latest_at=record["latest_at"],
            runs=record["runs"],
        )
        for record in _records(tables.verdicts())
        if record["version"] or record["requirements"] or record["combined"] != "partial"
    )


def _subjects(tables: Tables) -> tuple[SiteSubject, ...]:
    """The description of each version in its newest run."""
    newest: dict[tuple[str, str], SiteSubject] = {}
    for record in sorted(_records(tables.subjects()), key=lambda each: each["started_at"]):
        newest[record["subject"], record["version"]] = SiteSubject(
            subject=record["subject"],
            version=record["version"],
            package=record["package"],
            description=record["description"],
            capabilities=_in_words(record["capabilities"]),
        )
    return tuple(newest[key] for key in sorted(newest))


def _in_words(capabilities: str) -> str:
    """The claims in a JSON object: names, each with its value unless that is just ``true``."""
    try:
        claimed = json.loads(capabilities or "{}")
    except ValueError:
        return ""
    if not isinstance(claimed, dict):
        return ""
    words = [
        name if value is True else f"{name}: {value}" for name, value in claimed.items() if value
    ]
    return ", ".join(sorted(words))


def _runs(tables: Tables) -> tuple[SiteRun, ...]:
    """The runs that judge subjects; of simulated worlds there are too many for the driver."""
    frame = tables.spark.runs().where("origin = 'log' OR profile != ''")
    return tuple(msgspec.convert(record, SiteRun) for record in frame.toArrow().to_pylist())


def _unreached(tables: Tables, worlds: tuple[WorldTotals, ...]) -> tuple[Unreached, ...]:
    """The situations that no run has seen; rows of campaigns list only those that they saw."""
    found = {row.situation: row for row in _converted(tables.marks_never(), Unreached)}
    if drawn := sum(each.count for each in worlds if each.kind == "simulate"):
        records = _records(tables.situations())
        known = {record["situation"] for record in records if record["hits"]}
        for each in situations_of([]):
            if each not in known:
                found[each] = Unreached(situation=each, runs=drawn)
    return tuple(found[situation] for situation in sorted(found))


def _no_longer(before: Tables | None, difference: list[_Record]) -> tuple[SiteFailure, ...]:
    """The failures of a baseline in requirements that no run of this report finds broken."""
    keys = ("subject", "guarantee", "spec", "requirement")
    gone = {
        tuple(record[key] for key in keys)
        for record in difference
        if record["before"] in ("fail", "known") and record["after"] not in ("fail", "known")
    }
    if before is None or not gone:
        return ()
    return tuple(
        msgspec.structs.replace(row, of_baseline=True)
        for row in _failures(before)
        if (row.subject, row.guarantee, row.spec, row.requirement) in gone
    )


def _failures(tables: Tables, left_out: SparkDataFrame | None = None) -> tuple[SiteFailure, ...]:
    """The newest of each way in which a version breaks a promise, and how many runs found it.

    Args:
        tables: where they are.
        left_out: the ``path`` of runs whose failures say nothing about a subject.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    # Failures of model stores, and scenarios that end unexpectedly, are shown apart.
    known = tables.spark.failures().where("subject != '' AND requirement != ''")
    if left_out is not None:
        known = known.join(left_out, "path", "left_anti")
    # Programs are long, and thousands of runs find the same one: only one leaves the workers.
    keys = ("subject", "version", "guarantee", "spec", "requirement", "shape")
    way = Window.partitionBy(*keys)
    newest_first = way.orderBy(sql.desc("started_at"), sql.desc("run_id"), "path", "check")
    found = known.select(
        "*",
        sql.row_number().over(newest_first).alias("place"),
        sql.size(sql.collect_set("path").over(way)).alias("runs"),
    )
    rows = found.where("place = 1").orderBy(*keys).toArrow().to_pylist()
    return tuple(
        msgspec.convert({**record, "known": record["known_because"]}, SiteFailure)
        for record in rows
    )


def _change(record: _Record) -> StatusChange:
    return msgspec.convert(
        {
            **record,
            "kind": record["change"],
            "before": record["before"] or None,
            "after": record["after"] or None,
        },
        StatusChange,
    )


def _restorations(tables: Tables) -> list[Distribution]:
    return [
        _distribution(record, *_MEASURES[record["measure"]], record["end"])
        for record in _records(tables.restoration_times())
    ]


def _waits(tables: Tables) -> list[Distribution]:
    return [
        _distribution(
            record, "Waiting of tasks", "virtual ms", f"{record['reasons']}: {record['end']}"
        )
        for record in _records(tables.waiting_times())
    ]


def _distribution(record: _Record, measure: str, unit: str, group: str) -> Distribution:
    return Distribution(
        measure=measure,
        group=group,
        unit=unit,
        count=record["count"],
        minimum=record["least"],
        p50=record["median"],
        p90=record["p90"],
        p99=record["p99"],
        maximum=record["most"],
    )


def _days(tables: Tables) -> tuple[Day, ...]:
    return tuple(
        Day(
            date=record["point"],
            subject=record["subject"],
            guarantee=record["guarantee"],
            spec=record["spec"],
            counts={status: record[column] for status, column in COUNTED.items()},
        )
        for record in _records(tables.trends())
        if record["by"] == "date"
    )
