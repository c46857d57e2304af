"""Many runs together: campaigns, checks of kept events, compliance tables, and the report site.

Everything here works on Spark, which is imported when it is first needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from streamproof.errors import UsageError

if TYPE_CHECKING:
    from streamproof.reports.pipeline.tables.api import Tables

__all__ = ["load"]


def load(*paths: Path | str, master: str = "", remote: str = "") -> Tables:
    """Load the compliance tables of run logs and campaigns; each table is made on request.

    ``load("streamproof-out").matrix()`` is a pandas DataFrame, and ``load("runs").spark.matrix()``
    a DataFrame of Spark. Spark makes the tables of one log as well as of ten thousand, so this
    function needs Java and ``pip install streamproof[spark]``. If no session is running, one
    starts here and ends with the process. Logs are read when the first table is made.

    Args:
        paths: each is a run log, the directory of a campaign, a directory to search for both with
            all its subdirectories, or a pattern. On a cluster, all workers must see these files.
        master: the Spark master, such as ``local[4]``; empty for all cores of this machine.
        remote: the Spark Connect server to use instead, such as ``sc://HOST:PORT``.

    Raises:
        UsageError: a path has nothing to read, or PySpark, Java or the master is missing.
    """
    try:
        from streamproof.reports.pipeline.tables.api import load_tables
    except ImportError as error:
        raise UsageError(
            f"Tables need PySpark and pandas ({error}): `pip install 'streamproof[spark]'`."
        ) from error
    return load_tables(*paths, master=master, remote=remote)
