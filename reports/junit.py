"""JUnit XML for a build server: failures are failures, and every skip gives its reason."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from streamproof.reports.headlines import of_part
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

PROPERTY_CHARS = 600
"""The most characters of a property: what was not tried is told with its reason and remedy."""


def render_junit(view: ReportView) -> str:
    """One suite for each subject, one case for each requirement.

    If the run did not finish, every suite gets one more case, in error. So no build server takes
    the findings so far for all findings.
    """
    root = ET.Element("testsuites", name="streamproof")
    for index, subject in enumerate(view.subjects):
        suite = ET.SubElement(root, "testsuite", name=cell(subject.info.name))
        add_properties(
            suite,
            run=view.header.run_id,
            verdict=subject.outcome,
            summary=subject.summary,
            **({"part": of_part(view)} if view.is_part else {}),
            **({"untried": subject.untried} if subject.untried else {}),
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
        Traceback=record.traceback,
        Usually=f"{failure.usual_cause} {failure.usual_cure}".strip(),
        Cause=failure.same_as and f"Probably the same as that of {failure.same_as}.",
        Reproduce=record.reproduce,
    )


def explained(**parts: str) -> str:
    """Each part of a failure under its name; programs are not cut short."""
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
    """Add the settings of the run to a suite."""
    properties = ET.SubElement(parent, "properties")
    for name, value in values.items():
        ET.SubElement(properties, "property", name=name, value=cell(value, PROPERTY_CHARS))


def count_cases(node: ET.Element, seconds: float = 0) -> None:
    """Count the cases themselves, so that the counters cannot disagree with them."""
    found = list(node.iter("testcase"))
    node.set("tests", str(len(found)))
    for counter, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        node.set(counter, str(sum(case.find(tag) is not None for case in found)))
    node.set("time", f"{seconds:.3f}")
