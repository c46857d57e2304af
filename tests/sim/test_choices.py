"""Choices are the same for the same seed, replay from a list, and shrink to the plainest."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from streamproof.sim.choices import Choices
from streamproof.stores.errors import InvalidArgumentError

KNOWN = [1, 9, 8, 2, 5, 4, 7, 8]
"""What seed 1 chooses among eleven: a constant, so that no machine may differ."""


def some_of_each(choices: Choices) -> list[object]:
    """Choices of every kind."""
    return [
        choices.below(7),
        choices.between(-3, 3),
        choices.chance(0.5),
        choices.pick("abc"),
        choices.shuffled(range(5)),
        choices.below(1),
        choices.chance(0),
        choices.chance(1),
    ]


def test_a_seed_chooses_the_same_everywhere() -> None:
    """The numbers are written down, and a process with another hash seed agrees."""
    choices = Choices.seeded(1)
    assert [choices.below(11) for _ in KNOWN] == KNOWN
    program = (
        "from streamproof.sim.choices import Choices; c = Choices.seeded(1); "
        f"print([c.below(11) for _ in range({len(KNOWN)})])"
    )
    for hash_seed in ("0", "1", "77"):
        done = subprocess.run(
            [sys.executable, "-P", "-c", program],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            text=True,
        )
        assert done.stdout.strip() == str(KNOWN)


@given(st.integers(0, 2**64))
def test_what_was_recorded_replays(seed: int) -> None:
    """All methods give the same again, and draw the same."""
    first = Choices.seeded(seed, recording=True)
    expected = [some_of_each(first) for _ in range(3)]
    again = Choices.recorded(first.drawn)
    assert [some_of_each(again) for _ in range(3)] == expected
    assert again.drawn == first.drawn
    assert again.count == first.count == len(first.drawn)


@given(st.lists(st.integers(0, 2**31)))
def test_any_list_is_a_run(numbers: list[int]) -> None:
    """Numbers that are too large are cut, and missing ones are 0."""
    choices = Choices.recorded(numbers)
    number, offset, happened, letter, order, *certain = some_of_each(choices)
    assert isinstance(number, int)
    assert 0 <= number < 7
    assert isinstance(offset, int)
    assert -3 <= offset <= 3
    assert happened in (True, False)
    assert letter in ("a", "b", "c")
    assert isinstance(order, list)
    assert sorted(order) == [0, 1, 2, 3, 4]
    assert certain == [0, False, True]


def test_nothing_recorded_is_the_plainest_run() -> None:
    """First in line, least of a range, nothing happens, order kept."""
    plain = [0, -3, False, "a", [0, 1, 2, 3, 4], 0, False, True]
    assert some_of_each(Choices.recorded([])) == plain


def test_hypothesis_makes_a_run_plain() -> None:
    """Of all runs in which the third of four things happens once, the plainest is found."""
    found: list[list[int]] = []

    def recorded(data: st.DataObject) -> bool:
        choices = Choices.hypothesis(data)
        if sum(choices.pick("wxyz") == "y" for _ in range(5)) < 1:
            return False
        found.append(list(choices.drawn))
        return True

    find(st.data(), recorded, settings=settings(database=None, derandomize=True))
    assert sorted(found[-1]) == [0, 0, 0, 0, 2]


@pytest.mark.parametrize(("probability", "least", "most"), [(0.25, 2300, 2700), (1e-4, 0, 6)])
def test_a_chance_is_as_likely_as_it_says(probability: float, least: int, most: int) -> None:
    """Ten thousand tries of one seed; the bounds are three standard deviations or more away."""
    choices = Choices.seeded(3)
    assert least <= sum(choices.chance(probability) for _ in range(10_000)) <= most


def test_nothing_to_choose_from() -> None:
    """No options, or more than 31 bits of them, are a mistake of the caller."""
    choices = Choices.seeded(0)
    with pytest.raises(InvalidArgumentError, match="nothing to choose from 0"):
        choices.below(0)
    with pytest.raises(InvalidArgumentError, match="are more than"):
        choices.below(2**31 + 1)
