"""What a runtime shows of its restorations: events that keep the invariants, or break them."""

from __future__ import annotations

from typing import Any

import pytest

from streamproof.sim import simulation as swarm
from streamproof.sim.choices import Choices
from streamproof.sim.invariants import Invariant, Watch
from streamproof.sim.invariants.visibility import (
    MetricsAddUp,
    PurgedWasCommitted,
    StandbyIsNotAhead,
    UpdatingIsPaired,
)
from streamproof.sim.plan_space import PlanSpace, draw
from streamproof.sim.trace import Event

UPDATER = "instance-0/updater-0"
CHANGELOG = "app-one-changelog-0"
RATIOS = {
    "idle-ratio": 0.5,
    "active-restore-ratio": 0.25,
    "standby-update-ratio": 0.0,
    "checkpoint-ratio": 0.25,
}


class Story:
    """Events, one after the other, and what an invariant says of them."""

    def __init__(self, invariant: type[Invariant], *, exactly_once: bool = True) -> None:
        self.watch = Watch([invariant], exactly_once=exactly_once)
        self._count = 0

    def tell(self, kind: str, partition: str = CHANGELOG, offset: int = -1, **more: Any) -> None:
        """One event of the updater."""
        self._count += 1
        self.watch(Event(self._count, self._count, UPDATER, kind, "0_0", partition, offset, more))

    def crash(self) -> None:
        """The process dies."""
        self.watch(Event(0, 0, "instance-0", "instance.crashed", "", "", -1, {}))

    @property
    def messages(self) -> list[str]:
        """What is wrong."""
        return [each.message for each in self.watch.violations]


def test_updates_of_standbys_come_in_pairs() -> None:
    """A crash ends them, too; a second start, a stray batch and a stray end are wrong."""
    story = Story(UpdatingIsPaired)
    for _ in range(2):
        story.tell("update.start", start=0)
        story.tell("update.batch", offset=3, is_input=False)
        story.tell("update.suspended", reason="migrated")
    story.tell("update.start", start=0)
    story.crash()
    story.tell("update.start", start=0)
    assert story.messages == []
    story.tell("update.start", start=0)
    story.tell("update.suspended", reason="promoted")
    story.tell("update.suspended", reason="promoted")
    story.tell("update.batch", offset=3, is_input=False)
    assert story.messages == [
        f"the updates of {CHANGELOG} start again, but were not suspended",
        f"the updates of {CHANGELOG} are suspended, but have not started",
        f"a batch of {CHANGELOG} is loaded, but no updates have started",
    ]


def test_the_reason_of_a_suspension_is_true() -> None:
    """A standby that becomes active with its stores open is promoted, and one that is closed not.

    A store that fails closes its task before it has its new role, so that says nothing.
    """
    story = Story(UpdatingIsPaired)
    story.tell("task.recycled", is_active=True)
    for reason, ending in (
        ("promoted", {"is_active": True}),
        ("migrated", {"closing": "CLEAN"}),
        ("promoted", {"closing": "DIRTY"}),
    ):
        story.tell("update.start", start=0)
        story.tell("update.suspended", reason=reason)
        story.tell("task.recycled" if "is_active" in ending else "task.closed", **ending)
    assert story.messages == []
    story.tell("update.start", start=0)
    story.tell("update.suspended", reason="migrated")
    story.tell("task.recycled", is_active=True)
    story.tell("update.start", start=0)
    story.tell("update.suspended", reason="promoted")
    story.tell("task.closed", closing="CLEAN")
    assert story.messages == [
        "task 0_0 became active where it was a standby, but is called migrated",
        "task 0_0 was closed, but its updates were suspended as promoted",
    ]


def test_ratios_have_to_sum_to_one() -> None:
    """Or to nothing, before any time has passed."""
    story = Story(MetricsAddUp)
    story.tell("updater.metrics", gauges=RATIOS, remaining={})
    story.tell("updater.metrics", gauges=dict.fromkeys(RATIOS, 0.0), remaining={})
    assert story.messages == []
    story.tell("updater.metrics", gauges=RATIOS | {"idle-ratio": 0.75}, remaining={})
    assert story.messages == [f"the ratios of {UPDATER} sum to 1.25"]


def test_what_remains_is_what_the_callbacks_leave() -> None:
    """Of all changelogs of a task, and nothing once they have ended."""
    story = Story(MetricsAddUp)
    two = "app-two-changelog-0"
    story.tell("restore.start", start=2, end=10)
    story.tell("restore.start", two, start=0, end=5)
    story.tell("updater.metrics", gauges=RATIOS, remaining={"0_0": 13})
    story.tell("restore.batch", offset=6, records=4, remaining=3)
    story.tell("updater.metrics", gauges=RATIOS, remaining={"0_0": 8, "0_9": 0})
    story.tell("restore.end", total=4)
    story.tell("restore.suspended", two, total=0)
    story.tell("updater.metrics", gauges=RATIOS, remaining={"0_0": 0})
    story.tell("restore.start", start=0, end=10)
    story.crash()
    story.tell("updater.metrics", gauges=RATIOS, remaining={"0_0": 0})
    assert story.messages == []
    story.tell("restore.start", start=0, end=10)
    story.tell("restore.batch", offset=6, records=1, remaining=5)
    story.tell("updater.metrics", gauges=RATIOS, remaining={"0_0": 5})
    assert story.messages == [
        f"{CHANGELOG} lacks 3 offsets, but the runtime reports 5",
        "task 0_0 lacks 3 offsets, but the runtime reports 5",
    ]


def test_what_remains_counts_records_by_the_rules_of_the_proposal() -> None:
    """Gaps and markers stay in the count, until the restoration ends."""
    story = Story(MetricsAddUp)
    story.tell("updater.started", mode="proposal")
    story.tell("restore.start", start=0, end=10)
    story.tell("restore.batch", offset=6, records=4, remaining=3)
    story.tell("updater.metrics", gauges=RATIOS, remaining={"0_0": 6})
    assert story.messages == []
    story.tell("updater.metrics", gauges=RATIOS, remaining={"0_0": 3})
    assert story.messages == ["task 0_0 lacks 6 records, but the runtime reports 3"]


def test_a_standby_is_held_back_at_the_committed_offset() -> None:
    """Only if its changelog is an input: one of its own has nothing that is not committed."""
    story = Story(StandbyIsNotAhead)
    story.tell("update.batch", offset=3, is_input=False)
    story.tell("offsets.committed", "", offsets={"in-0": 4})
    story.tell("update.batch", "in-0", offset=3, is_input=True)
    assert story.messages == []
    story.tell("update.batch", "in-0", offset=4, is_input=True)
    assert story.messages == [
        "a standby of 0_0 has offset 4 of in-0, but the committed offset is 4"
    ]


def test_only_what_was_committed_is_purged() -> None:
    """A decision is enough; an abort is none, and retention is not asked."""
    story = Story(PurgedWasCommitted)
    story.tell("offsets.committed", "", offsets={"in-0": 4})
    story.tell("log.deleted", "in-0", offset=4, reason="request")
    story.tell("offsets.added", "", offsets={"in-0": 6}, producer=1)
    story.tell("transaction.decided", "", producer=1, commit=True)
    story.tell("log.deleted", "in-0", offset=6, reason="request")
    story.tell("log.deleted", "in-0", offset=99, reason="retention")
    assert story.messages == []
    story.tell("offsets.added", "", offsets={"in-0": 9}, producer=1)
    story.tell("transaction.decided", "", producer=1, commit=False)
    story.tell("log.deleted", "in-0", offset=9, reason="request")
    assert story.messages == ["in-0 was deleted up to 9, but committed only up to 6"]


@pytest.mark.parametrize(
    ("defect", "topology", "requirement"),
    [
        ("purges-consumed-offsets", "last-byte-count", "TASK-012"),
        ("standby-passes-committed-offset", "reused-table-join", "STANDBY-001"),
        ("suspends-without-a-word", "count", "LISTEN-101"),
        ("counts-records-as-offsets", "count", "METRIC-101"),
    ],
)
def test_each_mistake_is_found(defect: str, topology: str, requirement: str) -> None:
    """By its own invariant, within a few worlds."""
    for seed in range(100):
        choices = Choices.seeded(seed)
        plan = draw(choices, PlanSpace(topologies=[topology]))
        outcome = swarm.run(choices, plan, defects=[defect])
        if requirement in {each.requirement for each in outcome.violations}:
            return
    pytest.fail(f"{defect} was not found")
