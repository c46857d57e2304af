"""Recorded choices as text: there and back, good to compare, and refused with the place."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproof.errors import UsageError
from streamproof.scenarios.choice_codec import WIDTH, decode, encode
from streamproof.sim.choices import Choices
from streamproof.sim.simulation import run
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world_plan import Plan

PAIRS = st.integers(2, 2**31).flatmap(
    lambda options: st.tuples(st.just(options), st.integers(0, options - 1))
)


@given(st.lists(PAIRS | st.just((65_536, 0)), max_size=300))
def test_what_is_written_is_read(pairs: list[tuple[int, int]]) -> None:
    """Whatever was recorded, in lines that fit on a page."""
    text = encode(pairs)
    assert decode(text) == pairs
    assert all(len(line) <= WIDTH for line in text.splitlines())


def test_equal_choices_in_a_row_are_one_word() -> None:
    """And those that are 0 say no more than how many options there were."""
    pairs = [(8_000, 41), *[(65_536, 0)] * 12, (3, 2), (3, 2), (2, 0)]
    assert encode(pairs) == "8000:41 65536*12 3:2*2 2"


def test_a_run_is_the_same_from_its_text() -> None:
    """With the same plan, strictly."""
    plan = Plan(safety_ms=2_000, workload=WorkloadConfig(records=5))
    choices = Choices.seeded(3, recording=True)
    first = run(choices, plan)
    again = run(Choices.strict(decode(encode(choices.pairs))), plan)
    assert again.digest == first.digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8 9:1\n4 x:2 3", "'x:2' is no choice: word 2 in line 2"),
        ("8 5:5", "'5:5' cannot be a choice: word 2 in line 1"),
        ("1", "'1' cannot be a choice: word 1 in line 1"),
        ("4*0", "'4*0' cannot be a choice: word 1 in line 1"),
        ("4\n\n4:-1", "'4:-1' is no choice: word 1 in line 3"),
        ("2*99999999", "more than 10,000,000 choices up to word 1 in line 1"),
    ],
)
def test_what_is_no_choice_is_refused(text: str, message: str) -> None:
    """With the place."""
    with pytest.raises(UsageError, match=re.escape(message)):
        decode(text)
