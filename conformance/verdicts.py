"""From what the checks found to a status for each requirement, and to one verdict.

The rules, all of which are pure functions: a failure outweighs an error, an error a skip, and
only what was put to the test and held is a pass. A skipped core requirement
makes the verdict *partial*: a skip must never look like a pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from streamproof.conformance.catalogue import Requirement
from streamproof.conformance.results import (
    Failure,
    Guarantee,
    RequirementResult,
    Spec,
    Status,
    SubjectVerdict,
    Verdict,
)
from streamproof.conformance.run import CheckOutcome
from streamproof.conformance.violations import brief
from streamproof.stores.capabilities import Capabilities

__all__ = [
    "EXIT_CODES",
    "applicable",
    "exit_code",
    "failure_of",
    "result_of",
    "untested_result",
    "verdict_of",
    "worst",
]

EXIT_CODES: dict[Verdict, int] = {"success": 0, "failure": 1, "partial": 2, "error": 1}
"""What the command ends with; 70 instead of 1 where an error is the suite's own, 3 for usage."""

EXIT_SUITE_ERROR = 70
"""What the command ends with where the worst is an error of the suite itself."""

SUITE_ERROR = "the suite itself failed: "
"""How the reason begins where an error is not the subject's."""

CRASH_AREA = "CRASH"

_SEVERITY: list[Verdict] = ["success", "partial", "error", "failure"]


def applicable(
    requirements: Iterable[Requirement],
    capabilities: Capabilities,
    guarantee: Guarantee,
    spec: Spec,
) -> list[Requirement]:
    """The requirements that hold for a subject in a run and that some check tests."""
    return [
        requirement
        for requirement in requirements
        if requirement.checks and not requirement.why_not_applicable(capabilities, guarantee, spec)
    ]


def untested_result(
    subject: str,
    requirement: Requirement,
    capabilities: Capabilities,
    guarantee: Guarantee,
    spec: Spec,
) -> RequirementResult | None:
    """The result of a requirement that needs no check to be run; ``None`` if it needs one."""
    why_not = requirement.why_not_applicable(capabilities, guarantee, spec)
    if why_not:
        return _result(subject, requirement, "unsupported", why_not)
    if not requirement.checks:
        return _result(subject, requirement, "untested", requirement.untested)
    return None


def result_of(
    subject: str, requirement: Requirement, outcomes: Sequence[CheckOutcome]
) -> RequirementResult:
    """The result of a requirement from the outcomes of all checks that test it."""
    status, reason = _status(requirement, outcomes)
    crash_points: Counter[str] = Counter()
    for outcome in outcomes:
        crash_points.update(outcome.evidence.crash_points)
    return _result(
        subject,
        requirement,
        status,
        reason,
        checks=[outcome.check for outcome in outcomes],
        examples=sum(outcome.evidence.examples for outcome in outcomes),
        operations=sum(outcome.evidence.operations for outcome in outcomes),
        crash_points=dict(sorted(crash_points.items())),
        duration_s=round(sum(outcome.duration_s for outcome in outcomes), 3),
    )


def _status(requirement: Requirement, outcomes: Sequence[CheckOutcome]) -> tuple[Status, str]:
    """The status of a requirement, and the reason for it in one line."""
    for outcome in outcomes:
        for finding in outcome.findings:
            if finding.requirement == requirement.id:
                return "fail", f"expected {finding.expected}, found {finding.found}"[:500]
    errors = [text for outcome in outcomes if (text := _why_no_answer(outcome))]
    if errors:
        return "error", errors[0]
    skipped = [f"{each.check} skipped: {each.skipped}" for each in outcomes if each.skipped]
    exercised = any(requirement.id in outcome.evidence.exercised for outcome in outcomes)
    if requirement.area == CRASH_AREA and not any(o.evidence.crash_points for o in outcomes):
        return "skip", "; ".join(skipped) or "no crash point was reached, so nothing was shown"
    if exercised:
        return "pass", "; ".join(skipped)
    broken = [finding.requirement for outcome in outcomes for finding in outcome.findings]
    because = f", because {broken[0]} is broken" if broken else ""
    return "skip", "; ".join(skipped) or f"no check came as far as trying it{because}"


def _why_no_answer(outcome: CheckOutcome) -> str:
    """How a check was kept from an answer; empty if it was not."""
    if outcome.suite_error:
        return f"{SUITE_ERROR}{outcome.suite_error.splitlines()[0]}"
    return f"{outcome.check}: {outcome.subject_error}" if outcome.subject_error else ""


def _result(
    subject: str,
    requirement: Requirement,
    status: Status,
    reason: str,
    *,
    checks: list[str] | None = None,
    examples: int = 0,
    operations: int = 0,
    crash_points: dict[str, int] | None = None,
    duration_s: float = 0.0,
) -> RequirementResult:
    return RequirementResult(
        subject=subject,
        requirement=requirement.id,
        title=requirement.title,
        promise=requirement.promise,
        source=requirement.source,
        level=requirement.level,
        core=requirement.core,
        status=status,
        reason=brief(reason),
        checks=checks if checks is not None else list(requirement.checks),
        examples=examples,
        operations=operations,
        crash_points=crash_points or {},
        duration_s=duration_s,
    )


def failure_of(
    subject: str,
    requirement: Requirement,
    outcomes: Iterable[CheckOutcome],
    reproduce: str,
) -> Failure | None:
    """The failure of a requirement, with the shortest of the programs that show it."""
    findings = [
        (outcome.check, finding)
        for outcome in outcomes
        for finding in outcome.findings
        if finding.requirement == requirement.id
    ]
    if not findings:
        return None
    check, finding = min(findings, key=lambda pair: len(pair[1].program) or 10**9)
    return Failure(
        subject=subject,
        requirement=requirement.id,
        check=check,
        title=requirement.title,
        promise=requirement.promise,
        source=requirement.source,
        level=requirement.level,
        core=requirement.core,
        tried=finding.tried,
        program=finding.program,
        expected=finding.expected,
        found=finding.found,
        reproduce=reproduce,
    )


def verdict_of(subject: str, results: Sequence[RequirementResult]) -> SubjectVerdict:
    """The verdict on one subject from all of its results."""
    core = Counter(result.status for result in results if result.core)
    extended = Counter(result.status for result in results if not result.core)
    failed = [r for r in results if r.status == "fail"]
    broken = [r for r in failed if r.level == "MUST"]
    short = [r for r in failed if r.level == "SHOULD"]
    no_answer = [r for r in results if r.status == "error"]
    verdict: Verdict
    if broken:
        verdict = "failure"
        summary = f"breaks {_count(broken, 'MUST requirement')}: {_ids(broken)}"
    elif no_answer:
        verdict = "error"
        summary = f"no answer for {_count(no_answer, 'requirement')}: {no_answer[0].reason}"
    elif short:
        verdict = "partial"
        summary = f"falls short of {_count(short, 'SHOULD requirement')}: {_ids(short)}"
    elif core["skip"]:
        skipped = [r for r in results if r.core and r.status == "skip"]
        verdict = "partial"
        summary = f"{_count(skipped, 'core requirement')} could not be tried: {_ids(skipped)}"
    elif not (core["pass"] + extended["pass"]):
        verdict = "partial"
        summary = "nothing was put to the test"
    else:
        verdict = "success"
        summary = f"keeps all {core['pass'] + extended['pass']} promises that were put to the test"
    return SubjectVerdict(
        subject=subject,
        verdict=verdict,
        summary=summary,
        core=dict(sorted(core.items())),
        extended=dict(sorted(extended.items())),
    )


def _count(results: Sequence[RequirementResult], noun: str) -> str:
    return f"{len(results)} {noun}{'' if len(results) == 1 else 's'}"


def _ids(results: Sequence[RequirementResult], limit: int = 4) -> str:
    ids = [result.requirement for result in results]
    return ", ".join(ids[:limit]) + (" …" if len(ids) > limit else "")


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several verdicts: failure, then error, then partial, then success."""
    return max(verdicts, key=_SEVERITY.index, default="success")


def exit_code(verdict: Verdict, results: Mapping[str, Sequence[RequirementResult]]) -> int:
    """What the command ends with."""
    if verdict == "error" and any(
        result.reason.startswith(SUITE_ERROR) for each in results.values() for result in each
    ):
        return EXIT_SUITE_ERROR
    return EXIT_CODES[verdict]
