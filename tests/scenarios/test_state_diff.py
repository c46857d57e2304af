"""What is said of the difference between two moments."""

from __future__ import annotations

from typing import Any

import pytest
from small_runs import CHANGELOG, THREAD, SmallRun, folded, small_run, told

from streamproof.scenarios.state.diff import changes
from streamproof.sim.run_state import Moment

TASK = f"task 0_0 in {THREAD}"
STORE = "counts on instance-0"
WORKLOAD = "count-instance-0-0"
OF_TASK = {"task": "0_0"}
OF_STORE = {"task": "0_0", "partition": CHANGELOG}

CASES: list[tuple[str, str, dict[str, Any], list[tuple[str, str]]]] = [
    (
        "instance.started",
        "instance-1",
        {"release": "4.2", "manages_offsets": False},
        [("instance-1", "runs, with release 4.2")],
    ),
    ("instance.paused", "instance-0", {}, [("instance-0", "holds its work")]),
    ("thread.died", THREAD, {"reason": "x"}, [(THREAD, "is gone")]),
    ("thread.lost", THREAD, {"reason": "x"}, [(THREAD, "has 0_0 → no task")]),
    (
        "thread.assigned",
        THREAD,
        {"generation": 2, "active": [], "standby": ["0_0"]},
        [
            (THREAD, "generation 1 → 2"),
            (THREAD, "has 0_0 → no task"),
            (THREAD, "follows no task → 0_0"),
        ],
    ),
    ("thread.producer", THREAD, {"producer": 9}, [(THREAD, "producer 7 → 9")]),
    (
        "task.state",
        THREAD,
        {**OF_TASK, "before": "RUNNING", "after": "SUSPENDED"},
        [(TASK, "is RUNNING → SUSPENDED")],
    ),
    (
        "task.waiting",
        THREAD,
        {**OF_TASK, "waiting": {"in-0": "idling"}},
        [(TASK, "waits for in-0 (idling)")],
    ),
    ("task.wiped", THREAD, OF_TASK, [(STORE, "is gone, with 1 row")]),
    (
        "store.put",
        THREAD,
        {**OF_STORE, "key": b"b", "value": b"1"},
        [(STORE, "row b: nothing → 1"), (STORE, "staged writes 1 → 2")],
    ),
    ("log.deleted", "brokers", {"partition": "in-0", "offset": 2}, [("in-0", "start 0 → 2")]),
    (
        "log.compacted",
        "brokers",
        {"partition": "in-0", "offset": 3},
        [("in-0", "2 records are compacted away")],
    ),
    (
        "offsets.committed",
        "brokers",
        {"offsets": {"in-0": 3, "in-1": 1}},
        [("in-0", "committed 2 → 3"), ("in-1", "committed nothing → 1")],
    ),
    (
        "offsets.added",
        "brokers",
        {"producer": 7, "offsets": {"in-0": 3}},
        [(WORKLOAD, "offset 3 of in-0 is to be committed with it")],
    ),
    (
        "transaction.decided",
        "brokers",
        {"producer": 7, "transactional_id": WORKLOAD, "commit": False},
        [(CHANGELOG, "1 record is aborted"), (WORKLOAD, "is open → aborting")],
    ),
    ("coordinator.away", "brokers", {"what": "groups"}, []),
]


@pytest.mark.parametrize(("kind", "actor", "more", "expected"), CASES)
def test_what_an_event_changes(
    kind: str, actor: str, more: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """Each of them by itself, after the small run has processed its third record."""
    assert [tuple(each) for each in changes(told(), told((kind, actor, more)))] == expected


def test_a_process_goes_on_after_it_was_paused() -> None:
    """And one that is killed is no longer paused."""
    paused: tuple[str, str, dict[str, Any]] = ("instance.paused", "instance-0", {})
    resumed = told(paused, ("instance.resumed", "instance-0", {}))
    assert [each.how for each in changes(told(paused), resumed)] == ["goes on"]


def test_a_standby_that_is_opened() -> None:
    """It is told that it is one."""
    small = SmallRun(is_broken=False)
    small.begins()
    before = folded(small.events[:6])
    small.emit("thread.assigned", THREAD, generation=2, active=[], standby=["0_1"])
    small.emit("task.state", THREAD, task="0_1", before="CREATED", after="RESTORING")
    found = [each.how for each in changes(before, folded(small.events))]
    assert "is RESTORING, as a standby" in found


def test_many_rows_are_counted() -> None:
    """Five of them are named."""
    rows = [[f"key-{number}".encode(), b"1"] for number in range(8)]
    more = {**OF_STORE, "offset": 5, "rows": rows}
    found = [each.how for each in changes(told(), told(("store.running", THREAD, more)))]
    assert sum(each.startswith("row ") for each in found) == 5
    assert "and 3 more rows" in found


def test_flushes_that_are_lost_with_the_power() -> None:
    """What is left is not known."""
    crashed: tuple[str, str, dict[str, Any]] = ("instance.crashed", "instance-0", {})
    lost = told(crashed, ("disk.power_lost", "instance-0", {"flushes": 1}))
    assert [each.how for each in changes(told(crashed), lost)] == [
        "has lost flushes: the remaining rows show when it is opened again"
    ]


def test_markers_that_are_missing() -> None:
    """A transaction is done only when all of its partitions have one."""
    small = SmallRun(is_broken=False)
    small.begins()
    for partition in ("out-0", "out-1"):
        small.appended(partition, 0, b"1", producer=7)
    before = folded(small.events)
    small.emit(
        "transaction.marker",
        "brokers",
        partition="out-0",
        offset=1,
        producer=7,
        transactional_id=WORKLOAD,
        commit=True,
        complete=False,
    )
    found = [each.how for each in changes(before, folded(small.events))]
    assert "markers are still missing in out-1" in found


def test_the_same_moment_has_no_changes() -> None:
    """Nor has the beginning."""
    assert list(changes(Moment(), Moment())) == []
    end = folded(small_run().events)
    assert list(changes(end, end)) == []
