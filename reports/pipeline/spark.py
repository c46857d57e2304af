"""The one place where a Spark session is made.

Nothing but this module decides how Spark is started. PySpark is optional and heavy, so it is
imported inside the functions that need it.
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["OLDEST_JAVA", "session"]

OLDEST_JAVA = 17
"""The oldest Java that Spark 4 starts on."""

CONNECT_TIMEOUT_S = 5.0
"""How long a master may take to accept a connection; Spark itself would try for a minute."""

LAST_WORDS_S = 1.0
"""How long what has failed to start may take to say why."""

MASTER_PORT, CONNECT_PORT = 7077, 15002
"""Where a standalone master and a Spark Connect server listen if the address names no port."""

MODULE_WARNING = b"WARNING: Using incubator modules: jdk.incubator.vector"
"""What Java says at each start, since Spark asks it for this module; no setting stops either."""

_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC"
"""For a JVM that works for a minute, or waits for Python: to compile its code as well as can be
takes longer than that saves. Compliance tables over 10,000 logs take two thirds of the time."""

_MASTER = re.compile(r"local(\[(\*|\d+)(,\d+)?\])?|spark://.+|k8s://.+|yarn")


class _Address(NamedTuple):
    """Where something listens."""

    host: str
    port: int

    @property
    def is_here(self) -> bool:
        """Whether it listens on the loopback interface of this machine alone."""
        return self.host == "localhost" or self.host.startswith("127.") or self.host == "::1"


def session(
    master: str = "",
    remote: str = "",
    name: str = "streamproof",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The Spark session of this process; one that is already running is used as it is.

    It ends with the process. Nobody else on the network can reach it unless it has to talk to a
    cluster: then Spark's own settings decide (``spark.driver.host``, ``SPARK_LOCAL_IP``).

    Args:
        master: what runs the work, as ``local[4]`` or ``spark://HOST:PORT``; all cores of this
            machine (``local[*]``), if it is empty.
        remote: a Spark Connect server instead of a master, as ``sc://HOST:PORT``.
        name: what the session is called in the lists of a cluster.
        settings: more settings of Spark, which win over ours.

    Raises:
        UsageError: PySpark or Java is missing or too old, or nothing answers at that address.
    """
    if master and remote:
        raise UsageError("--master and --remote are two ways to run the work: leave one out.")
    _require_pyspark()
    running = _running()
    if running is not None:
        return running
    if remote:
        return _remote_session(remote, name, settings or {})
    return _own_session(master or "local[*]", name, settings or {})


def _require_pyspark() -> None:
    """See that PySpark is there.

    Raises:
        UsageError: it is not, or is older than 4.
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


def _running() -> SparkSession | None:
    """The session that this process has started, if there is one."""
    from pyspark.sql import SparkSession

    try:
        found: SparkSession | None = SparkSession.getActiveSession()
    except ImportError:  # In a process that has a Connect URL in its environment, but no grpc.
        return None
    return found


def _own_session(master: str, name: str, settings: Mapping[str, str]) -> SparkSession:
    """A session whose driver is a JVM that this process starts."""
    if not _MASTER.fullmatch(master):
        raise UsageError(
            f"--master {master}: this is no master. There are: local[N], local[*], "
            "spark://HOST:PORT, k8s://URL, yarn."
        )
    _require_java()
    addresses = _masters(master)
    if addresses:
        _require_one(f"--master {master}", addresses)
    from pyspark.sql import SparkSession

    ours = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_logging()}",
        # The rows of a table travel between Java and Python as they are, in Arrow's columns.
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # A time is the same on every machine.
        "spark.sql.session.timeZone": "UTC",
        # A worker must not find a folder of its current directory in place of a package.
        "spark.executorEnv.PYTHONSAFEPATH": "1",
    }
    if master.startswith("local"):
        ours["spark.driver.defaultJavaOptions"] = _SHORT_LIVED
    if master.startswith("local") or (addresses and all(each.is_here for each in addresses)):
        ours |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**ours, **settings}.items():
        builder = builder.config(key, value)
    # What py4j has to say about a connection that ends is said better by the error itself.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        with _without_module_warning():
            return builder.getOrCreate()
    except Exception as error:
        # Something that is no master may have taken the connection, as the master's own web page.
        hint = " See that a standalone master of this Spark listens there." if addresses else ""
        raise UsageError(
            f"--master {master}: Spark did not start: {_first_line(error)}.{hint}"
        ) from error


@contextmanager
def _without_module_warning() -> Iterator[None]:
    """Let whoever is started here say everything but ``MODULE_WARNING`` on the standard error."""
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
            # It has said why, and that comes first.
            passing.join(LAST_WORDS_S)


def _pass_on(source: int, target: int) -> None:
    """Copy what is said, without the warning, until nobody is left who could say more."""
    with open(source, "rb") as lines, open(target, "wb") as out:
        # Whoever speaks must not have to wait because nobody listens any more.
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
    """The address of the file that says what the driver logs."""
    return Path(str(resources.files(__package__) / "log4j2.properties")).as_uri()


def _remote_session(remote: str, name: str, settings: Mapping[str, str]) -> SparkSession:
    """A session on a Spark Connect server, for which no Java is needed here."""
    if not remote.startswith("sc://"):
        raise UsageError(f"--remote {remote}: an address of Spark Connect is sc://HOST:PORT.")
    parts = urlsplit(remote.partition(";")[0])
    _require_one(f"--remote {remote}", [_Address(parts.hostname or "", parts.port or CONNECT_PORT)])
    from pyspark.sql import SparkSession

    # A time is the same on every machine.
    ours = {"spark.sql.session.timeZone": "UTC"}
    # Runs are numbered all together, and there are few of them; a JVM of ours only logs this.
    warnings.filterwarnings("ignore", "WARN WindowExpression: No Partition Defined")
    try:
        builder = SparkSession.builder.remote(remote).appName(name)
        for key, value in {**ours, **settings}.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
    except ImportError as error:
        raise UsageError(
            f"--remote {remote}: its client is not complete: {_first_line(error)}. "
            "`pip install 'streamproof[connect]'` brings the rest."
        ) from error
    except Exception as error:
        raise UsageError(
            f"--remote {remote}: the session cannot be opened: {_first_line(error)}."
        ) from error


def _require_java() -> None:
    """See that there is a Java that Spark can start on, where Spark looks for it.

    Raises:
        UsageError: there is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME", "")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    where = f"JAVA_HOME is {home}" if home else "PATH has no java, and JAVA_HOME is not set"
    fix = (
        f"Install a JRE {OLDEST_JAVA} or newer (`apt install openjdk-17-jre-headless` on Debian), "
        "or let JAVA_HOME name the directory of one."
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
            f"Spark needs Java, and {java} does not tell its version ({_first_line(text)}). {fix}"
        )
    if int(version[1]) < OLDEST_JAVA:
        raise UsageError(
            f"Java {version[1]} at {java} is too old: Spark needs {OLDEST_JAVA} or newer. {fix}"
        )


def _masters(master: str) -> list[_Address]:
    """The addresses in ``spark://HOST:PORT,HOST:PORT``; of other masters, none is known."""
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
    """See that somebody listens at one of these addresses.

    Raises:
        UsageError: nobody does.
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
        f"{what}: nothing answers there ({'; '.join(reasons)}). See that it is running and that "
        "this machine may reach it; without the option, the work runs here."
    )


def _first_line(error: object) -> str:
    """The first line of what somebody says that says something, without its full stop."""
    lines = str(error).strip().splitlines()
    # Py4J says first which of its calls failed, and then why.
    told = [each.removeprefix(": ") for each in lines if not each.startswith(_CALLING)]
    return next(iter(told), "no reason is given").rstrip(".")


_CALLING = "An error occurred while calling "
