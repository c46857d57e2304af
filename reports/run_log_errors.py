"""The errors about run logs.

.. code-block:: text

    StreamproofError
    └── RunLogError                   any of the errors below
        ├── RunLogMissingError        the log does not exist, or is empty
        ├── RunLogHeaderError         it does not start with a header
        ├── RunLogLineError           a line in it is not valid
        │   └── DuplicateResultError  a requirement was answered twice
        ├── RunLogVersionError        a newer streamproof wrote it
        └── RunLogWriteError          a record may not be written (here, or now)
"""

from __future__ import annotations

from pathlib import Path

from streamproof.errors import StreamproofError

__all__ = [
    "DuplicateResultError",
    "RunLogError",
    "RunLogHeaderError",
    "RunLogLineError",
    "RunLogMissingError",
    "RunLogVersionError",
    "RunLogWriteError",
]


class RunLogError(StreamproofError):
    """A run log cannot be read or written; ``path`` says which."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path


class RunLogMissingError(RunLogError):
    """The file does not exist, cannot be opened, or is empty."""


class RunLogHeaderError(RunLogError):
    """The first line is not a whole header, so nothing is known about the run."""


class RunLogVersionError(RunLogError):
    """The log has a schema version that this release does not know."""


class RunLogWriteError(RunLogError):
    """The record would make the log unreadable, or the log exists or is complete already."""


class RunLogLineError(RunLogError):
    """A line is no valid record, or is in the wrong place; ``line`` counts from 1."""

    def __init__(self, path: Path, line: int, why: str) -> None:
        super().__init__(path, f"line {line}: {why}")
        self.line = line


class DuplicateResultError(RunLogLineError):
    """One requirement has two results for one subject, and nothing says which one counts."""
