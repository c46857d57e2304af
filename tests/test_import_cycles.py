"""No module of the product imports itself through others, however late or for types only."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def sources() -> dict[str, str]:
    """The source of every module by name; a package is the module of its ``__init__``."""
    found = {}
    for package, folder in SETUPTOOLS["package-dir"].items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = [package, *path.relative_to(ROOT / folder).with_suffix("").parts]
            found[".".join(parts).removesuffix(".__init__")] = path.read_text()
    return found


@cache
def statements(source: str) -> list[ast.Import | ast.ImportFrom]:
    """The import statements of a source: at the top, in functions, and for type checkers.

    Parsing the product takes seconds, so each source is parsed once for all tests.
    """
    nodes = ast.walk(ast.parse(source))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def imported(source: str, modules: Mapping[str, str]) -> Iterator[str]:
    """The modules that a source imports."""
    for node in statements(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            assert node.module, "The product has no relative imports, so that any can be found."
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else node.module for name in names)


def cycle_in(modules: Mapping[str, str]) -> list[str]:
    """Modules that import each other in this order, the first one again at the end; or none."""
    graph = {
        name: [each for each in imported(source, modules) if each in modules and each != name]
        for name, source in modules.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle[::-1]
    return []


def test_no_module_imports_itself_through_others() -> None:
    assert cycle_in(sources()) == []


@pytest.mark.parametrize(
    "statement",
    [
        "import streamproof.conformance.trial",
        "from streamproof.conformance import trial",
        "def late() -> None:\n    from streamproof.conformance.trial import Trial",
        "if TYPE_CHECKING:\n    from streamproof.conformance.trial import Trial",
    ],
)
def test_a_planted_cycle_is_found(statement: str) -> None:
    """Trials import the lab, so that the lab must import nothing of them."""
    modules = sources()
    modules["streamproof.conformance.lab"] += f"\n{statement}\n"

    cycle = cycle_in(modules)

    assert {"streamproof.conformance.lab", "streamproof.conformance.trial"} <= set(cycle)
    assert cycle[0] == cycle[-1]
