"""The example notebook runs from top to bottom, and shows what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import table_oracle as oracle
from random_runs import draw_runs, write_runs

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebooks" / "compliance.ipynb"


@pytest.mark.usefixtures("spark")
def test_the_notebook_shows_a_matrix_a_trend_and_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = write_runs(tmp_path / "runs", draw_runs(4, 25))
    before = write_runs(tmp_path / "baseline", draw_runs(5, 25))
    monkeypatch.chdir(tmp_path)
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]

    shown: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), shown)  # noqa: S102 - it is our own notebook

    expected = oracle.matrix(told)
    assert shown["matrix"].shape == (
        len({row["requirement"] for row in expected}),
        len({oracle.who_of(row) for row in expected}),
    )
    points = {row["point"] for row in oracle.trends(told) if row["by"] == "version"}
    assert set(shown["trend"].columns) == points
    assert len(shown["difference"]) == len(oracle.difference(before, told))
    assert not shown["weakest"].empty


def test_the_notebook_is_kept_without_what_it_showed() -> None:
    """What somebody's runs came to is not part of the example."""
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    assert all(not cell.get("outputs") for cell in cells)
