"""The algebra of verdicts: no way leads from something that was not shown to a pass."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.conformance.catalogue import Requirement
from streamproof.conformance.check_records import CheckEvidence, CheckFinding, CheckOutcome
from streamproof.conformance.program_text import ONLY_SHOWN
from streamproof.conformance.results import RequirementResult, Status, Verdict
from streamproof.conformance.verdict_rule import worst
from streamproof.conformance.verdicts import (
    SUITE_ERROR,
    applicable,
    exit_code,
    failure_of,
    result_of,
    untested_result,
    verdict_of,
)
from streamproof.stores.capabilities import Capabilities

MODEL = settings.get_profile("conformance")
EOS, KIPS = "exactly-once", "kips"


def requirement(identifier: str = "KV-001", **fields: Any) -> Requirement:
    """A requirement with two checks."""
    texts = {"title": "title", "promise": "promise", "source": "source"}
    defaults = {"level": "MUST", "core": True, "checks": ["kv.one", "kv.two"], **texts}
    return Requirement(id=identifier, **{**defaults, **fields})


def finding(identifier: str = "KV-001", program: str = "program") -> CheckFinding:
    """A broken promise."""
    return CheckFinding(
        requirement=identifier, tried="tried", expected="1", found="2", program=program
    )


def outcome(kind: str, identifier: str = "KV-001", kills: int = 0) -> CheckOutcome:
    """The outcome of a check that held, failed, gave no answer, was skipped, or came to nothing."""
    fields: dict[str, Any] = {
        "pass": {},
        "fail": {"findings": [finding(identifier)]},
        "subject error": {"subject_error": "put() did not return"},
        "suite error": {"suite_error": "KeyError: 1\nTraceback"},
        "skip": {"skipped": "no compiler"},
        "nothing": {},
        "other fails": {"findings": [finding("KV-002")]},
    }
    exercised = {identifier} if kind == "pass" else set()
    evidence = CheckEvidence(exercised=exercised, crash_points={"line": kills} if kills else {})
    return CheckOutcome(check=f"kv.{kind}", evidence=evidence, **fields[kind])


KINDS = ["pass", "fail", "subject error", "suite error", "skip", "nothing", "other fails"]


def status_of(*kinds: str) -> Status:
    """The status of a requirement whose checks ended like this."""
    return result_of("s", requirement(), [outcome(kind) for kind in kinds]).status


@pytest.mark.parametrize("kinds", list(itertools.product(KINDS, repeat=2)), ids="+".join)
def test_a_failure_outweighs_an_error_and_an_error_all_else(kinds: tuple[str, str]) -> None:
    """Fail before error; the rest passes only if some check put it to the test."""
    if "fail" in kinds:
        expected = "fail"
    elif any("error" in kind for kind in kinds):
        expected = "error"
    else:
        expected = "pass" if "pass" in kinds else "skip"
    assert status_of(*kinds) == expected


def test_the_order_of_checks_does_not_matter() -> None:
    """Whichever check ends first."""
    for kinds in itertools.product(KINDS, repeat=3):
        assert len({status_of(*order) for order in itertools.permutations(kinds)}) == 1


def test_no_outcome_is_no_pass() -> None:
    """A requirement of which nothing is known is skipped, and says why."""
    result = result_of("s", requirement(), [])
    assert result.status == "skip"
    assert result.reason


def test_what_was_skipped_beside_a_pass_is_named() -> None:
    """A pass on part of the evidence tells which part is missing."""
    result = result_of("s", requirement(), [outcome("pass"), outcome("skip")])
    assert "no compiler" in result.reason


@pytest.mark.parametrize("area", ["CRASH-001", "CRASH-009"])
def test_without_a_crash_nothing_is_shown_about_crashes(area: str) -> None:
    """Zero crash points never pass, whatever a check says; one does."""
    each = requirement(area)
    assert result_of("s", each, [outcome("pass", area)]).status == "skip"
    assert result_of("s", each, [outcome("pass", area, kills=1)]).status == "pass"
    assert result_of("s", each, [outcome("fail", area)]).status == "fail"


def test_evidence_is_the_sum_over_the_checks() -> None:
    """Kills, examples and operations of all checks count."""
    first = CheckEvidence(examples=2, operations=3, crash_points={"line": 4})
    second = CheckEvidence(examples=1, operations=1, crash_points={"line": 1, "boundary": 2})
    outcomes = [
        CheckOutcome(check="a", evidence=first, duration_s=0.5),
        CheckOutcome(check="b", evidence=second, duration_s=0.25),
    ]
    result = result_of("s", requirement(), outcomes)
    assert (result.examples, result.operations, result.duration_s) == (3, 4, 0.75)
    assert result.crash_points == {"boundary": 2, "line": 5}
    assert result.checks == ["a", "b"]


def test_the_shortest_program_is_shown() -> None:
    """Of several findings the one that is easiest to read; none is None."""
    outcomes = [
        CheckOutcome(check="a", evidence=CheckEvidence(), findings=[finding(program="a long one")]),
        CheckOutcome(check="b", evidence=CheckEvidence(), findings=[finding(program="short")]),
        CheckOutcome(check="c", evidence=CheckEvidence(), findings=[finding("KV-002", "x")]),
        CheckOutcome(check="d", evidence=CheckEvidence(), findings=[finding(program="")]),
    ]
    failure = failure_of("s", requirement(), outcomes, "command")
    assert failure is not None
    assert (failure.check, failure.program, failure.reproduce) == ("b", "short", "command")
    assert failure_of("s", requirement("KV-009"), outcomes, "command") is None


def test_a_program_that_asserts_comes_before_one_that_only_shows() -> None:
    """A longer program that fails by itself is worth more than the story of a few threads."""
    asserting = "store = lab.open()\nassert store.get(b'a') != b'2'"
    outcomes = [
        CheckOutcome(check="a", evidence=CheckEvidence(), findings=[finding(program=ONLY_SHOWN)]),
        CheckOutcome(check="b", evidence=CheckEvidence(), findings=[finding(program=asserting)]),
    ]
    failure = failure_of("s", requirement(), outcomes, "command")
    assert failure is not None
    assert failure.program == asserting


def test_what_does_not_apply_is_unsupported_and_what_has_no_check_untested() -> None:
    """Neither needs a check, neither is a pass, and each says why."""
    capabilities = Capabilities(persistent=False)
    cases = [
        (requirement(needs=["persistent"]), "unsupported"),
        (requirement(needs=["!scan"]), "unsupported"),
        (requirement(guarantees=["at-least-once"]), "unsupported"),
        (requirement(specs=["kafka-4.4"]), "unsupported"),
        (requirement(checks=[], untested="no check"), "untested"),
        (requirement(checks=[], untested="no check", needs=["persistent"]), "unsupported"),
    ]
    for each, expected in cases:
        result = untested_result("s", each, capabilities, EOS, KIPS)
        assert result is not None
        assert result.status == expected
        assert result.reason
    assert untested_result("s", requirement(), capabilities, EOS, KIPS) is None
    asked = [each for each, _ in cases] + [requirement("KV-002")]
    assert [each.id for each in applicable(asked, capabilities, EOS, KIPS)] == ["KV-002"]


def result(status: Status, level: str = "MUST", core: bool = True, reason: str = "") -> Any:
    """The result of one requirement."""
    texts = {"title": "title", "promise": "promise", "source": "source", "subject": "s"}
    return RequirementResult(
        requirement="KV-001", level=level, core=core, status=status, reason=reason, **texts
    )


def verdict(*results: Any) -> Verdict:
    """The verdict on a subject with these results."""
    return verdict_of("s", list(results)).verdict


PASS = result("pass")


@pytest.mark.parametrize(
    ("expected", "results"),
    [
        ("success", [PASS]),
        ("success", [PASS, result("skip", core=False)]),
        ("success", [PASS, result("unsupported"), result("untested")]),
        ("partial", [PASS, result("skip")]),
        ("partial", [PASS, result("fail", "SHOULD")]),
        ("partial", [PASS, result("fail", "MAY", core=False)]),
        ("partial", []),
        ("partial", [result("unsupported")]),
        ("partial", [result("untested"), result("unsupported"), result("skip", core=False)]),
        ("error", [PASS, result("error")]),
        ("error", [result("error", core=False), result("fail", "SHOULD"), result("skip")]),
        ("failure", [PASS, result("fail")]),
        ("failure", [result("fail", core=False), result("error"), result("skip")]),
    ],
)
def test_the_verdict_on_a_subject(expected: Verdict, results: list[Any]) -> None:
    """A broken MUST, no answer, a broken SHOULD or MAY, a core skip, or nothing tried."""
    assert verdict(*results) == expected
    assert verdict_of("s", results).summary


STATUSES: list[Status] = ["pass", "fail", "error", "skip", "unsupported", "untested"]
RESULTS = st.lists(
    st.builds(
        result, st.sampled_from(STATUSES), st.sampled_from(["MUST", "SHOULD", "MAY"]), st.booleans()
    ),
    max_size=6,
)
ORDER: list[Verdict] = ["success", "partial", "error", "failure"]


WHY = "no C compiler was found; install gcc"


def lacking(status: Status, level: str = "MUST", core: bool = True, number: int = 1) -> Any:
    """The result of a requirement that this machine could not try in full."""
    found = result(status, level, core)
    return msgspec.structs.replace(found, requirement=f"POWER-{number:03}", lacking=WHY)


@pytest.mark.parametrize(
    ("expected", "left_out"),
    [
        ("partial", lacking("skip")),
        ("partial", lacking("skip", core=False)),
        ("success", lacking("skip", "SHOULD", core=False)),
        ("success", lacking("pass")),
    ],
)
def test_what_a_machine_lacks_counts_against_each_must(expected: Verdict, left_out: Any) -> None:
    assert verdict(PASS, left_out) == expected


def test_what_a_machine_lacks_stands_beside_the_verdict() -> None:
    """With the reason, the remedy, and the requirements: those not tried, and those in part."""
    assert verdict_of("s", [PASS]).untried == ""
    found = verdict_of("s", [PASS, lacking("pass", number=1), lacking("skip", number=2)])
    assert found.untried == (
        f"this machine could not try everything ({WHY}); not tried: 1 requirement (POWER-002); "
        "tried only in part: 1 requirement (POWER-001)"
    )
    assert found.sentence == f"{found.summary}; {found.untried}"


def test_the_verdict_on_a_part_says_so() -> None:
    found = verdict_of("s", [PASS, result("unsupported")], 49)
    assert found.of_core == 49
    assert found.summary.endswith("; this run asked 1 of 49 core requirements")
    assert "this run asked" not in verdict_of("s", [PASS]).summary


@pytest.mark.parametrize("skipped", ["", WHY])
def test_what_a_check_left_out_reaches_the_result(skipped: str) -> None:
    """Also if the check went on without it."""
    left_out = CheckOutcome(check="kv.two", evidence=CheckEvidence(lacking=WHY), skipped=skipped)
    found = result_of("s", requirement(), [outcome("pass"), left_out])
    assert found.status == "pass"
    assert found.lacking == WHY
    how = "skipped" if skipped else "left out system calls"
    assert found.reason == f"kv.two {how}: {WHY}"


@pytest.mark.parametrize("skipped", ["", WHY])
def test_a_saved_failure_that_was_not_tried_is_no_pass(skipped: str) -> None:
    """Whatever else was tried, and only for the requirement that it broke."""
    again = CheckOutcome(
        check="kv.one",
        evidence=CheckEvidence(lacking=WHY),
        skipped=skipped,
        replayed="KV-001-missing-value",
    )
    found = result_of("s", requirement(), [again, outcome("pass")])
    assert found.status == "skip"
    assert found.reason == f"KV-001-missing-value was not tried again: {WHY}"
    assert status_of("pass") == "pass"
    other = result_of("s", requirement("KV-002"), [again, outcome("pass", "KV-002")])
    assert other.status == "pass"


@MODEL
@given(RESULTS)
def test_success_is_never_given_away(results: list[Any]) -> None:
    """Success needs a pass, no error, no core skip, no failure; counts add up."""
    found = verdict_of("s", results)
    if found.verdict == "success":
        assert any(each.status == "pass" for each in results)
        assert not any(each.status == "error" for each in results)
        assert not any(each.status == "fail" for each in results)
        assert not any(each.status == "skip" and each.core for each in results)
    assert sum(found.core.values()) + sum(found.extended.values()) == len(results)
    passes = sum(each.status == "pass" for each in results)
    assert found.core.get("pass", 0) + found.extended.get("pass", 0) == passes


@MODEL
@given(RESULTS, st.sampled_from(["fail", "error", "skip", "unsupported", "untested"]))
def test_bad_news_never_improve_a_verdict(results: list[Any], status: Status) -> None:
    """One more result that is not a pass leaves the verdict as it is, or makes it worse."""
    before, after = verdict(*results), verdict(*results, result(status))
    assert ORDER.index(after) >= ORDER.index(before)


def test_the_worst_verdict_counts() -> None:
    """Failure, then error, then partial, then success."""
    for count in (1, 2, 3, 4):
        for each in itertools.permutations(ORDER, count):
            assert worst(each) == max(each, key=ORDER.index)


def test_exit_codes() -> None:
    """0, 1, 2; an error is 1, but 70 where it is the suite's own; a failure stays 1 in any case."""
    ours = {"s": [result("error", reason=f"{SUITE_ERROR}KeyError")]}
    theirs = {"s": [result("error", reason="kv.x: put() did not return")]}
    assert [exit_code(each, theirs) for each in ORDER] == [0, 2, 1, 1]
    assert [exit_code(each, ours) for each in ORDER] == [0, 2, 70, 1]
    assert exit_code("error", {**theirs, "t": ours["s"]}) == 70


@pytest.mark.parametrize(("kind", "code"), [("suite error", 70), ("subject error", 1)])
def test_whose_error_it_was_reaches_the_exit_code(kind: str, code: int) -> None:
    """From the outcome of a check to what the command ends with."""
    results = [result_of("s", requirement(), [outcome(kind), outcome("pass")])]
    found = verdict_of("s", results).verdict
    assert found == "error"
    assert exit_code(found, {"s": results}) == code
