"""How fast the kill engine is, and how long the profiles take.

A crash point is: fork, open, run the program, die by SIGKILL, open again in another process,
read, replay the changelog, judge. The baseline is a process that is forked and killed and does
nothing else. Everything is measured in one run, on as many processes as there are cores.

Run: ``python -P benchmarks/crash_speed.py [subject ...]``
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from rich.console import Console
from rich.table import Table

from streamproof.conformance.check_engine import work_directory
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.crash.crash_judge import history_of, judge
from streamproof.conformance.crash.crash_records import CrashPoint
from streamproof.conformance.crash.inspector import BATCH, Inspector
from streamproof.conformance.crash.kill_engine import KillEngine
from streamproof.conformance.crash.program import random_program
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import load_subject

SECONDS = 5.0
"""How long each rate is measured."""

TARGET_POINTS_PER_S = 150
TARGET_S = {"smoke": 10, "quick": 60}


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


def forks_until(deadline: float) -> int:
    """Fork and kill processes that do nothing."""
    done = 0
    while time.monotonic() < deadline:
        pid = os.fork()
        if pid == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
        done += 1
    return done


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


def crash_rate(name: str, directory: Path) -> float:
    """Crash points a second of one subject."""
    subject = load_subject(name)
    check = load_checks()["crash.between_operations"]

    def work(deadline: float, number: int) -> int:
        place = directory / f"{name}-{number}"
        place.mkdir()
        status = RunningCall(place / "status", create=True)
        return points_until(deadline, CheckRun(check, subject, Settings(), place, status))

    gc.collect()
    gc.freeze()
    return on_all_cores(work)


def profile_time(name: str, profile: str, directory: Path) -> float:
    """Seconds that ``streamproof verify`` takes in a profile."""
    command = [sys.executable, "-P", "-m", "streamproof", "verify", name, "--profile", profile]
    command += ["--seed", "1", "--out", str(directory / f"out-{profile}")]
    started = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def main() -> None:
    """Measure and print a table."""
    subjects = sys.argv[1:] or ["rocksdb", "rocksdb-transactional"]
    table = Table("what", "measured", "target")
    with work_directory() as directory:
        forks = on_all_cores(lambda deadline, _: forks_until(deadline))
        table.add_row("fork and kill, nothing else", f"{forks:.0f} a second", "baseline")
        for name in subjects:
            rate = crash_rate(name, directory)
            ratio = f"{rate:.0f} a second, {rate / forks:.2f} of the baseline"
            table.add_row(f"crash points of {name}", ratio, f"{TARGET_POINTS_PER_S} a second")
        for profile, limit in TARGET_S.items():
            seconds = profile_time(subjects[0], profile, directory)
            table.add_row(f"verify {subjects[0]}, {profile}", f"{seconds:.1f} s", f"{limit} s")
    Console().print(table)


if __name__ == "__main__":
    main()
