"""Reports on a few logs, whose tables Sail makes: they are what Spark makes of the same logs."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from engines import ENGINE
from random_runs import draw_runs, write_runs

from streamproof.errors import UsageError
from streamproof.reports.pipeline.sail import SailError
from streamproof.reports.pipeline.site import site_rows
from streamproof.reports.pipeline.site.site_report import FORMATS, write_report
from streamproof.reports.pipeline.site.site_rows import read_rows
from streamproof.reports.pipeline.spark import running_session
from streamproof.reports.pipeline.tables.sources import CAMPAIGN_FILE, FEW_BYTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

HERE = Path(__file__).parent

OF_LOGS = ("test_tables.py", "test_table_reading.py", "test_verdict_expressions.py")
"""The tests of all that Sail is used for: tables of logs."""

REPORT = """
import sys
from pathlib import Path
from streamproof.reports.pipeline.sail import sail_session
from streamproof.reports.pipeline.site.site_report import FORMATS, write_report
from streamproof.reports.pipeline.site.site_rows import read_rows

runs, out, version = sys.argv[1:]
if version:
    import pyspark
    pyspark.__version__ = version
    with sail_session():
        sys.exit("It did not refuse.")
write_report(read_rows([runs]), Path(out), list(FORMATS))
"""


INTERRUPTED = """
import os
import signal
from time import sleep
from streamproof.reports.pipeline.sail import sail_session

with sail_session() as session:
    try:
        os.kill(os.getpid(), signal.SIGINT)
        sleep(60)
    except KeyboardInterrupt:
        print(session.range(3).count())
"""


REFUSED = """
from streamproof.reports.pipeline.sail import SailError, sail_session

try:
    with sail_session() as session:
        session.sql("SELECT no_such_function()").collect()
except SailError as error:
    print(error)
"""


FAILING = """
import sys
from pathlib import Path
from streamproof.reports.pipeline.site import site_rows
from streamproof.reports.pipeline.site.site_report import FORMATS, write_report

read_worlds = site_rows.read_worlds

def fail(session, campaigns):
    site_rows.read_worlds = read_worlds
    session.sql("SELECT no_such_function()").collect()

site_rows.read_worlds = fail
runs, out = sys.argv[1:]
write_report(site_rows.read_rows([runs]), Path(out), list(FORMATS))
"""


def python(*words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """A process without Java, in which Sail may be the engine: in one with Spark it may not."""
    return subprocess.run(
        [sys.executable, "-P", *map(str, words)],
        env={**os.environ, "JAVA_HOME": os.devnull, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def files(directory: Path) -> dict[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


def test_the_tests_of_tables_pass_on_sail(tmp_path: Path) -> None:
    tests = [HERE / name for name in OF_LOGS]
    # pytest makes an error of each warning again, for each test.
    options = ("-m", "full or not full", "-W", "ignore:WARN WindowExpression")
    places = ("-p", "no:cacheprovider", "--basetemp", tmp_path / "tmp")
    ended = python("-m", "pytest", "-q", *options, *places, *tests, **{ENGINE: "sail"})
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_both_engines_make_the_same_report(spark: SparkSession, tmp_path: Path) -> None:
    runs, ours, theirs = (tmp_path / name for name in ("runs", "ours", "theirs"))
    write_runs(runs, draw_runs(3, 30))
    ended = python("-c", REPORT, runs, ours, "")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert spark.version
    write_report(read_rows([runs]), theirs, list(FORMATS))
    assert files(ours) == files(theirs)


def test_spark_goes_on_where_sail_fails_halfway(tmp_path: Path) -> None:
    runs, ours, theirs = (tmp_path / name for name in ("runs", "ours", "theirs"))
    write_runs(runs, draw_runs(3, 2))
    ended = python("-c", FAILING, runs, theirs, JAVA_HOME=os.environ.get("JAVA_HOME", ""))
    told = "Spark makes the tables, which takes longer, because Sail cannot: "
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.startswith(told)
    assert python("-c", REPORT, runs, ours, "").returncode == 0
    assert files(ours) == files(theirs)


def test_what_sail_cannot_do_is_told_as_such() -> None:
    ended = python("-c", REFUSED)
    assert (ended.returncode, ended.stdout) == (
        0,
        "unknown function: no_such_function\n",
    ), ended.stderr


def test_a_newer_pyspark_is_refused_in_one_line(tmp_path: Path) -> None:
    ended = python("-c", REPORT, tmp_path, tmp_path, "99.0.0")
    assert ended.stderr.splitlines()[-1] == (
        "streamproof.reports.pipeline.sail.SailError: invalid argument: "
        "unsupported PySpark version: 99.0.0"
    )


def test_ctrl_c_is_left_to_the_command() -> None:
    """Sail would end at once, and calls that are under way would fail in place of the command."""
    ended = python("-c", INTERRUPTED)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "3\n", "")


class ReadingError(Exception):
    """The choice of an engine is over."""


@pytest.fixture
def choosing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read, and no session seems to run, whatever other tests of this process do."""

    def load(*_: object, **__: object) -> None:
        raise ReadingError

    monkeypatch.setattr(site_rows, "load", load)
    monkeypatch.setattr(site_rows, "running_session", lambda: None)


@pytest.mark.usefixtures("choosing")
def test_spark_goes_on_where_sail_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> None:
        raise SailError("there is a reason")

    monkeypatch.setattr(site_rows, "sail_session", refuse)
    write_runs(tmp_path, draw_runs(1, 1))
    with pytest.raises(ReadingError):
        read_rows([tmp_path])
    assert caplog.messages == [
        "Spark makes the tables, which takes longer, because Sail cannot: there is a reason."
    ]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A directory with a few logs, one with large logs, and one with a campaign."""
    write_runs(tmp_path / "few", draw_runs(1, 1))
    for name, file in (("large", "run.ndjson"), ("campaign", CAMPAIGN_FILE)):
        (tmp_path / name).mkdir()
        with (tmp_path / name / file).open("wb") as log:
            log.truncate(FEW_BYTES + 1)
    return tmp_path


@pytest.mark.usefixtures("choosing")
@pytest.mark.parametrize(
    ("options", "names", "engine"),
    [
        ({}, ["few"], "Sail"),
        ({}, ["few", "few"], "Sail"),
        ({"master": "local[1]"}, ["few"], "Spark"),
        ({"remote": "sc://127.0.0.1"}, ["few"], "Spark"),
        ({}, ["large"], "Spark"),
        ({}, ["few", "large"], "Spark"),
        ({}, ["campaign"], "Spark"),
        ({}, ["few", "campaign"], "Spark"),
    ],
)
def test_sail_makes_the_tables_of_a_few_logs(
    options: dict[str, str],
    names: list[str],
    engine: str,
    runs: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts: list[None] = []
    monkeypatch.setattr(site_rows, "sail_session", lambda: nullcontext(starts.append(None)))
    first, *baseline = (runs / name for name in names)
    with pytest.raises(ReadingError):
        read_rows([first], baseline, **options)
    assert len(starts) == (engine == "Sail")


@pytest.mark.usefixtures("choosing")
def test_without_an_engine_sail_is_named(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_rows, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"needs Sail: `pip install 'streamproof\[sail\]'`"):
        read_rows([runs / "few"])


@pytest.mark.usefixtures("choosing")
def test_sail_need_not_be_installed(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_rows, "has_sail", lambda: False)
    monkeypatch.setattr(site_rows, "sail_session", lambda: pytest.fail("Sail was asked."))
    with pytest.raises(ReadingError):
        read_rows([runs / "few"])


def test_a_running_session_is_used_as_it_is(spark: SparkSession) -> None:
    """Only one session can be in a process."""
    assert running_session() is spark
    assert not site_rows._has_small_engine()
