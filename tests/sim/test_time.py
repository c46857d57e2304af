"""Virtual time: ties are broken by choices, and by nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simpy.core import EmptySchedule
from simpy.events import Event

from streamproof.sim.choices import Choices
from streamproof.sim.time import TIE_WINDOW, VirtualTime

Seen = list[tuple[float, str]]


def run(choices: Choices, delays: dict[str, list[int]]) -> Seen:
    """Who woke up when: each actor sleeps for its delays, one after the other."""
    time = VirtualTime(choices)
    seen: Seen = []

    def actor(name: str) -> Iterator[Any]:
        for delay in delays[name]:
            yield time.timeout(delay)
            seen.append((time.now, name))

    for name in delays:
        time.process(actor(name))
    time.run()
    return seen


def test_the_plainest_order_is_that_of_simpy() -> None:
    """With 0 for every choice, events of one moment come as they were scheduled."""
    seen = run(Choices.recorded([]), {"a": [2, 0], "b": [1, 1], "c": [2, 5]})
    assert seen == [(1, "b"), (2, "a"), (2, "c"), (2, "b"), (2, "a"), (7, "c")]


def test_every_order_of_a_tie_comes_about() -> None:
    """Four actors at one moment: all 24 orders, over some seeds."""
    delays = {name: [1] for name in "abcd"}
    orders = {tuple(name for _, name in run(Choices.seeded(n), delays)) for n in range(400)}
    assert orders == set(itertools.permutations("abcd"))


def test_the_last_of_many_can_be_first() -> None:
    """A tie of more events than are looked at in one step: any of them may come early or late."""
    names = [f"{number:02}" for number in range(3 * TIE_WINDOW)]
    delays = {name: [1] for name in names}
    places = [
        [name for _, name in run(Choices.seeded(n), delays)].index(names[0]) for n in range(300)
    ]
    assert min(places) == 0
    assert max(places) > TIE_WINDOW


def test_what_is_not_tied_is_no_choice() -> None:
    """Different moments leave nothing open."""
    choices = Choices.seeded(0)
    run(choices, {"a": [1, 2], "b": [2, 3]})
    assert choices.count == 0


@given(
    st.lists(st.lists(st.integers(0, 2), max_size=4), max_size=5),
    st.lists(st.integers(0, 9), max_size=40),
)
def test_time_never_goes_back(delays: list[list[int]], choices: list[int]) -> None:
    """Whatever is chosen, each actor wakes when its delays are over, and time goes forward."""
    seen = run(Choices.recorded(choices), {str(i): some for i, some in enumerate(delays)})
    assert [moment for moment, _ in seen] == sorted(moment for moment, _ in seen)
    for number, some in enumerate(delays):
        mine = [moment for moment, name in seen if name == str(number)]
        assert mine == list(itertools.accumulate(some))


@given(st.integers(0, 1000))
def test_a_seed_is_a_run(seed: int) -> None:
    """Twice the same, and again from what was recorded."""
    delays = {name: [1, 1, 0, 2] for name in "abcdef"}
    choices = Choices.seeded(seed, recording=True)
    seen = run(choices, delays)
    assert run(Choices.seeded(seed), delays) == seen
    assert run(Choices.recorded(choices.drawn), delays) == seen


def test_nothing_left_to_do() -> None:
    """An empty schedule says so, as simpy's does."""
    with pytest.raises(EmptySchedule):
        VirtualTime(Choices.seeded(0)).step()


def test_what_an_actor_raises_arrives_as_it_is() -> None:
    """Not as a copy without its attributes."""

    class LostError(Exception):
        pass

    error = LostError("why")

    def fail(time: VirtualTime) -> Iterator[Event]:
        yield time.timeout(1)
        raise error from ValueError("because")

    time = VirtualTime(Choices.recorded([]))
    time.process(fail(time))
    with pytest.raises(LostError) as found:
        time.run()
    assert found.value is error
    assert isinstance(error.__cause__, ValueError)
