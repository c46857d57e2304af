"""A program of a report that is started where it cannot try what it is about.

Such a program ends with 1 if the store is wrong, so it must not end with 1 because of a wrong
directory or of a machine, and its reader needs a sentence and no traceback.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from streamproof.conformance.subject import Subject, builtin_names, load_subject
from streamproof.errors import NotTriedError, UsageError
from streamproof.exit_codes import ExitCode

__all__ = ["end_untried", "is_in_pytest", "load_for_program"]


def is_in_pytest() -> bool:
    """Whether a test of pytest runs, which has a plugin of ours for what cannot be tried."""
    return "pytest" in sys.modules and "PYTEST_CURRENT_TEST" in os.environ


def end_untried(why: str) -> NoReturn:
    """End a program that cannot try anything here: it tells why, and ends with 2.

    Raises:
        NotTriedError: in pytest; the test is skipped.
    """
    refused = NotTriedError(why)
    if is_in_pytest():
        raise refused
    # A program that ends with 1 says that the store is wrong.
    sys.stderr.write(f"streamproof: {refused}\n")
    raise SystemExit(ExitCode.PARTIAL)


def load_for_program(name: str) -> Subject:
    """The subject of this name, for a program.

    If it cannot be loaded and the program does not catch the error, the program tells why, in one
    sentence and where it has to be run, and ends with ``ExitCode.USAGE``.

    Raises:
        UsageError: as :func:`load_subject`.
    """
    try:
        return load_subject(name)
    except UsageError as error:
        where = (
            " A program of a report runs in the directory in which `streamproof verify` ran; this "
            f"one runs in {Path.cwd()}."
        )
        refused = UsageError(f"{error}{'' if name in builtin_names() else where}")
        _end_with_a_sentence(refused)
        raise refused from error


def _end_with_a_sentence(refused: UsageError) -> None:
    """Let this error, if nothing catches it, end the program with a sentence and its exit code."""
    usual = sys.excepthook

    def told(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        if error is not refused:
            usual(kind, error, traceback)
            return
        sys.stderr.write(f"streamproof: {error}\n")
        raise SystemExit(ExitCode.USAGE)

    sys.excepthook = told
