"""The floors of the house: who may import whom is written in pyproject.toml, and holds."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = ROOT / "pyproject.toml"


@pytest.fixture
def house(tmp_path: Path) -> Path:
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


def lint_imports(house: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Check the contracts; `lint-imports` looks for the package in its current directory first."""
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--no-logo"]
    return subprocess.run(
        [*command, "--config", str(PYPROJECT), *options],
        cwd=house,
        check=False,
        capture_output=True,
        text=True,
    )


def test_every_contract_is_kept(house: Path) -> None:
    result = lint_imports(house)

    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("contract", "floor", "statement"),
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
    house: Path, contract: str, floor: str, statement: str
) -> None:
    """A contract is only worth something if it can break."""
    planted = house / "streamproof" / floor / "planted.py"
    planted.write_text(f"def late() -> None:\n    {statement}\n")

    result = lint_imports(house, "--contract", contract)

    assert result.returncode == 1, result.stdout
    assert f"streamproof.{floor}.planted -> " in result.stdout


@pytest.mark.parametrize("module", ["badge", "run_log", "__init__"])
def test_a_report_on_one_run_must_not_import_the_pipeline(house: Path, module: str) -> None:
    reports = house / "streamproof" / "reports"
    target = reports / f"{module}.py"
    statement = "    from streamproof.reports.pipeline.tables.columns import TABLES\n"
    target.write_text(f"{target.read_text()}\n\ndef late() -> None:\n{statement}")
    if module == "__init__":
        badge = reports / "badge.py"
        badge.write_text(badge.read_text() + "\nfrom streamproof.reports import late\n")

    result = lint_imports(house, "--contract", "pipeline-apart")

    assert result.returncode == 1, result.stdout
    assert "streamproof.reports.pipeline" in result.stdout


def test_a_new_report_module_must_be_given_its_layer(house: Path) -> None:
    (house / "streamproof" / "reports" / "attic.py").touch()

    result = lint_imports(house, "--contract", "pipeline-apart")

    assert result.returncode == 1, result.stdout
    assert "attic" in result.stdout


def test_tables_know_only_records_of_the_conformance_suite(house: Path) -> None:
    """The exemption of campaigns covers no other part of the pipeline."""
    planted = house / "streamproof" / "reports" / "pipeline" / "tables" / "planted.py"
    planted.write_text("from streamproof.conformance import session\n")

    result = lint_imports(house, "--contract", "reports-read-data")

    assert result.returncode == 1, result.stdout
    assert "streamproof.reports.pipeline.tables.planted -> " in result.stdout


def test_a_module_without_a_floor_breaks_the_contract(house: Path) -> None:
    (house / "streamproof" / "attic.py").touch()

    result = lint_imports(house, "--contract", "layers")

    assert result.returncode == 1, result.stdout
    assert "attic" in result.stdout


def test_the_front_door_is_no_way_up(house: Path) -> None:
    """What `streamproof/__init__.py` imports is reached by whoever imports from it."""
    front_door = house / "streamproof" / "__init__.py"
    front_door.write_text(front_door.read_text() + "\nfrom streamproof.reports import anything\n")
    (house / "streamproof" / "sim" / "planted.py").write_text("from streamproof import anything\n")

    result = lint_imports(house, "--contract", "layers")

    assert result.returncode == 1, result.stdout
    assert "streamproof.sim.planted -> streamproof " in result.stdout
