"""Reads the Parquet files of campaigns into the rows that all tables start from.

A row of ``verify`` is a run like that of a log. A simulated world judges the runtime. A subject
gets only the failures that were found with it, and only in worlds without a deliberate mistake.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from streamproof.reports.pipeline.campaigns.campaign_tables import (
    MANIFEST,
    SCHEMA_VERSION,
    TABLES,
    TableName,
    read_table,
)
from streamproof.reports.pipeline.tables.columns import EVIDENCE
from streamproof.reports.pipeline.tables.log_reader import STAGED
from streamproof.reports.safe_text import cell

__all__ = ["AREA", "EVENTS", "campaign_events", "campaign_problems", "campaign_rows"]

EVENTS = (
    "path string, sequence bigint, time bigint, actor string, kind string, task string, "
    "partition string, attributes string"
)
"""The columns of events that tables are made from."""

Row = tuple[str, int, str, str, str]
"""A row of ``problems``."""

_FIX = "the same `streamproof campaign` command mends it"

_NAMES_SUBJECT = "subject != '' AND defect = ''"
"""The rows of a plan whose failures count for a subject."""

_RUN_ID = "if(run_id = '', row, run_id)"
AREA = """
    if(instr(requirement, '-') > 1, regexp_replace(requirement, '-[^-]*$', ''), requirement)
"""
_CRASHES = "aggregate(map_values(crash_points), 0L, (sum, each) -> sum + each)"
_KINDS = {each: f"coalesce(crash_points['{each}'], 0L)" for each in ("boundary", "line", "syscall")}


class _Manifest(msgspec.Struct):
    """The part that all versions of ``campaign.json`` share."""

    schema_version: int


def campaign_rows(spark: SparkSession, directory: str, kind: str) -> DataFrame:
    """The rows of one kind in a campaign, with the same columns as those of logs.

    Args:
        spark: the session.
        directory: of the campaign.
        kind: the kind, such as ``results``.
    """
    make = {
        "runs": _runs,
        "subjects": _subjects,
        "requirements": _requirements,
        "results": _results,
        "failures": _failures,
        "situations": _situations,
    }[kind]
    found = make(spark, directory)
    return found.select(*[sql.col(name).cast(type_) for name, type_ in STAGED[kind].items()])


def campaign_problems(directory: str) -> Iterator[Row]:
    """The unreadable files of a campaign, as rows of ``problems``.

    If ``campaign.json`` itself is unreadable, nothing of the campaign can be read.

    Args:
        directory: of the campaign.
    """
    manifest = Path(directory) / MANIFEST
    try:
        version = msgspec.json.decode(manifest.read_bytes(), type=_Manifest).schema_version
    except (OSError, msgspec.MsgspecError) as error:
        yield _problem(manifest, "unreadable", f"is not that of a campaign: {cell(str(error))}")
        return
    if version > SCHEMA_VERSION:
        what = f"has schema version {version}, and this release reads up to {SCHEMA_VERSION}"
        yield _problem(manifest, "newer", f"{what}: a newer streamproof wrote it; upgrade")
        return
    for name in TABLES:
        for path in sorted((Path(directory) / name).glob("*.parquet")):
            try:
                parquet.read_metadata(path)
            except (OSError, pa.ArrowException) as error:
                reason = cell(str(error).strip().partition("\n")[0])
                yield _problem(path, "unreadable", f"is no whole Parquet file ({reason}); {_FIX}")


def _problem(path: Path, kind: str, what: str) -> Row:
    return str(path), 0, kind, "", what


def campaign_events(spark: SparkSession, directory: str) -> DataFrame:
    """The events that a campaign kept; ``path`` names their row.

    Args:
        spark: the session.
        directory: of the campaign.
    """
    events = read_table(spark, Path(directory), "events")
    path = sql.concat(sql.lit(f"{directory}/"), "run")
    names = ("sequence", "time", "actor", "kind", "task", "partition", "attributes")
    return events.select(path.alias("path"), *names)


def _table(spark: SparkSession, directory: str, name: TableName) -> DataFrame:
    """A table of a campaign, with its columns renamed as in logs."""
    found = read_table(spark, Path(directory), name)
    path = sql.concat(sql.lit(f"{directory}/"), "row")
    found = found.withColumn("path", path)
    if name == "runs":
        found = found.withColumn("spec", sql.expr(_SPEC))
    if "duration_s" in found.columns:
        found = found.withColumn("duration_ms", sql.expr("cast(round(duration_s * 1000) AS long)"))
    return found.withColumn("run_id", sql.expr(_RUN_ID)) if "run_id" in found.columns else found


def _runs(spark: SparkSession, directory: str) -> DataFrame:
    results = _table(spark, directory, "results").groupBy("path").agg(sql.count("*").alias("n"))
    return (
        _table(spark, directory, "runs")
        .join(results, "path", "left")
        .select(
            "*",
            sql.lit("campaign").alias("origin"),
            sql.expr(_STATED).alias("stated"),
            sql.expr("kind != 'verify' OR verdict != ''").alias("complete"),
            sql.lit("").alias("finished_at"),
            sql.lit("").alias("reproduce"),
            sql.expr("coalesce(n, 0L)").alias("results"),
            sql.lit(0).alias("bad"),
            # The same row in another campaign is another run.
            sql.concat("row", sql.lit(" "), "started_at").alias("head"),
            sql.concat("row", sql.lit(" "), "started_at").alias("content"),
        )
    )


_SPEC = "if(kind != 'verify', 'kips', spec)"
"""The spec of a row; the simulator follows the proposals."""

_STATED = """
    CASE WHEN kind = 'verify' THEN verdict WHEN outcome = 'pass' THEN 'success'
    WHEN outcome = 'fail' THEN 'failure' ELSE outcome END
"""
"""The verdict that a row of a plan gave."""


def _subjects(spark: SparkSession, directory: str) -> DataFrame:
    runs = _table(spark, directory, "runs").where(_NAMES_SUBJECT)
    judged = sql.expr("kind = 'verify'")
    return runs.withColumns({"stated": sql.expr(_STATED), "judged": judged})


def _requirements(spark: SparkSession, directory: str) -> DataFrame:
    results = _table(spark, directory, "results").withColumn("area", sql.expr(AREA))
    return results.withColumn("checks", sql.array_join("checks", ", "))


def _results(spark: SparkSession, directory: str) -> DataFrame:
    found = _table(spark, directory, "results").withColumns(
        {
            "area": sql.expr(AREA),
            "crashes": sql.expr(_CRASHES),
            **{kind: sql.expr(count) for kind, count in _KINDS.items()},
            # Campaigns that older releases wrote have no such column.
            "wiped": sql.expr("coalesce(wiped, 0L)"),
        }
    )
    found = found.withColumn("other", sql.expr("crashes - boundary - line - syscall"))
    names = [name for name in STAGED["results"] if name in found.columns]
    return found.select(*names).unionByName(_broken_worlds(spark, directory).select(*names))


def _broken_worlds(spark: SparkSession, directory: str) -> DataFrame:
    """The failures of subjects in simulated worlds, as results."""
    counts = [*(column.name for column in EVIDENCE), "duration_ms"]
    found = _failures(spark, directory).where(
        "kind != 'verify' AND requirement != '' AND known_because = ''"
    )
    runs = _table(spark, directory, "runs").where(_NAMES_SUBJECT).select("path")
    return (
        found.join(runs, "path", "left_semi")
        .groupBy("path", "requirement")
        .agg(sql.min_by(sql.struct("*"), "shape").alias("first"))
        .select(
            "first.*",
            sql.lit("fail").alias("status"),
            sql.col("first.found").alias("reason"),
            sql.lit("").alias("strength"),
            *[sql.lit(0).cast("bigint").alias(each) for each in counts],
        )
    )


def _failures(spark: SparkSession, directory: str) -> DataFrame:
    runs = _table(spark, directory, "runs").select("path", "run_id", "started_at", "spec")
    # Only the simulator leaves the level out, and an unknown level counts as a MUST.
    level = sql.expr("if(level = '', 'MUST', level)")
    return (
        _table(spark, directory, "failures")
        .join(runs, "path")
        .withColumns({"level": level, "area": sql.expr(AREA)})
        .withColumnsRenamed({"command": "reproduce", "known": "known_because"})
    )


def _situations(spark: SparkSession, directory: str) -> DataFrame:
    runs = _table(spark, directory, "runs")
    return runs.select("*", sql.explode("marks").alias("situation", "hits"))
