"""Positions: a store says to reflect what is in it, and nothing else, in every world."""

from __future__ import annotations

from typing import Any

import pytest

from streamproof.sim.application import StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.invariants import Watch
from streamproof.sim.invariants.positions import PositionIsNotAhead
from streamproof.sim.simulation import run
from streamproof.sim.trace import Event
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world_plan import Plan

PROCESSED = ("task.processed", {"partition": "in-0", "offset": 4})
COMMITTED = ("thread.committed", {"offsets": {"in-0": 5}})
LOOKS = pytest.mark.parametrize("kind", ["store.found", "store.running", "store.closing"])


def broken(*events: tuple[str, dict[str, Any]], transactional: bool) -> list[str]:
    """What the invariant says of these events."""
    watch = Watch([PositionIsNotAhead], exactly_once=True)
    started = ("application.started", {"transactional": transactional, "exactly_once": True})
    for number, (kind, more) in enumerate([started, *events]):
        attributes = dict(more)
        partition, offset = attributes.pop("partition", ""), attributes.pop("offset", -1)
        watch(Event(number, number, "a/thread-0", kind, "0_0", partition, offset, attributes))
    return [each.message for each in watch.violations]


@LOOKS
def test_a_position_covers_what_was_processed(kind: str) -> None:
    """Of a store that does not stage its writes; an input that was never read is in no position."""
    four, five = ((kind, {"position": {"in-0": offset}}) for offset in (4, 5))
    assert broken(PROCESSED, four, (kind, {"position": {}}), transactional=False) == []
    [message] = broken(PROCESSED, five, transactional=False)
    assert message.endswith("has the position 5 of in-0, which is processed only up to 5")
    assert broken(four, transactional=False)


@LOOKS
def test_a_position_covers_what_was_committed(kind: str) -> None:
    """Of a store that stages its writes."""
    look = (kind, {"position": {"in-0": 4}})
    assert broken(PROCESSED, COMMITTED, look, transactional=True) == []
    assert broken(PROCESSED, look, transactional=True)


def test_the_position_of_staged_writes_is_found() -> None:
    """A crash takes the writes away, and leaves the position (KAFKA-20760)."""
    config = StreamsConfig(
        exactly_once=True,
        transactional=True,
        commit_interval_ms=1_000,
        session_timeout_ms=6_000,
        flush_probability=0.5,
    )
    plan = Plan(config=config, workload=WorkloadConfig(records=150), kinds=("crash",))
    seed = next(
        seed
        for seed in range(40)
        if {"POS-101"}
        == {
            each.requirement
            for each in run(
                Choices.seeded(seed), plan, defects=["position-of-staged-writes"]
            ).violations
        }
    )
    assert list(run(Choices.seeded(seed), plan).violations) == []
