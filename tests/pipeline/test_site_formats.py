"""The other formats that a report on many runs is handed on in: goldens, and hostile text."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from site_rows import HOSTILE, hostile, sample

from streamproof.reports.site.arrange import arrange
from streamproof.reports.site.data import Cell, Rows
from streamproof.reports.site.exports import csv_tables, json_tables, render_ctrf, render_junit
from streamproof.reports.site.reporting import FORMATS
from streamproof.reports.site.summary import render_badge, render_markdown

GOLDEN = Path(__file__).parent / "golden"
RENDERED = {
    "junit.xml": render_junit,
    "ctrf.json": render_ctrf,
    "summary.md": render_markdown,
    "badge.json": render_badge,
    "changes.csv": lambda site: dict(csv_tables(site))["tables/changes.csv"],
    "cells.csv": lambda site: dict(csv_tables(site))["tables/cells.csv"],
    "flaky.json": lambda site: dict(json_tables(site))["tables/flaky.json"],
}


@pytest.mark.parametrize("name", RENDERED)
def test_small_formats_are_the_golden_ones(name: str) -> None:
    """The sample gives these files, byte for byte (STREAMPROOF_UPDATE_GOLDENS=1 renews them)."""
    golden = GOLDEN / f"site.{name}"
    content = RENDERED[name](arrange(sample()))
    if os.environ.get("STREAMPROOF_UPDATE_GOLDENS") == "1":
        golden.parent.mkdir(exist_ok=True)
        golden.write_bytes(content)
    assert golden.read_bytes() == content


def test_json_tables_hold_the_rows_again() -> None:
    site = arrange(sample())
    tables = dict(json_tables(site))
    assert set(tables) == {
        f"tables/{field.name}.json"
        for field in msgspec.structs.fields(Rows)
        if field.name != "baseline"
    }
    cells = msgspec.json.decode(tables["tables/cells.json"], type=tuple[Cell, ...])
    assert cells == site.rows.cells
    assert len(json.loads(tables["tables/changes.json"])) == len(site.changes) == 4


def read_csv(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode(), newline="")))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_cell_is_a_formula_or_breaks_its_row(text: str) -> None:
    for name, content in csv_tables(arrange(hostile(text))):
        head, *rows = read_csv(content)
        assert all(len(row) == len(head) for row in rows), name
        for cell in (cell for row in rows for cell in row):
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")), name


def test_numbers_below_zero_stay_numbers() -> None:
    rows = sample()
    (measured,) = rows.distributions
    below = msgspec.structs.replace(measured, minimum=-1.5)
    tables = dict(csv_tables(arrange(msgspec.structs.replace(rows, distributions=(below,)))))
    head, row = read_csv(tables["tables/distributions.csv"])
    assert dict(zip(head, row, strict=True))["minimum"] == "-1.5"


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_foreign_text_breaks_no_format(text: str) -> None:
    site = arrange(hostile(text))
    junit = ET.fromstring(render_junit(site))  # noqa: S314 (of our own making)
    assert {node.tag for node in junit.iter()} <= {
        *("testsuites", "testsuite", "testcase", "properties", "property"),
        *("failure", "error", "skipped"),
    }
    report = json.loads(render_ctrf(site))
    assert all(test["name"].strip() or text.strip() == "" for test in report["results"]["tests"])
    json.loads(render_badge(site))
    for line in render_markdown(site).decode().splitlines():
        assert not re.search(r"(?<!\\)[<\[`]", line), line
    for _, content in json_tables(site):
        json.loads(content)


def ctrf(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        render_ctrf(arrange(msgspec.structs.replace(sample(), **changes)))
    )
    return found


def test_ctrf_calls_passed_only_what_passed() -> None:
    """Its counts are those of its tests, and each test has all that the format requires."""
    results = ctrf()["results"]
    tests, summary = results["tests"], results["summary"]
    for kind in ("passed", "failed", "skipped", "pending", "other"):
        assert summary[kind] == sum(test["status"] == kind for test in tests)
    assert summary["tests"] == len(tests) == 9
    assert {test["rawStatus"] for test in tests if test["status"] == "passed"} == {"pass"}
    assert all({"name", "status", "duration", "suite"} <= test.keys() for test in tests)
    (failed,) = (test for test in tests if test["status"] == "failed")
    assert failed["flaky"]
    assert "kill_and_reopen" in failed["snippet"]
    assert "streamproof verify rocksdb --only CRASH-001 --seed 7" in failed["trace"]
    assert (summary["start"], summary["stop"]) == (1772360100000, 1772532900000)


def test_a_build_server_sees_what_could_not_be_read() -> None:
    site = arrange(sample())
    junit = ET.fromstring(render_junit(site))  # noqa: S314 (of our own making)
    suites = {suite.get("name"): suite for suite in junit}
    assert list(suites) == ["lmdb 3.0", "rocksdb 1.10", "what was read"]
    assert suites["what was read"].get("errors") == "1"
    assert [junit.get(name) for name in ("tests", "failures", "errors", "skipped")] == [
        *("10", "1", "1", "3")
    ]


def test_the_badge_is_about_the_worst() -> None:
    assert json.loads(render_badge(arrange(sample())))["color"] == "red"
    rows = sample()
    whole = [each for each in rows.cells if each.subject == "lmdb"]
    good = msgspec.structs.replace(rows, cells=tuple(whole), verdicts=rows.verdicts[2:])
    badge = json.loads(render_badge(arrange(good)))
    assert badge["color"] == "brightgreen"
    assert badge["message"] == "success · 1 subject"


def test_every_format_has_files_of_its_own() -> None:
    site = arrange(sample())
    names = [name for make in FORMATS.values() for name, _ in make(site)]
    assert len(names) == len(set(names))
