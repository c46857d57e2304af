"""The same campaign on this machine and on a cluster: the tables must be the same.

It starts a standalone master of Spark and two workers, all on the loopback interface, with the
PySpark of this environment. The executors run the Python of an environment that is packed and
shipped, if venv-pack is installed, and the Python of this one otherwise.

    python -P tests/pipeline/standalone.py PLAN [DIRECTORY]

The directory is that of a campaign which this machine has done with the same plan, if there is one.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.dataset as ds
from rich.console import Console

CONSOLE = Console(highlight=False)

START_S = 120.0
"""So long the master and the workers may take to be there."""

CHANCE = ("started_at", "duration_s", "run_id", "attempts")
"""Columns that tell when something was done, and not what came of it."""

EFFORT = ("examples", "operations", "crash_points", "wiped")
"""How often a real process died: the threads of a database decide which kills differ."""

ORDER = {
    "runs": ["row"],
    "results": ["row", "requirement"],
    "failures": ["row", "requirement", "shape", "found"],
    "events": ["run", "sequence"],
}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def cluster(directory: Path) -> Iterator[str]:
    """A master with two workers of a core each; its address."""
    import pyspark

    home = Path(pyspark.__file__).parent
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    local = ("--host", "127.0.0.1")
    master = ("Master", *local, "--port", str(port), "--webui-port", str(free_port()))
    started = [start(home, directory, "master", *master)]
    try:
        wait(directory / "master.log", "I have been elected leader", 1)
        for number in range(2):
            worker = (*local, "--cores", "1", "--memory", "1g", "--webui-port", str(free_port()))
            work = ("--work-dir", str(directory / f"work-{number}"))
            started.append(
                start(home, directory, f"worker-{number}", "Worker", *worker, *work, address)
            )
        wait(directory / "master.log", "Registering worker", 2)
        yield address
    finally:
        for each in started:
            each.terminate()
            each.wait()


def start(
    home: Path, directory: Path, name: str, kind: str, *words: str
) -> subprocess.Popen[bytes]:
    """Start a daemon of Spark, with a log of its own."""
    with (directory / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [
                home / "bin" / "spark-class",
                f"org.apache.spark.deploy.{kind.lower()}.{kind}",
                *words,
            ],
            stdout=log,
            stderr=log,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )


def wait(log: Path, text: str, times: int) -> None:
    """Wait until a log has said something so often."""
    ends = time.monotonic() + START_S
    while log.read_text(errors="replace").count(text) < times:
        if time.monotonic() > ends:
            raise SystemExit(f"{log} does not say {text!r}: {log.read_text()[-2000:]}")
        time.sleep(0.2)


def packed(directory: Path) -> dict[str, str]:
    """What lets executors run a packed environment; nothing, if there is no venv-pack."""
    try:
        import venv_pack
    except ImportError:
        CONSOLE.print(
            "venv-pack is not installed: the executors run the Python of this environment."
        )
        return {}
    archive = directory / "environment.tar.gz"
    venv_pack.pack(output=str(archive))
    CONSOLE.print(f"The environment is packed: {archive.stat().st_size / 2**20:.0f} MiB.")
    submit = f"--archives {archive}#environment pyspark-shell"
    return {"PYSPARK_SUBMIT_ARGS": submit, "PYSPARK_PYTHON": "./environment/bin/python"}


def campaign(plan: Path, out: Path, *words: str, **environment: str) -> None:
    """Carry out a plan; findings are none of our business here."""
    command = [str(Path(sys.executable).with_name("streamproof")), "campaign", str(plan)]
    done = subprocess.run(
        [*command, "--out", str(out), *words],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
        check=False,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}.")


def rows(out: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table in an order of their own, without what is left to chance."""
    files = sorted((out / table).glob("*.parquet"))
    if not files:
        return []
    sort = [(name, "ascending") for name in ORDER[table]]
    left_out = {*CHANCE, *EFFORT}
    found = ds.dataset(files).to_table().sort_by(sort).to_pylist()
    return [
        # The commands name the directory.
        json.loads(
            json.dumps({name: each[name] for name in each if name not in left_out}).replace(
                str(out), "OUT"
            )
        )
        for each in found
    ]


def main() -> None:
    """Carry out a plan here and there, and compare."""
    plan = Path(sys.argv[1]).absolute()
    with TemporaryDirectory(prefix="streamproof-standalone-") as name:
        directory = Path(name)
        here, there = directory / "here", directory / "there"
        if len(sys.argv) > 2:
            here = Path(sys.argv[2]).absolute()
        else:
            campaign(plan, here, "--jobs", "2")
        with cluster(directory) as address:
            campaign(plan, there, "--master", address, **packed(directory))
        for table in ORDER:
            one, other = rows(here, table), rows(there, table)
            different = [pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]]
            if len(one) != len(other) or different:
                raise SystemExit(f"{table}: {len(one)} and {len(other)} rows; {different[:1]}")
            CONSOLE.print(f"{table}: {len(one):,} rows, the same here and there.")


if __name__ == "__main__":
    main()
