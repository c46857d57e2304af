"""The package as a whole: its metadata, its weight, and where its folders end up."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path

import pytest

import streamproof
from streamproof.exit_codes import ExitCode

ROOT = Path(__file__).parents[1]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def run_python(code: str, cwd: Path) -> str:
    """Run code in a fresh interpreter and return what it prints."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


def test_there_is_one_version() -> None:
    assert distribution("streamproof").version == streamproof.__version__


def test_users_get_our_types() -> None:
    assert files("streamproof").joinpath("py.typed").is_file()


def test_every_folder_with_python_in_it_is_packaged() -> None:
    """A package that is not named in pyproject.toml would be missing in the wheel."""
    found = {
        ".".join([package, *path.parent.relative_to(ROOT / folder).parts])
        for package, folder in SETUPTOOLS["package-dir"].items()
        for path in (ROOT / folder).rglob("*.py")
    }

    assert found <= set(SETUPTOOLS["packages"])


def test_the_command_tells_its_version(tmp_path: Path) -> None:
    command = Path(sys.executable).parent / "streamproof"

    result = subprocess.run(
        [command, "--version"], cwd=tmp_path, check=True, capture_output=True, text=True
    )

    assert streamproof.__version__ in result.stdout


def test_the_command_line_imports_only_the_command_that_is_run(tmp_path: Path) -> None:
    code = "import sys, streamproof.cli; print(*sys.modules)"
    loaded = run_python(code, tmp_path).split()

    assert not [each for each in loaded if each.startswith("streamproof.commands.")]
    assert not {"hypothesis", "jinja2", "rocksdict", "simpy"} & set(loaded)


def test_help_loads_no_more_than_the_command_line(tmp_path: Path) -> None:
    """Options are described before anything is imported that runs."""
    code = (
        "import sys\nfrom streamproof.cli import app\n"
        "app(['verify', '--help'], standalone_mode=False)\n"
        "print('loaded:', *sys.modules)"
    )
    loaded = run_python(code, tmp_path).partition("loaded:")[2].split()

    assert "streamproof.commands.verify" in loaded
    assert not {"hypothesis", "jinja2", "rich", "rocksdict", "simpy"} & set(loaded)


@pytest.mark.parametrize("module", ["streamproof.cli", "streamproof.conformance.plugin"])
def test_starting_up_loads_nothing_heavy(module: str, tmp_path: Path) -> None:
    """Spark, pandas and the adapted stores are for those who ask for them."""
    heavy = {"faust", "pandas", "pyarrow", "pyspark", "quixstreams"}

    loaded = run_python(f"import sys, {module}; print(*sys.modules)", tmp_path).split()

    assert not heavy & set(loaded)


def test_a_trace_without_arrow_names_the_extra(tmp_path: Path) -> None:
    """Arrow is larger than all the rest of the core, and only traces need it."""
    command = ["replay", "KAFKA-10167", "--format", "parquet", "--out", "run.parquet"]
    code = (
        "import sys\nsys.modules['pyarrow'] = None\nfrom streamproof.cli import main\n"
        f"sys.argv[1:] = {command}\nmain()"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )

    assert ended.returncode == ExitCode.USAGE
    assert ended.stderr.startswith("streamproof: Traces need pyarrow (")
    assert "pip install 'streamproof[traces]'" in ended.stderr
