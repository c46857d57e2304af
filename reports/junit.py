"""JUnit XML, for the build server: what it calls a failure is one, and a skip says why."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from streamproof.reports.report_view import (
    FailureView,
    ReportCell,
    ReportRow,
    ReportView,
    SubjectView,
)
from streamproof.reports.safe_text import PROGRAM_CHARS, cell, detail
from streamproof.reports.wording import STATUSES

__all__ = ["add_properties", "count_cases", "explained", "render_junit"]


def render_junit(view: ReportView) -> str:
    """One suite for each subject, one case for each requirement.

    A run that did not finish has a case of its own in every suite, in error, so that no build
    server takes what was found so far for all there is.
    """
    root = ET.Element("testsuites", name="streamproof")
    for index, subject in enumerate(view.subjects):
        suite = ET.SubElement(root, "testsuite", name=cell(subject.info.name))
        add_properties(
            suite,
            run=view.header.run_id,
            verdict=subject.outcome,
            summary=subject.summary,
            seed=str(view.header.seed),
            profile=view.header.profile,
            guarantee=view.header.guarantee,
            spec=view.header.spec,
        )
        if not view.complete:
            _unfinished(suite, subject)
        for row in view.rows:
            failures = [
                failure
                for failure in view.failures
                if (failure.record.subject, failure.record.requirement)
                == (subject.info.name, row.requirement)
            ]
            _case(suite, row, row.cells[index], failures, view.header.seed)
        seconds = sum(row.cells[index].duration_s for row in view.rows)
        count_cases(suite, seconds)
        suite.set("timestamp", cell(view.header.started_at))
    seconds = sum(cell.duration_s for row in view.rows for cell in row.cells)
    count_cases(root, seconds)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(
    suite: ET.Element, row: ReportRow, result: ReportCell, failures: list[FailureView], seed: int
) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=cell(f"{result.subject}.{row.area}"),
        name=cell(f"{row.requirement} {row.title}"),
        time=f"{result.duration_s:.3f}",
    )
    strength = {"evidence": result.strength} if result.strength else {}
    add_properties(case, level=row.level, core=str(row.core).lower(), seed=str(seed), **strength)
    reason = result.reason or STATUSES[result.status]
    match result.status:
        case "pass":
            pass
        case "fail":
            message = result.reason or failures[0].record.found
            node = ET.SubElement(case, "failure", message=cell(message), type=row.level)
            node.text = "\n\n".join(_explained(failure) for failure in failures)
        case "error" | "no result":
            node = ET.SubElement(case, "error", message=cell(reason), type=result.status)
            node.text = detail(reason)
        case _:
            ET.SubElement(case, "skipped", message=cell(f"{result.status}: {reason}"))


def _explained(failure: FailureView) -> str:
    record = failure.record
    return explained(
        Promise=record.promise,
        Source=record.source,
        Tried=record.tried,
        Program=record.program,
        Expected=record.expected,
        Found=record.found,
        Reproduce=record.reproduce,
    )


def explained(**parts: str) -> str:
    """What there is to say of a failure, under its names; programs are not cut short."""
    limits = {"Program": PROGRAM_CHARS, "Reproduce": PROGRAM_CHARS}
    return "\n\n".join(
        f"{name}:\n{detail(text, limits[name]) if name in limits else detail(text)}"
        for name, text in parts.items()
        if text
    )


def _unfinished(suite: ET.Element, subject: SubjectView) -> None:
    name = cell(f"{subject.info.name}.RUN")
    case = ET.SubElement(suite, "testcase", classname=name, name="the run finished", time="0.000")
    message = "incomplete: the run ended before there was a verdict"
    ET.SubElement(case, "error", message=message, type="incomplete")


def add_properties(parent: ET.Element, **values: str) -> None:
    """Name what a suite was run with."""
    properties = ET.SubElement(parent, "properties")
    for name, value in values.items():
        ET.SubElement(properties, "property", name=name, value=cell(value))


def count_cases(node: ET.Element, seconds: float = 0) -> None:
    """Set the counters from the cases themselves, so that they cannot disagree."""
    found = list(node.iter("testcase"))
    node.set("tests", str(len(found)))
    for counter, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        node.set(counter, str(sum(case.find(tag) is not None for case in found)))
    node.set("time", f"{seconds:.3f}")
