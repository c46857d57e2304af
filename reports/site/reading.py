"""From the compliance tables to the rows of a report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from streamproof.reports import load
from streamproof.reports.site.data import (
    Cell,
    Change,
    Day,
    Distribution,
    Failure,
    Flaky,
    Problem,
    Promise,
    Rows,
    Run,
    Subject,
    Unreached,
    VerdictRow,
)
from streamproof.reports.tables.columns import COUNTED

if TYPE_CHECKING:
    from pandas import DataFrame
    from pyspark.sql import DataFrame as SparkDataFrame

    from streamproof.reports.tables.door import Tables

__all__ = ["read_rows", "rows_of"]

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
) -> Rows:
    """Reads run logs and campaigns, with Spark, into the rows of a report.

    Args:
        paths: as :func:`streamproof.reports.load` takes them.
        baseline: those of the runs to compare with; none to compare the last two versions of
            each subject.
        master: of Spark.
        remote: a Spark Connect server instead.

    Raises:
        UsageError: there is nothing to read; or PySpark, Java or the master is missing.
    """
    with ExitStack() as stack:
        tables = load(*paths, master=master, remote=remote)
        stack.callback(tables.close)
        before = load(*baseline, master=master, remote=remote) if baseline else None
        if before:
            stack.callback(before.close)
        return rows_of(tables, before, ", ".join(map(str, baseline)))


def rows_of(tables: Tables, baseline: Tables | None = None, name: str = "") -> Rows:
    """The rows of a report.

    Args:
        tables: what the report is on.
        baseline: what it is compared with.
        name: how the report calls the baseline.
    """
    difference = tables.difference(baseline) if baseline else None
    return Rows(
        promises=tuple(map(_promise, _records(tables.requirements()))),
        cells=_cells(tables),
        verdicts=_verdicts(tables),
        subjects=_subjects(tables),
        runs=_converted(tables.runs(), Run),
        failures=_failures(tables),
        changes=tuple(map(_change, _records(difference))) if difference is not None else (),
        flaky=_converted(tables.flaky(), Flaky),
        problems=_converted(tables.problems(), Problem),
        unreached=_converted(tables.marks_never(), Unreached),
        distributions=(*_restorations(tables), *_waits(tables)),
        days=_days(tables),
        baseline=(name or "the baseline") if baseline else "",
    )


def _records(frame: DataFrame) -> list[_Record]:
    return cast(list[_Record], frame.to_dict("records"))


def _converted(frame: DataFrame, kind: type[_Row]) -> tuple[_Row, ...]:
    """Rows of a type whose fields are named like columns; other columns are left out."""
    return tuple(msgspec.convert(record, kind) for record in _records(frame))


def _promise(record: _Record) -> Promise:
    checks = [check for check in record["checks"].split(", ") if check]
    return msgspec.convert({**record, "checks": checks}, Promise)


def _cells(tables: Tables) -> tuple[Cell, ...]:
    keys = ("subject", "version", "guarantee", "requirement")
    evidence = {
        tuple(record[key] for key in keys): record for record in _records(tables.strength())
    }
    return tuple(
        _cell(record, evidence.get(tuple(record[key] for key in keys)))
        for record in _records(tables.matrix())
    )


def _cell(record: _Record, evidence: _Record | None) -> Cell:
    found = evidence or {}
    crashes = found.get("crashes", 0)
    return Cell(
        subject=record["subject"],
        version=record["version"],
        guarantee=record["guarantee"],
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
        caught=found.get("caught", 0),
        low=found["kill_low"] if crashes else None,
        high=found["kill_high"] if crashes else None,
    )


def _verdicts(tables: Tables) -> tuple[VerdictRow, ...]:
    return tuple(
        VerdictRow(
            subject=record["subject"],
            version=record["version"],
            guarantee=record["guarantee"],
            verdict=record["combined"],
            latest_at=record["latest_at"],
            runs=record["runs"],
        )
        for record in _records(tables.verdicts())
    )


def _subjects(tables: Tables) -> tuple[Subject, ...]:
    """What each version says of itself in its newest run."""
    newest: dict[tuple[str, str], Subject] = {}
    for record in sorted(_records(tables.subjects()), key=lambda each: each["started_at"]):
        newest[record["subject"], record["version"]] = Subject(
            subject=record["subject"],
            version=record["version"],
            package=record["package"],
            description=record["description"],
            capabilities=_in_words(record["capabilities"]),
        )
    return tuple(newest[key] for key in sorted(newest))


def _in_words(capabilities: str) -> str:
    """What is claimed, from a JSON object: a name, and its value if that is more than a yes."""
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


def _failures(tables: Tables) -> tuple[Failure, ...]:
    """The newest of each way in which a version breaks a promise, and how many runs found it."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    # Programs are long, and thousands of runs find the same: only one of each leaves the workers.
    way = Window.partitionBy("subject", "version", "guarantee", "requirement", "shape")
    newest_first = way.orderBy(sql.desc("started_at"), sql.desc("run_id"), "path", "check")
    found: SparkDataFrame = tables.spark.failures().select(
        "*",
        sql.row_number().over(newest_first).alias("place"),
        sql.size(sql.collect_set("path").over(way)).alias("runs"),
    )
    keys = ("subject", "version", "guarantee", "requirement", "shape")
    rows = found.where("place = 1").orderBy(*keys).toArrow().to_pylist()
    return tuple(
        msgspec.convert({**record, "known": record["known_because"]}, Failure) for record in rows
    )


def _change(record: _Record) -> Change:
    return msgspec.convert(
        {
            **record,
            "kind": record["change"],
            "before": record["before"] or None,
            "after": record["after"] or None,
        },
        Change,
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
            counts={status: record[column] for status, column in COUNTED.items()},
        )
        for record in _records(tables.trends())
        if record["by"] == "date"
    )
