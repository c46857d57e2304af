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
def test_what_covers_it_exists_and_is_not_long(beginning: str) -> None:
    """Each file and each test that is named, as ``test_file.py::test_name``."""
    for file, name in re.findall(r"(test_\w+\.py)(?:::(\w+))?", LONG_TESTS[beginning]):
        (found,) = HERE.rglob(file)
        covering = f"{found.relative_to(HERE)}::{name}"

        assert f"def {name}" in found.read_text("utf-8"), covering
        assert not any(covering.startswith(each) for each in LONG_TESTS), covering
