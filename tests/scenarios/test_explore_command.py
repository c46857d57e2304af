"""The command that explores: what it finds and writes, and how it is interrupted and goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from streamproof.scenarios.exploration_findings import findings
from streamproof.scenarios.exploration_ledger import LEDGER
from streamproof.scenarios.play import play
from streamproof.scenarios.scenario_reader import read
from streamproof.sim.defects import DEFECTS
from streamproof.sim.exploration import Explored

COMMAND = Path(sys.executable).parent / "streamproof"
MARKER = "STREAMPROOF_TEST_MARKER"
LOOKS = 600
"""How often something that must happen soon is looked for; with pauses, thirty seconds."""

QUICK = """
topologies = ["count"]
[plan]
partitions = [1]
instances = [1]
safety_ms = [2_000]
[workload]
records = [3]
"""
"""Worlds that take some milliseconds each."""

UNASKED = QUICK.replace("[plan]", "[plan]\nquery_clients = [0]")
"""The same, without queries."""


class Exploration:
    """``streamproof explore`` as a user runs it, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.out = directory / "out"
        self.marker = uuid.uuid4().hex

    def start(self, *arguments: str, out: Path | None = None) -> subprocess.Popen[str]:
        """Start it, with processes that can be found by a mark."""
        return subprocess.Popen(
            [COMMAND, "explore", *arguments, "--out", str(out or self.out)],
            cwd=self.directory,
            env={**os.environ, MARKER: self.marker, "COLUMNS": "80"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, out: Path | None = None) -> tuple[int, str]:
        """Run it to its end: the exit code, and what was printed."""
        with self.start(*arguments, out=out) as process:
            printed, _ = process.communicate(timeout=240)
        return process.returncode, printed

    def runs(self, out: Path | None = None) -> list[Explored]:
        """The runs that were kept."""
        lines = ((out or self.out) / LEDGER).read_bytes().splitlines()[1:]
        return [msgspec.json.decode(line, type=Explored) for line in lines]

    def count(self) -> int:
        """How many runs are kept by now."""
        path = self.out / LEDGER
        return path.read_bytes().count(b"\n") - 1 if path.exists() else 0

    def living(self) -> list[int]:
        """Its processes."""
        wanted = f"{MARKER}={self.marker}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if wanted in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def swarm(self, text: str = QUICK) -> str:
        """A swarm file."""
        path = self.directory / "swarm.toml"
        path.write_text(text, "utf-8")
        return str(path)


@pytest.fixture
def exploration(tmp_path: Path) -> Exploration:
    """One in a directory of its own."""
    return Exploration(tmp_path)


def until(condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true within a bounded number of looks."""
    for _ in range(LOOKS):
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def test_a_defect_is_found_made_small_and_replayed(exploration: Exploration) -> None:
    """The scenario that is written breaks the same promise, and keeps all without the defect."""
    defect = "commits-fetched-offsets"
    code, printed = exploration.run("--defect", defect, "--shrink-runs", "40", "-j", "1")
    assert code == 1, printed
    run = exploration.runs()[-1]
    (requirement,) = {each for each, _ in run.violations}
    assert requirement == DEFECTS[defect].requirement
    path = exploration.out / f"{requirement}-seed-{run.seed}.toml"
    assert f"Reproduce: streamproof replay {path}@defect" in printed
    scenario = read(path)
    judged = play(scenario, scenario.setups["defect"])
    assert judged.surprises == []
    assert judged.played.digest == scenario.file.choices.digest
    assert judged.played.violations[0].requirement == requirement
    assert f" of {len(judged.played.events):,} events matter" in printed
    assert "events matter" in path.with_suffix(".txt").read_text("utf-8")
    assert all(len(line) <= 100 for line in path.read_text("utf-8").splitlines())


def test_the_written_test_passes(exploration: Exploration) -> None:
    """As it is, in a directory of its own."""
    code, printed = exploration.run(
        "--defect", "restores-aborted-records", "--shrink-runs", "20", "-j", "1"
    )
    assert code == 1, printed
    (test,) = exploration.out.glob("test_*.py")
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)],
        cwd=exploration.out,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_the_same_exploration_writes_the_same_files(exploration: Exploration) -> None:
    """Byte for byte, with one process and with two."""
    outs = [exploration.directory / name for name in ("one", "two")]
    for out, jobs in zip(outs, ("1", "2"), strict=True):
        words = ["--defect", "commits-fetched-offsets", "--shrink-runs", "25", "-j", jobs]
        assert exploration.run(*words, out=out)[0] == 1
    first, second = ({each.name: each.read_bytes() for each in out.iterdir()} for out in outs)
    assert first == second
    assert len(first) == 4


def test_where_nothing_is_wrong_nothing_is_found(exploration: Exploration) -> None:
    """And it is told what was reached, in lines of at most 80 columns."""
    code, printed = exploration.run("--runs", "60", "--swarm", exploration.swarm(), "-j", "1")
    assert code == 0, printed
    assert "60 runs, " in printed
    assert " situations came about." in printed
    told = " ".join(printed.split())
    assert "Not reached: " in told
    assert "the group looked again at what was on its way; " in told
    assert printed.endswith("Nothing was found.\n")
    assert all(len(line) <= 80 for line in printed.splitlines())
    assert [each.seed for each in exploration.runs()] == list(range(60))


def test_worlds_are_run_for_so_long(exploration: Exploration) -> None:
    """With a budget, the first world is run in any case."""
    words = ["--budget", "0.1s", "--swarm", exploration.swarm(), "-j", "1"]
    code, printed = exploration.run(*words)
    assert code == 0, printed
    assert exploration.runs()


def test_failures_of_one_shape_are_one(exploration: Exploration) -> None:
    """With --keep-going they are collected; each is written once, by its first seed."""
    words = ["--defect", "commits-fetched-offsets", "--runs", "8", "--keep-going"]
    code, printed = exploration.run(*words, "--shrink-runs", "5", "-j", "1")
    assert code == 1, printed
    runs = exploration.runs()
    assert len(runs) == 8
    shapes = {(each.violations[0][0], each.invariant) for each in runs if each.violations}
    assert sum(bool(each.violations) for each in runs) > len(shapes)
    distinct = findings(runs)
    assert len(distinct) == len(shapes)
    written = sorted(each.name for each in exploration.out.glob("*.toml"))
    assert written == sorted(f"{each.violations[0][0]}-seed-{each.seed}.toml" for each in distinct)
    for each in distinct:
        alike = [other.seed for other in runs if other.invariant == each.invariant]
        assert each.seed == min(alike)


def test_after_a_kill_the_same_command_goes_on(exploration: Exploration) -> None:
    """No finished run is lost, none is done twice, and no process is left."""
    swarm = exploration.swarm()
    process = exploration.start("--runs", "100000", "--swarm", swarm, "-j", "2")
    with process:
        try:
            assert until(lambda: exploration.count() >= 10)
        finally:
            process.send_signal(signal.SIGKILL)
        process.communicate()
    assert until(lambda: not exploration.living())
    kept = exploration.count()
    path = exploration.out / LEDGER
    # A kill in the middle of a write leaves a part of a line.
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rfind(b"\n") + 1] + b'{"seed":')
    more = str(kept + 7)
    code, printed = exploration.run("--runs", more, "--swarm", swarm, "-j", "1")
    assert code == 0, printed
    assert "The last line of the runs was torn" in printed
    assert f"{kept:,} runs were done before" in printed
    other = exploration.directory / "other"
    assert exploration.run("--runs", more, "--swarm", swarm, "-j", "1", out=other)[0] == 0
    assert path.read_bytes() == (other / LEDGER).read_bytes()


def test_ctrl_c_ends_it_cleanly(exploration: Exploration) -> None:
    """With 130 and a line that says what is kept; no process is left."""
    process = exploration.start(
        "--runs", "100000", "--swarm", exploration.swarm(), "-j", "2", "--keep-going"
    )
    with process:
        try:
            assert until(lambda: exploration.count() >= 4)
            process.send_signal(signal.SIGINT)
            printed, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130, printed
    assert f"Interrupted after {exploration.count():,} runs" in printed
    assert "Traceback" not in printed
    assert until(lambda: not exploration.living())
    assert [each.seed for each in exploration.runs()] == list(range(exploration.count()))


def test_another_command_in_the_same_directory_is_refused(exploration: Exploration) -> None:
    """What is there stays as it is."""
    swarm = exploration.swarm()
    assert exploration.run("--runs", "2", "--swarm", swarm, "-j", "1")[0] == 0
    before = (exploration.out / LEDGER).read_bytes()
    code, printed = exploration.run("--runs", "2", "--swarm", swarm, "-j", "1", "--seed", "5")
    assert code == 3
    assert "holds the runs of another exploration" in printed
    assert (exploration.out / LEDGER).read_bytes() == before


def test_a_finding_is_made_small_without_exploring_again(exploration: Exploration) -> None:
    """If it was found before, and the process died after that."""
    words = ["--defect", "restores-aborted-records", "--shrink-runs", "5", "-j", "1"]
    assert exploration.run(*words)[0] == 1
    before = (exploration.out / LEDGER).read_bytes()
    (scenario,) = exploration.out.glob("*.toml")
    written = scenario.read_bytes()
    scenario.unlink()
    code, printed = exploration.run(*words)
    assert (code, scenario.read_bytes()) == (1, written), printed
    assert (exploration.out / LEDGER).read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--defect", "typo"], "There is no defect 'typo'"),
        (["--runs", "5", "--budget", "10s"], "--runs and --budget exclude each other"),
        (["--budget", "soon"], "is no length of time"),
        (["--swarm", "nowhere.toml"], "nowhere.toml: the file cannot be read"),
        (["--subject", "runtime"], "--subject takes a store"),
    ],
)
def test_bad_usage_is_refused_before_anything_is_run(
    exploration: Exploration, arguments: list[str], message: str
) -> None:
    """With 3, and nothing is written."""
    code, printed = exploration.run(*arguments)
    assert code == 3
    assert message in printed.replace("\n", " ")
    assert not exploration.out.exists()


def test_a_real_store_is_explored(exploration: Exploration) -> None:
    """In worlds that it can be put into; a right one breaks nothing."""
    words = ["--subject", "rocksdb", "--runs", "3", "--swarm", exploration.swarm(), "-j", "1"]
    code, printed = exploration.run(*words)
    assert code == 0, printed
    assert [each.problem for each in exploration.runs()] == ["", "", ""]


WRONG_STORES = '''
"""Stores that do what no store may do."""

from streamproof.stores.memory import InMemoryKeyValueStore


class Raising(InMemoryKeyValueStore):
    def put(self, key, value):
        raise ZeroDivisionError("by nothing")


class Babbling(InMemoryKeyValueStore):
    def get(self, key):
        return b"no number"


def raising():
    return Raising("raising")


def babbling():
    return Babbling("babbling")
'''


def test_an_error_of_a_store_is_a_finding(exploration: Exploration) -> None:
    """It is laid at the store's door, and the runs are kept."""
    (exploration.directory / "wrong.py").write_text(WRONG_STORES, "utf-8")
    words = ["--subject", "wrong.py:raising", "--runs", "5", "--swarm", exploration.swarm()]
    code, printed = exploration.run(*words, "--shrink-runs", "3", "-j", "1")
    assert code == 1, printed
    assert "PROTOCOL-008" in printed
    assert "ZeroDivisionError" in exploration.runs()[-1].violations[0][1]
    assert "--subject wrong.py:raising" in printed


def test_a_query_that_a_store_answers_wrongly_is_a_finding(exploration: Exploration) -> None:
    """Even if no record ever comes to the store."""
    (exploration.directory / "wrong.py").write_text(WRONG_STORES, "utf-8")
    silent = QUICK.replace("[plan]", "[plan]\nquery_clients = [2]").replace("[3]", "[0]")
    words = ["--subject", "wrong.py:babbling", "--runs", "20", "--swarm", exploration.swarm(silent)]
    code, printed = exploration.run(*words, "--shrink-runs", "3", "-j", "1")
    assert code == 1, printed
    assert "no number" in exploration.runs()[-1].violations[0][1]


def test_a_run_that_cannot_be_ended_is_no_finding(exploration: Exploration) -> None:
    """With 70, and the seed. Nobody but a processor reads the store: a query would show its lie."""
    (exploration.directory / "wrong.py").write_text(WRONG_STORES, "utf-8")
    swarm = exploration.swarm(UNASKED)
    words = ["--subject", "wrong.py:babbling", "--runs", "5", "--swarm", swarm]
    code, printed = exploration.run(*words, "-j", "1")
    assert code == 70, printed
    last = exploration.runs()[-1]
    assert last.problem.startswith("ValueError: ")
    assert f"seed {last.seed} came to no end: ValueError" in printed
    assert not list(exploration.out.glob("*.toml"))
