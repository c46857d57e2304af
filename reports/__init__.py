"""The run log, and the reports that are made from run logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamproof.reports.pipeline.tables.api import Tables

__all__ = ["load"]


def load(*paths: Path | str, master: str = "", remote: str = "") -> Tables:
    """Compliance tables of run logs and campaigns, as pandas DataFrames: one call for each.

    ``load("streamproof-out").matrix()`` is such a DataFrame; ``load("runs").spark.matrix()`` is one
    of Spark. Spark makes the tables, of one log as of ten thousand, so this needs Java and
    ``pip install streamproof[spark]``. If no session is running, one starts here and ends with the
    process; logs are read when the first table is made.

    Args:
        paths: each is a run log, the directory of a campaign, a directory that is searched with
            all below it for both, or a pattern. On a cluster, all workers see the same files.
        master: of Spark, as ``local[4]``; all cores of this machine if it is empty.
        remote: a Spark Connect server instead, as ``sc://HOST:PORT``.

    Raises:
        UsageError: there is nothing to read at a path; or PySpark, Java or the master is missing.
    """
    from streamproof.errors import UsageError

    try:
        from streamproof.reports.pipeline.tables.api import load_tables
    except ImportError as error:
        raise UsageError(
            f"Tables need PySpark and pandas ({error}): `pip install 'streamproof[spark]'`."
        ) from error
    return load_tables(*paths, master=master, remote=remote)
