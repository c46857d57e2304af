"""Commands reach the instances of a real application, whatever is done to them meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamproof.scenarios.kafka.nemesis import Health, RealNemesis
from streamproof.scenarios.kafka.processes import Processes, RealProcess

NAME = "instance-0"

ENDED_S = 60.0
"""A killed process ends in much less, in seconds."""


class Sleepers:
    """Instances that sleep."""

    starting_s = 0.0
    is_ready = True

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self.started: list[RealProcess] = []

    def begin(self, name: str) -> RealProcess:
        number = len(self.started)
        self.started.append(self._processes.start(f"{name}-{number}", ["sleep", "600"]))
        return self.started[-1]

    def health(self, _: str, __: RealProcess) -> Health:
        return "up"


class World:
    """One instance that runs, and the recorder in it, which the tests play."""

    def __init__(self, processes: Processes) -> None:
        self.directory = processes.directory
        self.instances = Sleepers(processes)
        self.nemesis = RealNemesis(self.instances, self.directory, [NAME])
        self.nemesis.start(NAME)
        self.nemesis.look()

    @property
    def asked(self) -> str:
        """What the instance is asked to do now; empty if nothing."""
        path = self.directory / f"tell-{NAME}"
        return path.read_text() if path.exists() else ""

    def do(self) -> None:
        """Carry out what the instance is asked."""
        (self.directory / f"tell-{NAME}").unlink()
        (self.directory / f"told-{NAME}").touch()
        assert self.nemesis.look() == []


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Processes(tmp_path) as processes:
        yield World(processes)


def test_a_command_waits_for_the_one_before(world: World) -> None:
    world.nemesis.command(NAME, "pause")
    world.nemesis.command(NAME, "resume")
    assert world.asked == "pause"
    assert world.nemesis.is_commanding

    world.do()
    assert world.asked == "resume"
    world.do()
    assert world.asked == ""
    assert not world.nemesis.is_commanding


def test_an_instance_that_stands_still_is_asked_once_it_goes_on(world: World) -> None:
    """An instance whose resumption got lost would stay paused, and count as stuck."""
    world.nemesis.command(NAME, "pause")
    world.do()
    world.nemesis.freeze(NAME)
    world.nemesis.command(NAME, "resume")
    assert world.asked == ""
    # Else the time of the scenario would stand still, and the instance for ever.
    assert not world.nemesis.is_busy

    world.nemesis.thaw(NAME)
    assert world.asked == "resume"


def test_a_new_process_does_nothing_that_the_one_before_was_asked(world: World) -> None:
    world.nemesis.freeze(NAME)
    world.nemesis.command(NAME, "resume")
    world.nemesis.crash(NAME)
    world.nemesis.command(NAME, "resume")
    world.nemesis.start(NAME)
    world.nemesis.look()

    assert world.nemesis.up == [NAME]
    assert world.asked == ""
    assert not world.nemesis.is_commanding


def test_nobody_waits_for_a_process_that_has_ended(world: World) -> None:
    world.nemesis.command(NAME, "pause")
    world.instances.started[0].kill()
    deadline = time.monotonic() + ENDED_S
    wrong: list[str] = []
    while not wrong and time.monotonic() < deadline:
        wrong = world.nemesis.look()

    assert [each.partition(".")[0] for each in wrong] == [f"{NAME} ended by itself"]
    assert not world.nemesis.is_commanding
    assert world.nemesis.look() == []
