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
