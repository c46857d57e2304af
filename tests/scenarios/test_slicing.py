"""Which events matter: what the story of a defect needs, and little else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from found_worlds import seek

from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.scenarios.slicing import what_matters
from streamproof.sim.choices import Choices
from streamproof.sim.defects import DEFECTS
from streamproof.sim.invariants import InvariantViolation
from streamproof.sim.plan_space import EVERYTHING, draw
from streamproof.sim.simulation import run
from streamproof.sim.trace import Event, Trace
from streamproof.sim.world_plan import Plan

STORIES: dict[str, str] = {
    "begins-anew-without-need": "group.assigned group.member_left_out instance.crashed",
    "chooses-by-largest-time": "task.processed log.appended",
    "closes-lost-tasks-cleanly": "store.closing store.committed store.put log.appended",
    "commits-before-records-arrive": "offsets.committed store.put task.processed",
    "commits-fetched-offsets": "offsets.added offsets.committed log.appended task.processed",
    "commits-last-record": "offsets.committed log.appended transaction.marker",
    "commits-store-first": (
        "store.committed transaction.marker log.appended store.put task.closed store.found"
    ),
    "counts-records-as-offsets": "restore.start restore.batch store.opened",
    "does-not-wait-for-owner": "thread.assigned group.assigned",
    "drops-task-whose-lock-is-taken": "thread.assigned thread.subscribed task.closed",
    "ignores-generation": "task.processed transaction.decided group.assigned",
    "ignores-lag": "task.processed log.appended thread.assigned",
    "keeps-stale-offset": "store.closing store.committed store.put store.opened",
    "keeps-tasks-after-loss": "task.processed transaction.decided",
    "keeps-transaction-open": "thread.committed log.appended store.put",
    "keeps-unclean-store": (
        "instance.crashed store.put transaction.marker log.appended store.opened store.found"
    ),
    "leaves-input-paused": "input.paused log.appended offsets.committed",
    "leaves-startup-stores-open": "state.found instance.stopped instance.started",
    "position-of-staged-writes": "store.found store.flushed instance.crashed task.processed",
    "purges-consumed-offsets": "log.deleted offsets.committed task.processed",
    "restores-aborted-records": (
        "store.running store.restored restore.start log.appended transaction.marker store.put"
    ),
    "suspends-without-a-word": "restore.start task.state",
}
"""Of each defect, the events that explain how its promise was broken."""


def play(defect: str, seed: int) -> RecordedRun:
    """A run with a defect, in which that matters."""
    events: list[Event] = []
    choices = Choices.seeded(seed)
    plan = draw(choices, EVERYTHING.for_defect(defect))
    outcome = run(choices, plan, defects=[defect], watchers=[events.append])
    return RecordedRun(f"seed {seed}", plan, (defect,), events, outcome.violations, outcome.digest)


@pytest.mark.parametrize("defect", STORIES)
def test_a_slice_tells_the_story_of_a_defect(defect: str) -> None:
    """With what found it, what led to it, and less than 60 events before anything is shrunk."""
    story = set(STORIES[defect].split())

    def attempt(seed: int) -> tuple[RecordedRun, frozenset[int]] | None:
        played = play(defect, seed)
        broken = [each.requirement for each in played.violations]
        if broken[:1] != [DEFECTS[defect].requirement]:
            return None
        matters = what_matters(played)
        kinds = {played.events[each].kind for each in matters}
        return (played, matters) if story <= kinds and len(matters) < 60 else None

    played, matters = seek(f"slicing {defect}", attempt)
    violation = played.violations[0]
    if violation.event is not None:
        assert violation.event.sequence in matters
    assert matters == what_matters(played)


def test_without_a_violation_nothing_matters() -> None:
    """There is nothing to explain."""
    events: list[Event] = []
    outcome = run(Choices.seeded(2), watchers=[events.append])
    assert (
        what_matters(RecordedRun("2", outcome.plan, (), events, [], outcome.digest)) == frozenset()
    )


class Told:
    """A run of one process, told by hand; events have names."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.names: dict[str, int] = {}
        self._emit = Trace(lambda: len(self.events), [self.events.append]).emit

    def emit(self, name: str, kind: str, actor: str, **more: Any) -> None:
        """Something happens that is called so."""
        self.names[name] = len(self.events)
        self._emit(kind, actor, **more)

    def store(self, name: str, kind: str, offset: int = -1, **more: Any) -> None:
        """Something happens to the store of the task."""
        thread = "instance-0/thread-0"
        self.emit(name, kind, thread, task="0_0", partition="log-0", offset=offset, **more)

    def put(self, name: str, key: bytes, value: bytes) -> None:
        """A row is written."""
        self.store(name, "store.put", key=key, value=value)

    def slice(self, message: str, name: str) -> set[str]:
        """The names of the events that matter to a violation."""
        event = self.events[self.names[name]]
        violation = InvariantViolation("it is kept as it was", "TASK-003", message, event)
        played = RecordedRun("told", Plan(), (), self.events, [violation], "")
        matters = what_matters(played)
        return {name for name, number in self.names.items() if number in matters}


def killed(between: Callable[[Told], None]) -> Told:
    """A store that is written, committed, and opened again after its process was killed."""
    told = Told()
    told.emit("started", "instance.started", "instance-0")
    told.store("opened", "store.opened", store="rows")
    told.put("first", b"a", b"1")
    told.put("other", b"b", b"1")
    told.store("early commit", "store.committed", offset=1)
    told.put("second", b"a", b"2")
    told.put("another", b"c", b"7")
    told.store("commit", "store.committed", offset=3)
    between(told)
    told.emit("crashed", "instance.crashed", "instance-0")
    told.emit("restarted", "instance.started", "instance-0")
    told.store("opened again", "store.opened", offset=3, store="rows")
    told.store("found", "store.found", offset=3, rows=[])
    return told


MESSAGE = "the store of log-0 in task 0_0 is kept with b'a' = b'2', and its changelog says b'1'"


def test_the_last_write_and_the_last_commit_before_a_loss_count() -> None:
    """Writes of other keys, and commits that were followed by another, say nothing."""
    told = killed(lambda _: None)
    assert told.slice(MESSAGE, "found") == {
        "second",
        "commit",
        "crashed",
        "restarted",
        "opened again",
        "found",
    }


def test_what_happens_elsewhere_does_not_count() -> None:
    """That something came earlier is no cause."""

    def elsewhere(told: Told) -> None:
        told.emit("other process", "instance.crashed", "instance-1")
        told.emit("other log", "log.compacted", "brokers", partition="log-1", offset=4, removed=1)
        told.emit("a request", "network.request_lost", "instance-1", what="heartbeat")

    assert killed(elsewhere).slice(MESSAGE, "found") == killed(lambda _: None).slice(
        MESSAGE, "found"
    )


def appended(told: Told, name: str, key: bytes, value: bytes, offset: int) -> None:
    """A record of the store is in its changelog, in the transaction of producer 5."""
    told.emit(
        name,
        "log.appended",
        "brokers",
        partition="log-0",
        offset=offset,
        key=key,
        value=value,
        timestamp=1,
        producer=5,
        transactional=True,
    )


def decided(told: Told, *, commit: bool) -> None:
    """The transaction of producer 5 ends, and the changelog shows it."""
    end = {"producer": 5, "transactional_id": "app-0", "commit": commit}
    told.emit("decided", "transaction.decided", "brokers", **end)
    told.emit("marker", "transaction.marker", "brokers", partition="log-0", offset=6, **end)


def with_a_transaction(told: Told, *, commit: bool) -> None:
    """Both rows that were written last are in the changelog, in one transaction."""
    told.emit("producer", "thread.producer", "instance-0/thread-0", producer=5)
    appended(told, "appended", b"a", b"2", 4)
    appended(told, "noise", b"c", b"7", 5)
    decided(told, commit=commit)


def test_a_record_that_was_aborted_brings_its_fate_along() -> None:
    """With the marker, and what it was aborted for; the other records of it say nothing."""
    found = killed(lambda told: with_a_transaction(told, commit=False)).slice(MESSAGE, "found")
    assert {"appended", "decided", "marker", "second", "crashed", "commit"} <= found
    assert not {"noise", "another", "other", "first", "early commit"} & found


def test_a_record_that_was_committed_is_as_any_other() -> None:
    """That nothing happened to it needs no event."""
    found = killed(lambda told: with_a_transaction(told, commit=True)).slice(MESSAGE, "found")
    assert "appended" in found
    assert not {"decided", "marker", "noise"} & found


def test_a_decision_that_breaks_a_promise_brings_its_records_along() -> None:
    """Those of the partition that the message speaks of."""
    told = killed(lambda told: with_a_transaction(told, commit=True))
    message = "a transaction with records of log-0 was committed after the task had begun to run"
    found = told.slice(message, "decided")
    assert {"decided", "appended", "noise", "second", "another"} <= found
    assert not {"marker", "crashed", "first"} & found
