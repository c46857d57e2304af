"""Hosts die without a last word, stand still, and go on late."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from streamproof.sim.actor_hosts import Host
from streamproof.sim.choices import Choices
from streamproof.sim.time import VirtualTime
from streamproof.stores.errors import InvalidArgumentError


def world() -> tuple[VirtualTime, Host, list[str]]:
    """A host, and what its actors say."""
    time = VirtualTime(Choices.recorded([]))
    return time, Host(time, "instance-0"), []


def ticking(host: Host, said: list[str]) -> Iterator[Any]:
    """Says the time of the world every ten milliseconds, and a last word."""
    try:
        while True:
            yield host.time.timeout(10)
            said.append(str(int(host.time.now)))
    finally:
        said.append("the last word")


def at(host: Host, when: int, what: Any) -> None:
    """Do something to the host from outside."""

    def steps() -> Iterator[Any]:
        yield host.time.timeout(when)
        what()

    host.time.process(steps())


def test_the_dead_say_nothing() -> None:
    """No step and no clean-up, not even when the garbage is collected."""
    time, host, said = world()
    host.start(ticking(host, said))
    at(host, 25, host.crash)
    time.run(until=100)
    gc.collect()
    assert said == ["10", "20"]
    with pytest.raises(InvalidArgumentError, match="instance-0 is dead"):
        host.start(ticking(host, said))


def test_a_pause_ends_late() -> None:
    """What was due meanwhile happens at the end of the pause; then it goes on as before."""
    time, host, said = world()
    host.start(ticking(host, said))
    at(host, 15, host.pause)
    at(host, 55, host.resume)
    time.run(until=80)
    assert said == ["10", "55", "65", "75"]


def test_nothing_due_in_a_pause() -> None:
    """A short pause between two steps changes nothing; to resume twice neither."""
    time, host, said = world()
    host.start(ticking(host, said))
    at(host, 11, host.pause)
    at(host, 13, host.resume)
    at(host, 14, host.resume)
    time.run(until=25)
    assert said == ["10", "20"]


def test_a_crash_in_a_pause() -> None:
    """It does not come back."""
    time, host, said = world()
    host.start(ticking(host, said))
    at(host, 15, host.pause)
    at(host, 25, host.crash)
    at(host, 35, host.resume)
    time.run(until=100)
    assert said == ["10"]


def test_a_failure_that_nobody_hears() -> None:
    """An actor that is dead or paused does not end the simulation with what it waited for."""
    for stop in ("crash", "pause"):
        time, host, said = world()
        reply = time.event()

        def asking(reply: Any = reply, said: list[str] = said) -> Iterator[Any]:
            try:
                yield reply
            except RuntimeError as error:
                said.append(str(error))

        host.start(asking())
        at(host, 5, getattr(host, stop))
        at(host, 10, lambda reply=reply: reply.fail(RuntimeError("refused")))
        at(host, 20, host.resume)
        time.run(until=30)
        assert said == ([] if stop == "crash" else ["refused"])


def test_an_actor_may_wait_for_another() -> None:
    """And gets what the other one returns."""
    time, host, said = world()

    def inner() -> Iterator[Any]:
        yield time.timeout(3)
        return "done"

    def outer() -> Iterator[Any]:
        said.append((yield host.start(inner())))

    host.start(outer())
    time.run()
    assert said == ["done"]


def test_a_clock_that_drifts() -> None:
    """It is ahead by so many millionths."""
    time = VirtualTime(Choices.recorded([]))
    host = Host(time, "instance-0", drift_ppm=200)
    time.run(until=50_000)
    assert host.now == 50_010
