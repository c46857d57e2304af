"""The import contracts of pyproject.toml hold, and each of them can break."""

from __future__ import annotations

import ast
import importlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = ROOT / "pyproject.toml"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a folder with a copy of the package, put together as installing does it."""
    mapping = tomllib.loads(PYPROJECT.read_text())["tool"]["setuptools"]["package-dir"]
    for package in mapping:
        installed = importlib.import_module(package).__file__
        assert installed is not None
        shutil.copytree(
            Path(installed).parent,
            tmp_path.joinpath(*package.split(".")),
            ignore=shutil.ignore_patterns("__pycache__"),
            dirs_exist_ok=True,
        )
    return tmp_path


def lint_imports(tree: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Check the contracts; `lint-imports` looks for the package in its current directory first."""
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--no-logo"]
    return subprocess.run(
        [*command, "--config", str(PYPROJECT), *options],
        cwd=tree,
        check=False,
        capture_output=True,
        text=True,
    )


def test_every_contract_is_kept(tree: Path) -> None:
    result = lint_imports(tree)

    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("contract", "package", "statement"),
    [
        ("layers", "stores", "import streamproof.sim"),
        ("layers", "sim", "from streamproof import reports"),
        ("layers", "scenarios", "from streamproof.conformance import results"),
        ("layers", "conformance", "import streamproof.reports"),
        ("reports-read-data", "reports", "from streamproof.conformance import crash"),
        ("adapters", "stores", "import quixstreams"),
        ("light", "sim", "import pandas"),
        ("light", "reports", "import pyspark"),
    ],
)
def test_a_planted_import_breaks_its_contract(
    tree: Path, contract: str, package: str, statement: str
) -> None:
    """A contract is only worth something if it can break."""
    planted = tree / "streamproof" / package / "planted.py"
    planted.write_text(f"def late() -> None:\n    {statement}\n")

    result = lint_imports(tree, "--contract", contract)

    assert result.returncode == 1, result.stdout
    assert f"streamproof.{package}.planted -> " in result.stdout


@pytest.mark.parametrize("module", ["badge", "run_log", "__init__"])
def test_a_report_on_one_run_must_not_import_the_pipeline(tree: Path, module: str) -> None:
    reports = tree / "streamproof" / "reports"
    target = reports / f"{module}.py"
    statement = "    from streamproof.reports.pipeline.tables.columns import TABLES\n"
    target.write_text(f"{target.read_text()}\n\ndef late() -> None:\n{statement}")
    if module == "__init__":
        badge = reports / "badge.py"
        badge.write_text(badge.read_text() + "\nfrom streamproof.reports import late\n")

    result = lint_imports(tree, "--contract", "pipeline-apart")

    assert result.returncode == 1, result.stdout
    assert "streamproof.reports.pipeline" in result.stdout


def test_a_report_on_one_run_must_not_import_verifying(tree: Path) -> None:
    """Otherwise a report would reach the whole suite through the exemption of verifying."""
    badge = tree / "streamproof" / "reports" / "badge.py"
    badge.write_text(badge.read_text() + "\nfrom streamproof.reports import verification\n")

    result = lint_imports(tree, "--contract", "pipeline-apart")

    assert result.returncode == 1, result.stdout
    assert "streamproof.reports.badge -> streamproof.reports.verification" in result.stdout


def test_a_new_report_module_must_be_given_its_layer(tree: Path) -> None:
    (tree / "streamproof" / "reports" / "attic.py").touch()

    result = lint_imports(tree, "--contract", "pipeline-apart")

    assert result.returncode == 1, result.stdout
    assert "attic" in result.stdout


def test_tables_know_only_records_of_the_conformance_suite(tree: Path) -> None:
    """The exemption of campaigns covers no other part of the pipeline."""
    planted = tree / "streamproof" / "reports" / "pipeline" / "tables" / "planted.py"
    planted.write_text("from streamproof.conformance import session\n")

    result = lint_imports(tree, "--contract", "reports-read-data")

    assert result.returncode == 1, result.stdout
    assert "streamproof.reports.pipeline.tables.planted -> " in result.stdout


def test_a_module_without_a_layer_breaks_the_contract(tree: Path) -> None:
    (tree / "streamproof" / "attic.py").touch()

    result = lint_imports(tree, "--contract", "layers")

    assert result.returncode == 1, result.stdout
    assert "attic" in result.stdout


def test_the_public_package_is_no_way_up(tree: Path) -> None:
    """What `streamproof/__init__.py` imports is reached by whoever imports from it."""
    public = tree / "streamproof" / "__init__.py"
    public.write_text(public.read_text() + "\nfrom streamproof.reports import anything\n")
    (tree / "streamproof" / "sim" / "planted.py").write_text("from streamproof import anything\n")

    result = lint_imports(tree, "--contract", "layers")

    assert result.returncode == 1, result.stdout
    assert "streamproof.sim.planted -> streamproof " in result.stdout


# A module that is entered by a name in a string is an arrow that no contract sees.

BY_NAME = {
    "conformance/check_loader.py": "Finds the modules of a package of checks, so that a new "
    "one needs no entry; the package itself is imported.",
    "conformance/runtime_checks/decision_programs.py": "Writes the import line of a program, and "
    "imports nothing by that name.",
    "conformance/subject.py": "Imports the store that a user names.",
    "sim/patches.py": "Loads the Python file with a user's patch.",
    "stores/builtin.py": "Stores by name, in the same layer: most runs need one, and some need "
    "packages that are not installed.",
    "streamproof/__init__.py": "Public names, each imported at its first use. Contracts see the "
    "same imports written out for type checkers; a test holds the two together.",
    "streamproof/cli.py": "Commands by name, in the same layer: a run needs one of them.",
}
"""The files that import or start a module by a name in a string, and why."""

IMPORTERS = {"__import__", "import_module", "run_module", "run_path", "spec_from_file_location"}


def names_in_strings(code: str) -> Iterator[str]:
    """Everything in a module that may import or start another module by its name."""
    tree = ast.parse(code)
    ignored = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            ignored.add(node.value)
        if isinstance(node, ast.Call):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
            name = function.id if isinstance(function, ast.Name) else function
            if name == "getLogger":
                ignored.update(node.args)
            if name in IMPORTERS:
                yield f"line {node.lineno}: {name}()"
        if isinstance(node, ast.List | ast.Tuple):
            for option, target in zip(node.elts, node.elts[1:], strict=False):
                is_shown = isinstance(target, ast.Name | ast.Attribute)
                if isinstance(option, ast.Constant) and option.value == "-m" and not is_shown:
                    yield f"line {node.lineno}: -m {ast.unparse(target)}"
        if isinstance(node, ast.Constant) and node not in ignored and is_module(node.value):
            yield f"line {node.lineno}: {node.value!r}"


def is_module(value: object) -> bool:
    """Whether a string names one of our modules, or begins with the name of a package of ours."""
    found = isinstance(value, str) and re.fullmatch(r"streamproof\.([\w.]+?)\.?(:[\w.]+)?", value)
    if not found:
        return False
    place = found[1].replace(".", "/")
    return any(
        (root / place).is_dir() or (root / f"{place}.py").is_file()
        for root in (ROOT, ROOT / "streamproof")
    )


def test_no_module_is_entered_by_a_name_in_a_string() -> None:
    found = {}
    for folder in ("stores", "sim", "scenarios", "conformance", "reports", "streamproof"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if names := list(names_in_strings(path.read_text("utf-8"))):
                found[path.relative_to(ROOT).as_posix()] = names
    assert {path: names for path, names in found.items() if path not in BY_NAME} == {}
    assert sorted(found) == sorted(BY_NAME)


@pytest.mark.parametrize(
    "code",
    [
        "importlib.import_module(name)",
        "__import__(name)",
        "run([sys.executable, '-m', 'streamproof'])",
        "run((sys.executable, '-m', f'{package}.zygote'))",
        "make('streamproof.stores.memory')",
        "make('streamproof.stores.memory:default_store')",
        "make(f'streamproof.commands.{name}')",
        "resources.files('streamproof.reports')",
    ],
)
def test_a_name_in_a_string_is_found(code: str) -> None:
    assert list(names_in_strings(code))


@pytest.mark.parametrize(
    "code",
    [
        '"""See streamproof.stores.memory."""',
        "logging.getLogger('streamproof.stores')",
        "run([sys.executable, '-m', zygote.__name__])",
        "METADATA = {'streamproof.campaign': '1'}",
        "raise Error('Import streamproof.conformance.lab first.')",
    ],
)
def test_other_strings_are_no_modules(code: str) -> None:
    assert list(names_in_strings(code)) == []
