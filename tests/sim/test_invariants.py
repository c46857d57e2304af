"""Invariants: each one finds what it is about in a few events, and nothing where all is well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hand_made_events import made

from streamproof.sim.invariants import INVARIANTS, Invariant, InvariantError, Watch
from streamproof.sim.invariants.contents import (
    ClosedStoreEqualsChangelog,
    CommittedOffsetIsInTheLog,
    FoundStoreIsVouchedFor,
    RunningStoreEqualsChangelog,
)
from streamproof.sim.invariants.delivery import (
    CommitEndsTheTransaction,
    CommittedInputIsLogged,
    CommittedInputWasProcessed,
    EachInputCountsOnce,
)
from streamproof.sim.invariants.global_stores import ProcessesGetTheirGlobalStores
from streamproof.sim.invariants.invariant import Observer
from streamproof.sim.invariants.liveness import (
    EveryTaskRuns,
    EveryThreadTakesPart,
    NothingIsWipedWithoutNeed,
    UncommittedBytesAreBounded,
)
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.invariants.metadata_versions import (
    EmptyAnswerIsForTheTooNew,
    VersionIsThatOfTheRelease,
)
from streamproof.sim.invariants.open_transactions import EveryWriteIsInATransaction
from streamproof.sim.invariants.ordering import (
    LeastTimestampFirst,
    WaitsForTheRestOfABurst,
    WaitsForWhatIsThere,
    WaitsForWhatWasThere,
)
from streamproof.sim.invariants.ownership import (
    AssignedTasksAreKept,
    LostTasksAreGivenUp,
    OneHolderInAProcess,
    OneOwnerInAGeneration,
    OwnersFollowEachOther,
    RestoringIsPaired,
)
from streamproof.sim.invariants.queries import StandbyShowsAPrefix
from streamproof.sim.invariants.query_routes import RefusalsAreTrue
from streamproof.sim.invariants.resets import GonePositionsStartOver, InputsAreReadOn
from streamproof.sim.invariants.store_formats import (
    LiveFormatIsThatOfTheAssignment,
    OlderFormatIsDeletedInTime,
)
from streamproof.sim.invariants.upgrades import ClosedStoreKeepsItsOffset
from streamproof.sim.invariants.visibility import UpdatingIsPaired
from streamproof.sim.trace import Event

A, B = "a/thread-0", "b/thread-0"
"""Threads of two processes."""

CHANGELOG = "app-store-changelog-0"

Happens = tuple[str, dict[str, Any]]
"""The kind of an event, and everything else about it."""


def event(number: int, kind: str, more: dict[str, Any]) -> Event:
    """An event a millisecond after the one before, unless it has a time of its own."""
    fields = {name: more.pop(name) for name in ("task", "partition", "offset") if name in more}
    return Event(
        number,
        more.pop("time", number),
        more.pop("actor", A),
        kind,
        fields.get("task", ""),
        fields.get("partition", ""),
        fields.get("offset", -1),
        more,
    )


def found(
    invariant: type[Invariant],
    *events: Happens,
    exactly_once: bool = True,
    end: bool = True,
    of_kafka: bool = False,
) -> list[str]:
    """What an invariant says of these events."""
    watch = Watch([invariant], exactly_once=exactly_once, of_kafka=of_kafka)
    for number, (kind, more) in enumerate(events):
        watch(event(number, kind, dict(more)))
    violations = watch.end() if end else watch.violations
    assert {each.invariant for each in violations} <= {invariant.name}
    assert {each.requirement for each in violations} <= {invariant.requirement}
    return [each.message for each in violations]


def appended(
    offset: int,
    key: bytes = b"k",
    value: bytes | None = b"v",
    *,
    partition: str = CHANGELOG,
    producer: int = -1,
) -> Happens:
    """A record arrives; one with a producer is part of a transaction."""
    return "log.appended", {
        "partition": partition,
        "offset": offset,
        "key": key,
        "value": value,
        "timestamp": offset,
        "producer": producer,
        "transactional": producer >= 0,
    }


def decided(producer: int, *, commit: bool) -> Happens:
    """A transaction is decided."""
    return "transaction.decided", {"producer": producer, "commit": commit}


def contents(kind: str, offset: int, rows: dict[bytes, bytes], actor: str = A) -> Happens:
    """A store has these rows now."""
    pairs = [[key, value] for key, value in rows.items()]
    return kind, {
        "actor": actor,
        "task": "0_0",
        "partition": CHANGELOG,
        "offset": offset,
        "rows": pairs,
        "is_input": False,
    }


def processed(offset: int, actor: str = A, **more: Any) -> Happens:
    """A record of ``in-0`` is processed."""
    known = {"timestamp": offset, "others": {}, "clock": 0, "stream_time": offset}
    fields = {"actor": actor, "task": "0_0", "partition": "in-0", "offset": offset}
    return "task.processed", {**fields, **known, **more}


def state(after: str, actor: str = A) -> Happens:
    """A task goes over into another state."""
    return "task.state", {"actor": actor, "task": "0_0", "before": "", "after": after}


def started(**more: Any) -> Happens:
    """The application starts."""
    return "application.started", {
        "tasks": ["0_0"],
        "max_task_idle_ms": 0,
        "max_uncommitted_bytes": 100,
        "max_uncommitted_records": -1,
        "store_rules": "proposal",
        **more,
    }


# Contents.


@pytest.mark.parametrize("kind", ["store.running", "store.closing", "store.found"])
def test_a_store_that_is_what_its_changelog_says(kind: str) -> None:
    """What was aborted does not count, and the last value of each key does."""
    invariant = {
        "store.running": RunningStoreEqualsChangelog,
        "store.closing": ClosedStoreEqualsChangelog,
        "store.found": FoundStoreIsVouchedFor,
    }[kind]
    log = [
        appended(0, b"a", b"1", producer=1),
        appended(1, b"b", b"1", producer=1),
        decided(1, commit=True),
        appended(2, b"a", b"2", producer=1),
        decided(1, commit=False),
        appended(3, b"b", None, producer=1),
        decided(1, commit=True),
    ]
    assert found(invariant, *log, contents(kind, 3, {b"a": b"1"})) == []
    (message,) = found(invariant, *log, contents(kind, 3, {b"a": b"2"}))
    assert "b'a' = b'2'" in message
    assert message.endswith("b'1'")
    assert len(found(invariant, *log, contents(kind, 3, {}))) == 1
    assert len(found(invariant, *log, contents(kind, 3, {b"a": b"2", b"c": b"1"}))) == 2


@pytest.mark.parametrize(("assigned_at", "count"), [(1, 0), (2, 1)])
def test_a_restoration_ends_behind_what_was_there_when_its_task_came(
    assigned_at: int, count: int
) -> None:
    """Under at-least-once as well, where a zombie may append after that."""
    events = [appended(each, b"a", b"%d" % each) for each in range(2)]
    events.insert(assigned_at, ("thread.assigned", {"generation": 1, "active": ["0_0"]}))
    row = contents("store.running", 0, {b"a": b"0"})
    assert len(found(RunningStoreEqualsChangelog, *events, row, exactly_once=False)) == count


ASSIGNED: Happens = ("thread.assigned", {"generation": 1, "active": ["0_0"]})
AGAIN: Happens = ("thread.assigned", {"generation": 2, "active": ["0_0"]})
LOST: Happens = ("thread.assigned", {"generation": 2, "active": []})
CLOSED: Happens = ("task.closed", {"task": "0_0", "closing": "DIRTY"})


@pytest.mark.parametrize(
    ("events", "count"),
    [([AGAIN], 0), ([LOST, AGAIN], 1), ([CLOSED], 1), ([("thread.died", {}), AGAIN], 1)],
)
def test_the_end_of_a_restoration_stays_while_its_thread_keeps_the_task(
    events: list[Happens], count: int
) -> None:
    """However often the group rebalances meanwhile; whoever opens a task asks for its end again."""
    log = [appended(0, b"a", b"0"), ASSIGNED, appended(1, b"a", b"1")]
    row = contents("store.running", 0, {b"a": b"0"})
    breaches = found(RunningStoreEqualsChangelog, *log, *events, row, exactly_once=False)
    assert len(breaches) == count


def test_a_store_that_is_found_may_be_further_than_its_offset() -> None:
    """Any later value will do, and no earlier one."""
    log = [appended(each, b"a", b"%d" % each) for each in range(4)]
    for value, broken in ((b"0", 1), (b"1", 0), (b"3", 0), (b"4", 1)):
        row = contents("store.found", 1, {b"a": value})
        assert len(found(FoundStoreIsVouchedFor, *log, row)) == broken


def test_a_store_that_is_closed_may_be_as_it_was_found() -> None:
    """Further than its offset, if it was so at the opening; what came in since must be covered."""
    log = [appended(each, b"a", b"%d" % each) for each in range(4)]
    opened = contents("store.found", 1, {b"a": b"3"})
    for value, broken in ((b"3", 0), (b"2", 1), (b"1", 0)):
        closing = contents("store.closing", 1, {b"a": value})
        assert len(found(ClosedStoreEqualsChangelog, *log, opened, closing)) == broken
    closing = contents("store.closing", 1, {b"a": b"3"})
    assert len(found(ClosedStoreEqualsChangelog, *log, closing)) == 1
    never = contents("store.found", 1, {b"a": b"9"}), contents("store.closing", 1, {b"a": b"9"})
    assert len(found(ClosedStoreEqualsChangelog, *log, *never)) == 1


def put(key: bytes, value: bytes | None) -> Happens:
    """A processor writes into the store."""
    return "store.put", {"partition": CHANGELOG, "key": key, "value": value}


CRASHED: Happens = ("instance.crashed", {"actor": "a"})


def test_a_crash_takes_back_what_overwrote_a_write_that_was_never_logged() -> None:
    """At-least-once: what is only in the store may outlive what came after it, and nothing else."""
    log = [put(b"a", b"1"), put(b"a", None), CRASHED]
    for value, broken in ((b"1", 0), (b"2", 1)):
        row = contents("store.found", 0, {b"a": value})
        assert len(found(FoundStoreIsVouchedFor, *log, row, exactly_once=False)) == broken
    covered = [put(b"a", b"1"), put(b"a", b"2"), appended(0, b"a", b"2"), CRASHED]
    row = contents("store.found", 0, {b"a": b"1"})
    assert len(found(FoundStoreIsVouchedFor, *covered, row, exactly_once=False)) == 1


def test_a_write_that_was_never_logged_stays_if_the_log_gave_up_what_replaced_it() -> None:
    """At-least-once: a store without an offset keeps its rows, and reads the log from its start."""
    log = [put(b"a", b"1"), put(b"a", None), appended(0, b"a", None), appended(1, b"b", b"2")]
    gone = "log.deleted", {"partition": CHANGELOG, "offset": 1, "reason": "retention"}
    row = contents("store.running", 1, {b"a": b"1", b"b": b"2"})
    other = contents("store.running", 1, {b"a": b"9", b"b": b"2"})

    def broken(*events: Happens) -> int:
        return len(found(RunningStoreEqualsChangelog, *events, exactly_once=False))

    assert broken(*log, CRASHED, gone, row) == 0
    assert broken(*log, CRASHED, gone, other) == 1
    assert broken(*log, CRASHED, row) == 1


def test_an_owner_has_not_what_a_zombie_appends() -> None:
    """At-least-once: while it runs; what came before or after that has to be restored.

    A recorded process has its first producer before it is seen to start.
    """
    started = "instance.started", {"actor": "a", "formats": [1]}
    begin = [
        ("thread.producer", {"actor": A, "producer": 1}),
        contents("store.running", -1, {}),
    ]
    close = "task.closed", {"actor": A, "task": "0_0"}
    strange = appended(0, b"a", b"1", producer=2)
    own = appended(0, b"a", b"1", producer=1)
    restored = "store.restored", {"partition": CHANGELOG, "offset": 0, "records": 1}
    for happened, broken in (
        ([*begin, strange], 0),
        ([*begin, own], 1),
        ([begin[0], started, begin[1], own], 1),
        ([begin[0], started, begin[1], strange], 0),
        ([*begin, CRASHED, started, begin[1], own], 0),
        ([strange, *begin], 1),
        ([*begin, close, strange], 1),
        ([*begin, CRASHED, strange], 1),
        ([*begin, strange, close, restored], 1),
    ):
        for kind in ("store.closing", "store.found"):
            invariant = (
                ClosedStoreEqualsChangelog if kind == "store.closing" else FoundStoreIsVouchedFor
            )
            row = contents(kind, 0, {})
            messages = found(invariant, *happened, row, exactly_once=False)
            assert len(messages) == broken, (happened, kind)


@pytest.mark.parametrize(("place", "broken"), [("s", 0), ("s-v2", 1)])
def test_a_newer_format_has_what_a_zombie_appended_before_it_was_built(
    place: str, broken: int
) -> None:
    """It is built from the changelog, whoever wrote that; the format in use saw no such record."""
    about = {"task": "0_0", "partition": CHANGELOG, "offset": 0}
    events: list[Happens] = [
        ("thread.producer", {"actor": A, "producer": 1}),
        contents("store.running", -1, {}),
        appended(0, b"a", b"1", producer=2),
        ("store.rebuilt", {**about, "actor": "a", "prepared": True}),
        ("task.closed", {"actor": A, "task": "0_0"}),
        ("store.opened", {**about, "actor": A, "place": place}),
        contents("store.found", 0, {}),
    ]
    assert len(found(FoundStoreIsVouchedFor, *events, exactly_once=False)) == broken


@pytest.mark.parametrize(("closing", "broken"), [("CLEAN", 1), ("DIRTY", 0)])
def test_a_newer_format_may_be_lost_with_a_task_that_is_not_closed_cleanly(
    closing: str, broken: int
) -> None:
    """Later, a clean close of the older format says nothing about the newer one."""
    about = {"task": "0_0", "partition": CHANGELOG, "actor": A}
    opens = {**about, "persistent": True, "wipe": False, "segmented": False}
    older: Happens = ("store.opened", {**opens, "offset": 5, "place": "s"})
    close: Happens = ("store.closing", {**about, "offset": 5, "rows": []})
    events: list[Happens] = [
        ("instance.started", {"actor": "a", "manages_offsets": True, "formats": [1, 2]}),
        older,
        ("store.rebuilt", {**about, "actor": "a", "offset": 5, "prepared": True}),
        close,
        ("task.closed", {"actor": A, "task": "0_0", "closing": closing}),
        older,
        close,
        ("task.closed", {"actor": A, "task": "0_0", "closing": "CLEAN"}),
        ("store.opened", {**opens, "offset": -1, "place": "s-v2"}),
    ]
    assert len(found(ClosedStoreKeepsItsOffset, *events)) == broken


@pytest.mark.parametrize(("died", "broken"), [(True, 0), (False, 1)])
def test_a_dead_state_updater_does_not_know_what_becomes_of_its_tasks(
    *, died: bool, broken: int
) -> None:
    about = {"actor": "a/updater-0", "task": "0_0", "partition": CHANGELOG}
    events: list[Happens] = [
        ("update.start", about),
        *([("updater.died", {"actor": "a/updater-0"})] if died else []),
        ("update.suspended", {**about, "reason": "migrated"}),
        ("task.recycled", {"actor": A, "task": "0_0", "is_active": True}),
    ]
    assert len(found(UpdatingIsPaired, *events)) == broken


def test_what_is_restored_is_seen_whatever_was_compacted_in_between() -> None:
    """A batch of one record goes past all that is before it."""
    events: list[Happens] = [
        ("thread.producer", {"actor": A, "producer": 1}),
        contents("store.running", -1, {}),
        appended(0, b"a", b"1", producer=2),
        appended(1, b"b", b"1", producer=2),
        ("task.closed", {"actor": A, "task": "0_0"}),
        ("restore.start", {"partition": CHANGELOG, "start": 0, "end": 2}),
        ("store.restored", {"partition": CHANGELOG, "offset": 1, "records": 1}),
        contents("store.found", 1, {}),
    ]
    assert len(found(FoundStoreIsVouchedFor, *events, exactly_once=False)) == 2
    events[5] = ("restore.start", {"partition": CHANGELOG, "start": 1, "end": 2})
    assert len(found(FoundStoreIsVouchedFor, *events, exactly_once=False)) == 1


def test_a_restored_store_lacks_what_a_zombie_appends_behind_the_end() -> None:
    """Whether that comes before the restoration begins, or after."""
    restored: list[Happens] = [
        ("thread.producer", {"actor": A, "producer": 1}),
        appended(0, b"a", b"1", producer=1),
        ("restore.start", {"task": "0_0", "partition": CHANGELOG, "start": 0, "end": 1}),
        ("store.restored", {"partition": CHANGELOG, "offset": 0, "records": 1}),
        contents("store.running", 0, {b"a": b"1"}),
    ]
    strange, own = (appended(1, b"b", b"1", producer=each) for each in (2, 1))
    closed = contents("store.closing", 1, {b"a": b"1"})

    def missed(record: Happens, place: int) -> int:
        events = [*restored[:place], record, *restored[place:], closed]
        return len(found(ClosedStoreEqualsChangelog, *events, exactly_once=False))

    assert [missed(strange, place) for place in (2, 3, 4, 5)] == [0, 0, 0, 0]
    assert [missed(own, place) for place in (2, 3, 4, 5)] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("cleaned", "count", "came"),
    [
        (0, 4, {b"1", b"2", b"3", b"4"}),
        (4, 3, {b"1", b"3", b"4"}),
        # It had read them before the log was compacted.
        (4, 4, {b"1", b"2", b"3", b"4"}),
        # The log was compacted in between, and nobody can tell what was read by then.
        (4, 2, {b"1", b"2", b"3", b"4"}),
    ],
)
def test_what_a_restoration_has_read_of_a_compacted_log(
    cleaned: int, count: int, came: set[bytes]
) -> None:
    """At-least-once: what was left from where it began, and not the last records of all."""
    keys = [b"d", b"a", b"b", b"b", b"c"]
    log = [appended(offset, key, b"%d" % offset) for offset, key in enumerate(keys)]
    events: list[Happens] = [
        *log,
        ("log.compacted", {"partition": CHANGELOG, "offset": cleaned}),
        ("restore.start", {"partition": CHANGELOG, "start": 1, "end": 5}),
        ("store.restored", {"partition": CHANGELOG, "offset": 4, "records": count}),
    ]
    history = LogHistory(exactly_once=False)
    for number, (kind, more) in enumerate(events):
        history.see(event(number, kind, dict(more)))
    (stored,) = history.stored.values()
    assert {value for _, value in stored} == came


@pytest.mark.parametrize("kind", ["store.closing", "store.found"])
def test_a_store_that_was_restored_from_a_compacted_log(kind: str) -> None:
    """It may lack what a later record took the place of, until it comes to that."""
    invariant = {
        "store.closing": ClosedStoreEqualsChangelog,
        "store.found": FoundStoreIsVouchedFor,
    }[kind]
    log = [appended(0, b"a", b"1"), appended(1, b"a", b"2"), appended(2, b"b", b"1")]
    log.append(appended(3, b"a", b"3"))

    def broken(value: bytes, *, offset: int, cleaned: int) -> int:
        compacted: Happens = ("log.compacted", {"partition": CHANGELOG, "offset": cleaned})
        row = contents(kind, offset, {b"a": value, b"b": b"1"})
        return len(found(invariant, *log, compacted, row))

    assert broken(b"1", offset=2, cleaned=4) == 0
    assert broken(b"2", offset=2, cleaned=4) == 0
    assert broken(b"1", offset=2, cleaned=3) == 1
    assert broken(b"7", offset=2, cleaned=4) == 1
    assert broken(b"1", offset=3, cleaned=4) == 1


def test_a_transaction_that_is_committed_too_late() -> None:
    """It was open when the task began to run, which therefore lacks it."""
    begun = [appended(0, producer=1), contents("store.running", -1, {})]
    assert found(RunningStoreEqualsChangelog, *begun, decided(1, commit=False)) == []
    (message,) = found(RunningStoreEqualsChangelog, *begun, decided(1, commit=True))
    assert "after the task had begun to run without them" in message


def test_at_least_once_a_store_may_have_a_write_that_was_not_logged() -> None:
    """If it came after the logged one in the same process, and only then."""
    put = "store.put", {"actor": A, "partition": CHANGELOG, "key": b"k", "value": b"new"}
    old = "store.put", {"actor": A, "partition": CHANGELOG, "key": b"k", "value": b"v"}
    row = contents("store.found", 0, {b"k": b"new"})
    elsewhere = contents("store.found", 0, {b"k": b"new"}, actor=B)

    def broken(*events: Happens) -> int:
        return len(found(FoundStoreIsVouchedFor, *events, exactly_once=False))

    assert broken(old, appended(0), put, row) == 0
    assert broken(put, old, appended(0), row) == 1
    assert broken(old, appended(0), put, elsewhere) == 1


def test_committed_offsets_of_stores() -> None:
    """They are in the log, and do not go back."""
    log = [appended(0), appended(1)]

    def committed(offset: int) -> Happens:
        return "store.committed", {"partition": CHANGELOG, "offset": offset}

    assert found(CommittedOffsetIsInTheLog, *log, committed(0), committed(1)) == []
    assert len(found(CommittedOffsetIsInTheLog, *log, committed(1), committed(0))) == 1
    assert len(found(CommittedOffsetIsInTheLog, *log, committed(2))) == 1


def test_a_corrupted_task_forgets_the_offsets_of_its_stores() -> None:
    """Kafka commits that it knows none, and then closes and wipes the task."""

    def committed(offset: int) -> Happens:
        return "store.committed", {"task": "0_0", "partition": CHANGELOG, "offset": offset}

    corrupted: Happens = "task.corrupted", {"task": "0_0"}
    closed: Happens = "task.closed", {"task": "0_0"}
    before = [appended(0), appended(1), committed(1)]

    assert found(CommittedOffsetIsInTheLog, *before, corrupted, committed(-1), closed) == []
    assert len(found(CommittedOffsetIsInTheLog, *before, corrupted, committed(0))) == 1
    assert len(found(CommittedOffsetIsInTheLog, *before, corrupted, closed, committed(-1))) == 1


# Delivery.


def offsets(offset: int, kind: str = "offsets.committed", **more: Any) -> Happens:
    """Offsets of the group."""
    return kind, {"offsets": {"in-0": offset}, **more}


def test_committed_input_was_processed() -> None:
    """Nothing is passed over, nothing goes back, and in the end nothing is left."""
    log = [appended(each, partition="in-0") for each in range(2)]

    def broken(*events: Happens) -> list[str]:
        return found(CommittedInputWasProcessed, *log, *events)

    assert broken(processed(0), processed(1), offsets(2)) == []
    assert "never processed" in broken(processed(1), offsets(2))[0]
    assert "from 2 to 1" in broken(processed(0), processed(1), offsets(2), offsets(1))[0]
    assert "only 1 was committed" in broken(processed(0), offsets(1))[0]


@pytest.mark.parametrize(
    ("target", "of_kafka", "count"),
    [(3, True, 0), (2, True, 0), (1, True, 1), (3, False, 0), (2, False, 1)],
)
def test_nothing_is_left_to_commit_after_a_reset_to_the_end(
    target: int, of_kafka: bool, count: int
) -> None:
    """In Kafka, the end is behind the last record or behind its marker."""
    marker = {"partition": "in-0", "offset": 2, "producer": 1, "commit": True}
    reset = {"actor": A, "task": "0_0", "partition": "in-0", "offset": target, "position": -1}
    events = [
        *(appended(each, partition="in-0", producer=1) for each in range(2)),
        ("transaction.marker", marker),
        processed(0),
        state("RUNNING"),
        ("input.reset", reset),
    ]
    assert len(found(CommittedInputWasProcessed, *events, of_kafka=of_kafka)) == count


@pytest.mark.parametrize(
    ("kind", "is_fault"),
    [
        ("instance.stood_still", True),
        ("instance.paused", False),
        # A process that stops meanwhile cannot commit, and closes its tasks uncleanly.
        ("coordinator.away", True),
        ("broker.stalled", True),
        ("instance.stopped", False),
    ],
)
def test_a_process_that_stands_still_is_a_fault_and_one_that_holds_its_work_is_not(
    kind: str, *, is_fault: bool
) -> None:
    """The group may go on without the former, whose tasks start over elsewhere."""
    history = LogHistory(exactly_once=False)
    history.see(made(0, "a", kind))
    assert history.has_failed == is_fault


@pytest.mark.parametrize(
    ("ends", "count"),
    [
        (["instance.crashed", "instance.retired"], 0),
        (["instance.retired", "instance.crashed"], 0),
        (["instance.retired", "instance.crashed", "instance.started"], 1),
        (["instance.crashed", "instance.paused"], 1),
    ],
)
def test_an_instance_that_is_retired_needs_nothing(ends: list[str], count: int) -> None:
    """An operator of a roll-over stops old instances for good; they may die before or meanwhile."""
    opened = {"actor": "a/global", "partition": "in-0", "persistent": True}
    events = [("global.opened", opened), *((end, {"actor": "a"}) for end in ends)]
    assert len(found(ProcessesGetTheirGlobalStores, *events)) == count


@pytest.mark.parametrize(("trouble", "count"), [("disk.full", 0), ("disk.filled", 1)])
def test_a_full_disk_may_keep_the_offset_of_a_position_that_is_gone(
    trouble: str, count: int
) -> None:
    """The thread dies of that, and the next restoration finds the same."""
    row = contents("store.found", 0, {}, actor="a/thread-0")
    events = [
        ("log.deleted", {"partition": CHANGELOG, "offset": 9, "reason": "retention"}),
        ("restore.start", {**row[1], "actor": "a/updater-0", "start": 1, "end": 10}),
        (trouble, {"actor": "a"}),
        ("task.closed", {"task": "0_0", "closing": "CORRUPTED"}),
        row,
    ]
    assert len(found(GonePositionsStartOver, *events, exactly_once=False)) == count


def test_each_input_counts_once() -> None:
    """In a committed transaction that has its offset."""
    log = appended(0, partition="in-0")
    producer = "thread.producer", {"actor": A, "producer": 1}
    other = "thread.producer", {"actor": B, "producer": 2}
    added, commit = offsets(1, "offsets.added", producer=1), decided(1, commit=True)

    def broken(*events: Happens) -> list[str]:
        return found(EachInputCountsOnce, log, producer, other, *events)

    assert broken(processed(0), added, commit) == []
    again = [processed(0, B), offsets(1, "offsets.added", producer=2), decided(2, commit=True)]
    assert "counts 2 times" in broken(processed(0), added, commit, *again)[0]
    assert broken(processed(0), added, decided(1, commit=False), *again) == []
    assert "committed no offset" in broken(processed(0), commit)[0]
    assert (
        "committed 0 for its"
        in broken(processed(0), offsets(0, "offsets.added", producer=1), commit)[0]
    )


def test_an_input_that_was_passed_over_counts_0_times() -> None:
    """It is missing in the end."""
    log = [appended(each, partition="in-0") for each in range(2)]
    producer = "thread.producer", {"actor": A, "producer": 1}
    added, commit = offsets(2, "offsets.added", producer=1), decided(1, commit=True)
    (message,) = found(EachInputCountsOnce, *log, producer, processed(1), added, commit)
    assert "at 0 counts 0 times" in message


def test_a_commit_leaves_no_transaction_open() -> None:
    """What was written is decided by it."""
    producer: Happens = ("thread.producer", {"actor": A, "producer": 1})
    committed: Happens = ("thread.committed", {"actor": A})
    written = [producer, appended(0, producer=1)]
    assert found(CommitEndsTheTransaction, *written, decided(1, commit=True), committed) == []
    assert len(found(CommitEndsTheTransaction, *written, committed)) == 1


def written(actor: str) -> Happens:
    """A thread changes its store."""
    more = {"task": "0_0", "partition": CHANGELOG, "key": b"k", "value": b"v"}
    return "store.put", {"actor": actor, **more}


def unlogged(*events: Happens) -> int:
    """How many changes are missing in the changelog."""
    return len(found(CommittedInputIsLogged, *events, exactly_once=False))


def test_committed_input_is_logged() -> None:
    """At least once: the change comes first, unless its task begins anew."""
    put = written(A)
    assert unlogged(processed(0), put, appended(0), offsets(1)) == 0
    assert unlogged(processed(0), put, offsets(0)) == 0
    assert unlogged(processed(0), put, offsets(1)) == 1
    assert unlogged(processed(0), put, state("RUNNING", A), offsets(1)) == 0


def test_a_zombie_has_nothing_to_log() -> None:
    """What it has processed, too, is logged by the one that has the task by now."""
    both = [processed(0, A), written(A), processed(0, B), written(B)]
    assert unlogged(*both, offsets(1)) == 1
    assert unlogged(*both, appended(0), offsets(1)) == 0
    assert unlogged(*both, appended(0), offsets(1), processed(0, A), written(A), offsets(2)) == 0
    producer: Happens = ("thread.producer", {"actor": B, "producer": 1})
    late: Happens = ("log.appended", {**appended(1)[1], "producer": 1})
    assert unlogged(producer, processed(0, A), written(A), late, offsets(1)) == 1


# Ownership.


def test_one_owner_in_a_generation() -> None:
    """Another one may have it in the next."""

    def assigned(actor: str, generation: int) -> Happens:
        return "thread.assigned", {"actor": actor, "generation": generation, "active": ["0_0"]}

    assert found(OneOwnerInAGeneration, assigned(A, 1), assigned(B, 2)) == []
    assert len(found(OneOwnerInAGeneration, assigned(A, 1), assigned(B, 1))) == 1


def test_owners_follow_each_other() -> None:
    """A generation takes the task away, and only a later one gives it to another."""

    def assigned(actor: str, generation: int, *active: str) -> Happens:
        more = {"actor": actor, "generation": generation, "active": list(active)}
        return "thread.assigned", more

    had = assigned(A, 1, "0_0")
    lost: Happens = ("thread.lost", {"actor": A})
    crashed: Happens = ("instance.crashed", {"actor": "a"})
    given = [assigned(B, 2, "0_0"), assigned(A, 2)]
    assert found(OwnersFollowEachOther, had, assigned(A, 2), assigned(B, 3, "0_0")) == []
    assert len(found(OwnersFollowEachOther, had, *given)) == 1
    assert found(OwnersFollowEachOther, had, lost, *given) == []
    assert found(OwnersFollowEachOther, had, crashed, *given) == []


def test_one_holder_in_a_process() -> None:
    """Another thread may have it after it was closed, and another process at any time.

    A task without stores on the disk has no lock: a thread that has lost it may not know that yet.
    """
    sibling = "a/thread-1"
    store: Happens = ("store.opened", {"actor": A, "task": "0_0", "persistent": True})
    in_memory: Happens = ("store.opened", {"actor": A, "task": "0_0", "persistent": False})
    opened, closed = state("RESTORING"), state("CLOSED")
    assert found(OneHolderInAProcess, store, opened, state("RESTORING", B)) == []
    assert found(OneHolderInAProcess, store, opened, closed, state("RESTORING", sibling)) == []
    assert len(found(OneHolderInAProcess, store, opened, state("RESTORING", sibling))) == 1
    assert found(OneHolderInAProcess, opened, state("RESTORING", sibling)) == []
    assert found(OneHolderInAProcess, in_memory, opened, state("RESTORING", sibling)) == []
    crashed: Happens = ("instance.crashed", {"actor": "a"})
    assert found(OneHolderInAProcess, store, opened, crashed, state("RESTORING", sibling)) == []


def test_a_thread_that_has_lost_its_tasks_owns_none() -> None:
    """Until it gets new ones; a thread that has lost nothing may own some."""
    owns, lost = ("thread.subscribed", {"owned": ["0_0"]}), ("thread.lost", {"reason": ""})
    assigned = "thread.assigned", {"active": ["0_0"]}
    assert found(LostTasksAreGivenUp, assigned, owns) == []
    assert len(found(LostTasksAreGivenUp, assigned, lost, owns)) == 1
    assert found(LostTasksAreGivenUp, assigned, lost, assigned, owns) == []
    assert found(LostTasksAreGivenUp, assigned, lost, ("thread.subscribed", {"owned": []})) == []


def test_restoring_is_paired() -> None:
    """A start has one end or one suspension, unless the process dies."""

    def restore(what: str) -> Happens:
        return f"restore.{what}", {"actor": "a/updater-0", "partition": CHANGELOG}

    crashed: Happens = ("instance.crashed", {"actor": "a"})
    start, batch, end = restore("start"), restore("batch"), restore("end")
    assert found(RestoringIsPaired, start, batch, end, start, restore("suspended")) == []
    assert found(RestoringIsPaired, start, crashed, start) == []
    for wrong in ((start, start), (batch,), (end,), (start, end, end)):
        assert len(found(RestoringIsPaired, *wrong)) == 1
    # A task that is given up is not restored any more: nobody else would tell of the end.
    (mine,) = ((kind, {**more, "task": "0_0"}) for kind, more in (start,))
    assert len(found(RestoringIsPaired, mine, state("SUSPENDED"))) == 1
    assert found(RestoringIsPaired, mine, end, state("SUSPENDED")) == []
    assert found(RestoringIsPaired, mine, state("SUSPENDED", B), state("RUNNING")) == []


# Ordering.


def test_the_least_timestamp_comes_first() -> None:
    """Of what is buffered."""
    assert found(LeastTimestampFirst, processed(5, others={"b-0": [5]})) == []
    assert found(LeastTimestampFirst, processed(5, others={"b-0": [None, 3, None]})) == []
    assert len(found(LeastTimestampFirst, processed(5, others={"b-0": [4]}))) == 1


def test_what_was_buffered_before_a_reset_comes_before_it() -> None:
    """The log does not tell which record follows then."""
    log = [appended(offset, partition="b-0") for offset in range(5)]
    first, second = (processed(offset, partition="b-0") for offset in (0, 1))
    reset = "input.reset", {"actor": A, "partition": "b-0", "offset": 4, "position": 2}
    other = processed(9, others={"b-0": [20]})
    assert len(found(LeastTimestampFirst, *log, first, second, other)) == 1
    asked = (reset[0], {**reset[1], "task": "0_0"})
    assert found(LeastTimestampFirst, *log, first, asked, second, other) == []


@pytest.mark.parametrize(
    ("idle_ms", "known", "message"),
    [
        (-1, [None, None, None], ""),
        (0, [None, 0, 7], ""),
        (0, [None, -1, 7], ""),
        (0, [None, None, None], "unknown lag"),
        (0, [None, 2, None], "2 records on the broker"),
        (500, [None, 0, 8], "the task had waited 500 ms"),
        (500, [None, 0, None], "the task had waited 500 ms"),
        (500, [3], ""),
    ],
)
def test_waiting_for_an_empty_input(idle_ms: int, known: list[int | None], message: str) -> None:
    """Until the lag is known and 0, and for as long as was asked for; the clock says 7."""
    begun = started(max_task_idle_ms=idle_ms)
    messages = found(WaitsForWhatIsThere, begun, processed(5, others={"b-0": known}, clock=7))
    assert len(messages) == bool(message)
    assert all(message in each for each in messages)


@pytest.mark.parametrize(("clock", "count"), [(509, 1), (510, 0)])
def test_a_wait_begins_anew_after_each_record(clock: int, count: int) -> None:
    """Whatever deadline the task reports: the input had a record at 10."""
    begun = started(max_task_idle_ms=500)
    taken = processed(1, partition="b-0", clock=10, others={"in-0": [5]})
    late = processed(5, others={"b-0": [None, 0, 7]}, clock=clock)
    assert len(found(WaitsForWhatIsThere, begun, taken, late)) == count
    assert found(WaitsForWhatIsThere, begun, taken, state("RUNNING"), late) == []


def burst(*timestamps: int, time: int = 0) -> list[Happens]:
    """Records of ``b-0`` that arrive at once, with these timestamps."""
    more = [appended(offset, partition="b-0")[1] for offset in range(len(timestamps))]
    return [
        ("log.appended", {**each, "timestamp": timestamp, "time": time})
        for each, timestamp in zip(more, timestamps, strict=True)
    ]


def test_the_log_tells_which_record_is_next() -> None:
    """Even if the task says something else of it."""
    one, other = burst(3, 4), processed(0, partition="b-0", timestamp=3)
    claimed = processed(5, others={"b-0": [6]})
    assert found(LeastTimestampFirst, *one, claimed) == []
    assert len(found(LeastTimestampFirst, *one, other, claimed)) == 1
    assert found(LeastTimestampFirst, *one, other, state("RUNNING"), claimed) == []
    assert found(LeastTimestampFirst, *burst(3, 5), other, claimed) == []


@pytest.mark.parametrize(
    ("idle_ms", "records", "found_out"),
    [
        (0, burst(3, 4), True),
        (500, burst(3, 4), True),
        (-1, burst(3, 4), False),
        (0, burst(3, 5), False),
        (0, burst(3), False),
        # The second record may have come after the answer with the first one.
        (0, [*burst(3), *burst(3, 4, time=9)[1:]], False),
    ],
)
def test_the_rest_of_a_burst_is_waited_for(
    idle_ms: int, records: list[Happens], *, found_out: bool
) -> None:
    """Whatever the task says of its inputs: who has the first record knows of the second."""
    first = processed(0, partition="b-0", timestamp=3)
    for others in ({}, {"b-0": [None, 0, 0]}, {"b-0": [6]}):
        last = processed(5, others=others)
        events = [started(max_task_idle_ms=idle_ms), *records, first, last]
        messages = found(WaitsForTheRestOfABurst, *events)
        assert len(messages) == found_out


# Liveness.


ASSIGNED = "thread.assigned", {"generation": 1, "active": ["0_0"], "standby": []}
"""A thread gets the task."""

MARKED = "transaction.marker", {"partition": "b-0", "offset": 1, "producer": 1, "commit": True}
"""The marker behind a record of a transaction."""

EMPTY = processed(5, others={"b-0": [None, 0, 0]})
"""A record is processed while the other input is said to be empty and caught up."""

COMMITTED = "offsets.committed", {"offsets": {"b-0": 0}}
"""The group has processed nothing of the other input."""


@pytest.mark.parametrize(
    ("events", "count"),
    [
        ([*burst(3), COMMITTED, ASSIGNED, state("RUNNING"), EMPTY], 1),
        ([COMMITTED, ASSIGNED, *burst(3), state("RUNNING"), EMPTY], 1),
        # The consumer may know an end from before.
        ([COMMITTED, ASSIGNED, state("RUNNING"), *burst(3), EMPTY], 0),
        (
            [COMMITTED, ASSIGNED, state("RUNNING"), *burst(3), ASSIGNED, state("RUNNING"), EMPTY],
            0,
        ),
        # It was processed before, here or elsewhere.
        (
            [
                *(*burst(3), COMMITTED, ASSIGNED, state("RUNNING")),
                *(processed(0, partition="b-0", timestamp=3), EMPTY),
            ],
            0,
        ),
        ([*burst(3), ASSIGNED, state("RUNNING"), EMPTY], 0),
        # It is buffered.
        (
            [
                *(*burst(3), COMMITTED, ASSIGNED, state("RUNNING")),
                processed(5, others={"b-0": [3]}),
            ],
            0,
        ),
        # It became visible with its marker.
        (
            [
                *(appended(0, partition="b-0", producer=1), decided(1, commit=True), MARKED),
                *(COMMITTED, ASSIGNED, state("RUNNING"), EMPTY),
            ],
            1,
        ),
        (
            [
                *(appended(0, partition="b-0", producer=1), decided(1, commit=True)),
                *(COMMITTED, ASSIGNED, state("RUNNING"), MARKED, EMPTY),
            ],
            0,
        ),
    ],
)
def test_what_was_there_before_a_task_ran_is_waited_for(events: list[Happens], count: int) -> None:
    """Whatever lag the task reports: each end that it knows is a later one."""
    assert len(found(WaitsForWhatWasThere, started(), *events)) == count
    assert found(WaitsForWhatWasThere, started(max_task_idle_ms=-1), *events) == []
    assert found(WaitsForWhatWasThere, started(), *events, of_kafka=True) == []


def test_every_task_runs_in_the_end() -> None:
    """Somewhere, and not on an instance that has died."""
    crashed: Happens = ("instance.crashed", {"actor": "a"})
    assert found(EveryTaskRuns, started(), state("RUNNING")) == []
    assert len(found(EveryTaskRuns, started())) == 1
    assert len(found(EveryTaskRuns, started(), state("RUNNING"), state("SUSPENDED"))) == 1
    assert len(found(EveryTaskRuns, started(), state("RUNNING"), crashed)) == 1
    assert found(EveryTaskRuns, started(), state("RUNNING"), state("RUNNING", B), crashed) == []


def test_assigned_tasks_are_kept() -> None:
    """Until the group takes them away, or the thread loses everything."""

    def subscribed(*owned: str) -> Happens:
        return "thread.subscribed", {"actor": A, "owned": list(owned)}

    def assigned(*active: str) -> Happens:
        return "thread.assigned", {"actor": A, "active": list(active)}

    both = assigned("0_0", "0_1")
    assert found(AssignedTasksAreKept, subscribed(), both, subscribed("0_0", "0_1")) == []
    assert found(AssignedTasksAreKept, both, assigned("0_1"), subscribed("0_1")) == []
    assert len(found(AssignedTasksAreKept, both, subscribed("0_1"))) == 1
    for end in ("thread.lost", "thread.died", "thread.stopped"):
        assert found(AssignedTasksAreKept, both, (end, {"actor": A}), subscribed()) == []
    crashed: Happens = ("instance.crashed", {"actor": "a"})
    assert found(AssignedTasksAreKept, both, crashed, subscribed()) == []
    closed: Happens = ("task.closed", {"actor": A, "task": "0_0", "closing": "DIRTY"})
    assert found(AssignedTasksAreKept, both, closed, subscribed("0_1")) == []


def test_every_thread_takes_part() -> None:
    """Of those that live: each has taken what it was assigned last."""

    def assigned(actor: str, generation: int) -> Happens:
        return "thread.assigned", {"actor": actor, "generation": generation, "active": []}

    def lives(actor: str) -> Happens:
        return "thread.producer", {"actor": actor, "producer": 1}

    both = [lives(A), lives(B), assigned(A, 1), assigned(B, 1)]
    ends: list[Happens] = [
        ("thread.died", {"actor": B}),
        ("thread.stopped", {"actor": B}),
        ("instance.crashed", {"actor": "b"}),
        ("instance.stopped", {"actor": "b"}),
    ]
    assert found(EveryThreadTakesPart, *both, lives(A)) == []
    assert len(found(EveryThreadTakesPart, *both, assigned(A, 2))) == 1
    assert len(found(EveryThreadTakesPart, lives(A), lives(B), assigned(A, 1))) == 1
    for end in ends:
        assert found(EveryThreadTakesPart, *both, end, assigned(A, 2)) == []


def test_nothing_is_wiped_without_need() -> None:
    """What was closed cleanly is kept; after anything else it may go."""
    wiped: Happens = ("store.opened", {"task": "0_0", "wipe": True})
    kept: Happens = ("store.opened", {"task": "0_0", "wipe": False})

    def closed(how: str) -> Happens:
        return "task.closed", {"task": "0_0", "closing": how}

    assert found(NothingIsWipedWithoutNeed, closed("CLEAN"), kept, wiped) == []
    assert found(NothingIsWipedWithoutNeed, closed("DIRTY"), wiped) == []
    assert len(found(NothingIsWipedWithoutNeed, closed("CLEAN"), wiped)) == 1


def test_uncommitted_bytes_are_bounded() -> None:
    """Whoever has staged too much commits before it goes on."""
    staged: Happens = ("thread.staged", {"records": 2, "bytes": 101})
    committed: Happens = ("thread.committed", {})
    assert found(UncommittedBytesAreBounded, started(), staged, committed, processed(1)) == []
    assert len(found(UncommittedBytesAreBounded, started(), staged, processed(1))) == 1


def test_an_assignment_that_was_lost_halfway_deletes_nothing() -> None:
    """The thread reports what it has when it joins again, and takes the next assignment."""
    application = started(live_format="assignment")
    release = {"release": "1.2", "upgrade_from": "", "upgrade_mode": ""}
    instance: Happens = ("instance.started", {"actor": "a", **release})
    answered: Happens = ("thread.answered", {"empty": False, "version": 3})
    lost: Happens = ("thread.lost", {})

    def listed(*places: str) -> Happens:
        return "disk.listed", {"places": {"0_0": list(places)}}

    begun = (application, instance, listed("s", "s-v2"), answered)
    assert len(found(OlderFormatIsDeletedInTime, *begun, listed("s", "s-v2"))) == 1
    rejoined = (*begun, lost, listed("s", "s-v2"))
    assert found(OlderFormatIsDeletedInTime, *rejoined) == []
    assert found(OlderFormatIsDeletedInTime, *rejoined, answered, listed("s-v2")) == []
    assert len(found(OlderFormatIsDeletedInTime, *rejoined, answered, listed("s"))) == 1
    taken = (*begun, listed("s-v2"), lost)
    assert len(found(OlderFormatIsDeletedInTime, *taken, listed("s", "s-v2"))) == 1


def test_the_live_format_is_that_of_the_configuration() -> None:
    """Whatever formats a process itself says that it has."""
    configured = {"release": "1.2", "upgrade_from": "", "upgrade_mode": "", "formats": [1, 2]}
    instance: Happens = ("instance.started", {"actor": "a", **configured})
    begun = (started(live_format="configuration"), instance)

    def opened(place: str) -> Happens:
        return "store.opened", {"place": place, "persistent": True}

    assert found(LiveFormatIsThatOfTheAssignment, *begun, opened("s-v2")) == []
    assert len(found(LiveFormatIsThatOfTheAssignment, *begun, opened("s"))) == 1


def test_a_leader_reads_the_versions_that_were_sent() -> None:
    """From version 3 on, a report names the newest version that its sender supports."""

    def judged(used: int, read: tuple[int, int]) -> list[str]:
        begun: Happens = ("instance.started", {"actor": "a", "release": "4.3", "upgrade_from": ""})
        sent: Happens = ("thread.subscribed", {"used": used, "supported": 11})
        member = {"process": "a", "used": read[0], "supported": read[1]}
        assigned = {"generation": 1, "members": {"m": member}}
        return found(VersionIsThatOfTheRelease, begun, sent, ("group.assigned", assigned))

    assert judged(11, (11, 11)) == []
    assert len(judged(11, (11, 6))) == 1
    assert len(judged(11, (6, 11))) == 1


def test_an_answer_is_judged_by_the_release_that_its_leader_had() -> None:
    """The leader may have another release when a member takes the answer."""

    def begun(actor: str, release: str) -> Happens:
        return "instance.started", {"actor": actor, "release": release}

    reported: Happens = ("thread.subscribed", {"used": 11})
    probed: Happens = ("group.probed", {"actor": B, "generation": 1})

    def answered(*, empty: bool) -> Happens:
        told = {"version": 6, "commonly_supported": 6}
        return "thread.answered", {"generation": 1, "empty": empty, **told}

    sent = (begun("a", "4.3"), begun("b", "2.5"), reported, probed)
    for later in ((), (begun("b", "4.3"),)):
        assert found(EmptyAnswerIsForTheTooNew, *sent, *later, answered(empty=True)) == []
        assert len(found(EmptyAnswerIsForTheTooNew, *sent, *later, answered(empty=False))) == 1


@pytest.mark.parametrize(
    ("old", "release", "upgrade_from", "is_tried"),
    [
        ("0.10.0", "1.1", "0.10.0", True),
        ("0.10.0", "1.1", "", False),
        ("1.1", "1.2", "1.1", False),
        ("1.1", "1.1", "0.10.0", False),
        ("4.2", "4.3", "4.2", False),
    ],
)
@pytest.mark.parametrize("old_is_first", [True, False])
def test_another_upgrade_says_nothing_about_the_first_version(
    old: str, release: str, upgrade_from: str, is_tried: bool, old_is_first: bool
) -> None:
    """Both have to be members, in any order."""
    versions = {"0.10.0": 1, "1.1": 2, "1.2": 3, "4.2": 11, "4.3": 11}
    members = []
    for actor, its_release, older in ((A, old, ""), (B, release, upgrade_from)):
        used = versions[older if older in ("0.10.0", "1.1") else its_release]
        process = {"actor": actor[0], "release": its_release, "upgrade_from": older}
        report = {"actor": actor, "used": used, "supported": versions[its_release]}
        members.append([("instance.started", process), ("thread.subscribed", report)])
    watch = Watch([VersionIsThatOfTheRelease], exactly_once=True)
    number = 0
    for events in members if old_is_first else reversed(members):
        assert watch.tried == []
        for kind, more in events:
            number += 1
            watch(event(number, kind, dict(more)))
    assert watch.end() == []
    assert watch.tried == ([VersionIsThatOfTheRelease.name] if is_tried else [])


# Queries.


def asked(query: int = 1) -> Happens:
    """A client wants a key of the store, and sends the query to the process of ``A``."""
    return "query.asked", {
        "query": query,
        "from_key": b"k",
        "to_key": b"k",
        "requires_active": True,
        "isolation": "",
        "bound": {},
    }


def sent(query: int = 1) -> Happens:
    """The query is on its way."""
    return "query.sent", {"actor": "client-0", "query": query}


def refused(reason: str, query: int = 1) -> Happens:
    """The process does not answer."""
    fields = {"actor": "a", "task": "0_0", "partition": CHANGELOG}
    return "query.refused", {**fields, "query": query, "reason": reason}


def served(rows: dict[bytes, bytes]) -> Happens:
    """A store answers."""
    return "query.served", {
        "task": "0_0",
        "partition": CHANGELOG,
        "query": 1,
        "rows": [[key, value] for key, value in rows.items()],
        "position": {},
    }


def test_a_store_that_failed_to_close_may_have_gone() -> None:
    """While its task is about to be closed, and the disk is full; not before, and not later."""
    full: Happens = ("disk.full", {"actor": "a", "store": "s"})
    opened = contents("store.found", 0, {})
    suspended = (opened, asked(), sent(), state("SUSPENDED"))
    migrated, absent = refused("STORE_MIGRATED"), refused("NOT_PRESENT")
    assert found(RefusalsAreTrue, *suspended, full, migrated) == []
    assert (
        found(RefusalsAreTrue, *suspended, full, asked(2), sent(2), refused("NOT_PRESENT", 2)) == []
    )
    assert len(found(RefusalsAreTrue, *suspended, migrated)) == 1
    assert len(found(RefusalsAreTrue, *suspended, absent)) == 1
    assert len(found(RefusalsAreTrue, opened, asked(), sent(), full, migrated)) == 1
    elsewhere: Happens = ("disk.full", {"actor": "b", "store": "s"})
    assert len(found(RefusalsAreTrue, *suspended, elsewhere, migrated)) == 1
    closed: Happens = ("task.closed", {"task": "0_0", "closing": "DIRTY"})
    again = (*suspended, full, closed, opened, asked(2), sent(2))
    assert len(found(RefusalsAreTrue, *again, refused("STORE_MIGRATED", 2))) == 1
    assert len(found(RefusalsAreTrue, *again, refused("NOT_PRESENT", 2))) == 1


def test_a_copy_that_never_ran_shows_a_prefix() -> None:
    """One that has run may have written what is not committed, also on its way to the end."""
    application = started(
        transactional=False, default_query_isolation="", statestore_cache_max_bytes=0
    )
    put: Happens = (
        "store.put",
        {"task": "0_0", "partition": CHANGELOG, "key": b"k", "value": b"2"},
    )
    begun = (
        application,
        appended(0, value=b"1"),
        contents("store.found", 0, {b"k": b"1"}),
        asked(),
    )
    right, wrong = served({b"k": b"1"}), served({b"k": b"2"})
    assert found(StandbyShowsAPrefix, *begun, right) == []
    assert len(found(StandbyShowsAPrefix, *begun, wrong)) == 1
    assert len(found(StandbyShowsAPrefix, *begun, state("SUSPENDED"), wrong)) == 1
    ended = (*begun, state("RUNNING"), put, state("SUSPENDED"))
    assert found(StandbyShowsAPrefix, *ended, wrong) == []
    closed: Happens = ("task.closed", {"task": "0_0", "closing": "DIRTY"})
    reopened = (*ended, closed, contents("store.found", 0, {b"k": b"1"}))
    assert len(found(StandbyShowsAPrefix, *reopened, wrong)) == 1


def test_two_resets_may_come_before_a_record_of_the_first() -> None:
    """What was fetched after the first reset is processed, though the log has deleted it."""
    there = [appended(offset, partition="in-0") for offset in range(10)]
    resets: list[Happens] = [
        ("input.reset", {"task": "0_0", "partition": "in-0", "offset": offset, "position": 1})
        for offset in (4, 7)
    ]
    begun = (*there, state("RUNNING"), processed(0), *resets)
    assert (
        found(InputsAreReadOn, *begun, processed(4), processed(5), processed(7), processed(8)) == []
    )
    assert found(InputsAreReadOn, *begun, processed(7)) == []
    assert len(found(InputsAreReadOn, *begun, processed(7), processed(4))) == 1
    assert len(found(InputsAreReadOn, *begun, processed(4), processed(6))) == 1


def test_the_application_writes_in_transactions_and_others_as_they_like() -> None:
    """Outputs, changelogs and repartition topics are the application's; inputs are not."""
    application = started(actor="count", changelogs={"0_0": [CHANGELOG, "in-0"]}, sources=["in-0"])
    here = [CHANGELOG, "out-0", "keys-repartition-0"]
    for partition in here:
        outside = appended(0, partition=partition)
        assert len(found(EveryWriteIsInATransaction, application, outside)) == 1
        assert found(EveryWriteIsInATransaction, application, outside, exactly_once=False) == []
        inside = appended(0, partition=partition, producer=1)
        assert found(EveryWriteIsInATransaction, application, inside) == []
    assert found(EveryWriteIsInATransaction, application, appended(0, partition="in-0")) == []


# Watching.


class Raising(Invariant):
    """Is wrong itself."""

    name = "nothing"
    requirement = "TASK-000"

    @property
    def observers(self) -> dict[str, Observer]:
        return {"task.state": self._raise}

    def _raise(self, event: Event) -> Iterator[str]:
        yield from event.attributes["no such attribute"]


def test_an_invariant_that_raises_is_a_mistake_of_the_simulator() -> None:
    """It is named, with the event."""
    with pytest.raises(InvariantError, match=r"'nothing' raised KeyError: .* at #0 at 0 ms"):
        found(Raising, state("RUNNING"))


def test_each_invariant_has_a_name_of_its_own() -> None:
    """And a requirement."""
    assert len({each.name for each in INVARIANTS}) == len(INVARIANTS)
    assert all(each.requirement for each in INVARIANTS)


@pytest.mark.parametrize(
    ("segmented", "rows", "broken"),
    [(False, [], 1), (True, [(b"k", b"v")], 1), (True, [], 0)],
    ids=["one database", "a segment", "no segment"],
)
def test_a_store_without_a_segment_has_no_place_for_its_offset(
    segmented: bool, rows: list[tuple[bytes, bytes]], broken: int
) -> None:
    """Any other store that was closed cleanly is opened with its offset."""
    about = {"task": "0_0", "partition": CHANGELOG, "actor": A}
    opens = {**about, "persistent": True, "wipe": False, "segmented": segmented, "place": "s"}
    events: list[Happens] = [
        ("instance.started", {"actor": "a", "manages_offsets": True, "formats": [1]}),
        ("store.opened", {**opens, "offset": 5}),
        ("store.closing", {**about, "offset": 5, "rows": rows}),
        ("task.closed", {"actor": A, "task": "0_0", "closing": "CLEAN"}),
        ("store.opened", {**opens, "offset": -1}),
    ]
    assert len(found(ClosedStoreKeepsItsOffset, *events)) == broken
