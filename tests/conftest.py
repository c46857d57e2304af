"""What all tests share: how Hypothesis works here, and where modules are looked for."""

from __future__ import annotations

import functools
import gc
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# With importmode=importlib nothing puts this folder into sys.path, and so no test module could
# import the one beside it.
sys.path.append(str(Path(__file__).parent))

# Examples open real stores and start processes: how long one takes says nothing.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples on every run and every machine, so that red means that the change is to blame.
settings.register_profile(
    "ci", settings.get_profile("default"), derandomize=True, database=None, print_blob=True
)
settings.load_profile("default")


HERE = Path(__file__).parent
LONG_TESTS: dict[str, str] = tomllib.loads((HERE / "long_tests.toml").read_text("utf-8"))["tests"]
"""What covers each long test, by the beginning of its name."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the long tests, demand that others cover them, and begin with those that share much.

    The tests beside this file verify applications and examples, some for minutes. If they came
    last, all workers but one would wait for them. Those on Spark follow, so that one worker has
    them all: each worker that had some would start Spark, and make their campaigns, by itself.
    """
    first = [HERE, HERE / "pipeline"]
    items.sort(key=lambda item: [item.path.parent != each for each in first])
    for item in items:
        _, _, name = item.nodeid.partition("::")
        for beginning, covered_by in _long_tests_of(item.path):
            if name.startswith(beginning):
                item.add_marker(pytest.mark.full(covered_by=covered_by))
        for mark in item.iter_markers("full"):
            if not mark.kwargs.get("covered_by"):
                raise pytest.UsageError(f"{item.nodeid}: what covers this test? Say covered_by.")


@functools.cache
def _long_tests_of(path: Path) -> list[tuple[str, str]]:
    """The beginnings of the names of the long tests in a file, and what covers each."""
    file = str(path.relative_to(HERE))
    return [
        (beginning.removeprefix(file).removeprefix("::"), covered_by)
        for beginning, covered_by in LONG_TESTS.items()
        if beginning.partition("::")[0] == file
    ]


def pytest_collection_finish() -> None:
    """Leave what is there by now out of every garbage collection: with all tests, it is a lot."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _path_of_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test looks for modules where the first one did.

    The command line adds the current directory, where a user's subject may be. Here that is the
    repository, which has a folder with the name of the package that does not hold all of it.
    """
    monkeypatch.setattr(sys, "path", sys.path.copy())
