"""The page on the fidelity of the simulator is made of rows, and hides no difference."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from streamproof.scenarios.scenario_reader import library, read

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def fidelity() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "fidelity_scenarios", HERE / "fidelity_scenarios.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_difference_that_nobody_has_explained_is_shown_as_such(fidelity: ModuleType) -> None:
    rows = [
        fidelity.Row("A@fixed", "holds", "4.3.1", "holds", agrees=True),
        fidelity.Row("B@fixed", "holds", "4.3.1", "TASK-001 breaks", agrees=False),
        fidelity.Row("C@fixed", "holds", "4.3.1", "too few", agrees=False),
        fidelity.Row("D@defect", "holds", "", "it is simulated", agrees=False),
    ]
    page = fidelity.section(rows, {"C@fixed": "the machine is slow"})

    assert "Of 4 variants, 3 were played for real, and 1 of these agree (33 %)." in page
    assert "| B@fixed | 4.3.1 | holds | TASK-001 breaks | no | **not explained yet** |" in page
    assert "| C@fixed | 4.3.1 | holds | too few | no | the machine is slow |" in page
    assert "| it is simulated | 1 |" in page


def test_rows_that_are_known_are_not_played_again(fidelity: ModuleType, tmp_path: Path) -> None:
    kept = tmp_path / "rows.ndjson"
    rows = [
        fidelity.Row(f"{s.name}@{v.name}", "holds", release, "x", agrees=False)
        for s, v, release, _ in fidelity.variants()
        if release
    ]
    kept.write_bytes(b"".join(fidelity.msgspec.json.encode(each) + b"\n" for each in rows))

    made = fidelity.collected(kept)

    assert [each for each in made if each.release] == rows
    assert all(each.real for each in made)


def test_reasons_are_for_variants_that_exist() -> None:
    reasons = tomllib.loads((HERE / "fidelity_scenarios.toml").read_text("utf-8"))["differences"]
    known = {f"{path.stem}@{name}" for path in library().values() for name in read(path).setups}

    assert reasons.keys() <= known


def test_the_rest_of_the_page_stays(fidelity: ModuleType) -> None:
    page = f"before\n{fidelity.BEGIN}\nstale\n{fidelity.END}\nafter\n"
    rows = [fidelity.Row("A@fixed", "holds", "4.3.1", "holds", agrees=True)]
    made = fidelity.written(page, rows, {})

    assert made.startswith("before\n")
    assert made.endswith("\nafter\n")
    assert "stale" not in made
    assert fidelity.written(made, rows, {}) == made


def test_the_page_has_the_marks(fidelity: ModuleType) -> None:
    text = fidelity.PAGE.read_text("utf-8")

    assert text.count(fidelity.BEGIN) == text.count(fidelity.END) == 1
