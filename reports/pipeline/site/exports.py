"""The rows of a report as JSON and CSV, and its newest versions as CTRF and JUnit XML."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal
from xml.etree import ElementTree as ET

import msgspec
from msgspec import Struct

from streamproof.conformance.verdict_rule import Shown
from streamproof.reports.junit import add_properties, count_cases, explained
from streamproof.reports.pipeline.site.phrases import worlds_name
from streamproof.reports.pipeline.site.site_builder import BrokenPromise, Site, VersionSeries
from streamproof.reports.pipeline.site.site_data import (
    Promise,
    SiteCell,
    SiteRows,
    WorldFailure,
    WorldTotals,
)
from streamproof.reports.safe_text import PROGRAM_CHARS, cell, detail
from streamproof.reports.wording import STATUSES

__all__ = ["CTRF_VERSION", "csv_tables", "json_tables", "render_ctrf", "render_junit"]

CTRF_VERSION = "0.0.0"
"""The version of the Common Test Report Format (ctrf.io); there is only this one."""

_CTRF: dict[Shown, Literal["passed", "failed", "skipped", "other"]] = {
    "pass": "passed",
    "fail": "failed",
    "known": "other",
    "error": "failed",
    "no result": "other",
    "skip": "skipped",
    "unsupported": "skipped",
    "untested": "skipped",
}
"""The CTRF status for each status. CTRF has none for a known failure, which is no pass."""

WORLDS = "simulated worlds"
"""The suite of the worlds without a deliberate mistake."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A spreadsheet takes a cell that begins with one of these characters for a formula."""


def json_tables(site: Site) -> Iterator[tuple[str, bytes]]:
    """Each table as a JSON array with an object for each row."""
    for name, _, rows in _tables(site):
        text = json.dumps(msgspec.to_builtins(rows), indent=1) + "\n"
        yield f"tables/{name}.json", text.encode()


def csv_tables(site: Site) -> Iterator[tuple[str, bytes]]:
    """Each table as CSV: UTF-8, a head, CRLF; lists and counts as JSON in their cell.

    A text that a spreadsheet would take for a formula begins with an apostrophe, which
    spreadsheets show as text; other readers may take it off. A text of more than 16,384
    characters is cut, because no spreadsheet has room for it: JSON has it whole.
    """
    for name, kind, rows in _tables(site):
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(kind.__struct_fields__)
        for row in rows:
            writer.writerow(map(_csv_cell, msgspec.structs.astuple(row)))
        yield f"tables/{name}.csv", text.getvalue().encode("utf-8", "backslashreplace")


def render_ctrf(site: Site) -> bytes:
    """The newest version of each subject in the Common Test Report Format: a test for each promise.

    Simulated worlds are tests as well: one test for all worlds with the same settings. Statuses
    that CTRF does not have are in ``rawStatus``. A flaky requirement has a tag, because CTRF uses
    *flaky* only for a test that passed in the end. Runs have no common length, so a test has no
    duration; the times of the summary are the starts of the first and the last run.
    """
    tests = [
        _ctrf_test(site, series, promise)
        for series in site.series
        for promise in site.promises.values()
        if promise.requirement in series.rows
    ]
    tests += [_ctrf_world(site, each) for each in site.honest_worlds]
    counts = Counter(test["status"] for test in tests)
    started = sorted(_milliseconds(run.started_at) for run in site.rows.runs)
    report = {
        "reportFormat": "CTRF",
        "specVersion": CTRF_VERSION,
        "generatedBy": "streamproof",
        "results": {
            "tool": {"name": "streamproof"},
            "summary": {
                "tests": len(tests),
                **{kind: counts[kind] for kind in ("passed", "failed", "skipped")},
                "pending": 0,
                "other": counts["other"],
                "suites": len(site.series) + bool(site.honest_worlds),
                "start": started[0] if started else 0,
                "stop": started[-1] if started else 0,
                "extra": {
                    "verdict": site.outcome,
                    "problems": len(site.rows.problems),
                    "digest": site.digest,
                },
            },
            "tests": tests,
        },
    }
    return (json.dumps(report, indent=1) + "\n").encode()


def render_junit(site: Site) -> bytes:
    """The newest version of each subject as JUnit XML: a suite for each, a case for each promise.

    Simulated worlds are a suite as well, with one case for all worlds with the same settings. Files
    that could not be read are a suite of their own, in error, so that no build server takes a
    report that lacks runs for a complete one.
    """
    root = ET.Element("testsuites", name="streamproof")
    for series in site.series:
        suite = ET.SubElement(root, "testsuite", name=cell(f"{series.label} {series.version}"))
        add_properties(suite, verdict=series.outcome, guarantee=series.guarantee)
        for promise in site.promises.values():
            if promise.requirement in series.rows:
                _case(suite, site, series, promise)
    if site.honest_worlds:
        suite = ET.SubElement(root, "testsuite", name=WORLDS)
        for each in site.honest_worlds:
            _world_case(suite, site, each)
    if site.rows.problems:
        suite = ET.SubElement(root, "testsuite", name="what was read")
        for problem in site.rows.problems:
            name = cell(f"{problem.path}:{problem.line}")
            case = ET.SubElement(suite, "testcase", classname="problems", name=name, time="0.000")
            ET.SubElement(case, "error", message=cell(problem.what), type=cell(problem.kind, 40))
    for node in (*root, root):
        count_cases(node)
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


def _tables(site: Site) -> Iterator[tuple[str, type[Struct], tuple[Any, ...]]]:
    """Every table of the rows: its name, the type of its rows, and these, sorted."""
    # The report may have made the changes itself, from the last two versions of each subject.
    rows = msgspec.structs.replace(site.rows, changes=site.changes)
    for field in msgspec.structs.fields(SiteRows):
        if field.name != "baseline":
            yield field.name, field.type.__args__[0], getattr(rows, field.name)


def _csv_cell(value: Any) -> Any:
    if isinstance(value, str):
        text = detail(value, PROGRAM_CHARS)
        return f"'{text}" if text.startswith(_FORMULA) else text
    if isinstance(value, (list, dict)):
        return json.dumps(value)
    return "" if value is None else value


def _ctrf_test(site: Site, series: VersionSeries, promise: Promise) -> dict[str, Any]:
    status = series.status(promise.requirement)
    found = series.newest.get(promise.requirement)
    test: dict[str, Any] = {
        "name": cell(f"{promise.requirement} {promise.title}"),
        "status": _CTRF[status],
        "duration": 0,
        "suite": [cell(f"{series.label} {series.version}")],
        "rawStatus": status,
        "tags": [
            promise.level,
            "core" if promise.core else "extended",
            *(["flaky"] if _is_flaky(site, series, promise) else []),
        ],
        "labels": {"guarantee": series.guarantee, "evidence": found.strength if found else ""},
    }
    if status != "pass":
        test["message"] = _why(status, found)
    ways = _ways(site, series, promise)
    if status in ("fail", "known") and ways:
        test["trace"] = "\n\n".join(map(_explained, ways))
        test["snippet"] = detail(ways[0].newest.program, PROGRAM_CHARS)
    return test


def _case(suite: ET.Element, site: Site, series: VersionSeries, promise: Promise) -> None:
    status = series.status(promise.requirement)
    found = series.newest.get(promise.requirement)
    area = promise.requirement.rpartition("-")[0]
    case = ET.SubElement(
        suite,
        "testcase",
        classname=cell(f"{series.label}.{area}"),
        name=cell(f"{promise.requirement} {promise.title}"),
        time="0.000",
    )
    flaky = {"flaky": "true"} if _is_flaky(site, series, promise) else {}
    strength = {"evidence": found.strength} if found and found.strength else {}
    core = str(promise.core).lower()
    add_properties(case, level=promise.level, core=core, **strength, **flaky)
    why = _why(status, found)
    match status:
        case "pass":
            pass
        case "fail":
            node = ET.SubElement(case, "failure", message=cell(why), type=promise.level)
            node.text = "\n\n".join(map(_explained, _ways(site, series, promise)))
        case "error" | "no result":
            ET.SubElement(case, "error", message=cell(why), type=status)
        case _:
            ET.SubElement(case, "skipped", message=cell(f"{status}: {why}"))


def _ctrf_world(site: Site, worlds: WorldTotals) -> dict[str, Any]:
    status = _world_status(worlds)
    test: dict[str, Any] = {
        "name": worlds_name(worlds),
        "status": _CTRF[status],
        "duration": 0,
        "suite": [WORLDS],
        "rawStatus": status,
        "labels": {"guarantee": worlds.guarantee, "kind": worlds.kind},
    }
    if status != "pass":
        test["message"] = _world_message(worlds)
        test["trace"] = _world_ways(site, worlds)
    return test


def _world_case(suite: ET.Element, site: Site, worlds: WorldTotals) -> None:
    name = worlds_name(worlds)
    case = ET.SubElement(suite, "testcase", classname=WORLDS, name=name, time="0.000")
    status = _world_status(worlds)
    if status != "pass":
        tag = "failure" if status == "fail" else "error"
        node = ET.SubElement(case, tag, message=_world_message(worlds), type=cell(worlds.kind, 40))
        node.text = _world_ways(site, worlds)


def _world_status(worlds: WorldTotals) -> Shown:
    if worlds.broken:
        return "fail"
    return "error" if worlds.silent else "pass"


def _world_message(worlds: WorldTotals) -> str:
    return f"{worlds.broken} of {worlds.count} fail, {worlds.silent} give no answer"


def _world_ways(site: Site, worlds: WorldTotals) -> str:
    def is_of(way: WorldFailure) -> bool:
        return (way.kind, way.subject) == (worlds.kind, worlds.subject)

    return "\n\n".join(
        explained(
            Broken=" ".join(part for part in (way.requirement, way.shape, way.scenario) if part),
            Found=way.found,
            Reproduce=way.command,
        )
        for way in site.failing_worlds
        if is_of(way)
    )


def _ways(site: Site, series: VersionSeries, promise: Promise) -> list[BrokenPromise]:
    """The ways in which the newest version breaks a promise."""
    ways = site.failures_of.get((series.key, promise.requirement), ())
    return [way for way in ways if way.now]


def _is_flaky(site: Site, series: VersionSeries, promise: Promise) -> bool:
    rows = site.flaky_of.get((series.key, promise.requirement), [])
    return any(row.version == series.version for row in rows)


def _why(status: Shown, found: SiteCell | None) -> str:
    return cell(found.reason if found and found.reason else STATUSES[status], 1000)


def _explained(way: BrokenPromise) -> str:
    record = way.newest
    return explained(
        Promise=way.promise.promise,
        Tried=record.tried,
        Program=record.program,
        Expected=record.expected,
        Found=record.found,
        Reproduce=record.reproduce,
    )


def _milliseconds(text: str) -> int:
    """A time of ISO 8601 in milliseconds since 1970; 0 for any other text."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return 0
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)
