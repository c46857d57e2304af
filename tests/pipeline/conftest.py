"""One Spark session for all tests of a process, because starting one costs seconds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# With importmode=importlib nothing puts this folder into sys.path, and so no test module could
# import the one beside it.
sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small session on two cores; whatever asks for a session in this process gets this one."""
    from engines import ENGINE

    from streamproof.reports.pipeline.sail import sail_session
    from streamproof.reports.pipeline.spark import session

    if os.environ.get(ENGINE) == "sail":
        with sail_session() as small:
            yield small
        return
    scratch = Path(tmp_path_factory.mktemp("spark"))
    running = session(
        "local[2]",
        name="tests",
        settings={
            "spark.driver.memory": "1g",
            # Tests are over long before it pays to compile code for speed.
            "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.shuffle.partitions": "4",
            "spark.local.dir": str(scratch / "local"),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        },
    )
    yield running
    running.stop()
