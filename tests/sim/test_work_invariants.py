"""Invariants of work and commits, each in a few events: what it finds, and what it lets pass."""

from __future__ import annotations

from typing import Any

import pytest

from streamproof.sim.decisions.lag import LATEST_OFFSET
from streamproof.sim.invariants import Invariant, Watch
from streamproof.sim.invariants.append_order import AppendsKeepTheirOrder
from streamproof.sim.invariants.assignments import MembersReportWhatTheyHave
from streamproof.sim.invariants.commits import (
    AppliedRecordsAreCommitted,
    CommitsCarryEverything,
    StagedWritesAreBounded,
)
from streamproof.sim.invariants.deadlines import WaitsOfTasksEnd
from streamproof.sim.invariants.global_stores import GlobalStoresEqualTheirTopics
from streamproof.sim.invariants.pauses import PausedInstancesDoNothing
from streamproof.sim.invariants.punctuated_writes import PunctuatedWritesHaveTheirTime
from streamproof.sim.invariants.punctuation_schedules import PunctuationsKeepTheirSchedule
from streamproof.sim.invariants.reports import OpenTasksAreReported
from streamproof.sim.invariants.restoring_tasks import RestoringTasksAreClosedCleanly
from streamproof.sim.invariants.state_directories import (
    HotDirectoryIsKept,
    NothingIsCleanedWhileRestoring,
)
from streamproof.sim.invariants.store_formats import PreparedStoresAreBuilt
from streamproof.sim.invariants.visibility import StandbyKeepsUp
from streamproof.sim.invariants.waiting import LagIsThatOfTheLog
from streamproof.sim.trace import Event

THREAD = "a/thread-0"

Happens = tuple[int, str, dict[str, Any]]
"""The time of an event, its kind, and everything else about it."""


def found(
    invariant: type[Invariant],
    *events: Happens,
    exactly_once: bool = True,
    of_kafka: bool = False,
) -> tuple[list[str], bool]:
    """What an invariant says of these events, and whether its situation came about."""
    watch = Watch([invariant], exactly_once=exactly_once, of_kafka=of_kafka)
    for number, (time, kind, given) in enumerate(events):
        more = dict(given)
        actor = more.pop("actor", "a" if kind.startswith("instance") else THREAD)
        task, partition = more.pop("task", ""), more.pop("partition", "")
        offset = more.pop("offset", -1)
        watch(Event(number, time, actor, kind, task, partition, offset, more))
    return [each.message for each in watch.violations], bool(watch.tried)


def runs(task: str = "0_0") -> Happens:
    """A task begins to run."""
    return 0, "task.state", {"task": task, "before": "RESTORING", "after": "RUNNING"}


def processes(time: int, task: str = "0_0", offset: int = 0) -> Happens:
    """A task processes a record."""
    more = {"timestamp": 0, "others": {}, "clock": time}
    return time, "task.processed", {"task": task, "partition": "in-0", "offset": offset, **more}


def drops(time: int, task: str = "0_0", offset: int = 0) -> Happens:
    """A task leaves a record out."""
    more = {"task": task, "partition": "in-0", "offset": offset, "reason": "deserialization"}
    return time, "record.dropped", more


def times_out(time: int, task: str = "0_0") -> Happens:
    """A request for a task gets no answer."""
    return time, "task.timed_out", {"task": task, "waited_ms": 0}


def punctuates(time: int, task: str = "0_0") -> Happens:
    """A task punctuates."""
    return time, "task.punctuated", {"task": task, "clock": "wall-clock time", "timestamp": time}


def commits(time: int, *tasks: str) -> Happens:
    """A thread commits."""
    return time, "thread.committed", {"tasks": list(tasks), "offsets": {}}


@pytest.mark.parametrize("work", [processes, drops])
def test_a_task_that_takes_a_record_has_made_progress(work: Any) -> None:
    """A record that is left out is done with as well, so the wait starts over."""
    begins = 0, "application.started", {"task_timeout_ms": 1_000}
    waits = [begins, times_out(10), times_out(2_000), times_out(3_000)]
    assert len(found(WaitsOfTasksEnd, *waits)[0]) == 1
    assert found(WaitsOfTasksEnd, *waits[:2], work(1_000), *waits[2:]) == ([], False)


PAUSED: Happens = 10, "instance.paused", {}


@pytest.mark.parametrize("work", [processes, drops, punctuates])
def test_a_paused_instance_does_nothing(work: Any) -> None:
    """A round that had begun may end in the same millisecond."""
    messages, tried = found(PausedInstancesDoNothing, runs(), PAUSED, work(10), work(11))
    assert tried
    assert len(messages) == 1
    assert "a is paused since 10 ms" in messages[0]


@pytest.mark.parametrize(("time", "count"), [(1_010, 0), (1_011, 1)])
def test_a_thread_of_kafka_ends_its_round(time: int, count: int) -> None:
    """It asks between two rounds whether it is paused."""
    events = (runs(), PAUSED, processes(time))
    messages, _ = found(PausedInstancesDoNothing, *events, of_kafka=True)
    assert len(messages) == count


@pytest.mark.parametrize("end", ["instance.resumed", "instance.crashed", "instance.stopped"])
def test_after_the_pause_it_may_work_again(end: str) -> None:
    events = (runs(), PAUSED, (20, end, {}), processes(30))
    assert found(PausedInstancesDoNothing, *events) == ([], True)


def test_a_pause_without_a_task_says_nothing() -> None:
    assert found(PausedInstancesDoNothing, PAUSED) == ([], False)


RESTORES = [("restore.start", "restore.batch"), ("update.start", "update.batch")]


@pytest.mark.parametrize(("start", "batch"), RESTORES)
def test_a_paused_instance_restores_no_batch_but_the_one_under_way(start: str, batch: str) -> None:
    """The round of the state updater goes on to its end, and the next one must not begin."""
    where = {"task": "0_0", "partition": "log-0"}
    begins, applies = (1, start, where), (20, batch, where)
    under_way = [begins, (2, batch, where), PAUSED, applies]
    assert found(PausedInstancesDoNothing, *under_way)[0] == []
    assert len(found(PausedInstancesDoNothing, *under_way, applies)[0]) == 1
    resumed = 15, "instance.resumed", {}
    assert found(PausedInstancesDoNothing, *under_way, resumed, applies, applies)[0] == []


@pytest.mark.parametrize(("start", "batch"), RESTORES)
def test_a_task_that_comes_during_a_pause_is_not_restored(start: str, batch: str) -> None:
    """Not even by one round (KAFKA-14299)."""
    where = {"task": "0_0", "partition": "log-0"}
    late = [PAUSED, (12, start, where), (20, batch, where)]
    assert len(found(PausedInstancesDoNothing, *late)[0]) == 1
    over = (2, "restore.end" if start == "restore.start" else "update.suspended", where)
    again = [(1, start, where), over, *late]
    assert len(found(PausedInstancesDoNothing, *again)[0]) == 1


@pytest.mark.parametrize("work", [processes, punctuates])
def test_a_commit_names_all_tasks_that_did_something(work: Any) -> None:
    """And only what was done since the last commit."""
    events = (work(1), commits(2, "0_0"), commits(3), work(4), commits(5, "0_1"))
    messages, _ = found(CommitsCarryEverything, *events)
    assert len(messages) == 1
    assert "the commit of a/thread-0 leaves it out" in messages[0]


@pytest.mark.parametrize(("work", "count"), [(processes, 1), (punctuates, 0)])
def test_a_commit_of_kafka_names_only_new_offsets(work: Any, count: int) -> None:
    messages, _ = found(CommitsCarryEverything, work(1), commits(2), of_kafka=True)
    assert len(messages) == count


def test_what_dies_with_its_thread_is_in_no_commit() -> None:
    """The next owner does it again."""
    for end in ("instance.crashed", "instance.stopped", "thread.died"):
        actor = THREAD if end == "thread.died" else "a"
        events = (processes(1), (2, end, {"actor": actor}), commits(3))
        assert found(CommitsCarryEverything, *events) == ([], False)


def test_a_commit_after_a_punctuation_is_the_situation() -> None:
    assert found(CommitsCarryEverything, punctuates(1), commits(2, "0_0")) == ([], True)


STARTED: Happens = (
    0,
    "application.started",
    {
        "transactional": True,
        "store_rules": "proposal",
        "max_uncommitted_records": -1,
        "max_uncommitted_bytes": 9,
    },
)


def puts(time: int, changelog: str) -> Happens:
    """A store puts a row of five bytes."""
    return time, "store.put", {"task": "0_0", "partition": changelog, "key": b"key", "value": b"v1"}


STAGED = (STARTED, puts(1, "one-0"), puts(1, "two-0"), processes(1))
"""Ten bytes in two stores, of nine that are allowed, at the end of a round."""


def test_the_puts_of_all_stores_add_up() -> None:
    """Whatever the runtime says: no event of it is needed."""
    messages, tried = found(StagedWritesAreBounded, *STAGED, processes(500))
    assert tried
    assert "2 records with 10 bytes" in messages[0]


def test_a_commit_or_trouble_gives_time_again() -> None:
    """So does a rebalance, until the thread has its new assignment."""
    committed = (2, "store.committed", {"task": "0_0", "partition": "one-0", "offset": 0})
    joins = (2, "thread.subscribed", {"owned": [], "sums": {}})
    for between in (committed, joins, (2, "network.request_lost", {})):
        assert found(StagedWritesAreBounded, *STAGED, between, processes(500))[0] == []


def test_the_same_key_counts_once() -> None:
    events = (STARTED, puts(1, "one-0"), puts(1, "one-0"), processes(1), processes(500))
    assert found(StagedWritesAreBounded, *events) == ([], False)


def test_a_tombstone_may_bring_the_sum_below_the_limit() -> None:
    """Then the thread has nothing to do any more."""
    row = {"task": "0_0", "partition": "one-0", "key": b"key", "value": None}
    events = (*STAGED, (2, "store.put", row), processes(500))
    assert found(StagedWritesAreBounded, *events) == ([], True)


def appended(offset: int, producer: int) -> Happens:
    """A record arrives; one of a producer from 0 on is in a transaction."""
    more = {"key": b"k", "value": b"v", "timestamp": 0}
    more |= {"producer": producer, "transactional": producer >= 0}
    return 1, "log.appended", {"partition": "table-0", "offset": offset, **more}


WAITS: Happens = (
    2,
    "task.waiting",
    {"task": "0_0", "waiting": {"table-0": "data on the broker"}},
)


@pytest.mark.parametrize(
    ("producer", "exactly_once", "holds"), [(7, True, False), (7, False, True), (-1, True, True)]
)
def test_an_open_transaction_is_no_lag(producer: int, exactly_once: bool, holds: bool) -> None:
    """Under read_committed; under read_uncommitted each record counts at once."""
    messages, tried = found(
        LagIsThatOfTheLog, appended(0, producer), WAITS, exactly_once=exactly_once
    )
    assert tried
    assert bool(messages) is not holds


# The cleaner.


@pytest.mark.parametrize(("went_on", "count"), [(100, 1), (9_000, 0)])
def test_a_round_of_the_cleaner_does_not_pass_while_a_process_stands_still(
    went_on: int, count: int
) -> None:
    """The round began before the thread got its task, and ends after the process goes on."""
    events: list[Happens] = [
        (0, "application.started", {"tasks": ["0_0"]}),
        (0, "instance.started", {}),
        (10, "thread.assigned", {"active": ["0_0"]}),
        (20, "instance.stood_still", {}),
        (went_on, "instance.went_on", {}),
        (9_500, "state.cleaned", {"actor": "a", "task": "0_1"}),
    ]
    assert len(found(NothingIsCleanedWhileRestoring, *events)[0]) == count


@pytest.mark.parametrize(
    ("cleaned_at", "is_starting", "wrong"),
    [(1_400, False, 1), (2_000, False, 0), (1_400, True, 0), (1_100, True, 1)],
)
def test_a_directory_is_deleted_only_after_the_time_that_the_settings_name(
    cleaned_at: int, is_starting: bool, wrong: int
) -> None:
    """The cleaner and the start have a time each; what the runtime says of them does not count."""
    settings = {
        "changelogs": {"0_0": ["log-0"]},
        "state_cleanup_delay_ms": 1_000,
        "state_cleanup_dir_max_age_ms": 300,
    }
    closed = {"task": "0_0", "before": "SUSPENDED", "after": "CLOSED"}
    again: list[Happens] = [(1_050, "instance.stopped", {}), (1_060, "instance.started", {})]
    events: list[Happens] = [
        (0, "application.started", settings),
        (0, "instance.started", {}),
        (1, "thread.producer", {}),
        (1_000, "task.state", closed),
        *(again if is_starting else []),
        (cleaned_at, "state.cleaned", {"actor": "a", "task": "0_0"}),
    ]
    messages, tried = found(HotDirectoryIsKept, *events)
    assert tried
    assert len(messages) == wrong


@pytest.mark.parametrize(("offset", "wrong"), [(6, 0), (7, 0), (8, 1)])
def test_a_global_store_commits_no_offset_beyond_its_records(offset: int, wrong: int) -> None:
    """The record after the last one would be lost by the process that begins there."""
    here = {"actor": "a/global", "partition": "table-0"}
    opened = 0, "global.opened", {**here, "offset": 3, "store": "table", "persistent": True}
    applied = 1, "global.applied", {**here, "offset": 7, "store": "table", "records": 4}
    more = {"actor": "a/global", "store": "table", "offsets": {"table-0": offset}}
    committed = 2, "global.committed", more
    assert len(found(GlobalStoresEqualTheirTopics, opened, applied, committed)[0]) == wrong
    at_once = 1, "global.committed", {**more, "offsets": {"table-0": 3}}
    assert found(GlobalStoresEqualTheirTopics, opened, at_once)[0] == []


# Punctuations.


def punctuates_every(interval_ms: int, clock: str, *times: int) -> list[Happens]:
    """A task runs, and is punctuated at these times."""
    more = {"task": "0_0", "clock": clock, "interval_ms": interval_ms}
    return [runs(), *((time, "task.punctuated", {**more, "timestamp": time}) for time in times)]


@pytest.mark.parametrize(
    ("clock", "times", "count"),
    [
        ("stream time", [0, 10, 20, 45, 50], 0),
        ("stream time", [7, 10], 0),
        ("stream time", [7, 9], 1),
        ("stream time", [7, 7], 1),
        ("stream time", [25, 29], 1),
        ("wall-clock time", [103, 104, 114], 0),
        ("wall-clock time", [103, 104, 113], 1),
        ("wall-clock time", [103, 103], 1),
        ("wall-clock time", [103, 139, 140, 150, 161, 170], 0),
        ("wall-clock time", [103, 139, 140, 150, 159], 1),
        ("wall-clock time", [103, 108, 113, 118], 1),
    ],
)
def test_an_interval_has_one_punctuation(clock: str, times: list[int], count: int) -> None:
    """Stream time begins at 0; each call by the clock narrows down where its intervals begin."""
    messages, tried = found(PunctuationsKeepTheirSchedule, *punctuates_every(10, clock, *times))
    assert (len(messages), tried) == (count, True)


def test_a_task_that_runs_again_begins_its_intervals_anew() -> None:
    """The intervals of another punctuation have nothing to do with it, either."""
    once = punctuates_every(10, "wall-clock time", 103)
    other = punctuates_every(11, "wall-clock time", 103)
    assert found(PunctuationsKeepTheirSchedule, *once, *once) == ([], False)
    assert found(PunctuationsKeepTheirSchedule, *once, *other[1:]) == ([], False)


def commits_again(time: int) -> Happens:
    """The thread commits the task."""
    return time, "thread.committed", {"tasks": ["0_0"], "offsets": {}}


def processes_at(timestamp: int) -> Happens:
    """A record with this timestamp is processed."""
    time, kind, more = processes(0)
    return time, kind, {**more, "timestamp": timestamp}


@pytest.mark.parametrize(
    ("after", "count"),
    [
        ([processes_at(11), commits_again(1), processes_at(11), commits_again(2)], 1),
        # Stream time has not passed a multiple, or a single commit came before the call.
        ([processes_at(9), commits_again(1), processes_at(9), commits_again(2)], 0),
        ([processes_at(11), commits_again(1), commits_again(2)], 0),
        (
            [
                *(processes_at(11), commits_again(1)),
                *punctuates_every(10, "stream time", 11)[1:],
                *(processes_at(11), commits_again(2)),
            ],
            0,
        ),
    ],
)
def test_a_multiple_that_has_passed_leads_to_a_punctuation(
    after: list[Happens], count: int
) -> None:
    """In the round that passes it, which ends before the second commit."""
    events = [*punctuates_every(10, "stream time", 3), *after]
    assert len(found(PunctuationsKeepTheirSchedule, *events)[0]) == count


# Tasks that are taken away, and standbys.


@pytest.mark.parametrize(
    ("before", "trouble", "closed_at", "count"),
    [
        ("RESTORING", "thread.lost", 100, 1),
        ("RUNNING", "thread.lost", 100, 0),
        ("RESTORING", "disk.full", 100, 0),
        ("RESTORING", "updater.failed", 100, 0),
        # A commit may have got no answer.
        ("RESTORING", "thread.lost", 2_000, 0),
    ],
)
def test_a_restoring_task_is_closed_cleanly(
    before: str, trouble: str, closed_at: int, count: int
) -> None:
    """Unless something has gone wrong since its thread got its last assignment."""
    actor = "a" if trouble.startswith("disk") else THREAD
    events: list[Happens] = [
        (10, "thread.assigned", {"active": [], "standby": []}),
        (20, trouble, {"actor": actor, "reason": ""}),
        (30, "task.state", {"task": "0_0", "before": before, "after": "SUSPENDED"}),
    ]
    for closing, broken in (("DIRTY", count), ("CLEAN", 0)):
        closed = closed_at, "task.closed", {"task": "0_0", "closing": closing}
        assert len(found(RestoringTasksAreClosedCleanly, *events, closed)[0]) == broken
        # The commit of another task may have failed, unless it is told.
        running = runs("0_1"), *events, closed
        assert found(RestoringTasksAreClosedCleanly, *running)[0] == []
        told = runs("0_1"), *events, (40, "thread.committed", {"tasks": [], "offsets": {}}), closed
        assert len(found(RestoringTasksAreClosedCleanly, *told)[0]) == broken


@pytest.mark.parametrize(
    ("committed_at", "applied", "held_up", "count"),
    [
        (0, 0, (0, "restore.end"), 1),
        (0, 1, (0, "restore.end"), 0),
        (35_000, 0, (0, "restore.end"), 0),
        (0, 0, (35_000, "restore.end"), 0),
        (0, 0, (15_000, "restore.end"), 1),
        (0, 0, (15_000, "network.reply_lost"), 0),
        (0, 0, (100, "network.request_lost"), 1),
    ],
)
def test_a_standby_keeps_up_with_its_input(
    committed_at: int, applied: int, held_up: tuple[int, str], count: int
) -> None:
    """It gets what was committed long before, unless its updater has just restored a task.

    After a loss in the network, the updater waits for a reply until the request times out.
    """
    row = {"actor": "brokers", "partition": "in-0", "key": b"k", "value": b"v"}
    more = {"timestamp": 0, "producer": -1, "transactional": False}
    updater = {"actor": "a/updater-0", "task": "0_0", "partition": "in-0"}
    events: list[Happens] = [
        (0, "application.started", {"commit_interval_ms": 100}),
        *((0, "log.appended", {**row, **more, "offset": offset}) for offset in range(2)),
        (0, "update.start", {**updater, "start": 0}),
        (1, "update.batch", {**updater, "offset": applied, "is_input": True, "records": 1}),
        (committed_at, "offsets.committed", {"offsets": {"in-0": 2}}),
        (*held_up, {**updater, "partition": "log-0", "total": 1, "what": "fetch"}),
        (42_000, "thread.metrics", {}),
    ]
    watch = Watch([StandbyKeepsUp], exactly_once=False)
    for number, (time, kind, given) in enumerate(events):
        about = {name: given.get(name, "") for name in ("actor", "task", "partition")}
        watch(
            Event(
                number, time, kind=kind, offset=given.get("offset", -1), attributes=given, **about
            )
        )
    assert len(watch.end()) == count


def test_a_store_in_memory_counts_in_the_report_of_an_open_task() -> None:
    store = {"task": "0_0", "partition": "log-0"}
    events: list[Happens] = [
        (0, "store.opened", {**store, "persistent": False}),
        (0, "task.state", {"task": "0_0", "before": "CREATED", "after": "RESTORING"}),
        (1, "store.restored", {**store, "offset": 9, "records": 10}),
    ]
    for reported in (0, 10):
        report = 2, "thread.subscribed", {"used": 11, "sums": {"0_0": reported}}
        messages, _ = found(OpenTasksAreReported, *events, report)
        assert len(messages) == (reported != 10)


def test_a_thread_reports_that_its_own_task_runs() -> None:
    """Another thread of the process may close the task later, because it has just lost it."""
    other = {"task": "0_0", "actor": "a/thread-1"}
    closed = 2, "task.state", {**other, "before": "SUSPENDED", "after": "CLOSED"}
    report = 3, "thread.subscribed", {"used": 11, "sums": {"0_0": LATEST_OFFSET}}
    assert found(MembersReportWhatTheyHave, runs(), closed, report)[0] == []
    opened = 2, "task.state", {**other, "before": "RESTORING", "after": "RUNNING"}
    assert len(found(MembersReportWhatTheyHave, opened, report)[0]) == 1


def test_a_batch_that_overtook_another_one_ends_nothing() -> None:
    """It is sent again; other errors of a producer may end it."""
    for reason, count in (("OutOfOrderSequenceError", 1), ("ProducerFencedError", 0)):
        lost = 0, "thread.lost", {"reason": reason}
        assert len(found(AppendsKeepTheirOrder, lost)[0]) == count
        unheard = 0, "network.reply_lost", {"actor": "a", "what": "produce"}
        assert found(AppendsKeepTheirOrder, unheard, lost)[0] == []


def wrote(value: bytes) -> Happens:
    """A task writes a row."""
    row = {"partition": "log-0", "key": b"k", "value": value}
    return 0, "store.put", {"task": "0_0", **row}


def logged(value: bytes, timestamp: int) -> Happens:
    """The changelog has the row."""
    row = {"partition": "log-0", "key": b"k", "value": value, "transactional": False}
    return 0, "log.appended", {**row, "offset": 0, "timestamp": timestamp, "producer": -1}


@pytest.mark.parametrize(("timestamp", "count"), [(7, 0), (9, 0), (8, 1)])
def test_what_a_punctuator_writes_has_its_time(timestamp: int, count: int) -> None:
    """That of any punctuation that wrote the same; a row of a record has its own time."""
    calls = punctuates_every(1, "wall-clock time", 7, 9)[1:]
    events = [calls[0], wrote(b"1"), calls[1], wrote(b"1"), logged(b"1", timestamp)]
    for bytes_cached, broken in ((0, count), (1, 0)):
        begun = 0, "application.started", {"statestore_cache_max_bytes": bytes_cached}
        assert len(found(PunctuatedWritesHaveTheirTime, begun, *events)[0]) == broken
        late = [*events[:-1], processes(10), wrote(b"1"), logged(b"1", timestamp)]
        assert found(PunctuatedWritesHaveTheirTime, begun, *late) == ([], False)


def applied(*times: int, kind: str = "update.batch", task: str = "0_0") -> list[Happens]:
    """A state updater applies records of a task at these times."""
    more = {"actor": "a/updater-0", "task": task, "partition": "log-0", "records": 1}
    return [(time, kind, {**more, "offset": time, "remaining": 0}) for time in times]


@pytest.mark.parametrize("kind", ["update.batch", "restore.batch"])
def test_an_updater_at_work_commits_what_it_has_applied(kind: str) -> None:
    begins = 0, "application.started", {"commit_interval_ms": 1_000}
    committed = 2_500, "store.committed", {"task": "0_0", "partition": "log-0", "offset": 1}
    left = 2_500, "task.closed", {"task": "0_0", "closing": "CLEAN"}
    first, second = range(0, 2_500, 250), range(2_500, 5_500, 250)
    batches = [*applied(*first, kind=kind), *applied(*second, kind=kind)]
    messages, tried = found(AppliedRecordsAreCommitted, begins, *batches)
    assert ("commit.interval.ms is 1000" in messages[0], tried) == (True, False)
    for between, comes_about in ((committed, True), (left, False)):
        events = [*batches[: len(first)], between, *batches[len(first) :]]
        assert found(AppliedRecordsAreCommitted, begins, *events) == ([], comes_about)
    # Nobody knows what it did between two batches that are far apart.
    rare = applied(*range(0, 60_000, 10_000), kind=kind)
    assert found(AppliedRecordsAreCommitted, begins, *rare) == ([], False)
    assert found(AppliedRecordsAreCommitted, begins, *batches, of_kafka=True) == ([], False)


@pytest.mark.parametrize(("start", "count"), [(0, 1), (58, 1), (59, 0)])
def test_what_retention_has_deleted_need_not_be_built(start: int, count: int) -> None:
    """The newer format lacks nothing then that its changelog still has."""
    log = {"partition": "log-0", "task": "0_0"}
    opened = {**log, "offset": 58, "store": "windows", "persistent": True, "place": "windows"}
    record = {"value": b"v", "timestamp": 0, "producer": -1, "transactional": False}
    events = [
        *(
            (
                0,
                "log.appended",
                {**record, "partition": "log-0", "offset": each, "key": b"%d" % each},
            )
            for each in range(60)
        ),
        (0, "store.opened", {**opened, "wipe": False, "segmented": False}),
        (1, "store.rebuilt", {**log, "actor": "a", "offset": 39, "prepared": False}),
        (2, "log.deleted", {"partition": "log-0", "offset": start, "reason": "retention"}),
        (3, "instance.prepared", {"stores": {"log-0": 39}}),
    ]
    assert len(found(PreparedStoresAreBuilt, *events)[0]) == count
