"""The page on events is the one that the tables give."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from streamproof.reports.pipeline.rechecking.event_schema import events_page
from streamproof.sim.event_kinds import KINDS
from streamproof.sim.invariants import INVARIANTS
from streamproof.sim.trace_files import read_trace

PAGE = Path(__file__).parents[2] / "docs" / "events.md"


def test_the_page_is_up_to_date() -> None:
    """STREAMPROOF_UPDATE_GOLDENS=1 renews it."""
    text = events_page()
    if os.environ.get("STREAMPROOF_UPDATE_GOLDENS") == "1":
        PAGE.write_text(text, "utf-8")
    assert PAGE.read_text("utf-8") == text


def test_every_kind_and_every_invariant_is_on_the_page() -> None:
    text = events_page()
    assert all(f"\n### {kind}\n" in text for kind in KINDS)
    assert all(f"| {each.name} | {each.requirement} |" in text for each in INVARIANTS)


def test_the_example_writes_what_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", events_page(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(program, {})  # noqa: S102 - it is our own page
    (event,) = read_trace(tmp_path / "orders.parquet")
    assert event.attributes == {"group": "orders", "offsets": {"in-0": 7}}
