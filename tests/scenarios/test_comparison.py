"""Two runs side by side: where they part, what differs, and what that came to."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import CHANGELOG, THREAD, SmallRun, small_run

from streamproof.scenarios.comparison import EventPair, compare
from streamproof.scenarios.comparison_text import MAX_ROWS, render_comparison
from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.scenarios.run_metrics import MEASURES
from streamproof.sim.application import StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.simulation import run
from streamproof.sim.trace import Event
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world_plan import Plan

GOLDEN = Path(__file__).parent / "golden"


def played(seed: int, plan: Plan, defect: str = "") -> RecordedRun:
    """A run of the swarm, kept whole."""
    events: list[Event] = []
    defects = (defect,) if defect else ()
    outcome = run(Choices.seeded(seed), plan, defects=defects, watchers=[events.append])
    name = f"seed {seed}"
    return RecordedRun(name, plan, defects, events, outcome.violations, outcome.digest)


def renumbered(events: Sequence[Event]) -> list[Event]:
    """The events, numbered as they are now."""
    return [
        Event(
            number,
            each.time,
            each.actor,
            each.kind,
            each.task,
            each.partition,
            each.offset,
            each.attributes,
        )
        for number, each in enumerate(events)
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_a_comparison_is_the_golden_one(width: int) -> None:
    """A run with a mistake beside the same without it (STREAMPROOF_UPDATE_GOLDENS=1 renews it)."""
    golden = GOLDEN / f"comparison-{width}.txt"
    text = render_comparison(compare(small_run(is_broken=True), small_run()), width)
    if os.environ.get("STREAMPROOF_UPDATE_GOLDENS") == "1":
        golden.parent.mkdir(exist_ok=True)
        golden.write_bytes(text.encode())
    assert golden.read_bytes().decode() == text


def test_the_same_run_has_no_difference() -> None:
    """And that is said."""
    comparison = compare(small_run(), small_run())
    assert comparison.parting is None
    assert comparison.common == 40
    assert (comparison.different, comparison.measured, comparison.kinds) == ([], [], [])
    assert "The runs are the same, event by event." in render_comparison(comparison)


def test_runs_without_events_are_the_same() -> None:
    """Nothing is divided by nothing."""
    empty = replace(small_run(), events=[])
    assert compare(empty, empty).parting is None
    comparison = compare(empty, small_run())
    assert comparison.common == 0
    assert len(comparison.different) == 40
    assert "The first 0 events are the same." in render_comparison(comparison)


def test_the_first_difference_and_what_differs() -> None:
    """By the numbers of the events."""
    first, second = small_run(is_broken=True), small_run()
    comparison = compare(first, second)
    assert comparison.common == 19
    # The other run goes on with what both have.
    assert comparison.parting == EventPair(first.events[19], None)
    found = [each for each in comparison.different if each.first and each.second]
    assert [each.first.kind for each in found if each.first] == ["store.found"]
    assert [
        each.second.kind for each in comparison.different if not each.first and each.second
    ] == [
        "task.state",
        "store.running",
    ]


def test_one_more_event_makes_nothing_different_that_follows() -> None:
    """Nor do other numbers, other times, and other offsets."""
    small = SmallRun(is_broken=False)
    small.begins()
    small.commits()
    events = list(small.events)
    extra = Event(0, 200, THREAD, "store.flushed", "0_0", CHANGELOG, -1, {})
    later = [
        Event(
            each.sequence,
            each.time + 5,
            each.actor,
            each.kind,
            each.task,
            each.partition,
            each.offset + 1 if each.offset >= 0 and each.kind == "log.appended" else each.offset,
            each.attributes,
        )
        for each in events[18:]
    ]
    second = renumbered([*events[:18], extra, *later])
    base = small_run()
    comparison = compare(replace(base, events=events), replace(base, events=second))
    assert [(each.first, each.second) for each in comparison.different] == [(None, second[18])]


KINDS = st.lists(st.sampled_from("xyz"), max_size=40)


def in_one_lane(kinds: Sequence[str]) -> RecordedRun:
    """A run of one task, with events of these kinds and nothing else."""
    events = [
        Event(number, number, THREAD, kind, "0_0", "", -1, {}) for number, kind in enumerate(kinds)
    ]
    return replace(small_run(), events=events)


@given(KINDS, st.data())
def test_one_that_is_missing_is_one_difference(kinds: list[str], data: st.DataObject) -> None:
    """However many there are that are alike."""
    place = data.draw(st.integers(0, len(kinds)))
    more = [*kinds[:place], "x", *kinds[place:]]
    comparison = compare(in_one_lane(kinds), in_one_lane(more))
    assert [each.second.kind for each in comparison.different if each.second] == ["x"]
    assert len(comparison.different) == 1


@given(KINDS, KINDS)
def test_what_does_not_differ_is_the_same_in_both(first: list[str], second: list[str]) -> None:
    """Without what only one of them has, both are the same, in the same order."""
    comparison = compare(in_one_lane(first), in_one_lane(second))
    only_first = {each.first.sequence for each in comparison.different if each.first}
    only_second = {each.second.sequence for each in comparison.different if each.second}
    assert [kind for place, kind in enumerate(first) if place not in only_first] == [
        kind for place, kind in enumerate(second) if place not in only_second
    ]


def test_runs_that_differ_in_numbers_only_part_there() -> None:
    """No event is missing, so that the two at that place are shown."""
    small = small_run()
    later = [
        Event(
            each.sequence,
            each.time + 1,
            each.actor,
            each.kind,
            each.task,
            each.partition,
            each.offset,
            each.attributes,
        )
        for each in small.events[10:]
    ]
    comparison = compare(small, replace(small, events=[*small.events[:10], *later]))
    assert comparison.different == []
    assert comparison.parting == EventPair(small.events[10], later[0])
    assert "at 200 ms" in render_comparison(comparison)
    assert "at 201 ms" in render_comparison(comparison)


def test_plans_that_differ() -> None:
    """Each setting by its full name, those within others too."""
    plan = Plan(config=StreamsConfig(max_task_idle_ms=500), kinds=("crash",))
    comparison = compare(replace(small_run(), plan=Plan()), replace(small_run(), plan=plan))
    assert [tuple(each) for each in comparison.settings] == [
        ("config.max_task_idle_ms", "0", "500"),
        ("kinds", "crash, pause, cut", "crash"),
    ]
    assert "config.max_task_idle_ms   0                   500" in render_comparison(comparison)


def test_rows_that_differ_are_named_up_to_three() -> None:
    """Of a store that is found with others."""
    small = small_run()
    rows = [[f"key-{number}".encode(), b"1"] for number in range(5)]
    found = next(each for each in reversed(small.events) if each.kind == "store.found")
    events = list(small.events)
    events[found.sequence] = Event(
        found.sequence,
        found.time,
        found.actor,
        found.kind,
        found.task,
        found.partition,
        found.offset,
        {**found.attributes, "rows": rows},
    )
    text = render_comparison(compare(small, replace(small, events=events)), 200)
    assert "key-0 = 1, key-1 = 1, key-2 = 1, …" in text
    assert "Both runs keep all promises." in text


def test_both_sides_can_be_changed() -> None:
    """What only one has, the other lacks."""
    one, other = small_run(is_broken=True), small_run()
    there, back = compare(one, other), compare(other, one)
    assert there.common == back.common
    assert [EventPair(*reversed(each)) for each in back.different] == list(there.different)
    assert [(each.second, each.first) for each in back.measured] == [
        (each.first, each.second) for each in there.measured
    ]


def test_a_real_run_with_a_defect_and_without() -> None:
    """Everything that differs comes from the run, and fits into 80 columns."""
    plan = Plan(
        partitions=1, kinds=("crash",), safety_ms=8_000, workload=WorkloadConfig(records=20)
    )
    one, other = (played(4, plan, defect) for defect in ("commits-last-record", ""))
    comparison = compare(one, other)
    text = render_comparison(comparison, 80)
    assert max(len(line) for line in text.splitlines()) <= 80
    for each in comparison.different:
        assert each.first is None or one.events[each.first.sequence] == each.first
        assert each.second is None or other.events[each.second.sequence] == each.second
    assert list(one.events[: comparison.common]) == list(other.events[: comparison.common])


def test_many_differences_are_cut_to_those_that_mean_most() -> None:
    """And how many were left out is told."""
    plan = Plan(partitions=2, workload=WorkloadConfig(records=60))
    text = render_comparison(compare(played(1, plan), played(2, plan)))
    rows = [line for line in text.splitlines() if line.startswith(("< ", "> ", "≠ "))]
    assert 0 < len(rows) <= MAX_ROWS
    assert "details left out" in text


# The numbers.


def measured(name: str, *events: tuple[int, str, str, Mapping[str, object]]) -> int:
    """A number of a run of these events: time, actor, kind and attributes, all of task 0_0."""
    (measure,) = [each for each in MEASURES if each.name == name]
    return measure.of(
        [
            Event(number, time, actor, kind, "0_0", "in-0", number, dict(attributes))
            for number, (time, actor, kind, attributes) in enumerate(events)
        ]
    )


NOTHING: Mapping[str, object] = {}
RUNS = {"after": "RUNNING"}
ENDS = {"after": "SUSPENDED"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("records processed", 3),
        ("records processed again", 0),
        ("records processed out of order", 0),
        ("processes killed", 1),
        ("commits", 1),
        ("transactions aborted", 1),
        ("longest wait for an input", 0),
        ("longest time in which a task did not run", 2_200),
        ("time until the last event", 4_000),
    ],
)
def test_the_numbers_of_the_small_run(name: str, expected: int) -> None:
    """As they can be counted on its page."""
    (measure,) = [each for each in MEASURES if each.name == name]
    assert measure.of(small_run().events) == expected


def test_every_number_of_nothing_is_zero() -> None:
    """A run may have no events."""
    assert [each.of([]) for each in MEASURES] == [0] * len(MEASURES)


def test_records_out_of_order() -> None:
    """Older than one before; a task that begins anew begins a new order."""
    times = [(1, THREAD, "task.processed", {"timestamp": each}) for each in (5, 9, 7, 9, 8)]
    assert measured("records processed out of order", *times) == 2
    closed = (1, THREAD, "task.closed", NOTHING)
    assert measured("records processed out of order", *times[:2], closed, *times[2:]) == 1


def test_the_longest_wait() -> None:
    """From the first sign of it until the task goes on; a kill ends it."""
    waits, goes_on = "task.waiting", "task.processed"
    more = (
        (100, THREAD, waits, NOTHING),
        (250, THREAD, waits, NOTHING),
        (600, THREAD, goes_on, NOTHING),
    )
    assert measured("longest wait for an input", *more) == 500
    killed = (300, "instance-0", "instance.crashed", NOTHING)
    assert measured("longest wait for an input", *more[:2], killed, more[2]) == 0


def test_the_longest_time_in_which_a_task_does_not_run() -> None:
    """Another one may run it meanwhile, and it may never run again."""
    name, other = "longest time in which a task did not run", "instance-1/thread-0"
    runs, ends = (100, THREAD, "task.state", RUNS), (200, THREAD, "task.state", ENDS)
    again = (900, THREAD, "task.state", RUNS)
    assert measured(name, runs, ends, again) == 700
    assert measured(name, runs, (150, other, "task.state", RUNS), ends, again) == 0
    assert measured(name, runs, ends, (450, "brokers", "x", NOTHING)) == 250
    assert measured(name, runs, (300, "instance-0", "instance.crashed", NOTHING), again) == 600
