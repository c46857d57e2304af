"""Real SIGKILLs: records and offsets must agree whatever a crash interrupts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest

ZYGOTE = Path(__file__).with_name("crash_zygote.py")


def _crashes(how: str, store: str, operation: str, count: int) -> list[Any]:
    """The crashes of one engine."""
    command = [sys.executable, "-P", str(ZYGOTE), how, store, operation]
    # A SIGKILL leaves the page cache alone, so files in memory serve as well, and faster.
    memory = Path("/dev/shm")  # noqa: S108  # A fresh directory is made in it.
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        result = subprocess.run(
            [*command, str(Path(directory) / "0_0"), str(count)],
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
    assert result.returncode == 0, result.stderr
    return cast(list[Any], json.loads(result.stdout))


@pytest.mark.parametrize("store", ["rocksdb", "rocksdb-transactional"])
@pytest.mark.parametrize("operation", ["flush", "close"])
def test_killed_at_each_line_of_flush_and_close(store: str, operation: str) -> None:
    """Before every line the disk holds the older commit or the newer one, nothing between.

    The status tells a crash from a clean close.
    """
    crashes = _crashes("lines", store, operation, 1000)
    assert crashes[-1]["done"]
    for crash in crashes:
        assert crash["values"] == [crash["offset"]]
        assert crash["rows"] == 200
    # Both outcomes were met, so the kills surrounded the moment of the flush.
    assert {crash["offset"] for crash in crashes} == {1, 2}
    if operation == "close":
        # With transactions no crash asks for wiping. Without, a directory is trusted exactly when
        # close had flushed.
        trusted = [store != "rocksdb" or crash["offset"] == 2 for crash in crashes]
        assert [crash["trusted"] for crash in crashes] == trusted


@pytest.mark.parametrize("operation", ["rounds", "rounds-and-flushes"])
@pytest.mark.parametrize("store", ["rocksdb", "rocksdb-transactional"])
def test_killed_at_any_time(store: str, operation: str) -> None:
    """Small buffers overflow and flush in the background; a kill at any time tears nothing.

    A put_all of the plain store may be flushed before its commit: then the records are
    one round ahead of the offset, and never behind it.
    """
    crashes = _crashes("times", store, operation, 15)
    for crash in crashes:
        assert crash["rows"] == 200
        ahead = [] if store == "rocksdb-transactional" else [[crash["offset"] + 1]]
        assert crash["values"] in [[crash["offset"]], *ahead]
    assert len({crash["offset"] for crash in crashes}) > 1
