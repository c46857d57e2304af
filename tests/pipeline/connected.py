"""Every command that runs on Spark, by a Spark Connect server: it must find what is there.

It starts a server on the loopback interface, with the PySpark of this environment, or uses the one
at an address that is given. A client has no JVM: whatever needs one fails here.

    python tests/pipeline/connected.py [ADDRESS]
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.dataset as ds
from standalone import CONSOLE, free_port, wait

PLAN = """
[[simulate]]
seeds = [0, 6]
keep_events = "all"

[[simulate]]                # These break a promise.
seeds = [0, 12]
defects = ["does-not-wait-for-owner"]
"""

CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def server(directory: Path) -> Iterator[str]:
    """A Spark Connect server that works on two cores; its address."""
    import pyspark

    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
    }
    words = [word for each in settings.items() for word in ("--conf", "=".join(each))]
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    log = directory / "server.log"
    with log.open("wb") as output:
        started = subprocess.Popen(
            [submit, "--master", "local[2]", "--class", CLASS, *words, "spark-internal"],
            stdout=output,
            stderr=output,
            env={
                **os.environ,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYSPARK_PYTHON": sys.executable,
                # A worker must not find a folder of its current directory in place of a package.
                "PYTHONSAFEPATH": "1",
            },
        )
    try:
        wait(log, "Spark Connect server started at", 1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        started.terminate()
        started.wait()


def streamproof(address: str, *words: object) -> None:
    """Run a command on the server, with the Java of this machine out of its reach."""
    program = str(Path(sys.executable).with_name("streamproof"))
    command = [program, *map(str, words), "--remote", address]
    CONSOLE.print("$", *command)
    ended = subprocess.run(command, env={**os.environ, "JAVA_HOME": os.devnull}, check=False)
    # Something may have been found, as it was asked for.
    if ended.returncode not in (0, 1):
        raise SystemExit(f"It ended with {ended.returncode}.")


def found(directory: Path) -> set[str]:
    """What a re-check has found."""
    return set((directory / "violations.ndjson").read_text("utf-8").splitlines())


def main() -> None:
    """Carry out a plan, judge its events again in both ways, and make a report of it."""
    with TemporaryDirectory(prefix="streamproof-connected-") as name:
        directory = Path(name)
        plan, done = directory / "plan.toml", directory / "campaign"
        plan.write_text(PLAN, "utf-8")
        with nullcontext(sys.argv[1]) if len(sys.argv) > 1 else server(directory) as address:
            streamproof(address, "campaign", plan, "--out", done)
            streamproof(address, "recheck", done, "--out", directory / "by-run")
            streamproof(address, "recheck", done, "--sets", "--out", directory / "sets")
            streamproof(address, "report", done, "--out", directory / "report")
        broken = ds.dataset(sorted((done / "failures").glob("*.parquet"))).count_rows()
        runs = ds.dataset(sorted((done / "runs").glob("*.parquet"))).count_rows()
        if not (broken and found(directory / "sets") <= found(directory / "by-run")):
            raise SystemExit("What the campaign has found was not found again.")
        if not (directory / "report" / "index.html").exists():
            raise SystemExit("There is no report.")
        CONSOLE.print(
            f"{runs:,} rows, {len(found(directory / 'by-run')):,} violations, and a report."
        )


if __name__ == "__main__":
    main()
