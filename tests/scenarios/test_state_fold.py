"""The state of a world at a moment is what later events say of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from small_runs import CHANGELOG, THREAD, SmallRun, folded, small_run, told

from streamproof.scenarios.play import play
from streamproof.scenarios.scenario_reader import find, read
from streamproof.scenarios.state.fold import SNAPSHOT_EVERY, Moments, moments, take_in
from streamproof.sim.application import StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.invariants.log_history import LogHistory, LogRecord
from streamproof.sim.run_state import FoldedLog, FoldedStore, Moment, process_of
from streamproof.sim.simulation import run
from streamproof.sim.trace import Event
from streamproof.sim.trace_files import TraceFile, read_trace
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world_plan import Plan

TOLD = ("store.running", "store.closing")
STORE = ("instance-0", CHANGELOG)


def events_of(seed: int, *, plan: Plan | None = None, defect: str = "") -> list[Event]:
    """A run of the swarm."""
    events: list[Event] = []
    run(Choices.seeded(seed), plan, defects=[defect] if defect else (), watchers=[events.append])
    return events


def state_of(moment: Moment) -> dict[str, Any]:
    """All that a moment says, to be compared."""
    return {**vars(moment), "logs": {name: vars(log) for name, log in moment.logs.items()}}


def require_true(events: Sequence[Event]) -> int:
    """Hold each store against what an event says is in it; how often that was done."""
    moment, told = Moment(), 0
    for event in events:
        if event.kind in TOLD:
            store = moment.stores[process_of(event.actor), event.partition]
            assert store.rows == dict(event.attributes["rows"]), f"seen before {event}"
            told += 1
        take_in(moment, event)
    return told


@pytest.mark.parametrize("seeds", [range(start, start + 8) for start in range(0, 32, 8)])
def test_the_rows_of_a_store_are_what_the_next_event_says(seeds: Sequence[int]) -> None:
    """Whenever its task begins to run, and whenever it is closed cleanly."""
    assert sum(require_true(events_of(seed)) for seed in seeds) > 0


@pytest.mark.parametrize(
    "defect", ["keeps-stale-offset", "restores-aborted-records", "closes-lost-tasks-cleanly"]
)
def test_a_defect_does_not_mislead(defect: str) -> None:
    """What is told is what is there, and not what should be."""
    assert sum(require_true(events_of(seed, defect=defect)) for seed in range(6)) > 0


def require_found(plan: Plan, seeds: Sequence[int], defect: str = "") -> int:
    """Hold what is on the disks against what is found at each opening; how often that was done."""
    found = 0
    for seed in seeds:
        moment = Moment([defect] if defect else [])
        for event in events_of(seed, plan=plan, defect=defect):
            store = moment.stores.get((process_of(event.actor), event.partition))
            if store is not None and event.kind == "store.found":
                assert store.rows == dict(event.attributes["rows"]), f"seen before {event}"
                found += 1
            if store is not None and event.kind == "store.opened":
                assert max(store.flushed_offset, -1) == max(event.offset, -1), (
                    f"seen before {event}"
                )
            take_in(moment, event)
    return found


@pytest.mark.parametrize("upgrade", ["", "none-before-offsets"])
@pytest.mark.parametrize("exactly_once", [True, False])
def test_what_is_on_the_disk_is_found_by_the_next_process(
    upgrade: str, *, exactly_once: bool
) -> None:
    """After crashes, clean stops, and a full disk; with the offset in the store, and in a file."""
    plan = Plan(
        kinds=("crash", "bounce", "fill"),
        config=StreamsConfig(exactly_once=exactly_once),
        workload=WorkloadConfig(records=60),
        upgrade=upgrade,
    )
    assert require_found(plan, range(8)) > 0


def test_a_file_that_is_kept_by_mistake_is_known() -> None:
    """It vouches for what was never committed."""
    plan = Plan(upgrade="none-before-offsets", workload=WorkloadConfig(records=60))
    assert require_found(plan, range(4), "keeps-checkpoint-while-running") > 0


@pytest.mark.parametrize("seed", range(8))
def test_logs_and_offsets_are_those_of_the_history(seed: int) -> None:
    """Their ends, what was aborted in them, and the committed offsets, at the end of a run."""
    events = events_of(seed)
    moment, history = folded(events), LogHistory(exactly_once=True)
    for event in events:
        history.see(event)
    ends = {name: log.end for name, log in moment.logs.items() if log.end}
    assert ends == {name: log.end for name, log in history.logs.items() if log.end}
    for name, log in history.logs.items():
        assert moment.logs[name].aborted == log.aborted
        assert moment.logs[name].records == log.records
    assert moment.committed == history.committed


def test_every_moment_is_within_reach() -> None:
    """In any order, with moments that were kept and without."""
    events = events_of(1, plan=Plan(workload=WorkloadConfig(records=400)))
    assert len(events) > 2 * SNAPSHOT_EVERY
    reach = Moments(events)
    for sequence in (2_100, 0, SNAPSHOT_EVERY, 999, 1_001, 17, len(events) - 1):
        assert state_of(reach.at(sequence)) == state_of(folded(events[: sequence + 1]))
    assert state_of(reach.at(10**9)) == state_of(folded(events))


def test_before_the_first_event_there_is_nothing() -> None:
    """Also of a run that has no events."""
    assert state_of(moments(small_run()).at(-1)) == state_of(Moment())
    assert state_of(Moments([]).at(5)) == state_of(Moment())


def test_a_moment_belongs_to_who_has_asked_for_it() -> None:
    """To change it changes no other."""
    reach = moments(small_run())
    moment = reach.at(20)
    before = state_of(reach.at(20))
    moment.stores[STORE].staged[b"key-0"] = b"other"
    moment.processes["instance-0"].threads.clear()
    moment.log("in-0").records.clear()
    moment.transactions[7].records.clear()
    assert state_of(reach.at(20)) == before


def test_a_trace_that_was_kept_says_the_same(tmp_path: Path) -> None:
    """But for keys and values, which a file has as text."""
    events = events_of(3)
    with TraceFile(tmp_path / "trace.parquet", "3") as file:
        for event in events:
            file(event)
    kept, moment = folded(list(read_trace(tmp_path / "trace.parquet"))), folded(events)
    assert kept.tasks == moment.tasks
    assert kept.processes == moment.processes
    assert {name: log.end for name, log in kept.logs.items()} == {
        name: log.end for name, log in moment.logs.items()
    }
    assert {key: len(store.rows) for key, store in kept.stores.items()} == {
        key: len(store.rows) for key, store in moment.stores.items()
    }


# The layers of a store.


def store_after(kind: str, count: int = 1) -> FoldedStore:
    """The store of the small run, after the n-th event of a kind."""
    events = small_run().events
    index = [index for index, event in enumerate(events) if event.kind == kind][count - 1]
    return folded(events[: index + 1]).stores[STORE]


def test_a_write_goes_through_the_layers() -> None:
    """It is staged, then committed, then flushed; and a kill takes the rest away."""
    staged = store_after("store.put", 2)
    assert (staged.staged, staged.memory, staged.disk) == ({b"key-0": b"2"}, {}, {})
    assert staged.rows == {b"key-0": b"2"}
    committed = store_after("store.committed")
    assert (committed.staged, committed.memory, committed.disk) == ({}, {b"key-0": b"2"}, {})
    assert (committed.committed_offset, committed.flushed_offset) == (1, -1)
    flushed = store_after("store.flushed")
    assert (flushed.staged, flushed.memory, flushed.disk) == ({}, {}, {b"key-0": b"2"})
    assert flushed.flushed_offset == 1
    assert store_after("store.put", 3).rows == {b"key-0": b"3"}
    killed = store_after("instance.crashed")
    assert killed.rows == {b"key-0": b"2"}
    assert (killed.is_open, killed.offset) == (False, 1)


def closing(how: str) -> tuple[str, str, dict[str, Any]]:
    """The task is closed."""
    return "task.closed", THREAD, {"task": "0_0", "closing": how}


@pytest.mark.parametrize(
    ("how", "rows", "offset"),
    [("DIRTY", {b"key-0": b"2"}, 1), ("CORRUPTED", {b"key-0": b"3"}, -1)],
)
def test_what_a_closed_store_has(how: str, rows: dict[bytes, bytes], offset: int) -> None:
    """What was staged is dropped; but a corrupted store is committed, without an offset."""
    store = told(closing(how)).stores[STORE]
    assert (store.disk, store.flushed_offset, store.is_open) == (rows, offset, False)
    assert store.flushes == []


def test_a_full_disk_at_the_end_leaves_what_was_flushed() -> None:
    """A store that cannot be written when it is closed has lost what was in its memory."""
    moment = told(
        ("store.committed", THREAD, {"task": "0_0", "partition": CHANGELOG, "offset": 3}),
        ("task.state", THREAD, {"task": "0_0", "before": "RUNNING", "after": "SUSPENDED"}),
        ("disk.full", "instance-0", {"store": "counts"}),
        closing("DIRTY"),
    )
    store = moment.stores[STORE]
    assert (store.disk, store.flushed_offset, store.has_failed) == ({b"key-0": b"2"}, 1, False)


def test_after_a_loss_of_power_nobody_knows() -> None:
    """If flushes were lost; until the store is found again."""
    kept = told(
        ("instance.crashed", "instance-0", {}), ("disk.power_lost", "instance-0", {"flushes": 0})
    )
    assert kept.stores[STORE].is_certain
    lost = told(
        ("instance.crashed", "instance-0", {}), ("disk.power_lost", "instance-0", {"flushes": 1})
    )
    assert not lost.stores[STORE].is_certain
    again = SmallRun(is_broken=False)
    again.opens([], -1)
    for event in again.events:
        take_in(lost, event)
    assert lost.stores[STORE].is_certain
    assert lost.stores[STORE].rows == {}


def test_a_flush_is_safe_after_a_while() -> None:
    """The system writes it within 30 seconds, synced or not."""
    store = FoldedStore("0_0")
    store.flush(1_000)
    assert store.recent_flushes(30_999) == [1_000]
    assert store.recent_flushes(31_000) == []


@pytest.mark.parametrize("kind", ["task.wiped", "state.cleaned"])
def test_nothing_is_left_of_what_is_wiped(kind: str) -> None:
    """All stores of the task are gone, on that process."""
    assert told((kind, "instance-0", {"task": "0_0"})).stores == {}
    assert STORE in told((kind, "instance-1", {"task": "0_0"})).stores


# Who is there.


def test_processes_and_threads() -> None:
    """They are up, paused, and gone."""
    assert told().processes["instance-0"].threads[THREAD].active == ("0_0",)
    assert told(("instance.paused", "instance-0", {})).processes["instance-0"].is_paused
    gone = told(("instance.crashed", "instance-0", {}))
    assert not gone.processes["instance-0"].is_up
    assert gone.processes["instance-0"].threads == {}
    assert gone.tasks == {}
    assert told(("thread.died", THREAD, {"reason": "x"})).processes["instance-0"].threads == {}
    assert told(("thread.lost", THREAD, {"reason": "x"})).thread(THREAD).active == ()


def test_transactions() -> None:
    """One is open until it is decided, and goes on until its last marker."""
    transaction = told().transactions[7]
    assert (transaction.state, transaction.records) == ("open", {CHANGELOG: 1})
    assert told().name_of(7) == "count-instance-0-0"
    assert told().log(CHANGELOG).last_stable_offset == 3
    timed_out = ("transaction.timed_out", "brokers", {"transactional_id": "count-instance-0-0"})
    assert told(timed_out).transactions[7].state == "aborting"
    ended = folded(small_run().events)
    assert ended.transactions[7].state == "aborted"
    assert ended.log(CHANGELOG).last_stable_offset == ended.log(CHANGELOG).end == 5
    assert [ended.log(CHANGELOG).status(each) for each in ended.log(CHANGELOG).records] == [
        "committed",
        "committed",
        "aborted",
    ]


def log_of(*keys: bytes) -> FoldedLog:
    """A log with records of these keys."""
    log = FoldedLog()
    for offset, key in enumerate(keys):
        log.append(LogRecord(offset, key, b"", 0, -1, False))
    return log


def test_compaction_keeps_the_last_of_each_key() -> None:
    """Up to where it was done, and what a reader is given then."""
    log = log_of(b"a", b"b", b"a", b"a", b"b")
    log.compact(4)
    assert log.compacted == {0, 2}
    given = [each.offset for each in log.batch(-1, 4, 3, exactly_once=True)]
    assert given == [1, 3, 4]
    # What was fetched before has them still.
    given = [each.offset for each in log.batch(-1, 4, 5, exactly_once=True)]
    assert given == [0, 1, 2, 3, 4]


def test_what_is_wrong_with_an_instance_is_known() -> None:
    """That it stands still, for as long as it does."""
    scenario = read(find("KIP-447-zombie"))
    played = play(scenario, scenario.setups["at-least-once"]).played
    seen = moments(played)
    (still,) = (each.sequence for each in played.events if each.kind == "instance.stood_still")
    (awake,) = (each.sequence for each in played.events if each.kind == "instance.went_on")
    told = [
        seen.at(number).processes["instance-0"].troubles for number in (still - 1, still, awake)
    ]
    assert told == [frozenset(), frozenset({"stands still"}), frozenset()]
