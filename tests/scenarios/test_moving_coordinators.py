"""Coordinators move to the first broker when the second one is killed, and nothing else waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from streamproof.errors import UsageError
from streamproof.scenarios.kafka import moving_coordinators
from streamproof.scenarios.kafka.application import Clients, RealRecord
from streamproof.scenarios.kafka.cluster import (
    COORDINATORS,
    ROLES,
    TWO_BROKERS,
    Broker,
    coordinator_of,
    start_broker,
    start_second,
)
from streamproof.scenarios.kafka.moving_coordinators import MovingCoordinators
from streamproof.scenarios.kafka.processes import Processes, RealProcess
from streamproof.scenarios.kafka.real_settings import why_not, why_not_shared
from streamproof.scenarios.scenario import Cut, Fault
from streamproof.scenarios.scenario_reader import find, read
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE

PATIENCE_S = 120.0
"""Coordinators move in 3 s, and much later on a busy machine."""

MOVES = Fault(at=1, site="broker.failed_over")


@pytest.fixture
def processes() -> Iterator[Processes]:
    with Processes() as made:
        yield made


def test_real_coordinators_move_and_nothing_else_waits(processes: Processes) -> None:
    """A record is written after the kill; then coordinators and the killed broker are back."""
    first = start_broker(processes, DEFAULT_RELEASE, settings=TWO_BROKERS)
    second = start_second(processes, first)
    clients, told = Clients(processes, first), Told()
    sender = clients.serve_senders({"in": 2}, COORDINATORS)
    moving = MovingCoordinators(processes, first, second, sender, told)
    assert [coordinator_of(first.address, each) for each in ROLES] == [2, 2]

    moving.move()
    wait_until(lambda: moving.are_away, moving)
    assert not second.process.is_running
    # The only log of the partition is on the first broker by now, so nobody waits for the second.
    clients.send("in", 1, [RealRecord(-1, b"key", b"value", 5)])
    wait_until(lambda: not moving.are_away, moving)

    assert [coordinator_of(first.address, each) for each in ROLES] == [1, 1]
    assert told.lines == [
        ("coordinator.away", "groups"),
        ("coordinator.away", "transactions"),
        ("coordinator.back", "groups"),
        ("coordinator.back", "transactions"),
    ]
    assert clients.read(["in"]) == {"in-1": [RealRecord(0, b"key", b"value", 5)]}
    wait_until(lambda: is_up(second), moving)


class Told:
    """What was recorded."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __call__(self, kind: str, actor: str, *, what: str) -> None:
        assert actor == "brokers"
        self.lines.append((kind, what))


def wait_until(is_so: Callable[[], bool], moving: MovingCoordinators) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        moving.look()
        time.sleep(0.005)


def is_up(broker: Broker) -> bool:
    with suppress(OSError):
        return coordinator_of(broker.address, "groups") == 1
    return False


def moving_of(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, answers: Sequence[int]
) -> tuple[MovingCoordinators, RealProcess, Path]:
    """Coordinators of processes that sleep, the one that is killed, and the sender's directory."""
    first, second = (
        Broker("127.0.0.1:1", DEFAULT_RELEASE, processes.start(name, ["sleep", "600"]), [], "", 1)
        for name in ("first", "second")
    )
    places = iter(answers)
    monkeypatch.setattr(moving_coordinators, "coordinator_of", lambda *_: next(places))
    monkeypatch.setattr(moving_coordinators, "ASK_S", 0.0)
    sender = processes.directory / "sender"
    sender.mkdir()
    second = second._replace(command=["sleep", "600"])
    moving = MovingCoordinators(processes, first, second, sender, Told())
    return moving, second.process, sender


def test_the_broker_is_killed_only_after_its_logs_are_placed(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And they are back only when both coordinators have moved."""
    moving, victim, sender = moving_of(processes, monkeypatch, [2, 1, 2, 1, 1])
    moving.move()
    moving.look()
    assert (sender / "place").exists()
    assert moving.is_commanding
    assert victim.is_running

    (sender / "placed").touch()
    moving.look()
    assert not victim.is_running
    for _ in range(2):
        moving.look()
        assert moving.are_away
    moving.look()
    assert not moving.are_away


def test_a_broker_that_does_not_answer_is_asked_again(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    moving, _, sender = moving_of(processes, monkeypatch, [1, 1])
    moving.move()
    (sender / "placed").touch()
    moving.look()
    with monkeypatch.context() as busy:

        def fail(*_: object) -> int:
            raise TimeoutError

        busy.setattr(moving_coordinators, "coordinator_of", fail)
        moving.look()
        assert moving.are_away
    moving.look()
    assert not moving.are_away


@pytest.mark.parametrize(
    ("placed", "answers", "message"),
    [
        (None, [], "Logs were not taken off the second broker in 60 s"),
        ("no broker", [], "Logs cannot be taken off the second broker: no broker"),
        ("", [2], "did not move to the other one"),
    ],
)
def test_coordinators_that_do_not_move_are_told_of(
    processes: Processes,
    monkeypatch: pytest.MonkeyPatch,
    placed: str | None,
    answers: Sequence[int],
    message: str,
) -> None:
    moving, _, sender = moving_of(processes, monkeypatch, answers)
    moving.move()
    if placed is not None:
        (sender / "placed").write_text(placed)
    if placed == "":
        moving.look()
    hours = time.monotonic() + 7200
    monkeypatch.setattr(moving_coordinators.time, "monotonic", lambda: hours)
    with pytest.raises(UsageError, match=message):
        moving.look()


def test_a_broker_that_ends_by_itself_is_told_of(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    moving, second, _ = moving_of(processes, monkeypatch, [])
    second.kill()
    with pytest.raises(UsageError, match="The second broker ended by itself"):
        moving.look()


@pytest.mark.parametrize(
    ("added", "reason"),
    [
        ([], ""),
        ([MOVES], "the coordinators have moved to the last broker after the first time"),
        ([Cut(at=2, instance="instance-0")], "no proxy stands before two brokers"),
    ],
)
def test_what_cannot_be_played_with_two_brokers(added: Sequence[Fault | Cut], reason: str) -> None:
    scenario = read(find("KIP-98-coordinator-moves"))
    scenario.file.timeline.extend(added)

    assert why_not(scenario, scenario.setups["patient"], DEFAULT_RELEASE) == reason


def test_nobody_kills_a_broker_that_others_use() -> None:
    assert why_not_shared([MOVES]).startswith("nobody kills a broker that worlds share")
    assert why_not_shared([]) == ""
