"""Metadata versions: examples of what members of different releases say to each other.

That they agree is in ``streamproof.conformance.runtime_checks.metadata_version_checks``.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproof.errors import UsageError
from streamproof.sim.decisions.lag import LATEST_OFFSET, UNKNOWN_OFFSET_SUM
from streamproof.sim.decisions.versions import (
    EARLIEST_PROBEABLE_VERSION,
    LATEST_SUPPORTED_VERSION,
    OFFSET_SUM_VERSION,
    Answer,
    Next,
    Spoken,
    answer_of,
    next_version,
)
from streamproof.sim.tasks.assignor import encoded

VERSIONS = st.integers(EARLIEST_PROBEABLE_VERSION, LATEST_SUPPORTED_VERSION)


@pytest.mark.parametrize(
    ("group", "answer"),
    [
        ([Spoken(11, 11), Spoken(11, 11)], Answer(11, 11, probing=False)),
        ([Spoken(6, 6), Spoken(11, 11)], Answer(6, 6, probing=True)),
        ([Spoken(11, 11), Spoken(6, 6)], Answer(6, 6, probing=False)),
        ([Spoken(6, 11), Spoken(6, 11)], Answer(6, 11, probing=False)),
        ([Spoken(2, 2), Spoken(2, 2)], Answer(2, 2, probing=False)),
        ([Spoken(3, 3), Spoken(2, 2)], Answer(2, 2, probing=False)),
    ],
    ids=["all new", "an old leader", "a new leader", "all bounced", "all old", "upgrade.from"],
)
def test_the_leader_answers_in_the_oldest_version(group: list[Spoken], answer: Answer) -> None:
    """The first of the group leads."""
    assert answer_of(group, group[0].supported) == answer


@pytest.mark.parametrize(
    ("used", "answer", "expected"),
    [
        (11, Answer(11, 11, probing=False), Next(11, rejoin=False)),
        (11, Answer(6, 6, probing=True), Next(6, rejoin=True)),
        (11, Answer(6, 7, probing=False), Next(7, rejoin=True)),
        (6, Answer(6, 6, probing=True), Next(6, rejoin=False)),
        (6, Answer(6, 11, probing=False), Next(11, rejoin=True)),
        (3, Answer(2, 2, probing=False), Next(3, rejoin=False)),
    ],
    ids=["agreed", "down", "down to all", "others are probed", "up", "before probing"],
)
def test_a_member_speaks_what_all_support(used: int, answer: Answer, expected: Next) -> None:
    """It rejoins if that is another version than it has used."""
    assert next_version(used, answer) == expected


def test_without_version_probing_nothing_can_be_agreed() -> None:
    """A leader that cannot read one member, and cannot answer another one, gives up."""
    with pytest.raises(UsageError, match=r"speaks metadata version 11.*upgrade\.from"):
        answer_of([Spoken(2, 2), Spoken(11, 11)], 2)


@given(
    st.dictionaries(st.sampled_from(["0_0", "0_1"]), st.sampled_from([LATEST_OFFSET, 0, 7])),
    VERSIONS,
)
def test_old_versions_have_no_sums(sums: dict[str, int], version: int) -> None:
    """Only whether a task runs; the rest is unknown, which is not the same (KAFKA-10319)."""
    found = encoded(sums, version)
    assert found.keys() == sums.keys()
    for task, total in sums.items():
        if version >= OFFSET_SUM_VERSION or total == LATEST_OFFSET:
            assert found[task] == total
        else:
            assert found[task] == UNKNOWN_OFFSET_SUM
