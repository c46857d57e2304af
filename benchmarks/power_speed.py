"""How many states a second the power engine makes, opens and judges.

A state is: chosen, made in a directory of its own, opened in another process, read, the changelog
replayed, judged. The baseline copies the directory of the same program as often, and looks at
nothing. Everything is measured in one run, on as many processes as there are cores.

Run: ``python -P benchmarks/power_speed.py [subject ...]``
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from rich.console import Console
from rich.table import Table

from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.crash.crash_judge import judge
from streamproof.conformance.crash.inspector import BATCH, Inspector
from streamproof.conformance.crash.program import Program, random_program
from streamproof.conformance.power.power_campaign import history_after_power
from streamproof.conformance.power.power_engine import PowerEngine
from streamproof.conformance.power.syscall_recorder import recorder_is_loaded
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import load_subject
from streamproof.conformance.work_directory import work_directory
from streamproof.stores.syscalls.disk import JOURNALLED, disk_of
from streamproof.stores.syscalls.disk_states import DAMAGES, choose
from streamproof.stores.syscalls.preloaded_libraries import preload
from streamproof.stores.syscalls.syscall_trace import write_tree

SECONDS = 5.0
"""How long each rate is measured."""

TARGET_STATES_PER_S = 20

STATES = 5 * BATCH
"""States of one kind of damage that are chosen for one program."""


def program_of(number: int) -> Program:
    """A program with commits and flushes."""
    return random_program(Random(number), commits=3)


def states_until(deadline: float, run: CheckRun) -> int:
    """Make, open and judge states until the deadline; how many that were."""
    engine, inspector = PowerEngine(run), Inspector(run)
    capabilities = run.subject.capabilities
    done = number = 0
    while time.monotonic() < deadline:
        number += 1
        recording = engine.record(program_of(number))
        disk = disk_of(recording.trace, JOURNALLED)
        for damage in DAMAGES:
            chosen = list(choose(disk, recording.trace, damage, STATES))
            for at in range(0, len(chosen), BATCH):
                losses = [engine.leave(recording, *each) for each in chosen[at : at + BATCH]]
                crashes = [each.crashed for each in losses]
                histories = [history_after_power(run, each) for each in crashes]
                seen = inspector.observe(crashes, histories)
                for crashed, history, found in zip(crashes, histories, seen, strict=True):
                    ruling = judge(crashed, history, found, capabilities)[-1]
                    if ruling.broken:
                        raise SystemExit(f"{run.subject.name} is not correct: {ruling}")
                    shutil.rmtree(crashed.directory.parent)
                done += len(losses)
                if time.monotonic() >= deadline:
                    return done
    return done


def copies_until(deadline: float, run: CheckRun) -> int:
    """Copy what a program leaves, and delete it."""
    engine = PowerEngine(run)
    recording = engine.record(program_of(1))
    disk = disk_of(recording.trace, JOURNALLED)
    place = run.new_directory()
    write_tree(disk.tree(len(recording.trace.calls)), place)
    done = 0
    while time.monotonic() < deadline:
        copy = place.parent / "copy"
        shutil.copytree(place, copy)
        shutil.rmtree(copy)
        done += 1
    return done


def rate(name: str, work: Callable[[float, CheckRun], int], directory: Path) -> float:
    """How often a second ``work`` is done by one process for each core."""
    subject, check = load_subject(name), load_checks()["power.after_commits"]
    started = time.monotonic()
    pipes = []
    for number in range(os.cpu_count() or 1):
        reader, writer = os.pipe()
        if os.fork() == 0:
            place = directory / f"{work.__name__}-{number}"
            place.mkdir()
            status = RunningCall(place / "status", create=True)
            run = CheckRun(check, subject, Settings(), place, status)
            os.write(writer, b"%d" % work(started + SECONDS, run))
            os._exit(0)
        os.close(writer)
        pipes.append(reader)
    total = sum(int(os.read(reader, 32)) for reader in pipes)
    for _ in pipes:
        os.wait()
    return total / (time.monotonic() - started)


def main() -> None:
    """Measure and print a table."""
    table = Table("subject", "states a second", "copies a second", "target")
    for name in sys.argv[1:] or ["rocksdb", "rocksdb-transactional"]:
        with work_directory() as directory:
            copies = rate(name, copies_until, directory)
            states = rate(name, states_until, directory)
        ratio = f"{states:.0f}, {states / copies:.2f} of the copies"
        table.add_row(name, ratio, f"{copies:.0f}", f"{TARGET_STATES_PER_S}")
    Console().print(table)


if __name__ == "__main__":
    if not recorder_is_loaded():
        with tempfile.TemporaryDirectory() as place:
            libraries = preload(Path(place))
            environment = {**os.environ, "LD_PRELOAD": libraries}
            # The libraries are mapped for as long as it runs, and deleted after that.
            code = subprocess.run(sys.orig_argv, env=environment, check=False).returncode
        sys.exit(code)
    main()
