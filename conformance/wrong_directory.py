"""A program of a report that is started where its subject cannot be found.

Such a program ends with 1 if the store is wrong, so it must not end with 1 because of a wrong
directory, and its reader needs a sentence and no traceback.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType

from streamproof.conformance.subject import Subject, builtin_names, load_subject
from streamproof.errors import UsageError
from streamproof.exit_codes import ExitCode

__all__ = ["load_for_program"]


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
