"""The one place that starts a Spark session.

PySpark is optional and heavy, so it is imported inside the functions that need it.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from streamproof.errors import UsageError
from streamproof.reports.pipeline.class_archive import archive_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "CONNECTED_SETTINGS",
    "OLDEST_JAVA",
    "first_line",
    "ignore_window_warnings",
    "running_session",
    "session",
]

OLDEST_JAVA = 17
"""The oldest Java that Spark 4 starts on."""

CONNECT_TIMEOUT_S = 5.0
"""How long a master may take to accept a connection; Spark itself tries for a minute."""

LAST_WORDS_S = 1.0
"""How long a JVM that failed to start may take to write the reason."""

MASTER_PORT, CONNECT_PORT = 7077, 15002
"""The ports of a standalone master and of a Spark Connect server if the address has none."""

CONNECTED_SETTINGS = {"spark.sql.session.timeZone": "UTC"}
"""Settings of a session on a server, whose other settings are its owner's: a time is the same on
every machine."""

MODULE_WARNING = b"WARNING: Using incubator modules: jdk.incubator.vector"
"""Java writes this at each start because Spark requests the module; no setting stops it."""

_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC"
"""Settings for a JVM that works for a minute, or waits for Python: full compilation takes longer
than it saves. With these settings, tables over 10,000 logs take two thirds of the time."""

_MASTER = re.compile(r"local(\[(\*|\d+)(,\d+)?\])?|spark://.+|k8s://.+|yarn")


class _Address(NamedTuple):
    """The address of a server."""

    host: str
    port: int

    @property
    def is_here(self) -> bool:
        """Whether the address is on the loopback interface of this machine."""
        return self.host == "localhost" or self.host.startswith("127.") or self.host == "::1"


def session(
    master: str = "",
    remote: str = "",
    name: str = "streamproof",
    settings: Mapping[str, str] | None = None,
    *,
    archives: bool = False,
) -> SparkSession:
    """The Spark session of this process; a session that is already running is used as it is.

    The session ends with the process. A local session cannot be reached from the network. For a
    cluster, Spark's own settings decide (``spark.driver.host``, ``SPARK_LOCAL_IP``).

    Args:
        master: the Spark master, such as ``local[4]`` or ``spark://HOST:PORT``; empty for all
            cores of this machine (``local[*]``).
        remote: a Spark Connect server instead of a master, such as ``sc://HOST:PORT``.
        name: the name of the session in the lists of a cluster.
        settings: more settings of Spark, which override the defaults.
        archives: whether the JVM may write the archive of classes, for which it outlives this
            process by some seconds. A campaign that is killed must not.

    Raises:
        UsageError: PySpark or Java is missing or too old, or no server answers at the address.
    """
    if master and remote:
        raise UsageError("--master and --remote exclude each other: leave one of them out.")
    _require_pyspark()
    running = running_session()
    if running is not None:
        return running
    if remote:
        return _remote_session(remote, name, settings or {})
    return _own_session(master or "local[*]", name, settings or {}, archives)


def _require_pyspark() -> None:
    """Check that PySpark is installed.

    Raises:
        UsageError: PySpark is missing, or is older than 4.
    """
    try:
        import pyspark
    except ImportError as error:
        raise UsageError(
            f"PySpark is not installed ({error}). `pip install 'streamproof[spark]'` brings it."
        ) from error
    if int(pyspark.__version__.split(".", maxsplit=1)[0]) < 4:
        raise UsageError(
            f"PySpark {pyspark.__version__} is too old: 4.0 or newer is needed. "
            "`pip install --upgrade 'streamproof[spark]'` brings it."
        )


def running_session() -> SparkSession | None:
    """The running session of this process, if there is one."""
    from pyspark.sql import SparkSession

    try:
        found: SparkSession | None = SparkSession.getActiveSession()
    except ImportError:  # The environment has a Connect URL, but grpc is not installed.
        return None
    return found


def _own_session(
    master: str, name: str, settings: Mapping[str, str], archives: bool
) -> SparkSession:
    """A session whose driver is a JVM that this process starts."""
    if not _MASTER.fullmatch(master):
        raise UsageError(
            f"--master {master}: this is no master. Use local[N], local[*], "
            "spark://HOST:PORT, k8s://URL or yarn."
        )
    java = _require_java()
    addresses = _masters(master)
    if addresses:
        _require_one(f"--master {master}", addresses)
    import pyspark
    from pyspark.sql import SparkSession

    ours = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_logging()}",
        # The rows of a table travel between Java and Python as they are, in Arrow's columns.
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # A time is the same on every machine.
        "spark.sql.session.timeZone": "UTC",
        # A worker must not import a folder in its current directory instead of a package.
        "spark.executorEnv.PYTHONSAFEPATH": "1",
    }
    if master.startswith("local"):
        archive = archive_options(java, f"{pyspark.__version__} {pyspark.__file__}", makes=archives)
        ours["spark.driver.defaultJavaOptions"] = f"{_SHORT_LIVED} {archive}"
    if master.startswith("local") or (addresses and all(each.is_here for each in addresses)):
        ours |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**ours, **settings}.items():
        builder = builder.config(key, value)
    # The error itself explains a lost connection better than the log of py4j.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        with _without_module_warning():
            return builder.getOrCreate()
    except Exception as error:
        # Another server may have accepted the connection, such as the web page of the master.
        hint = (
            " Check that a standalone master of this version of Spark listens there."
            if addresses
            else ""
        )
        raise UsageError(
            f"--master {master}: Spark did not start: {first_line(error)}.{hint}"
        ) from error


@contextmanager
def _without_module_warning() -> Iterator[None]:
    """Filter ``MODULE_WARNING`` out of the standard error of processes started here."""
    source, sink = os.pipe()
    told = os.dup(2)
    passing = Thread(target=_pass_on, args=(source, os.dup(told)), daemon=True)
    passing.start()
    os.dup2(sink, 2)
    os.close(sink)
    has_started = False
    try:
        yield
        has_started = True
    finally:
        os.dup2(told, 2)
        os.close(told)
        if not has_started:
            # Its reason must be printed before the error.
            passing.join(LAST_WORDS_S)


def _pass_on(source: int, target: int) -> None:
    """Copy the standard error without the warning until all its writers have ended."""
    with open(source, "rb") as lines, open(target, "wb") as out:
        # A writer must never block because its output is read no more.
        with suppress(OSError):
            for line in lines:
                if line.strip() == MODULE_WARNING:
                    break
                out.write(line)
                out.flush()
            while text := lines.read1():
                out.write(text)
                out.flush()
        while lines.read1():
            pass


def _logging() -> str:
    """The address of the file with the logging settings of the driver."""
    return Path(str(resources.files(__package__) / "log4j2.properties")).as_uri()


def _remote_session(remote: str, name: str, settings: Mapping[str, str]) -> SparkSession:
    """A session on a Spark Connect server, which needs no Java on this machine."""
    if not remote.startswith("sc://"):
        raise UsageError(
            f"--remote {remote}: this is no address of a Spark Connect server. Use sc://HOST:PORT."
        )
    parts = urlsplit(remote.partition(";")[0])
    _require_one(f"--remote {remote}", [_Address(parts.hostname or "", parts.port or CONNECT_PORT)])
    from pyspark.sql import SparkSession

    ignore_window_warnings()
    try:
        builder = SparkSession.builder.remote(remote).appName(name)
        for key, value in {**CONNECTED_SETTINGS, **settings}.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
    except ImportError as error:
        raise UsageError(
            f"--remote {remote}: its client is not complete: {first_line(error)}. "
            "`pip install 'streamproof[connect]'` brings the rest."
        ) from error
    except Exception as error:
        raise UsageError(
            f"--remote {remote}: the session cannot be opened: {first_line(error)}."
        ) from error


def ignore_window_warnings() -> None:
    """Silence a warning of Spark Connect: to number all runs in one partition is right."""
    warnings.filterwarnings("ignore", "WARN WindowExpression: No Partition Defined")


def _require_java() -> str:
    """What the Java that Spark finds prints about its version.

    Raises:
        UsageError: Java is missing, or too old.
    """
    home = os.environ.get("JAVA_HOME", "")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    where = f"JAVA_HOME is {home}" if home else "PATH has no java, and JAVA_HOME is not set"
    fix = (
        f"Install a JRE {OLDEST_JAVA} or newer (`apt install openjdk-17-jre-headless` on Debian), "
        "or set JAVA_HOME to the directory of one."
    )
    try:
        told = subprocess.run(
            [java or "java", "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"Spark needs Java, and none was found: {where}. {fix}") from error
    text = told.stderr + told.stdout
    version = re.search(r'version "(?:1\.)?(\d+)[^"]*"', text)
    if not version:
        raise UsageError(
            f"Spark needs Java, and {java} does not print its version ({first_line(text)}). {fix}"
        )
    if int(version[1]) < OLDEST_JAVA:
        raise UsageError(
            f"Java {version[1]} at {java} is too old: Spark needs {OLDEST_JAVA} or newer. {fix}"
        )
    return text


def _masters(master: str) -> list[_Address]:
    """The addresses in ``spark://HOST:PORT,HOST:PORT``; empty for other masters."""
    if not master.startswith("spark://"):
        return []
    found = []
    for each in master.removeprefix("spark://").split(","):
        host, _, port = each.rpartition(":")
        if not port.isdecimal():
            host, port = each, str(MASTER_PORT)
        found.append(_Address(host.strip("[]"), int(port)))
    return found


def _require_one(what: str, addresses: list[_Address]) -> None:
    """Check that a server listens at one of these addresses.

    Raises:
        UsageError: none of them answers.
    """
    reasons = []
    for each in addresses:
        try:
            socket.create_connection(each, CONNECT_TIMEOUT_S).close()
        except OSError as error:
            reasons.append(f"{each.host}:{each.port}: {error.strerror or error}")
        else:
            return
    raise UsageError(
        f"{what}: nothing answers there ({'; '.join(reasons)}). Check that the server is "
        "running and that this machine can reach it. Without the option, the work runs here."
    )


def first_line(error: object) -> str:
    """The first line of an error that gives a reason, without its full stop."""
    lines = str(error).strip().splitlines()
    # Py4J writes first which of its calls failed, and then the reason.
    told = [each.removeprefix(": ") for each in lines if not each.startswith(_CALLING)]
    return next(iter(told), "no reason was given").rstrip(".")


_CALLING = "An error occurred while calling "
