"""How fast the kill engine is, and how long the profiles take.

A real crash point is: fork, open, run the program, die by SIGKILL, open again in another process,
read, replay the changelog, judge. A derived one is: make the directory that a recording tells, and
do the same with it from opening on. The baseline is the raw loop: a process that opens RocksDB,
writes a row and is killed, and another one that opens and reads it; both are forked. Everything is
measured in one run, on as many processes as there are cores.

Run: ``python -P benchmarks/crash_speed.py [subject ...]``
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from random import Random
from typing import NoReturn

from rich.console import Console
from rich.table import Table
from rocksdict import Rdict

from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.crash.crash_judge import history_of, judge
from streamproof.conformance.crash.crash_records import CrashPoint
from streamproof.conformance.crash.inspector import BATCH, Inspector
from streamproof.conformance.crash.kill_engine import KillEngine
from streamproof.conformance.crash.program import random_program
from streamproof.conformance.power.derived_kills import DerivedKills
from streamproof.conformance.power.syscall_recorder import recorder_is_loaded
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import load_subject
from streamproof.conformance.work_directory import work_directory
from streamproof.stores.syscalls.preloaded_libraries import preload

SECONDS = 5.0
"""How long each rate is measured."""

POINTS = 100
"""The moments of a program at which its states are derived."""

TARGET_POINTS_PER_S = 300
TARGET_RATIO = 0.5
TARGET_S = {"smoke": 6, "quick": 20}


def points_until(deadline: float, run: CheckRun) -> int:
    """Crash, reopen and judge until the deadline; how many crash points that were."""
    engine, inspector = KillEngine(run), Inspector(run)
    program = random_program(Random(1), commits=3)
    capabilities = run.subject.capabilities
    done = 0
    while time.monotonic() < deadline:
        points = [CrashPoint("boundary", 1 + n % len(program)) for n in range(done, done + BATCH)]
        crashes = [engine.kill(program, point) for point in points]
        histories = [history_of(each, capabilities, exact=run.exact) for each in crashes]
        seen = inspector.observe(crashes, histories)
        for crashed, history, observation in zip(crashes, histories, seen, strict=True):
            broken = judge(crashed, history, observation, capabilities)[-1]
            if broken.broken:
                raise SystemExit(f"{run.subject.name} is not correct: {broken}")
        done += len(crashes)
    return done


def derived_until(deadline: float, run: CheckRun) -> int:
    """Derive and judge states until the deadline; how many that were, the recordings included."""
    inspector, capabilities = Inspector(run), run.subject.capabilities
    done = number = 0
    while time.monotonic() < deadline:
        number += 1
        program = random_program(Random(number), commits=3)
        points = [CrashPoint("syscall", 0, n, span=len(program)) for n in range(1, 1 + POINTS)]
        states = DerivedKills(run).crashes(program, points, None)
        if states is None:
            raise SystemExit(f"The program of {run.subject.name} cannot be recorded.")
        while batch := list(islice(states, BATCH)):
            histories = [history_of(each, capabilities, exact=run.exact) for each in batch]
            seen = inspector.observe(batch, histories)
            for crashed, history, observation in zip(batch, histories, seen, strict=True):
                broken = judge(crashed, history, observation, capabilities)[-1]
                if broken.broken:
                    raise SystemExit(f"{run.subject.name} is not correct: {broken}")
                shutil.rmtree(crashed.directory.parent)
            done += len(batch)
    return done


def raw_until(deadline: float, directory: Path) -> int:
    """Fork, open, write, kill, fork, open and read, with nothing but rocksdict."""
    done = 0
    while time.monotonic() < deadline:
        path = directory / f"raw-{done}"
        for step in (_write_and_die, _read):
            pid = os.fork()
            if pid == 0:
                step(str(path))
            os.waitpid(pid, 0)
        shutil.rmtree(path)
        done += 1
    return done


def _write_and_die(path: str) -> NoReturn:
    Rdict(path)[b"a"] = b"1"
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def _read(path: str) -> NoReturn:
    os._exit(0 if Rdict(path)[b"a"] == b"1" else 1)


def on_all_cores(work: Callable[[float, int], int]) -> float:
    """How often a second ``work`` is done by one process for each core."""
    started = time.monotonic()
    deadline = started + SECONDS
    pipes = []
    for number in range(os.cpu_count() or 1):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.write(writer, b"%d" % work(deadline, number))
            os._exit(0)
        os.close(writer)
        pipes.append(reader)
    total = sum(int(os.read(reader, 32)) for reader in pipes)
    for _ in pipes:
        os.wait()
    return total / (time.monotonic() - started)


def raw_rate(directory: Path) -> float:
    """Rounds of the raw loop a second."""
    return on_all_cores(lambda deadline, n: raw_until(deadline, _made(directory / f"raw-{n}")))


def crash_rate(name: str, points: Callable[[float, CheckRun], int], directory: Path) -> float:
    """Crash points a second of one subject."""
    subject = load_subject(name)
    check = load_checks()["crash.between_operations"]

    def work(deadline: float, number: int) -> int:
        place = directory / f"{points.__name__}-{name}-{number}"
        place.mkdir()
        status = RunningCall(place / "status", create=True)
        return points(deadline, CheckRun(check, subject, Settings(), place, status))

    gc.collect()
    gc.freeze()
    return on_all_cores(work)


def profile_time(name: str, profile: str, directory: Path) -> float:
    """Seconds that ``streamproof verify`` takes in a profile."""
    command = [sys.executable, "-P", "-m", "streamproof", "verify", name, "--profile", profile]
    command += ["--seed", "1", "--out", str(directory / f"out-{profile}")]
    started = time.monotonic()
    environment = {name: each for name, each in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.monotonic() - started


def _made(directory: Path) -> Path:
    """A new directory."""
    directory.mkdir()
    return directory


def main() -> None:
    """Measure and print a table."""
    subjects = sys.argv[1:] or ["rocksdb", "rocksdb-transactional"]
    table = Table("what", "measured", "target")
    with work_directory() as directory:
        raw = raw_rate(directory)
        table.add_row("raw loop on rocksdict", f"{raw:.0f} a second", "baseline")
        for name in subjects:
            for kind, points in {"real": points_until, "derived": derived_until}.items():
                rate = crash_rate(name, points, directory)
                ratio = f"{rate:.0f} a second, {rate / raw:.2f} of the baseline"
                target = f"{TARGET_POINTS_PER_S} a second, {TARGET_RATIO} of the baseline"
                table.add_row(f"{kind} crash points of {name}", ratio, target)
        for profile, limit in TARGET_S.items():
            seconds = profile_time(subjects[0], profile, directory)
            table.add_row(f"verify {subjects[0]}, {profile}", f"{seconds:.1f} s", f"{limit} s")
    Console().print(table)


if __name__ == "__main__":
    if not recorder_is_loaded():
        with tempfile.TemporaryDirectory() as libraries:
            environment = {**os.environ, "LD_PRELOAD": preload(Path(libraries))}
            # The libraries are mapped for as long as it runs, and deleted after that.
            code = subprocess.run(sys.orig_argv, env=environment, check=False).returncode
        sys.exit(code)
    main()
