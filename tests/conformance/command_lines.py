"""``streamproof`` as a user runs it, in directories of its own, in which nothing may be left."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from streamproof.conformance.results import Failure, RequirementResult
from streamproof.reports.run_log import RunLog, read_run_log

SUBJECTS = Path(__file__).resolve().parent.parent / "subjects"
COMMAND = Path(sys.executable).parent / "streamproof"
MARKER = "STREAMPROOF_TEST_MARKER"

REPORTS = ("badge.json", "junit.xml", "report.html", "run.ndjson", "summary.md")

POLLS = 1200
"""How often something that must happen soon is looked for; with pauses, a minute."""


def until(condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true within a bounded number of looks."""
    for _ in range(POLLS):
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def processes_with(marker: str) -> list[int]:
    """The living processes that have inherited a marker in their environment."""
    wanted = f"{MARKER}={marker}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


@dataclass
class Ended:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str
    out: Path

    @property
    def log(self) -> RunLog:
        """The run log that it wrote."""
        return read_run_log(self.out / "run.ndjson")

    @property
    def results(self) -> dict[str, RequirementResult]:
        """The results by requirement."""
        return {result.requirement: result for result in self.log.results}

    @property
    def failures(self) -> dict[str, Failure]:
        """The failures by requirement."""
        return {failure.requirement: failure for failure in self.log.failures}


class CommandLine:
    """``streamproof`` as a user runs it, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.marker = uuid.uuid4().hex
        self.cwd = directory / "cwd"
        self.work = directory / "work"
        self.out = directory / "out"
        for each in (self.cwd, self.work):
            each.mkdir()
        self.environment = {**os.environ, MARKER: self.marker, "COLUMNS": "80"}

    def start(
        self, *arguments: str, stdout: int | IO[str] = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        """Start a command in a process group of its own."""
        return subprocess.Popen(
            [COMMAND, *arguments],
            cwd=self.cwd,
            env=self.environment,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def verify_arguments(self, *arguments: str, profile: str = "smoke") -> list[str]:
        """The arguments of a run that keeps to its own directories."""
        words = ["verify", *arguments, "--profile", profile, "--seed", "1", "-j", "4"]
        return [*words, "--out", str(self.out), "--work-dir", str(self.work)]

    def verify(self, *arguments: str, profile: str = "smoke") -> Ended:
        """Verify, wait for the end, and demand that no process and no file is left."""
        with self.start(*self.verify_arguments(*arguments, profile=profile)) as process:
            try:
                stdout, stderr = process.communicate(timeout=600)
            finally:
                process.kill()
        self.expect_nothing_left()
        return Ended(process.returncode, stdout, stderr, self.out)

    def expect_nothing_left(self) -> None:
        """No process and no database may outlive the run."""
        assert until(lambda: not processes_with(self.marker)), processes_with(self.marker)
        assert until(lambda: not list(self.work.iterdir())), list(self.work.rglob("*"))
