"""Real SIGKILLs while offsets are imported from an older version, or left for one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from streamproof.stores.syscalls.preloaded_libraries import build_shim

ZYGOTE = Path(__file__).with_name("offsets_zygote.py")


@cache
def _crashes(operation: str) -> list[Any]:
    """A crash before each system call that writes; the last one is none."""
    # A SIGKILL leaves the page cache alone, so files in memory serve as well, and faster.
    memory = Path("/dev/shm")  # noqa: S108  # A fresh directory is made in it.
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        shim = build_shim(Path(directory))
        result = subprocess.run(
            [sys.executable, "-P", ZYGOTE, operation, str(Path(directory) / "0_0")],
            env={**os.environ, "LD_PRELOAD": str(shim)},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    assert result.returncode == 0, result.stderr
    crashes = cast(list[Any], json.loads(result.stdout))
    assert [crash["done"] for crash in crashes] == [False] * (len(crashes) - 1) + [True]
    return crashes


def _found(number: int) -> dict[str, Any]:
    return {"rows": 20, "values": [number], "offset": number, "position": number}


def test_import_is_never_lost_nor_repeated() -> None:
    """Killed anywhere, the next opening has records, offset and position; the file has others."""
    crashes = _crashes("import")
    expected = {
        **_found(7),
        "left": ["streamproof-other-changelog-0"],
        "imported again": None,
    }
    assert [crash["newer"] for crash in crashes] == [expected] * len(crashes)


def test_older_version_before_the_import() -> None:
    """As long as the older version can open the database, it finds its offsets in the files."""
    crashes = _crashes("import")
    found = [crash["older"] for crash in crashes if crash["older"] is not None]
    assert found == [_found(7)] * len(found)
    assert 0 < len(found) < len(crashes)


def test_downgrade_is_never_torn() -> None:
    """Killed anywhere, a newer version finds one commit, and the older one all or nothing."""
    crashes = _crashes("downgrade")
    outcomes = set()
    for crash in crashes:
        offset = crash["newer"]["offset"]
        outcomes.add((offset, crash["older"] is not None))
        assert crash["newer"] == {
            **_found(offset),
            "left": ["streamproof-other-changelog-0"],
            "imported again": None,
        }
        assert crash["older"] in (None, _found(2))
    # Before the flush, between flush and drop, and after the drop: all were met.
    assert outcomes == {(1, False), (2, False), (2, True)}
