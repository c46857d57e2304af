"""Finds run logs and campaigns by files, directories and patterns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from glob import glob
from pathlib import Path
from typing import NamedTuple

from streamproof.errors import UsageError

__all__ = ["CAMPAIGN_FILE", "LOG_SUFFIX", "Sources", "find_sources"]

LOG_SUFFIX = ".ndjson"
"""The end of the name of every run log in a directory."""

CAMPAIGN_FILE = "campaign.json"
"""A directory with a file of this name is a campaign."""


FEW_BYTES = 16 * 1024 * 1024
"""Bytes of logs, of about 25,000 results, that the driver reads by itself in a second."""


class Sources(NamedTuple):
    """The run logs and campaigns that tables are made from, each of them once.

    Attributes:
        logs: the paths of run logs, sorted.
        campaigns: the directories of campaigns, sorted.
        size: the size of all logs in bytes.
    """

    logs: list[str]
    campaigns: list[str]
    size: int

    @property
    def few(self) -> bool:
        """Whether the driver reads these logs sooner than its workers would start."""
        return self.size <= FEW_BYTES and not self.campaigns


def find_sources(*paths: Path | str) -> Sources:
    """Find run logs and campaigns.

    Args:
        paths: each is a run log, the directory of a campaign, a directory that is searched with
            all below it for both, or a pattern like ``runs/2026-*/run.ndjson``.

    Raises:
        UsageError: a path does not exist, or has neither a log nor a campaign.
    """
    logs: set[str] = set()
    campaigns: set[str] = set()
    for path in paths:
        found_logs, found_campaigns = _found(os.fspath(path))
        logs |= found_logs
        campaigns |= found_campaigns
    for path in logs:
        try:
            path.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{path!r}: the name is not UTF-8. Rename the file.") from None
    return Sources(sorted(logs), sorted(campaigns), sum(map(_size, logs)))


def _found(path: str) -> tuple[set[str], set[str]]:
    """The logs and the campaigns at one path."""
    # A pattern may be absolute, which pathlib does not support.
    matches = [path] if Path(path).exists() else glob(path, recursive=True)  # noqa: PTH207
    if not matches:
        raise UsageError(f"{path}: there is nothing. Name run logs, or directories that have them.")
    logs: set[str] = set()
    campaigns: set[str] = set()
    for match in matches:
        for kind, found in _in(os.path.realpath(match)):
            (campaigns if kind == "campaign" else logs).add(found)
    if not logs and not campaigns:
        raise UsageError(
            f"{path}: there is no run log in it (*{LOG_SUFFIX}), and no campaign "
            f"({CAMPAIGN_FILE}). `streamproof verify` writes the one, `streamproof campaign` the "
            "other."
        )
    return logs, campaigns


def _in(path: str) -> Iterator[tuple[str, str]]:
    if not Path(path).is_dir():
        yield "log", path
        return
    for directory, below, names in os.walk(path):
        if CAMPAIGN_FILE in names:
            # The logs of its rows, if it keeps them, are in its tables already.
            below.clear()
            yield "campaign", directory
        else:
            yield from (("log", each) for each in _logs(directory, names))


def _logs(directory: str, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name.endswith(LOG_SUFFIX):
            yield os.path.realpath(Path(directory, name))


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0  # The reader of the log reports the error.
