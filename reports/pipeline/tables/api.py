"""Compliance tables as pandas DataFrames: ``streamproof.reports.pipeline.load``."""

from __future__ import annotations

from pathlib import Path

from pandas import DataFrame
from pyspark.sql import DataFrame as SparkDataFrame
from pyspark.sql import SparkSession

from streamproof.reports.pipeline.spark import session
from streamproof.reports.pipeline.tables.sources import find_sources
from streamproof.reports.pipeline.tables.spark_tables import SparkTables

__all__ = ["Tables", "load_tables"]

BYTES_A_PARTITION = 64 * 1024 * 1024
"""Bytes of logs for each partition of the tables: about 100,000 results."""


def load_tables(
    *paths: Path | str, master: str = "", remote: str = "", spark: SparkSession | None = None
) -> Tables:
    """Load tables, as :func:`streamproof.reports.pipeline.load` does."""
    sources = find_sources(*paths)
    # Spark's default of 200 partitions is for far more rows: each costs as much as thousands.
    partitions = max(4, sources.size // BYTES_A_PARTITION)
    settings = {"spark.sql.shuffle.partitions": str(partitions)}
    spark = spark or session(master, remote, "streamproof tables", settings)
    return Tables(SparkTables(spark, sources))


class Tables:
    """Every compliance table as a pandas DataFrame, made by Spark on request.

    The columns, their types and the order of the rows are those of
    :data:`~streamproof.reports.pipeline.tables.columns.TABLES`. No value is missing.

    Args:
        spark: makes the tables.

    Attributes:
        spark: the same tables as DataFrames of Spark, for tables that do not fit into memory.
    """

    def __init__(self, spark: SparkTables) -> None:
        self.spark = spark

    def runs(self) -> DataFrame:
        """Each run, with its verdict."""
        return _pandas(self.spark.runs())

    def subjects(self) -> DataFrame:
        """Each subject in each run."""
        return _pandas(self.spark.subjects())

    def requirements(self) -> DataFrame:
        """Each requirement, as the newest run describes it."""
        return _pandas(self.spark.requirements())

    def results(self) -> DataFrame:
        """The result of each requirement for each subject in each run."""
        return _pandas(self.spark.results())

    def failures(self) -> DataFrame:
        """Each way in which a run found a promise broken."""
        return _pandas(self.spark.failures())

    def matrix(self) -> DataFrame:
        """The combined and the newest status of each requirement of each subject and version."""
        return _pandas(self.spark.matrix())

    def verdicts(self) -> DataFrame:
        """The verdict on each subject and version."""
        return _pandas(self.spark.verdicts())

    def strength(self) -> DataFrame:
        """The evidence for each requirement of each subject and version."""
        return _pandas(self.spark.strength())

    def trends(self) -> DataFrame:
        """How each subject does over versions, and over days."""
        return _pandas(self.spark.trends())

    def difference(self, baseline: Tables) -> DataFrame:
        """The requirements whose status differs from that in a baseline.

        Args:
            baseline: the tables of the baseline.
        """
        return _pandas(self.spark.difference(baseline.spark))

    def flaky(self) -> DataFrame:
        """The requirements that held in some runs and were broken in others."""
        return _pandas(self.spark.flaky())

    def restorations(self) -> DataFrame:
        """Each restoration in simulated worlds."""
        return _pandas(self.spark.restorations())

    def restoration_times(self) -> DataFrame:
        """The distributions of restorations."""
        return _pandas(self.spark.restoration_times())

    def waits(self) -> DataFrame:
        """Each time that a simulated task waited."""
        return _pandas(self.spark.waits())

    def waiting_times(self) -> DataFrame:
        """The distributions of waits."""
        return _pandas(self.spark.waiting_times())

    def situations(self) -> DataFrame:
        """How often each interesting situation came about."""
        return _pandas(self.spark.situations())

    def marks_never(self) -> DataFrame:
        """The situations that no run has seen."""
        return _pandas(self.spark.marks_never())

    def problems(self) -> DataFrame:
        """The files and lines that could not be read, or were left out."""
        return _pandas(self.spark.problems())

    def close(self) -> None:
        """Release the rows that Spark has read; these tables cannot be made again."""
        self.spark.close()


def _pandas(table: SparkDataFrame) -> DataFrame:
    # By way of Arrow, whatever the session is set to, so that whole numbers stay whole.
    found: DataFrame = table.toArrow().to_pandas()
    return found
