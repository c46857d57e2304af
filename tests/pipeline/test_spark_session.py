"""Where a Spark session cannot be had, one line says why, and what to do."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamproof.errors import UsageError
from streamproof.reports.pipeline import spark as sessions
from streamproof.reports.pipeline.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def _none_running(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Another test of this process may have left one, which would be taken as it is."""
    if "spark" not in request.fixturenames:
        monkeypatch.setattr(sessions, "running_session", lambda: None)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nobody listens on, and nobody else can take."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def java(directory: Path, text: str) -> str:
    """A directory that has a Java with this version."""
    (directory / "bin").mkdir(parents=True)
    program = directory / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\n", "utf-8")
    program.chmod(0o755)
    return str(directory)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "Java 11 at .* is too old: Spark needs 17"),
        ('java version "1.8.0_201"', "Java 8 at .* is too old: Spark needs 17"),
        ("no such thing", r"does not print its version \(no such thing\)"),
    ],
)
def test_an_old_java(text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", java(tmp_path / "java", text))
    with pytest.raises(UsageError, match=f"{told}.* Install a JRE 17 or newer") as error:
        session()
    assert str(tmp_path) in str(error.value)


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=f"none was found: JAVA_HOME is {tmp_path}"):
        session()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="none was found: PATH has no java, and JAVA_HOME is not"):
        session()


def test_no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(UsageError, match=r"pip install 'streamproof\[spark\]'"):
        session()


def test_an_old_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "3.5.1")
    with pytest.raises(UsageError, match=r"PySpark 3\.5\.1 is too old: 4\.0 or newer"):
        session()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"master": "local[2]", "remote": "sc://x"}, "leave one of them out"),
        ({"master": "spark"}, r"--master spark: this is no master\. Use local\[N\]"),
        (
            {"remote": "spark://x"},
            "--remote spark://x: this is no address of a Spark Connect server",
        ),
    ],
)
def test_what_is_no_address(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        session(**asked)


@pytest.mark.parametrize("option", ["master", "remote"])
def test_nobody_listens(option: str, closed_port: int) -> None:
    scheme = {"master": "spark", "remote": "sc"}[option]
    address = f"{scheme}://127.0.0.1:{closed_port}"
    with pytest.raises(UsageError, match=f"--{option} {address}: nothing answers there"):
        session(**{option: address})


def test_what_listens_is_no_master(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark gives up after a minute; what Py4J says of it first tells nobody anything."""
    from pyspark.sql import SparkSession

    def give_up(_: object) -> None:
        raise RuntimeError(
            "An error occurred while calling None.org.apache.spark.sql.SparkSession.\n"
            ": java.lang.IllegalStateException: It was stopped.\n\tat org.apache.spark"
        )

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", give_up)
    # What a session sets is set back in the end.
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"spark://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(UsageError) as error:
            session(address)
    assert str(error.value) == (
        f"--master {address}: Spark did not start: java.lang.IllegalStateException: It was "
        "stopped. Check that a standalone master of this version of Spark listens there."
    )


def test_what_java_says_of_a_module_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    """Of all that it says, and nothing else; what is not a whole line is said as well."""
    said = f"one\n{sessions.MODULE_WARNING.decode()}\ntwo\nthree"
    fails = ["sh", "-c", 'printf "$0" >&2; exit 1', said]
    with pytest.raises(subprocess.CalledProcessError), sessions._without_module_warning():
        subprocess.run(fails, check=True)
    assert capfd.readouterr().err == "one\ntwo\nthree"
    os.write(2, b"four")
    assert capfd.readouterr().err == "four"


def test_a_session_that_runs_is_used_as_it_is(spark: SparkSession) -> None:
    """A process has one driver; and nobody outside of this machine can reach it."""
    assert session("local[7]") is spark
    settings = spark.sparkContext.getConf()
    assert settings.get("spark.driver.host") == "127.0.0.1"
    assert settings.get("spark.driver.bindAddress") == "127.0.0.1"
    assert settings.get("spark.ui.enabled") == "false"
