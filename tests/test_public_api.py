"""The public API: few names, frozen with their signatures, and the only ones that are shown."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import streamproof

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = Path(__file__).parent / "public_api.txt"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted(
    path
    for path in (ROOT / "examples").rglob("*")
    if path.suffix in {".py", ".md", ".ipynb"} and "target" not in path.parts
)
HEAVY = {"hypothesis", "msgspec", "pandas", "pyarrow", "pyspark", "rich", "simpy", "typer"}


def described(name: str) -> str:
    """A public name with its signature, and a class with those of its members."""
    value = getattr(streamproof, name)
    if inspect.isclass(value):
        members = {
            member
            for base in value.__mro__
            if base.__module__.startswith("streamproof")
            for member in vars(base)
            if not member.startswith("_")
        }
        lines = [f"class {name}{_signature(value)}"]
        lines += [f"    {_member(value, member)}" for member in sorted(members)]
        return "\n".join(lines)
    if callable(value) and not hasattr(value, "__origin__"):
        return f"def {name}{_signature(value)}"
    return f"{name}: {type(value).__name__}"


def _member(owner: type, name: str) -> str:
    value = inspect.getattr_static(owner, name)
    if isinstance(value, staticmethod | classmethod):
        return f"{type(value).__name__} {name}{_signature(getattr(owner, name))}"
    if isinstance(value, property):
        return f"property {name}: {value.fget.__annotations__.get('return')}"
    if inspect.isfunction(value):
        return f"def {name}{_signature(value)}"
    return f"{name} = {value.value!r}" if isinstance(value, Enum) else name


def _signature(value: Any) -> str:
    if inspect.isclass(value) and (issubclass(value, Enum | Exception)):
        return f"({', '.join(base.__name__ for base in value.__bases__)})"
    text = str(inspect.signature(value)) if callable(value) else ""
    # Whether an annotation was evaluated depends on how a class is made, and on Python.
    text = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", text)
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def test_the_names_and_their_signatures_are_frozen() -> None:
    """Users notice a change here: name it in CHANGELOG.md, and run this file as a script."""
    assert "\n".join(map(described, streamproof.__all__)) + "\n" == GOLDEN.read_text()


def test_the_names_are_few_and_in_order() -> None:
    assert len(streamproof.__all__) <= 40
    assert len(set(streamproof.__all__)) == len(streamproof.__all__)
    assert set(streamproof.__all__) <= set(dir(streamproof))


@pytest.mark.parametrize("name", streamproof.__all__)
def test_each_name_is_documented(name: str) -> None:
    """By a docstring of its own; a constant has one in the source."""
    value = getattr(streamproof, name)
    if name.isupper() or name.startswith("__"):
        return
    # An alias of a generic class is documented by that class.
    value = getattr(value, "__origin__", value)
    assert value.__doc__
    assert not value.__doc__.startswith(f"{name}(")


def test_type_checkers_see_the_same_names() -> None:
    """What is imported lazily, and what is imported for type checkers, come from one place."""
    (block,) = (
        node
        for node in ast.parse(Path(streamproof.__file__).read_text()).body
        if isinstance(node, ast.If)
    )
    seen = {
        alias.name: node.module.removeprefix("streamproof.")
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    assert seen == streamproof._HOMES
    assert {*seen, "__version__"} == set(streamproof.__all__)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Unknown'"):
        streamproof.Unknown  # noqa: B018


def test_importing_the_package_loads_nothing_heavy(tmp_path: Path) -> None:
    """Each name is imported when it is used first."""
    code = "import sys, streamproof; print(*sys.modules)"
    loaded = _python(code, tmp_path).split()
    assert not HEAVY & set(loaded)
    assert {each for each in loaded if each.startswith("streamproof.")} == {"streamproof.version"}


def test_a_store_needs_only_its_contract(tmp_path: Path) -> None:
    """A module with a store is imported in every process that runs it."""
    code = (
        "import sys\nfrom streamproof import Capabilities, KeyValueStore, StoreIterator\n"
        "print(*sys.modules)"
    )
    assert not HEAVY & set(_python(code, tmp_path).split())


def _python(code: str, directory: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=directory,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


IMPORT = re.compile(
    r"^\s*(?:from (streamproof\S*) import ([^#\n]*)|import (streamproof\S*))", re.MULTILINE
)


@pytest.mark.parametrize("path", [*PAGES, *EXAMPLES], ids=lambda path: str(path.relative_to(ROOT)))
def test_only_public_names_are_shown(path: Path) -> None:
    """In the README, the pages and the examples: code that is copied keeps working."""
    text = path.read_text()
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells)
    for module, names, plain in IMPORT.findall(text):
        assert (module or plain) == "streamproof", f"{module or plain} is private"
        for name in filter(None, re.split(r"[\s,()]+", names)):
            assert name in streamproof.__all__


if __name__ == "__main__":
    GOLDEN.write_text("\n".join(map(described, streamproof.__all__)) + "\n")
