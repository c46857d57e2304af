"""How a command of streamproof ends: the exit codes, which every command shares."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["ExitCode"]


class ExitCode(IntEnum):
    """What a command returns to the shell; docs and ``--help`` give the same numbers."""

    SUCCESS = 0
    """Every promise that was tried is kept, or everything came as expected."""

    FAILURE = 1
    """A promise is broken, or something came other than expected: a finding, not a mishap."""

    PARTIAL = 2
    """Nothing is broken, but something that counts could not be tried."""

    USAGE = 3
    """The command line or an input is wrong, or a directory cannot be written; no verdict."""

    SUITE_ERROR = 70
    """streamproof itself is wrong, so that nobody looks for the mistake in a store."""

    INTERRUPTED = 130
    """Ctrl-C; what was found by then is kept."""
