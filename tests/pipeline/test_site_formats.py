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

from streamproof.reports.pipeline.site.exports import (
    csv_tables,
    json_tables,
    render_ctrf,
    render_junit,
)
from streamproof.reports.pipeline.site.site_builder import arrange
from streamproof.reports.pipeline.site.site_data import SiteCell, SiteRows
from streamproof.reports.pipeline.site.site_report import FORMATS
from streamproof.reports.pipeline.site.site_summary import render_badge, render_markdown

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
        for field in msgspec.structs.fields(SiteRows)
        if field.name != "baseline"
    }
    cells = msgspec.json.decode(tables["tables/cells.json"], type=tuple[SiteCell, ...])
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
    assert summary["tests"] == len(tests) == 11
    assert {test["rawStatus"] for test in tests if test["status"] == "passed"} == {"pass"}
    failed, silent, broken = (test for test in tests if test["status"] == "failed")
    assert "flaky" in failed["tags"]
    assert silent["name"] == "scenarios with rocksdb"
    assert "streamproof explore --seed 11" in broken["trace"]
    assert "kill_and_reopen" in failed["snippet"]
    assert "streamproof verify rocksdb --only CRASH-001 --seed 7" in failed["trace"]
    assert (summary["start"], summary["stop"]) == (1772360100000, 1772532900000)


def test_a_build_server_sees_what_could_not_be_read() -> None:
    site = arrange(sample())
    junit = ET.fromstring(render_junit(site))  # noqa: S314 (of our own making)
    suites = {suite.get("name"): suite for suite in junit}
    assert list(suites) == ["lmdb 3.0", "rocksdb 1.10", "simulated worlds", "what was read"]
    assert suites["simulated worlds"].get("failures") == "1"
    assert suites["what was read"].get("errors") == "1"
    assert [junit.get(name) for name in ("tests", "failures", "errors", "skipped")] == [
        *("12", "2", "2", "3")
    ]


def test_the_badge_is_about_the_worst() -> None:
    assert json.loads(render_badge(arrange(sample())))["color"] == "red"
    rows = sample()
    whole = [each for each in rows.cells if each.subject == "lmdb"]
    good = msgspec.structs.replace(
        rows, cells=tuple(whole), verdicts=rows.verdicts[2:], worlds=(), world_failures=()
    )
    badge = json.loads(render_badge(arrange(good)))
    assert badge["color"] == "brightgreen"
    assert badge["message"] == "success · 1 subject"


@pytest.mark.parametrize("text", [None, *HOSTILE], ids=range(len(HOSTILE) + 1))
def test_ctrf_is_what_its_schema_asks_for(text: str | None) -> None:
    """The facts of ``schema/ctrf.schema.json`` of ctrf-io/ctrf that a report like ours meets."""
    report = json.loads(render_ctrf(arrange(sample() if text is None else hostile(text))))
    assert report.keys() == {"reportFormat", "specVersion", "generatedBy", "results"}
    assert report["reportFormat"] == "CTRF"
    assert re.fullmatch(r"\d+\.\d+\.\d+", report["specVersion"])
    results = report["results"]
    assert results.keys() == {"tool", "summary", "tests"}
    assert results["tool"] == {"name": "streamproof"}
    whole = {*("tests", "passed", "failed", "skipped", "pending", "other"), "start", "stop"}
    summary = results["summary"]
    assert whole <= summary.keys() <= whole | {"flaky", "suites", "duration", "extra"}
    assert all(type(summary[name]) is int for name in summary.keys() - {"extra"})
    texts = {"name", "message", "trace", "snippet", "rawStatus"}
    for test in results["tests"]:
        asked = {"name", "status", "duration"}
        assert asked <= test.keys() <= asked | texts | {"suite", "tags", "labels"}
        assert test["status"] in {"passed", "failed", "skipped", "pending", "other"}
        assert type(test["duration"]) is int
        assert all(type(test[name]) is str for name in texts & test.keys())
        assert len(test["name"]) >= 1
        for name in {"suite", "tags"} & test.keys():
            assert test[name]
            assert all(type(each) is str for each in test[name])
        assert all(type(each) is str for each in test["labels"].values())


@pytest.mark.parametrize("text", [None, *HOSTILE], ids=range(len(HOSTILE) + 1))
def test_junit_is_what_build_servers_read(text: str | None) -> None:
    """Elements, attributes and counters as the schemas of Jenkins and of Ant know them."""
    root = ET.fromstring(render_junit(arrange(sample() if text is None else hostile(text))))  # noqa: S314
    counters = {"tests", "failures", "errors", "skipped"}
    tags = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    assert root.tag == "testsuites"
    for node in (root, *root):
        assert set(node.keys()) == counters | {"name", "time"}
        assert re.fullmatch(r"\d+\.\d+", node.get("time", ""))
        cases = list(node.iter("testcase"))
        assert node.get("tests") == str(len(cases))
        for counter, tag in tags.items():
            assert node.get(counter) == str(sum(case.find(tag) is not None for case in cases))
    for case in root.iter("testcase"):
        assert case.keys() == ["classname", "name", "time"]
        outcomes = [child for child in case if child.tag != "properties"]
        assert len(outcomes) <= 1
        assert {child.tag for child in outcomes} <= set(tags.values())
        assert all("message" in child.keys() for child in outcomes)  # noqa: SIM118
    assert all(each.keys() == ["name", "value"] for each in root.iter("property"))


@pytest.mark.parametrize("text", [None, *HOSTILE], ids=range(len(HOSTILE) + 1))
def test_the_badge_is_what_shields_reads(text: str | None) -> None:
    """Of https://shields.io/badges/endpoint-badge: a message is never empty."""
    badge = json.loads(render_badge(arrange(sample() if text is None else hostile(text))))
    assert badge.keys() == {"schemaVersion", "label", "message", "color"}
    assert badge["schemaVersion"] == 1
    assert all(type(badge[name]) is str for name in badge.keys() - {"schemaVersion"})
    assert badge["message"]
    assert badge["color"] in {"brightgreen", "yellow", "lightgrey", "orange", "red"}


def test_a_campaign_of_nothing_but_worlds_has_a_badge_and_a_summary() -> None:
    site = arrange(SiteRows(worlds=sample().worlds[1:], world_failures=sample().world_failures[:2]))
    assert json.loads(render_badge(site))["message"] == "failure · 20 worlds"
    found = render_markdown(site).decode()
    assert "No store was verified; 1 of 20 simulated worlds breaks a promise." in found
    assert (
        "EOS-101, model stores: task 0\\_1 holds a=2, and its changelog a=1; see it with" in found
    )
    assert "ignores" not in found


def test_every_format_has_files_of_its_own() -> None:
    site = arrange(sample())
    names = [name for make in FORMATS.values() for name, _ in make(site)]
    assert len(names) == len(set(names))
