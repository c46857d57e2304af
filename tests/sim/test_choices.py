"""Choices are the same for the same seed, replay from a list, and shrink to the plainest."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from streamproof.sim.broker_errors import DivergedError
from streamproof.sim.choices import Choices
from streamproof.sim.simulation import run
from streamproof.sim.world_plan import Plan
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


@given(st.integers(0, 2**64))
def test_what_was_recorded_replays_strictly(seed: int) -> None:
    """With the number of options beside each choice, and without the plainest at the end."""
    first = Choices.seeded(seed, recording=True)
    expected = [some_of_each(first) for _ in range(3)]
    assert list(first.offered) == [7, 7, 1 << 16, 3, 5, 4, 3, 2] * 3
    pairs = first.pairs
    while pairs and pairs[-1][1] == 0:
        pairs.pop()
    again = Choices.strict(pairs)
    assert [some_of_each(again) for _ in range(3)] == expected
    assert again.pairs == first.pairs


def test_a_recorded_world_replays_strictly() -> None:
    """The double run of a whole world: the same digest, and the same choices."""
    first = Choices.seeded(3, recording=True)
    outcome = run(first, Plan(safety_ms=5_000))
    again = Choices.strict(first.pairs)
    assert run(again, Plan(safety_ms=5_000)).digest == outcome.digest
    assert again.pairs == first.pairs


def test_a_world_of_another_configuration_diverges() -> None:
    """An actor makes most choices; what is raised there ends the run all the same."""
    first = Choices.seeded(3, recording=True)
    run(first, Plan(safety_ms=5_000))
    with pytest.raises(DivergedError, match=r"do not fit this run: choice [0-9]+ is"):
        run(Choices.strict(first.pairs), Plan(safety_ms=5_000, partitions=2))


def test_a_recording_that_does_not_fit_is_refused() -> None:
    """At the first choice of which it says something else, by its index."""
    choices = Choices.strict([(3, 2), (4, 1)])
    assert choices.below(3) == 2
    with pytest.raises(DivergedError, match="choice 1 is 1 of 4 options, but now has 5 options"):
        choices.below(5)


@pytest.mark.parametrize("choice", [-1, 3])
def test_a_choice_that_is_no_option_is_refused(choice: int) -> None:
    """A file that was written by hand may say anything."""
    with pytest.raises(DivergedError, match=f"choice 0 is {choice} of 3 options"):
        Choices.strict([(3, choice)]).below(3)


def test_past_a_strict_recording_everything_is_plain() -> None:
    """Recordings are cut behind the last choice that is not 0."""
    choices = Choices.strict([(3, 2)])
    assert [choices.below(3), choices.below(9), choices.chance(0.5)] == [2, 0, False]


def test_nothing_is_kept_unless_asked() -> None:
    """A long run does not grow with its choices."""
    choices = Choices.seeded(0)
    choices.below(3)
    assert (choices.count, choices.pairs) == (1, [])


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
    with pytest.raises(InvalidArgumentError, match="No choice is possible from 0"):
        choices.below(0)
    with pytest.raises(InvalidArgumentError, match="are too many"):
        choices.below(2**31 + 1)
