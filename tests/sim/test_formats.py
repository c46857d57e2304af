"""Upgrades to a newer format of stores: in place, with new instances, and offline (KIP-258)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from found_worlds import seek
from hypothesis import given
from hypothesis import strategies as st

from streamproof.sim.actor_hosts import Steps
from streamproof.sim.application import StreamsConfig
from streamproof.sim.broker_errors import ProducerFencedError
from streamproof.sim.choices import Choices
from streamproof.sim.decisions.recovery import Closing
from streamproof.sim.decisions.versions import Spoken
from streamproof.sim.defects import DEFECTS
from streamproof.sim.model_store import ModelDisk, ModelStore
from streamproof.sim.simulation import Outcome, run
from streamproof.sim.tasks.assignor import AssignorConfig, Subscription, mirroring, share_out
from streamproof.sim.tasks.stream_task import StreamTask
from streamproof.sim.tasks.task_committer import Committer
from streamproof.sim.trace import Event
from streamproof.sim.upgraded_formats import NEWER, PreparingStore, TimestampedStore, timestamped
from streamproof.sim.upgraded_stores import ManagingStore
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world_plan import Plan
from streamproof.stores.api import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    ChangelogRecord,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.checkpoint import OFFSET_UNKNOWN
from streamproof.stores.errors import TaskCorruptedError

GUARANTEES = pytest.mark.parametrize("exactly_once", [True, False], ids=["EOS", "ALOS"])
KINDS_OF_STORE = pytest.mark.parametrize("transactional", [False, True], ids=["plain", "staging"])

CHANGELOG = TopicPartition("app-s-changelog", 0)
DIRECTORY = Path("0_0")

RECORDS = [
    ChangelogRecord(b"a", b"1", 0, 100),
    ChangelogRecord(b"b", b"2", 1, 200),
    ChangelogRecord(b"a", None, 2, 300),
]


# The stores.


def context_of(*, exactly_once: bool = True) -> StateStoreContext:
    """A task at the time 7,000."""
    guarantee = EXACTLY_ONCE if exactly_once else AT_LEAST_ONCE
    context = StateStoreContext(DIRECTORY, app_configs={PROCESSING_GUARANTEE_CONFIG: guarantee})
    context.record_timestamp = 7_000
    context.record_metadata = RecordMetadata("in", 0, 3)
    return context


def newer(disk: ModelDisk) -> TimestampedStore:
    """The newer format, open."""
    store = TimestampedStore(f"s{NEWER}", disk)
    store.init(context_of(), store)
    return store


def preparing(disk: ModelDisk) -> PreparingStore:
    """The older format, open, with the newer one beside it."""
    store = PreparingStore("s", disk)
    store.init(context_of(), store)
    return store


def left_by_older(disk: ModelDisk, offset: int = 2) -> None:
    """A store of the older format was here, and was closed."""
    store = ManagingStore("s", disk)
    store.init(context_of(), store)
    store.restore(RECORDS)
    store.commit({CHANGELOG: offset})
    store.close()


def content(store: ModelStore) -> dict[bytes, bytes]:
    """All entries."""
    with store.all() as rows:
        return dict(rows)


def test_a_newer_store_has_timestamps_and_shows_values() -> None:
    """Of the record that is processed, or of the changelog; a deletion has none."""
    disk = ModelDisk()
    store = newer(disk)
    assert store.name == "s"
    store.restore(RECORDS)
    store.put(b"c", b"3")
    store.put(b"b", None)
    assert store.get(b"c") == b"3"
    assert store.get(b"b") is store.get(b"a") is None
    assert content(store) == {b"c": b"3"}
    store.write_memtable()
    assert disk.images(DIRECTORY)[f"s{NEWER}"].rows == {b"c": timestamped(b"3", 7_000)}


def test_the_older_format_is_kept_until_the_newer_one_is_as_far() -> None:
    """Then it is discarded, with the commit that covers it, and not before."""
    disk = ModelDisk()
    left_by_older(disk)
    store = newer(disk)
    assert store.committed_offset(CHANGELOG) == OFFSET_UNKNOWN
    store.restore(RECORDS[:2])
    store.commit({CHANGELOG: 1})
    assert set(disk.images(DIRECTORY)) == {"s", f"s{NEWER}"}
    store.restore(RECORDS[2:])
    store.commit({CHANGELOG: 2})
    assert set(disk.images(DIRECTORY)) == {f"s{NEWER}"}
    disk.lose_power(Choices.recorded([5]))
    assert disk.images(DIRECTORY)[f"s{NEWER}"].rows == {b"b": timestamped(b"2", 200)}


def test_a_crash_of_the_newer_format_is_seen() -> None:
    """It is wiped then, and begins anew."""
    disk = ModelDisk()
    newer(disk).write_memtable()
    with pytest.raises(TaskCorruptedError):
        newer(disk)


def test_the_newer_format_is_built_beside_the_older_one() -> None:
    """What is fed is not in the live store, and what is put there is not in the other."""
    disk = ModelDisk()
    store = preparing(disk)
    assert store.rebuilt_offset(CHANGELOG) == OFFSET_UNKNOWN
    store.put(b"live", b"0")
    store.commit({CHANGELOG: 1})
    store.rebuild(CHANGELOG, RECORDS[:2])
    store.rebuild(CHANGELOG, [])
    assert store.rebuilt_offset(CHANGELOG) == 1
    assert content(store) == {b"live": b"0"}
    store.close()
    store.close()
    assert disk.images(DIRECTORY)[f"s{NEWER}"].rows == {
        b"a": timestamped(b"1", 100),
        b"b": timestamped(b"2", 200),
    }
    assert preparing(disk).rebuilt_offset(CHANGELOG) == 1


def test_what_was_built_is_gone_on_with() -> None:
    """After a crash from what was flushed, and when it becomes the live one."""
    disk = ModelDisk()
    store = preparing(disk)
    store.rebuild(CHANGELOG, RECORDS)
    assert preparing(disk).rebuilt_offset(CHANGELOG) == OFFSET_UNKNOWN
    store.close()
    again = newer(disk)
    assert again.committed_offset(CHANGELOG) == 2
    assert content(again) == {b"b": b"2"}


def test_an_upgrade_that_is_taken_back_begins_anew() -> None:
    """A newer format that was live, and crashed, is of no use beside the older one."""
    disk = ModelDisk()
    store = newer(disk)
    store.restore(RECORDS)
    store.write_memtable()
    assert preparing(disk).rebuilt_offset(CHANGELOG) == OFFSET_UNKNOWN


@given(
    st.lists(st.tuples(st.sampled_from(b"ab"), st.none() | st.binary(max_size=2))),
    st.lists(st.integers(0, 6), max_size=4),
)
def test_however_it_is_built_it_is_what_the_changelog_says(
    writes: list[tuple[int, bytes | None]], cuts: list[int]
) -> None:
    """Fed in any batches, with a restart after each."""
    records = [
        ChangelogRecord(bytes([key]), value, offset, offset)
        for offset, (key, value) in enumerate(writes)
    ]
    expected = {each.key: each.value for each in records}
    disk = ModelDisk()
    for cut in [*cuts, len(records)]:
        store = preparing(disk)
        start = max(store.rebuilt_offset(CHANGELOG) or 0, -1) + 1
        store.rebuild(CHANGELOG, records[start : start + cut])
        store.close()
    found = newer(disk)
    assert content(found) == {key: value for key, value in expected.items() if value is not None}


# The assignment.


OLDER = Spoken(2, 2)
NEW = Spoken(3, 3)


@pytest.mark.parametrize(
    ("reports", "mirrors"),
    [
        ({"a": (OLDER, None), "b": (OLDER, None)}, []),
        ({"a": (OLDER, None), "b": (NEW, {"s": (1, 2)})}, []),
        ({"a": (OLDER, None), "b": (NEW, {"s": (2,)}), "c": (NEW, {"s": (2,)})}, ["b", "c"]),
        ({"a": (OLDER, None), "b": (NEW, {"s": (2,), "t": (1, 2)})}, []),
        ({"b": (NEW, {"s": (2,)}), "c": (NEW, {"s": (2,)})}, []),
    ],
    ids=["first bounce", "second bounce", "rolling over", "a store with both", "taken over"],
)
def test_who_has_the_newer_format_alone_mirrors(
    reports: dict[str, tuple[Spoken, dict[str, tuple[int, ...]] | None]], mirrors: list[str]
) -> None:
    """As long as somebody reports in a version from before formats."""
    sent = [
        Subscription(name, spoken=spoken, formats=formats)
        for name, (spoken, formats) in reports.items()
    ]
    assert mirroring(sent) == mirrors


def test_a_mirror_copies_every_task() -> None:
    """The others work as if it were not there."""
    tasks = [f"0_{number}" for number in range(4)]
    ends = dict.fromkeys(tasks, 10)
    subscriptions = {
        "m1": Subscription("old-0", spoken=OLDER),
        "m2": Subscription("old-1", spoken=OLDER),
        "m3": Subscription("new-0", spoken=NEW, formats={"s": (2,)}),
        "m4": Subscription("new-1", spoken=NEW, formats={"s": (2,)}),
    }
    stateless = frozenset(["1_0"])
    shares = share_out(subscriptions, ends, stateless, AssignorConfig(num_standby_replicas=1))
    assert set(shares.placed.clients) == {"old-0", "old-1"}
    assert shares.threads["m3"].active == shares.threads["m4"].active == ()
    copies = [set(shares.threads[name].standby) for name in ("m3", "m4")]
    assert copies == [set(tasks), set(tasks)]
    alone = {name: each for name, each in subscriptions.items() if name in ("m1", "m2")}
    others = share_out(alone, ends, stateless, AssignorConfig(num_standby_replicas=1))
    assert shares.placed == others.placed


# Worlds.


def plan_of(upgrade: str, *, exactly_once: bool, transactional: bool = False) -> Plan:
    """Two instances, with input all the time; as many again if others take over."""
    config = StreamsConfig(
        exactly_once=exactly_once,
        transactional=transactional,
        session_timeout_ms=6_000,
        commit_interval_ms=200,
        flush_probability=0.3,
    )
    return Plan(
        instances=2,
        config=config,
        workload=WorkloadConfig(records=200, max_pause_ms=500),
        kinds=(),
        activation=0,
        upgrade=upgrade,
    )


def upgraded(plan: Plan, seed: int = 1, defect: str = "") -> tuple[Outcome, list[Event]]:
    """What came of it, and all events."""
    events: list[Event] = []
    defects = [defect] if defect else []
    outcome = run(Choices.seeded(seed), plan, defects=defects, watchers=[events.append])
    return outcome, events


def of(events: list[Event], kind: str) -> list[Event]:
    """The events of a kind."""
    return [each for each in events if each.kind == kind]


def since_the_last_release(events: list[Event]) -> list[Event]:
    """What happens from the moment when the first instance has the newer format alone."""
    first = next(
        number
        for number, each in enumerate(events)
        if each.kind == "instance.started" and each.attributes["formats"] == [2]
    )
    return events[first:]


@GUARANTEES
@KINDS_OF_STORE
def test_in_place_nothing_is_restored_from_the_start(
    *, exactly_once: bool, transactional: bool
) -> None:
    """What was built while the older format was served is there when it is switched to."""
    plan = plan_of("format-in-place", exactly_once=exactly_once, transactional=transactional)
    outcome, events = upgraded(plan)
    assert list(outcome.violations) == []
    assert outcome.marks["a newer format was prepared while the older one was served"]
    assert not of(events, "task.wiped")
    started = [each.attributes["formats"] for each in of(events, "instance.started")]
    assert started == [[1], [1], [1, 2], [1, 2], [2], [2]]
    assert any(each.offset > 0 for each in of(since_the_last_release(events), "store.opened"))


@GUARANTEES
def test_offline_all_is_restored(*, exactly_once: bool) -> None:
    """Nobody runs meanwhile, and the newer format begins with the start of the changelog."""
    outcome, events = upgraded(plan_of("format-offline", exactly_once=exactly_once))
    assert list(outcome.violations) == []
    assert not of(events, "task.wiped")
    later = since_the_last_release(events)
    opened = of(later, "store.opened")
    firsts = {each.task: each for each in reversed(opened)}
    assert all(each.offset < 0 for each in firsts.values())
    assert of(later, "restore.end")


@GUARANTEES
def test_rolling_over_the_new_ones_copy_and_then_take_over(*, exactly_once: bool) -> None:
    """While the old ones work; then they go on with what they have."""
    outcome, events = upgraded(plan_of("format-roll-over", exactly_once=exactly_once))
    assert list(outcome.violations) == []
    assert outcome.marks["new instances took over from old ones"]
    running = [each for each in of(events, "task.state") if each.attributes["after"] == "RUNNING"]
    new = [each for each in running if each.actor.startswith(("instance-2", "instance-3"))]
    stopped = [each.sequence for each in of(events, "instance.stopped")][-1]
    assert new
    assert all(each.sequence > stopped for each in new)
    copying = {each.process for each in of(events, "update.batch")}
    assert copying & {"instance-2", "instance-3"}


@GUARANTEES
@KINDS_OF_STORE
@pytest.mark.parametrize("upgrade", ["format-in-place", "format-roll-over", "format-offline"])
def test_an_upgrade_with_crashes(upgrade: str, *, exactly_once: bool, transactional: bool) -> None:
    """Between the bounces, with losses of power and lost replies: nothing is lost."""
    calm = plan_of(upgrade, exactly_once=exactly_once, transactional=transactional)
    plan = replace(calm, kinds=("crash", "power"), activation=0.25)
    outcome, events = upgraded(plan, seed=2)
    assert list(outcome.violations) == []
    assert of(events, "instance.crashed")


def test_an_assignment_that_is_lost_halfway_is_taken_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A standby that the loss left open in the older format is opened in the newer one then."""
    halfway: set[str] = set()
    lost: set[str] = set()
    commit = Committer.commit

    def refuse_once(self: Committer, tasks: Sequence[StreamTask], closing: Closing) -> Steps:
        if self._actor in halfway - lost:
            lost.add(self._actor)
            raise ProducerFencedError("another producer has begun")
        yield from commit(self, tasks, closing)

    def look(event: Event) -> None:
        if event.kind == "thread.answered" and event.attributes["version"] == 3:
            halfway.add(event.actor)
        if event.kind == "disk.listed":
            halfway.discard(event.actor)

    monkeypatch.setattr(Committer, "commit", refuse_once)
    plan = plan_of("format-in-place", exactly_once=True)
    assignor = AssignorConfig(num_standby_replicas=1)
    plan = replace(plan, config=replace(plan.config, assignor=assignor, commit_interval_ms=5_000))

    def attempt(seed: int) -> tuple[Outcome, list[Event]] | None:
        halfway.clear()
        lost.clear()
        events: list[Event] = []
        outcome = run(Choices.seeded(seed), plan, watchers=[look, events.append])
        return (outcome, events) if lost else None

    outcome, events = seek("an assignment that is lost halfway", attempt)
    assert list(outcome.violations) == []
    for process in sorted({thread.split("/")[0] for thread in lost}):
        listed = [each for each in of(events, "disk.listed") if each.process == process]
        places = [place for each in listed[-1].attributes["places"].values() for place in each]
        assert places
        assert all(place.endswith(NEWER) for place in places)


@pytest.mark.parametrize(
    "defect",
    [
        "takes-offsets-of-older-format",
        "lets-mirrors-work",
        "ignores-upgrade-from",
        "names-formats-of-the-release",
        "answers-all-in-one-version",
        "serves-newer-format-early",
        "keeps-older-format",
        "deletes-older-format-early",
        "rebuilds-active-tasks-alone",
        "says-prepared-too-early",
        "rebuilds-in-a-roll-over",
        "says-ready-too-early",
        "stops-old-instances-by-a-timer",
    ],
)
def test_a_mistake_is_found(defect: str) -> None:
    """And the same world is well without it."""
    known = DEFECTS[defect]
    plan = plan_of(known.upgrade, exactly_once=True)
    assignor = AssignorConfig(num_standby_replicas=1)
    config = replace(plan.config, assignor=assignor, **known.settings)
    plan = replace(plan, config=config)
    seed = next(
        seed
        for seed in range(10)
        if known.requirement
        in {each.requirement for each in upgraded(plan, seed, defect)[0].violations}
    )
    assert list(upgraded(plan, seed)[0].violations) == []
