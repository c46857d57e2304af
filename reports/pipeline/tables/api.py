"""Compliance tables as pandas DataFrames: ``streamproof.reports.pipeline.load``."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
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

SIDE_BY_SIDE = 4
"""The most tables that are made at the same time: Spark plans each on one core."""

_FEW_ROWS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings for logs that are :attr:`~.sources.Sources.few`: planning the tables, and compiling code
for them, takes several times as long as going through the rows."""


def load_tables(
    *paths: Path | str, master: str = "", remote: str = "", spark: SparkSession | None = None
) -> Tables:
    """Load tables, as :func:`streamproof.reports.pipeline.load` does."""
    sources = find_sources(*paths)
    # Spark's default of 200 partitions is for far more rows: each costs as much as thousands.
    partitions = max(4, sources.size // BYTES_A_PARTITION)
    settings = _FEW_ROWS if sources.few else {"spark.sql.shuffle.partitions": str(partitions)}
    spark = spark or session(master, remote, "streamproof tables", settings, archives=True)
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
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE)
        self._begun: dict[str, Future[DataFrame]] = {}

    def begin(self, *names: str) -> None:
        """Make some tables side by side, while the caller goes on; their methods wait for them.

        Args:
            names: the names of the methods.
        """
        for name in names:
            if name not in self._begun:
                self._begun[name] = self._pool.submit(self._make, name)

    def runs(self) -> DataFrame:
        """Each run, with its verdict."""
        return self._made("runs")

    def subjects(self) -> DataFrame:
        """Each subject in each run."""
        return self._made("subjects")

    def requirements(self) -> DataFrame:
        """Each requirement, as the newest run describes it."""
        return self._made("requirements")

    def results(self) -> DataFrame:
        """The result of each requirement for each subject in each run."""
        return self._made("results")

    def failures(self) -> DataFrame:
        """Each way in which a run found a promise broken."""
        return self._made("failures")

    def matrix(self) -> DataFrame:
        """The combined and the newest status of each requirement of each subject and version."""
        return self._made("matrix")

    def verdicts(self) -> DataFrame:
        """The verdict on each subject and version."""
        return self._made("verdicts")

    def strength(self) -> DataFrame:
        """The evidence for each requirement of each subject and version."""
        return self._made("strength")

    def trends(self) -> DataFrame:
        """How each subject does over versions, and over days."""
        return self._made("trends")

    def difference(self, baseline: Tables) -> DataFrame:
        """The requirements whose status differs from that in a baseline.

        Args:
            baseline: the tables of the baseline.
        """
        return _pandas(self.spark.difference(baseline.spark))

    def flaky(self) -> DataFrame:
        """The requirements that held in some runs and were broken in others."""
        return self._made("flaky")

    def restorations(self) -> DataFrame:
        """Each restoration in simulated worlds."""
        return self._made("restorations")

    def restoration_times(self) -> DataFrame:
        """The distributions of restorations."""
        return self._made("restoration_times")

    def waits(self) -> DataFrame:
        """Each time that a simulated task waited."""
        return self._made("waits")

    def waiting_times(self) -> DataFrame:
        """The distributions of waits."""
        return self._made("waiting_times")

    def situations(self) -> DataFrame:
        """How often each interesting situation came about."""
        return self._made("situations")

    def marks_never(self) -> DataFrame:
        """The situations that no run has seen."""
        return self._made("marks_never")

    def problems(self) -> DataFrame:
        """The files and lines that could not be read, or were left out."""
        return self._made("problems")

    def close(self) -> None:
        """Release the rows that Spark has read; these tables cannot be made again."""
        self._pool.shutdown(cancel_futures=True)
        self.spark.close()

    def _made(self, name: str) -> DataFrame:
        begun = self._begun.pop(name, None)
        return begun.result() if begun else self._make(name)

    def _make(self, name: str) -> DataFrame:
        return _pandas(getattr(self.spark, name)())


def _pandas(table: SparkDataFrame) -> DataFrame:
    # By way of Arrow, whatever the session is set to, so that whole numbers stay whole.
    found: DataFrame = table.toArrow().to_pandas()
    return found
