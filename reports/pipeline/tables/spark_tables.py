"""Every compliance table as a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from streamproof.reports.pipeline.tables import matrix, strength, trends, world_tables
from streamproof.reports.pipeline.tables.base_rows import Base, newest
from streamproof.reports.pipeline.tables.columns import TABLES, column_names
from streamproof.reports.pipeline.tables.sources import Sources

__all__ = ["SparkTables"]


class SparkTables:
    """The tables of some run logs and campaigns, each made on request.

    The columns, their types and the order of the rows are those of
    :data:`~streamproof.reports.pipeline.tables.columns.TABLES`. The same runs give the same rows,
    on one core and on a cluster, in whatever order they are read.

    Args:
        spark: the session.
        sources: the logs and campaigns, which are read once, for the first table.
    """

    def __init__(self, spark: SparkSession, sources: Sources) -> None:
        self._base = Base(spark, sources)

    def close(self) -> None:
        """Release the rows that Spark has read; these tables cannot be made again."""
        self._base.close()

    def runs(self) -> DataFrame:
        """Each run, with its verdict."""
        return self._made("runs", matrix.make_runs)

    def subjects(self) -> DataFrame:
        """Each subject in each run."""
        return self._made("subjects", matrix.make_subjects)

    def requirements(self) -> DataFrame:
        """Each requirement, as the newest run describes it."""
        return self._made("requirements", _make_requirements)

    def results(self) -> DataFrame:
        """The result of each requirement for each subject in each run."""
        return self._made("results", lambda base: base.table("results"))

    def failures(self) -> DataFrame:
        """Each way in which a run found a promise broken."""
        return self._made("failures", lambda base: base.table("failures"))

    def matrix(self) -> DataFrame:
        """The combined and the newest status of each requirement of each subject and version."""
        return self._made("matrix", matrix.make_matrix)

    def verdicts(self) -> DataFrame:
        """The verdict on each subject and version."""
        return self._made("verdicts", matrix.make_verdicts)

    def strength(self) -> DataFrame:
        """The evidence for each requirement of each subject and version."""
        return self._made("strength", strength.make_strength)

    def trends(self) -> DataFrame:
        """How each subject does over versions, and over days."""
        return self._made("trends", trends.make_trends)

    def difference(self, baseline: SparkTables) -> DataFrame:
        """The requirements whose status differs from that in a baseline.

        Args:
            baseline: the tables of the baseline.
        """
        before = baseline._base
        return self._made("difference", lambda base: trends.make_difference(before, base))

    def flaky(self) -> DataFrame:
        """The requirements that held in some runs and were broken in others."""
        return self._made("flaky", trends.make_flaky)

    def restorations(self) -> DataFrame:
        """Each restoration in simulated worlds."""
        return self._made("restorations", world_tables.make_restorations)

    def restoration_times(self) -> DataFrame:
        """The distributions of restorations."""
        return self._made("restoration_times", world_tables.make_restoration_times)

    def waits(self) -> DataFrame:
        """Each time that a simulated task waited."""
        return self._made("waits", world_tables.make_waits)

    def waiting_times(self) -> DataFrame:
        """The distributions of waits."""
        return self._made("waiting_times", world_tables.make_waiting_times)

    def situations(self) -> DataFrame:
        """How often each interesting situation came about."""
        return self._made("situations", world_tables.make_situations)

    def marks_never(self) -> DataFrame:
        """The situations that no run has seen."""
        return self._made("marks_never", world_tables.make_marks_never)

    def problems(self) -> DataFrame:
        """The files and lines that could not be read, or were left out."""
        return self._made("problems", lambda base: base.table("problems"))

    def _made(self, name: str, make: Callable[[Base], DataFrame]) -> DataFrame:
        columns = [sql.col(each.name).cast(each.type) for each in TABLES[name].columns]
        return make(self._base).select(*columns).orderBy(*TABLES[name].keys)


def _make_requirements(base: Base) -> DataFrame:
    columns = [name for name in column_names("requirements") if name != "requirement"]
    found = base.table("requirements").groupBy("requirement")
    return found.agg(newest(*columns).alias("last")).select("requirement", "last.*")
