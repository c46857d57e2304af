"""The list of long tests names tests, and what covers them is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LONG_TESTS = tomllib.loads((HERE / "long_tests.toml").read_text("utf-8"))["tests"]


@pytest.mark.parametrize("beginning", LONG_TESTS)
def test_a_long_test_exists(beginning: str) -> None:
    file, _, name = beginning.partition("::")

    assert f"def {name.partition('[')[0]}" in (HERE / file).read_text("utf-8")


@pytest.mark.parametrize("beginning", LONG_TESTS)
def test_what_covers_it_exists(beginning: str) -> None:
    """Each file and each test that is named, as ``test_file.py::test_name``."""
    for file, name in re.findall(r"(test_\w+\.py)(?:::(\w+))?", LONG_TESTS[beginning]):
        found = list(HERE.rglob(file))

        assert found, file
        assert not name or any(f"def {name}(" in path.read_text("utf-8") for path in found), name
