"""The rule from statuses to a verdict, for every status, level and kind of requirement."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from streamproof.conformance.results import Level, Verdict
from streamproof.conformance.verdict_rule import (
    LEVELS,
    OUTCOME_ORDER,
    STATUS_ORDER,
    RatedStatus,
    badness,
    best_verdict,
    worst,
)

KEPT = RatedStatus("MUST", True, "pass")
ALL = [RatedStatus(*each) for each in itertools.product(LEVELS, (True, False), STATUS_ORDER)]


def expected_beside_a_pass(rated: RatedStatus) -> Verdict:
    """The verdict on a subject that keeps one requirement, and has this status for another."""
    match rated:
        case RatedStatus("MUST", _, "fail"):
            return "failure"
        case RatedStatus(_, _, "error"):
            return "error"
        case RatedStatus(_, _, "fail" | "known" | "no result") | RatedStatus(_, True, "skip"):
            return "partial"
        case _:
            return "success"


@pytest.mark.parametrize("rated", ALL, ids=str)
def test_one_status_beside_a_pass(rated: RatedStatus) -> None:
    assert best_verdict([KEPT, rated]) == expected_beside_a_pass(rated)


@pytest.mark.parametrize("level", ["SHOULD", "MAY"])
def test_a_broken_should_or_may_is_partial(level: Level) -> None:
    for core in (True, False):
        assert best_verdict([KEPT, RatedStatus(level, core, "fail")]) == "partial"


def test_a_missing_result_is_partial_whatever_the_requirement() -> None:
    for level, core in itertools.product(LEVELS, (True, False)):
        assert best_verdict([KEPT, RatedStatus(level, core, "no result")]) == "partial"


def test_no_status_makes_a_verdict_better_but_a_pass_where_nothing_was_kept() -> None:
    """For every pair of statuses, each beside a pass."""
    for one, other in itertools.product(ALL, repeat=2):
        both = best_verdict([KEPT, one, other])
        assert both == worst([best_verdict([KEPT, one]), best_verdict([KEPT, other])])


def test_without_a_pass_there_is_no_success() -> None:
    not_kept = [each for each in ALL if each.status != "pass"]
    for some in itertools.combinations(not_kept, 2):
        assert best_verdict(some) != "success"
    assert best_verdict([]) == "partial"


def test_the_orders_have_every_value() -> None:
    assert sorted(LEVELS) == sorted(get_args(Level))
    assert set(get_args(Verdict)) | {"incomplete"} == set(OUTCOME_ORDER)
    assert [badness(each) for each in OUTCOME_ORDER] == list(range(len(OUTCOME_ORDER)))
