"""Compliance tables: what Spark makes of run logs is what a slow reading of them tells."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import table_oracle as oracle
from random_runs import draw_runs, write_runs

from streamproof.reports.pipeline.tables.columns import COUNTED, TABLES, tables_text
from streamproof.reports.wording import STATUSES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamproof.reports.pipeline.tables.api import Tables

ORACLES: dict[str, Callable[[list[oracle.Told]], list[oracle.Row]]] = {
    "subjects": oracle.subjects,
    "requirements": oracle.requirements,
    "results": oracle.results,
    "failures": oracle.failures,
    "matrix": oracle.matrix,
    "verdicts": oracle.verdicts,
    "strength": oracle.strength,
    "trends": oracle.trends,
    "flaky": oracle.flaky,
    "situations": oracle.situations,
}


def tables(spark: SparkSession, directory: Path) -> Tables:
    from streamproof.reports.pipeline.tables.api import load_tables

    return load_tables(directory, spark=spark)


def rows_of(table: Any) -> list[oracle.Row]:
    rows: list[oracle.Row] = table.to_dict("records")
    return rows


def assert_same(name: str, found: list[oracle.Row], expected: list[oracle.Row]) -> None:
    """The rows are those that are expected, in the columns that the oracle has, and in order."""
    keys = TABLES[name].keys
    wanted = sorted(expected, key=lambda row: [row.get(key, "") for key in keys])
    shown = [{column: row[column] for column in wanted[0]} for row in found] if wanted else found
    assert len(shown) == len(wanted), name
    for one, other in zip(shown, wanted, strict=True):
        assert one == pytest.approx(other), name


def test_every_table_has_what_the_runs_say(spark: SparkSession, tmp_path: Path) -> None:
    """Of so many runs that each cell has several, and some are flaky; some tables at once."""
    told = write_runs(tmp_path, draw_runs(7, 120))
    found = tables(spark, tmp_path)
    found.begin("matrix", "verdicts", "strength", "trends", "flaky")

    for name, expected in ORACLES.items():
        wanted = expected(told)
        assert wanted, name
        assert_same(name, rows_of(getattr(found, name)()), wanted)
    runs = {row["path"]: row["verdict"] for row in rows_of(found.runs())}
    assert runs == oracle.run_verdicts(told)
    never = {row["situation"] for row in rows_of(found.marks_never())}
    seen = {row["situation"] for row in oracle.situations(told) if row["hits"]}
    assert never == {row["situation"] for row in oracle.situations(told)} - seen
    assert rows_of(found.problems()) == []
    found.close()


def test_a_difference_is_that_of_the_newest_versions(spark: SparkSession, tmp_path: Path) -> None:
    before = write_runs(tmp_path / "before", draw_runs(1, 30))
    after = write_runs(tmp_path / "after", draw_runs(2, 30))
    baseline, current = (tables(spark, tmp_path / each) for each in ("before", "after"))

    found = rows_of(current.difference(baseline))

    expected = oracle.difference(before, after)
    assert {"broken", "fixed", "changed"} <= {row["change"] for row in expected}
    assert_same("difference", found, expected)
    assert current.difference(current).empty


SETTINGS = ("spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled")


def digests(spark: SparkSession, paths: list[str], tasks: int, *values: str) -> dict[str, str]:
    """What stands for a table: the bytes of its rows, in their order; of those with most to mix.

    Args:
        spark: makes them.
        paths: the logs, in the order in which they are read.
        tasks: by how many the logs are read.
        values: of the settings.
    """
    from streamproof.reports.pipeline.tables.api import Tables
    from streamproof.reports.pipeline.tables.log_reader import BYTES_A_TASK
    from streamproof.reports.pipeline.tables.sources import Sources
    from streamproof.reports.pipeline.tables.spark_tables import SparkTables

    before = [spark.conf.get(name) for name in SETTINGS]
    for name, value in zip(SETTINGS, values, strict=True):
        spark.conf.set(name, value)
    found = Tables(SparkTables(spark, Sources(paths, [], tasks * BYTES_A_TASK)))
    names = ("runs", "results", "matrix", "verdicts", "strength", "trends", "flaky")
    shown = {name: sha256(getattr(found, name)().to_csv().encode()).hexdigest() for name in names}
    found.close()
    for name, value in zip(SETTINGS, before, strict=True):
        spark.conf.set(name, value)
    return shown


def test_tables_do_not_depend_on_cores_or_order(spark: SparkSession, tmp_path: Path) -> None:
    """The driver reads everything, or many workers do in another order: the same bytes."""
    paths = [each.path for each in write_runs(tmp_path, draw_runs(9, 24))]
    shuffled = Random(1).sample(paths, len(paths))

    alone = digests(spark, paths, 1, "1", "true")
    shared = digests(spark, shuffled, 6, "3", "false")

    assert shared == alone
    assert len(set(alone.values())) == len(alone)


# Without Spark.


def test_every_status_has_a_column_in_which_it_is_counted() -> None:
    assert set(COUNTED) == set(STATUSES)


def test_the_documented_columns_are_those_that_there_are() -> None:
    page = Path(__file__).parents[2] / "docs" / "tables.md"
    assert page.read_text("utf-8") == tables_text()


def test_the_columns_of_a_table_are_told_apart_and_typed() -> None:
    for name, table in TABLES.items():
        names = [column.name for column in table.columns]
        assert len(set(names)) == len(names), name
        assert set(table.keys) <= set(names), name
        assert {column.type for column in table.columns} <= {
            "string",
            "bigint",
            "double",
            "boolean",
        }


def test_the_interval_of_the_oracle_is_that_of_wilson() -> None:
    """Of a value from the literature: 81 of 263 (Newcombe 1998, table I)."""
    low, high = oracle.interval(81, 263)
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)
    assert oracle.interval(0, 100)[1] == pytest.approx(0.0295, abs=1e-4)
