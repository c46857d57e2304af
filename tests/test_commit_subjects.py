from __future__ import annotations

import pytest
from commit_subjects import problem_of


@pytest.mark.parametrize(
    "subject",
    [
        "Refuse a commit below the committed offset",
        "Pass the changelog to the oracle",
        "Re-check traces run by run",
        "Keep 72 characters: " + "x" * 52,
    ],
)
def test_an_imperative_of_72_characters_is_right(subject: str) -> None:
    assert problem_of(subject) == ""


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        ("Keep 73 characters: " + "x" * 53, "73 characters"),
        ("Refuse a commit.", "full stop"),
        ("refuse a commit", "capitalised"),
        ("Refuses a commit", "'Refuses' is no imperative"),
        ("Refused a commit", "'Refused' is no imperative"),
        ("Refusing a commit", "'Refusing' is no imperative"),
        ("What was refused before", "'What' is no imperative"),
        ("", "capitalised"),
    ],
)
def test_other_subjects_are_refused_with_the_reason(subject: str, problem: str) -> None:
    assert problem in problem_of(subject)
