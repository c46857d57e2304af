"""What the tests of the suite share: a command line, and a profile for Hypothesis."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# With importmode=importlib nothing puts this folder into sys.path, and so no test module could
# import the one beside it.
sys.path.append(str(Path(__file__).parent))

from command_lines import CommandLine, processes_with
from java_classes import compile_subjects

from streamproof.conformance import check_run

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Whoever started the tests in the background had them ignore Ctrl-C, and processes that they
    # start would inherit that; those of a person at a terminal do not.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "conformance",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.fixture
def command_line(tmp_path: Path) -> Iterator[CommandLine]:
    """The command line; processes that a failed test left are ended."""
    line = CommandLine(tmp_path)
    yield line
    for pid in processes_with(line.marker):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)


@pytest.fixture
def programs_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new interpreter does not have the mistake that a test puts into this process."""
    monkeypatch.setattr(check_run, "made_sure", lambda program, *_, **__: program)


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The class path of a user, compiled once for all tests."""
    return compile_subjects(tmp_path_factory.mktemp("java"))


@pytest.fixture
def of_a_user(command_line: CommandLine, classes: Path) -> CommandLine:
    """A command line with a class path."""
    command_line.environment["CLASSPATH"] = str(classes)
    return command_line
