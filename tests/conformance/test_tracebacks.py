"""Where a store raises, every report has its part of the traceback, and nothing of the suite."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from command_lines import SUBJECTS

from streamproof.commands.verify_progress import MOST_LINES
from streamproof.conformance import lab
from streamproof.conformance.check_engine import Engine
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject_lines import MOST_LINES as MOST_OF_A_TRACEBACK
from streamproof.conformance.subject_lines import own_line, told, traceback_of
from streamproof.conformance.trial import Trial
from streamproof.conformance.work_directory import work_directory
from streamproof.stores import memory
from streamproof.stores.adapters import translated

STORE = """
from streamproof.stores.rocksdb import RocksDBStore
from ledger.packing import packed, refused


class Puts(RocksDBStore):
    def put(self, key, value):
        super().put(key, value and packed(value))


class Commits(RocksDBStore):
    def commit(self, offsets=None):
        refused("no commit")


class Opens(RocksDBStore):
    def init(self, context, root):
        super().init(context, root)
        if list(self.all()):
            refused("there are rows")


class NamesFiles(RocksDBStore):
    def init(self, context, root):
        self.files = context.state_dir
        super().init(context, root)

    def commit(self, offsets=None):
        refused(f"no commit, as anybody can see from the files of this store in {self.files}")


def puts():
    return Puts("store")


def names_files():
    return NamesFiles("store")


def commits():
    return Commits("store")


def opens():
    return Opens("store")
"""

PACKING = """
import struct


def packed(value):
    try:
        struct.pack("B", len(value))
    except struct.error as error:
        raise ValueError(f"{len(value)} bytes are too many") from error
    return value


def refused(why):
    raise RuntimeError(why)
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A directory with a package of two modules."""
    package = tmp_path / "ledger"
    package.mkdir()
    for name, source in {"__init__": "", "stores": STORE, "packing": PACKING}.items():
        (package / f"{name}.py").write_text(source)
    return tmp_path


def line_of(source: str, text: str) -> int:
    """The number of the line that has a text."""
    return next(n for n, line in enumerate(source.splitlines(), 1) if text in line)


def called(*calls: tuple[str, str, str]) -> str:
    """A traceback: for each call the module, the function, and the source."""
    sources = {"stores": STORE, "packing": PACKING}
    frames = [
        f'  File "ledger/{module}.py", line {line_of(sources[module], source)}, in {name}\n'
        f"    {source}\n"
        for module, name, source in calls
    ]
    return f"Traceback (most recent call last):\n{''.join(frames)}"


COMMIT = called(
    ("stores", "commit", 'refused("no commit")'), ("packing", "refused", "raise RuntimeError(why)")
)
OPEN = called(
    ("stores", "init", 'refused("there are rows")'),
    ("packing", "refused", "raise RuntimeError(why)"),
)


def outcomes_of(name: str, checks: list[str]) -> list[CheckOutcome]:
    """What checks find in a store, in the profile smoke."""
    outcomes: list[CheckOutcome] = []
    settings = Settings(profile="smoke", seed=1)
    with work_directory() as directory, Engine(settings, directory, jobs=1) as engine:
        engine.load([name])
        plan = [(name, load_checks()[check]) for check in checks]
        engine.run(plan, lambda _, each: outcomes.append(each))
    return outcomes


@pytest.mark.parametrize(
    ("store", "checks", "traceback"),
    [
        (
            "commits",
            ["commit.commit_changes_no_content", "crash.between_operations", "power.offsets_alone"],
            f"{COMMIT}RuntimeError: no commit",
        ),
        ("opens", ["crash.between_operations"], f"{OPEN}RuntimeError: there are rows"),
    ],
)
def test_a_finding_has_the_traceback(
    store: str, checks: list[str], traceback: str, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a call, before a kill, before a loss of power, and from the opening after a kill."""
    monkeypatch.syspath_prepend(str(ledger))
    outcomes = outcomes_of(f"ledger.stores:{store}", checks)
    findings = [each for outcome in outcomes for each in outcome.findings]

    assert all(outcome.findings for outcome in outcomes)
    assert {re.sub(r"\d+ rows", "rows", each.traceback) for each in findings} == {traceback}


@pytest.mark.parametrize(
    "check", ["commit.commit_changes_no_content", "crash.between_operations", "power.offsets_alone"]
)
def test_a_program_names_no_temporary_directory(
    check: str, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its comment is cut in the middle of such a name."""
    monkeypatch.syspath_prepend(str(ledger))
    (outcome,) = outcomes_of("ledger.stores:names_files", [check])
    programs = [each.program for each in outcome.findings]
    comments = [line for each in programs for line in each.splitlines() if "anybody" in line]

    assert comments
    assert all("of this store in <task" in each for each in comments)


def test_every_report_has_the_traceback(ledger: Path) -> None:
    """With its cause: the log, the saved failure, the page, JUnit; in short on the terminal."""
    options = ["--only", "KV-013", "--profile", "smoke", "--seed", "1", "--no-bank"]
    command = [sys.executable, "-P", "-m", "streamproof", "verify", "ledger.stores:puts", *options]
    ran = subprocess.run(command, cwd=ledger, capture_output=True, text=True, check=False)
    out = ledger / "streamproof-out"
    (saved,) = (out / "failures").glob("*/*.json")
    traceback = json.loads(saved.read_text())["traceback"]
    (line,) = (
        each for each in (out / "run.ndjson").read_text().splitlines() if '"type":"failure"' in each
    )
    page = (out / "report.html").read_text()
    cause, then, raised = traceback.split("\n\n")
    put = called(
        ("stores", "put", "super().put(key, value and packed(value))"),
        ("packing", "packed", 'raise ValueError(f"{len(value)} bytes are too many") from error'),
    )

    assert cause.startswith(called(("packing", "packed", 'struct.pack("B", len(value))')))
    assert "direct cause" in then
    assert raised.startswith(f"{put}ValueError: ")
    assert json.loads(line)["traceback"] == traceback
    assert "<summary>The traceback of the store</summary>" in page
    assert f"line {line_of(STORE, 'and packed')}, in put" in page
    (failure,) = ET.parse(out / "junit.xml").iter("failure")  # noqa: S314 - written by the test
    assert traceback in (failure.text or "")
    told = ran.stdout.splitlines()
    assert len(told) <= MOST_LINES
    start = next(n for n, each in enumerate(told) if each.startswith("  called "))
    assert [each.split()[0] for each in told[start + 1 : start + 3]] == [
        f"ledger/stores.py:{line_of(STORE, 'and packed')}",
        f"ledger/packing.py:{line_of(PACKING, 'from error')}",
    ]
    assert all(len(each) <= 80 for each in told[start : start + 3])


def failing(depth: int) -> None:
    """Raise below so many calls."""
    if depth:
        # Python shortens the repetition of one call, so two functions take turns.
        failing_again(depth - 1)
    raise ValueError("lost\x1b[2J")


def failing_again(depth: int) -> None:
    """Raise below so many calls."""
    failing(depth)


def raised_by(call: Callable[[], object]) -> BaseException:
    """The exception of a call."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any exception will do
        call()
    return caught.value


def test_a_traceback_is_short_and_harmless() -> None:
    """The middle of a deep one is left out, and nothing in it controls a terminal."""
    lines = traceback_of(raised_by(lambda: failing(100))).splitlines()

    assert len(lines) == MOST_OF_A_TRACEBACK + 1
    assert lines[-1] == r"ValueError: lost\x1b[2J"


def test_an_exception_of_the_suite_has_no_traceback_of_the_store() -> None:
    error = raised_by(lambda: Trial.directories(None))  # type: ignore[arg-type]
    # The test calls the suite, and so counts as a store that does.
    error.__traceback__ = error.__traceback__.tb_next.tb_next  # type: ignore[union-attr]

    assert traceback_of(error) == ""


def test_what_passes_an_error_on_is_not_named() -> None:
    """The block in which the error came about is, and not the class that translates it."""

    def call() -> None:
        with translated("Reading"):
            failing(3)

    error = raised_by(call)

    line = call.__code__.co_firstlineno + 1
    assert told(error).endswith(f' (test_tracebacks.py:{line} with translated("Reading"):)')
    assert "error_translation" not in traceback_of(error)


OWN = (str(SUBJECTS / "journal_store.py"), 25)
OURS = (memory.__file__, 1)
SUITE = (lab.__file__, 1)
LIBRARY = (json.__file__, 1)
TOOL = (pytest.__file__, 1)


@pytest.mark.parametrize(
    ("places", "file"),
    [
        ([LIBRARY, OWN, SUITE], "journal_store.py"),
        # A callback into the suite, and a thread of the store.
        ([SUITE, OWN, SUITE, TOOL], "journal_store.py"),
        ([OURS, OWN, LIBRARY], "journal_store.py"),
        ([OURS, OURS, OWN, SUITE, TOOL], "journal_store.py"),
        # The store is ours, or the method is a default of the contract.
        ([LIBRARY, OURS, SUITE, TOOL], "memory.py"),
        # What runs the suite is no part of the subject.
        ([SUITE, TOOL], ""),
        ([], ""),
    ],
)
def test_a_crash_point_is_named_by_the_stores_own_line(
    places: list[tuple[str, int]], file: str
) -> None:
    assert own_line(places).partition(":")[0] == file
