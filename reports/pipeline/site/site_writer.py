"""Writes a report into a directory, and removes the files of an earlier report there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from streamproof.errors import UsageError

__all__ = ["MANIFEST", "Written", "write_files"]

MANIFEST = "report-files.json"
"""Lists the files of a report, so that the next one in the same directory replaces them."""

_OWN = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)?[A-Za-z0-9_-][A-Za-z0-9._-]*")


class Written(NamedTuple):
    """The result of writing: how many files the report has, and which older files were removed."""

    files: int
    removed: list[str]


def write_files(out: Path, files: Iterable[tuple[str, bytes]]) -> Written:
    """Writes files below ``out``, and removes those of the report that was there before.

    Only files in the manifest of the earlier report are removed; all other files stay. Each file
    replaces its predecessor in one step. A report that was cut short left files that are in no
    manifest yet; they stay until files of the same names replace them.

    Raises:
        UsageError: the directory or its manifest cannot be used.
    """
    before = _listed(out)
    now: set[str] = set()
    try:
        for name, content in files:
            path = out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, content)
            now.add(name)
        stale = sorted(before - now)
        for name in stale:
            (out / name).unlink(missing_ok=True)
        _replace(out / MANIFEST, msgspec.json.format(msgspec.json.encode(sorted(now))) + b"\n")
    except OSError as error:
        raise UsageError(
            f"The report cannot be written to {str(out)!r}: {error.strerror} "
            f"({error.filename}). Choose another directory with --out."
        ) from error
    return Written(len(now), stale)


def _listed(out: Path) -> set[str]:
    """The files of the report in a directory; none if there is no report."""
    path = out / MANIFEST
    try:
        names = set(msgspec.json.decode(path.read_bytes(), type=list[str]))
    except (FileNotFoundError, NotADirectoryError):
        return set()
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(
            f"{path} is not the list of files of an earlier report: {error}. Choose an empty "
            "directory with --out, or remove that file."
        ) from error
    if foreign := sorted(name for name in names if not _OWN.fullmatch(name)):
        raise UsageError(
            f"{path} lists {foreign[0]!r}, which is no file of a report. Choose an empty "
            "directory with --out, or remove that file."
        )
    return names


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
