"""From the outcomes of checks to a status for each requirement, and to one verdict.

All functions here are pure. In a status, a failure outweighs an error, and an error outweighs a
skip; only a requirement that was put to the test and held is a pass. The rule from statuses to a
verdict is in :mod:`streamproof.conformance.verdict_rule`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from streamproof.conformance.catalogue import UNCLAIMED, Requirement
from streamproof.conformance.check_records import CheckFinding, CheckOutcome
from streamproof.conformance.failure_groups import broken_words, group_failures
from streamproof.conformance.mutants import MUTANTS
from streamproof.conformance.program_text import fails_by_itself, with_class_path
from streamproof.conformance.results import (
    Failure,
    Guarantee,
    RequirementResult,
    Spec,
    Status,
    Strength,
    SubjectInfo,
    SubjectVerdict,
    Verdict,
)
from streamproof.conformance.verdict_rule import (
    RatedStatus,
    best_verdict,
    worst,
)
from streamproof.conformance.violations import brief
from streamproof.exit_codes import ExitCode
from streamproof.sim.defects import DEFECTS
from streamproof.stores.capabilities import Capabilities

__all__ = [
    "Found",
    "applicable",
    "by_shape",
    "exit_code",
    "failure_of",
    "failures_of",
    "not_asked",
    "result_of",
    "strength_of",
    "untested_result",
    "verdict_of",
]

SUITE_ERROR = "the suite itself failed: "
"""The start of the reason for an error that the suite caused, not the subject. The exit code
depends on it."""

CRASH_AREA = "CRASH"

SEARCH_PROGRAMS = 25
"""The least number of generated programs that count as a search. One property runs as many in the
quick profile."""

SEARCH_CRASHES = 100
"""The least number of crashes that count as a search."""


_EXIT_CODES: dict[Verdict, ExitCode] = {
    "success": ExitCode.SUCCESS,
    "partial": ExitCode.PARTIAL,
    "failure": ExitCode.FAILURE,
    "error": ExitCode.FAILURE,
}


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
    """The result of a requirement for which no check runs; ``None`` if a check has to run."""
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
    lacking = next((each.evidence.lacking for each in outcomes if each.evidence.lacking), "")
    crash_points: Counter[str] = Counter()
    for outcome in outcomes:
        crash_points.update(outcome.evidence.crash_points)
    examples = sum(outcome.evidence.examples for outcome in outcomes)
    checks = list(dict.fromkeys(outcome.check for outcome in outcomes))
    generated = examples - crash_points.total() - len(checks)
    mutants = _mutants()[requirement.id]
    return _result(
        subject,
        requirement,
        status,
        reason,
        strength=strength_of(generated, crash_points.total(), mutants) if status == "pass" else "",
        mutants=mutants,
        checks=checks,
        examples=examples,
        operations=sum(outcome.evidence.operations for outcome in outcomes),
        crash_points=dict(sorted(crash_points.items())),
        wiped=sum(outcome.evidence.wiped for outcome in outcomes),
        duration_s=round(sum(outcome.duration_s for outcome in outcomes), 3),
        lacking=lacking,
    )


@cache
def _mutants() -> Counter[str]:
    """The number of mutants and runtime defects that each requirement catches."""
    wrong = [mutant.requirement for mutant in MUTANTS]
    return Counter(wrong + [defect.requirement for defect in DEFECTS.values()])


def strength_of(generated: int, crashes: int, mutants: int) -> Strength:
    """The strength of a pass, from its generated programs, its crashes and the caught mutants."""
    searched = generated >= SEARCH_PROGRAMS or crashes >= SEARCH_CRASHES
    if searched and mutants:
        return "strong"
    if searched or mutants:
        return "moderate"
    return "weak" if generated > 0 or crashes else "example only"


def _status(requirement: Requirement, outcomes: Sequence[CheckOutcome]) -> tuple[Status, str]:
    """The status of a requirement, and the reason for it in one line."""
    shapes = by_shape(requirement.id, outcomes)
    if shapes:
        _, finding = min((_smallest(found) for found in shapes.values()), key=_size)
        more = f" (and {len(shapes) - 1} more)" if len(shapes) > 1 else ""
        return "fail", f"expected {finding.expected}, found {finding.found}"[:500] + more
    errors = [text for outcome in outcomes if (text := _why_no_answer(outcome))]
    if errors:
        return "error", errors[0]
    skipped = [text for each in outcomes if (text := _left_out(each))]
    exercised = any(requirement.id in outcome.evidence.exercised for outcome in outcomes)
    if requirement.area == CRASH_AREA and not any(o.evidence.crash_points for o in outcomes):
        return "skip", "; ".join(skipped) or "no check reached a crash point, so nothing was tested"
    if again := _not_tried_again(requirement.id, outcomes):
        return "skip", "; ".join(again)
    if exercised:
        return "pass", "; ".join(skipped)
    if untried := _untried(requirement.id, outcomes):
        return "skip", "; ".join([*skipped, *untried])
    broken = [finding.requirement for outcome in outcomes for finding in outcome.findings]
    because = f", because {broken[0]} is broken" if broken else ""
    return "skip", "; ".join(skipped) or f"every check ended before it tried this promise{because}"


def _left_out(outcome: CheckOutcome) -> str:
    """What a check left out, and why; empty if it left out nothing."""
    if outcome.skipped:
        return f"{outcome.check} skipped: {outcome.skipped}"
    lacking, left_out = outcome.evidence.lacking, outcome.evidence.left_out
    if lacking:
        return f"{outcome.check} left out system calls: {lacking}"
    return f"{outcome.check}: {left_out}" if left_out else ""


def _untried(requirement: str, outcomes: Sequence[CheckOutcome]) -> list[str]:
    """What never came about, so that a requirement could not be tested."""
    reasons = (each.evidence.untried.get(requirement, "") for each in outcomes)
    return list(dict.fromkeys(filter(None, reasons)))


def _not_tried_again(requirement: str, outcomes: Sequence[CheckOutcome]) -> list[str]:
    """The saved failures of a requirement that could not be tried, each with the reason.

    The requirement was broken once, so nothing else that this run tried can show that it is kept.
    """
    mine = [each for each in outcomes if each.replayed.startswith(f"{requirement}-")]
    reasons = {each.replayed: each.skipped or each.evidence.lacking for each in mine}
    return [f"{name} was not tried again: {why}" for name, why in reasons.items() if why]


def _why_no_answer(outcome: CheckOutcome) -> str:
    """Why a check gave no answer; empty if it gave one."""
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
    wiped: int = 0,
    duration_s: float = 0.0,
    lacking: str = "",
    strength: Strength = "",
    mutants: int = 0,
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
        wiped=wiped,
        duration_s=duration_s,
        lacking=lacking,
        strength=strength,
        mutants=mutants,
    )


Found = tuple[CheckOutcome, CheckFinding]
"""A broken promise, and the outcome of the check that found it."""


def by_shape(requirement: str, outcomes: Iterable[CheckOutcome]) -> dict[str, list[Found]]:
    """The findings that break a requirement, by shape."""
    shapes: dict[str, list[Found]] = {}
    for outcome in outcomes:
        for finding in outcome.findings:
            if finding.requirement == requirement:
                shapes.setdefault(finding.shape, []).append((outcome, finding))
    return shapes


def _size(found: Found) -> tuple[bool, int, int]:
    """The size of a finding to a reader: the lines of its program, then the characters.

    A program that fails by itself comes before one that only shows what threads did.
    """
    program = found[1].program
    # A finding without a program explains least, so it counts as the largest.
    lines = len(program.splitlines()) if program else 10**9
    return not fails_by_itself(program), lines, len(program)


def _smallest(found: list[Found]) -> Found:
    return min(found, key=_size)


def failures_of(
    subject: str,
    requirement: Requirement,
    outcomes: Iterable[CheckOutcome],
    reproduce: Callable[[CheckOutcome], str],
) -> list[tuple[Failure, Found]]:
    """A failure for each shape in which a requirement is broken, the smallest program first.

    Each failure comes with its finding and outcome. ``reproduce`` gives the command for an outcome.
    """
    shapes = by_shape(requirement.id, outcomes)
    smallest = {shape: _smallest(found) for shape, found in shapes.items()}
    failures = []
    for shape in sorted(smallest, key=lambda each: (_size(smallest[each]), each)):
        outcome, finding = smallest[shape]
        others = {each.check for each, _ in shapes[shape]} - {outcome.check}
        failure = Failure(
            subject=subject,
            requirement=requirement.id,
            check=outcome.check,
            title=requirement.title,
            promise=requirement.promise,
            source=requirement.source,
            level=requirement.level,
            core=requirement.core,
            tried=finding.tried,
            program=with_class_path(finding.program, subject),
            expected=finding.expected,
            found=finding.found,
            reproduce=reproduce(outcome),
            shape=shape,
            traceback=finding.traceback,
            also_found_by=sorted(others),
        )
        failures.append((failure, smallest[shape]))
    return failures


def failure_of(
    subject: str, requirement: Requirement, outcomes: Iterable[CheckOutcome], reproduce: str
) -> Failure | None:
    """The failure of a requirement with the smallest program; ``None`` if it is kept."""
    found = failures_of(subject, requirement, outcomes, lambda _: reproduce)
    return found[0][0] if found else None


def verdict_of(
    subject: str,
    results: Sequence[RequirementResult],
    of_core: int = 0,
    failures: Iterable[Failure] = (),
) -> SubjectVerdict:
    """The verdict on one subject from all of its results.

    Args:
        subject: the name of the subject.
        results: all of its results.
        of_core: if the run asked a part of the requirements, the number of core requirements that
            a whole run would ask.
        failures: all of its failures.
    """
    verdict = best_verdict(map(_rated, results))
    core = Counter(result.status for result in results if result.core)
    extended = Counter(result.status for result in results if not result.core)
    return SubjectVerdict(
        subject=subject,
        verdict=verdict,
        summary=_summary(verdict, results, failures) + _of_part(results, of_core),
        core=dict(sorted(core.items())),
        extended=dict(sorted(extended.items())),
        untried=_untried_here(results),
        of_core=of_core,
    )


def _rated(result: RequirementResult) -> RatedStatus:
    # A check may find nothing to try in a store, which counts only against what is core. What the
    # machine lacks says nothing about the store, so it counts against every MUST.
    missed = result.level == "MUST" and bool(result.lacking) and result.status == "skip"
    return RatedStatus(result.level, result.core or missed, result.status)


def _untried_here(results: Sequence[RequirementResult]) -> str:
    """How much this machine could not try, why, and the remedy; empty if it lacks nothing."""
    lacking = [each for each in results if each.lacking]
    if not lacking:
        return ""
    missed = [each for each in lacking if each.status == "skip"]
    in_part = [each for each in lacking if each.status != "skip"]
    parts = (("not tried", missed), ("tried only in part", in_part))
    told = [
        f"{how}: {_count(some, 'requirement')} ({_ids(_names(some))})"
        for how, some in parts
        if some
    ]
    # The reason comes first, because a long text may be cut.
    reasons = "; ".join(dict.fromkeys(each.lacking for each in lacking))
    why = f"this machine could not try everything ({reasons})"
    return "; ".join([why, *told])


def _summary(
    verdict: Verdict, results: Sequence[RequirementResult], failures: Iterable[Failure]
) -> str:
    """The verdict in one sentence, with the requirements that it comes from."""
    failed = [r for r in results if r.status == "fail"]
    if failed:
        return _breaks(verdict, results, failures)
    if verdict == "error":
        no_answer = [r for r in results if r.status == "error"]
        return f"no answer for {_count(no_answer, 'requirement')}: {no_answer[0].reason}"
    if verdict == "success":
        passed = sum(r.status == "pass" for r in results)
        which = "the one promise that was" if passed == 1 else f"all {passed} promises that were"
        return f"keeps {which} put to the test"
    if known := [r for r in results if r.status == "known"]:
        return (
            f"breaks {_count(known, 'requirement')} in ways that are known: {_ids(_names(known))}"
        )
    if missed := [r for r in results if r.status == "skip" and _rated(r).core]:
        core = [r for r in missed if r.core]
        noun = "core requirement" if core else "MUST requirement"
        return f"{_count(core or missed, noun)} could not be tried: {_ids(_names(core or missed))}"
    return "nothing was put to the test"


def _breaks(
    verdict: Verdict, results: Sequence[RequirementResult], failures: Iterable[Failure]
) -> str:
    """What is broken, with the simplest promise that each cause breaks."""
    failed = [r for r in results if r.status == "fail"]
    asked = sum(r.status not in ("unsupported", "untested") for r in results)
    groups = group_failures(each for each in failures if not each.known)
    core = sum(r.core for r in failed)
    words = broken_words(len(failed), asked, core, len(groups))
    mild = "" if verdict == "failure" else ", none of them a MUST"
    first = [each.first.requirement for each in groups] or [r.requirement for r in failed]
    silent = [r for r in results if r.status == "error"]
    more = f"; no answer for {_count(silent, 'requirement')}" if silent else ""
    return f"{words}{mild}: {_ids(list(dict.fromkeys(first)))}{more}"


def not_asked(info: SubjectInfo, results: Sequence[RequirementResult]) -> list[str]:
    """What was not asked because a subject forgot, or may have forgotten, to claim it."""
    reasons = [each.reason for each in results if each.status == "unsupported"]
    needs = Counter(each.removeprefix(UNCLAIMED) for each in reasons if each.startswith(UNCLAIMED))
    if info.inferred and needs:
        by_need = ", ".join(f"{need} {count}" for need, count in needs.most_common())
        text = (
            "declares no capabilities, so that its methods told them. Requirements that were not "
            f"asked, by the capability that they need: {by_need}. Declare the capabilities that "
            "the store has, as docs/subjects.md shows."
        )
        return [text]
    return [
        f"has {method}, and does not claim {name}. "
        f"Requirements that were not asked for this: {needs[name]}."
        for name, method in info.unclaimed.items()
        if needs[name]
    ]


def _of_part(results: Sequence[RequirementResult], of_core: int) -> str:
    """That a run asked only a part of the requirements; empty for a whole run."""
    asked = sum(r.core and r.status not in ("unsupported", "untested") for r in results)
    return f"; this run asked {asked} of {of_core} core requirements" if of_core else ""


def _count(results: Sequence[RequirementResult], noun: str) -> str:
    return f"{len(results)} {noun}{'' if len(results) == 1 else 's'}"


def _names(results: Iterable[RequirementResult]) -> list[str]:
    return [result.requirement for result in results]


def _ids(ids: Sequence[str], limit: int = 4) -> str:
    return ", ".join(ids[:limit]) + (" …" if len(ids) > limit else "")


def exit_code(verdict: Verdict, results: Mapping[str, Sequence[RequirementResult]]) -> ExitCode:
    """The exit code of the command. Known failures count as passes here."""
    if verdict == "error" and any(
        result.reason.startswith(SUITE_ERROR) for each in results.values() for result in each
    ):
        return ExitCode.SUITE_ERROR
    if verdict == "partial" and any(r.status == "known" for each in results.values() for r in each):
        verdict = worst(best_verdict(map(_forgiven, each)) for each in results.values())
    return _EXIT_CODES[verdict]


def _forgiven(result: RequirementResult) -> RatedStatus:
    """The status, with a known failure turned into a pass. Only the exit code may use this."""
    rated = _rated(result)
    return rated._replace(status="pass") if rated.status == "known" else rated
