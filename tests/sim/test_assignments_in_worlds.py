"""Assignments in worlds: the rules hold in each of them, and a mistake of the leader is found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from streamproof.sim.application import StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.decisions.lag import LATEST_OFFSET, UNKNOWN_OFFSET_SUM
from streamproof.sim.disks import InstanceDisk, SimulatedDisk
from streamproof.sim.invariants import INVARIANTS, Invariant, Watch
from streamproof.sim.invariants.assignments import EndsAreThoseOfTheLogs
from streamproof.sim.simulation import MakeDisk, run
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.trace import Event
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world import World
from streamproof.sim.world_plan import Plan

GUARANTEES = pytest.mark.parametrize("exactly_once", [True, False], ids=["EOS", "ALOS"])

SETTINGS = {
    "changelogs": {"0_0": ["app-s-changelog-0"], "0_1": ["app-s-changelog-1"]},
    "sources": [],
    "tasks": ["0_0", "0_1"],
    "num_standby_replicas": 0,
    "max_warmup_replicas": 2,
    "acceptable_recovery_lag": 10,
    "probing_rebalance_interval_ms": 5_000,
}

RULES = [
    each
    for each in INVARIANTS
    # These events are told without logs, whose ends one rule asks for.
    if each.requirement.startswith("ASSIGN-") and each.requirement != "ASSIGN-015"
]

Roles = dict[str, list[str]]


def member(process: str, **more: Any) -> dict[str, Any]:
    """What the leader knows of a member, and gives it."""
    said = {"process": process, "owned": [], "sums": {}, "used": 11, "supported": 11}
    return {**said, "active": [], "standby": [], "probed": False, **more}


def subscribed(used: int = 11, **sums: int) -> tuple[str, dict[str, Any]]:
    """A member has joined, with what it says of the task ``t0_0``."""
    said = {task.removeprefix("t"): total for task, total in sums.items()}
    return "thread.subscribed", {"owned": [], "sums": said, "used": used, "supported": 11}


def client(active: str = "", standby: str = "", warmup: str = "") -> Roles:
    """What a process gets: tasks with a space between them."""
    return {"active": active.split(), "standby": standby.split(), "warmup": warmup.split()}


def assigned(
    members: dict[str, dict[str, Any]], clients: dict[str, Roles], **more: Any
) -> tuple[str, dict[str, Any]]:
    """The leader has decided about two tasks, whose changelogs have 100 records each."""
    return "group.assigned", {
        "generation": 1,
        "version": 11,
        "members": members,
        "clients": clients,
        "ends": {"0_0": 100, "0_1": 100},
        "stateless": [],
        "probing": False,
        **more,
    }


def broken(
    *events: tuple[str, dict[str, Any]],
    rules: Sequence[type[Invariant]] = RULES,
    **settings: int,
) -> set[str]:
    """The promises that these events break."""
    watch = Watch(rules, exactly_once=True)
    started = {**SETTINGS, **settings}
    for number, (kind, more) in enumerate([("application.started", started), *events]):
        attributes = dict(more)
        actor = attributes.pop("actor", "a/thread-0")
        task, partition = attributes.pop("task", ""), attributes.pop("partition", "")
        time, offset = attributes.pop("time", number), attributes.pop("offset", -1)
        watch(Event(number, time, actor, kind, task, partition, offset, attributes))
    return {each.requirement for each in watch.violations}


BOTH = {"m1": member("a", active=["0_0"]), "m2": member("b", active=["0_1"])}
EVEN = {"a": client("0_0"), "b": client("0_1")}


def test_an_assignment_that_is_right_breaks_nothing() -> None:
    """Neither the plainest one, nor one in which a task is withheld or warmed up."""
    assert broken(assigned(BOTH, EVEN)) == set()
    owner = member("a", owned=["0_0", "0_1"], active=["0_0"])
    assert broken(assigned({"m1": owner, "m2": member("b")}, EVEN)) == set()
    sums = dict.fromkeys(["0_0", "0_1"], LATEST_OFFSET)
    owner = member("a", owned=["0_0", "0_1"], active=["0_0", "0_1"], sums=sums)
    warming = {"a": client("0_0 0_1"), "b": client(warmup="0_1")}
    members = {"m1": owner, "m2": member("b", standby=["0_1"])}
    assert broken(assigned(members, warming, probing=True)) == set()


@pytest.mark.parametrize(
    ("members", "clients"),
    [
        ({**BOTH, "m3": member("a", active=["0_1"])}, EVEN),
        (BOTH, {"a": client("0_0"), "b": client("0_0")}),
        (BOTH, {"a": client("0_1"), "b": client("0_0")}),
        ({"m1": member("a", active=["0_0"]), "m2": member("b")}, EVEN),
    ],
    ids=["two members", "two processes", "another process", "nobody"],
)
def test_each_task_has_one_owner(
    members: dict[str, dict[str, Any]], clients: dict[str, Roles]
) -> None:
    """Or is with the one that has it."""
    assert "ASSIGN-001" in broken(assigned(members, clients))


def appended(offset: int) -> tuple[str, dict[str, Any]]:
    """A record comes into the changelog of task 0_0."""
    record = {"key": b"k", "value": b"", "timestamp": 0, "producer": -1, "transactional": False}
    where = {"actor": "brokers", "partition": "app-s-changelog-0", "offset": offset}
    return "log.appended", {**where, **record}


@pytest.mark.parametrize(
    ("generation", "end", "rules"),
    [(3, 2, set()), (3, 1, {"ASSIGN-015"}), (1, 1, set()), (1, 3, {"ASSIGN-015"})],
    ids=["as before", "gone back", "late and earlier", "beyond the log"],
)
def test_the_ends_of_a_late_leader_are_earlier(generation: int, end: int, rules: set[str]) -> None:
    """It stood still since an earlier generation; any other leader sees no end go back."""
    second = assigned(BOTH, EVEN, generation=2, ends={"0_0": 2})
    last = assigned(BOTH, EVEN, generation=generation, ends={"0_0": end})
    logged = appended(0), appended(1)
    assert broken(*logged, second, last, rules=[EndsAreThoseOfTheLogs]) == rules


def test_a_copy_is_not_beside_its_task() -> None:
    """Neither in the process nor in another thread of it."""
    beside = {"a": client("0_0", standby="0_0"), "b": client("0_1", standby="0_1")}
    assert broken(assigned(BOTH, beside), num_standby_replicas=1) == {"ASSIGN-002"}
    members = {**BOTH, "m3": member("a", standby=["0_0"])}
    assert broken(assigned(members, EVEN)) == {"ASSIGN-002"}


def test_standbys_are_counted() -> None:
    """There are no more than other processes, and no fewer than asked for."""
    apart = {"a": client("0_0", standby="0_1"), "b": client("0_1", standby="0_0")}
    for asked, rules in ((1, set()), (2, set()), (0, {"ASSIGN-003"})):
        assert broken(assigned(BOTH, apart), num_standby_replicas=asked) == rules
    assert broken(assigned(BOTH, EVEN), num_standby_replicas=1) == {"ASSIGN-003"}


@pytest.mark.parametrize(
    ("here", "there", "rules"),
    [
        (90, 100, set()),
        (89, 100, {"ASSIGN-004"}),
        (89, 88, set()),
        (88, 89, {"ASSIGN-004"}),
        (UNKNOWN_OFFSET_SUM, 1, set()),
        (1, UNKNOWN_OFFSET_SUM, {"ASSIGN-004"}),
        (90, LATEST_OFFSET, set()),
        (LATEST_OFFSET, 100, set()),
        (150, 1, {"ASSIGN-004"}),
    ],
)
def test_a_task_goes_where_its_state_is(here: int, there: int, rules: set[str]) -> None:
    """To one of those that are caught up; else to the one that lacks least, or does not know it.

    Args:
        here: the sum that the owner has reported.
        there: the sum that the other one has.
        rules: what is broken by that.
    """
    members = {
        "m1": member("a", active=["0_0"], sums={"0_0": here}),
        "m2": member("b", active=["0_1"], sums={"0_0": there}),
    }
    assert broken(assigned(members, EVEN)) == rules


def test_warm_ups_are_counted() -> None:
    """Over all processes."""
    members = {
        "m1": member("a", active=["0_0"], standby=["0_1"]),
        "m2": member("b", active=["0_1"], standby=["0_0"]),
    }
    warming = {"a": client("0_0", warmup="0_1"), "b": client("0_1", warmup="0_0")}
    for most, rules in ((2, set()), (1, {"ASSIGN-005"})):
        found = broken(assigned(members, warming, probing=True), max_warmup_replicas=most)
        assert found == rules


def test_work_is_even_in_the_end() -> None:
    """By thread; while something is on its way, it need not be."""
    members = {"m1": member("a", active=["0_0", "0_1"]), "m2": member("b")}
    uneven = {"a": client("0_0 0_1"), "b": client()}
    assert broken(assigned(members, uneven)) == {"ASSIGN-006"}
    assert broken(assigned(members, uneven, probing=True)) == set()
    more = {**members, "m3": member("a")}
    assert broken(assigned(more, uneven)) == set()


def test_a_member_says_what_it_has() -> None:
    """A task that runs, or what is found when it is opened, and never more than there is."""
    running = [("task.state", {"task": "0_0", "before": "X", "after": "RUNNING"})]
    latest = subscribed(t0_0=LATEST_OFFSET)
    assert broken(*running, latest) == set()
    assert broken(latest) == {"ASSIGN-007"}
    for total, rules in ((0, set()), (1, {"ASSIGN-007"}), (-4, {"ASSIGN-007"})):
        assert broken(subscribed(t0_0=total)) == rules


def test_what_was_said_of_a_closed_task_is_found() -> None:
    """When it is opened; unless it was deleted on purpose."""
    written = appended(0)
    said = subscribed(t0_0=1)
    wiped = ("task.wiped", {"task": "0_0"})
    opening = ("task.state", {"task": "0_0", "before": "CREATED", "after": "RESTORING"})

    def opened(offset: int, *, segmented: bool = False) -> tuple[str, dict[str, Any]]:
        return "store.opened", {
            "task": "0_0",
            "partition": "app-s-changelog-0",
            "offset": offset,
            "wipe": False,
            "persistent": True,
            "place": "s",
            "segmented": segmented,
        }

    assert broken(written, said, opened(0), opening) == set()
    assert broken(written, said, opened(-1), opening) == {"ASSIGN-007"}
    assert broken(written, said, wiped, opened(-1), opening) == set()
    # A store without a segment has no place for its offset.
    assert broken(written, said, opened(-1, segmented=True), opening) == set()


def test_the_group_looks_again() -> None:
    """In time, as long as something is on its way."""
    members = {"m1": member("a", active=["0_0", "0_1"])}
    moving = assigned(members, {"a": client("0_0 0_1")}, probing=True, time=0)
    late = ("thread.committed", {"time": 65_001})
    assert broken(moving, ("thread.committed", {"time": 65_000})) == set()
    assert broken(moving, late) == {"ASSIGN-008"}
    assert broken(moving, subscribed(), late) == set()


def test_versions_are_agreed_upon() -> None:
    """The oldest in use is what the leader answers in, and all speak what all support."""
    old = {**BOTH, "m2": member("b", active=["0_1"], used=6, supported=6)}
    assert broken(assigned(old, EVEN, version=6)) == set()
    assert broken(assigned(old, EVEN, version=7)) == {"ASSIGN-011"}
    told = ("thread.answered", {"version": 6, "commonly_supported": 6})
    assert broken(told, subscribed(used=6)) == set()
    assert broken(told, subscribed(used=11)) == {"ASSIGN-011"}
    release = {"release": "4.3", "manages_offsets": True, "upgrade_from": "", "upgrade_mode": ""}
    started = ("instance.started", {"actor": "a", "formats": [1], **release})
    assert broken(told, started, subscribed(used=11)) == set()
    before = ("thread.answered", {"version": 2, "commonly_supported": 2})
    assert broken(before, subscribed(used=3)) == set()


# In worlds.

LONG = WorkloadConfig(records=400, max_pause_ms=1_000)
"""What comes in for some minutes."""


def plan_of(*, exactly_once: bool, **assignor: int) -> Plan:
    """Three instances, of which some are killed while tasks are warmed up."""
    config = StreamsConfig(
        exactly_once=exactly_once,
        session_timeout_ms=6_000,
        probing_rebalance_interval_ms=5_000,
        commit_interval_ms=1_000,
        assignor=AssignorConfig(acceptable_recovery_lag=0, **assignor),
    )
    return Plan(instances=3, config=config, workload=LONG, kinds=("crash", "bounce"))


def in_memory(world: World, name: str) -> InstanceDisk:
    """A disk with stores that are not on it."""
    return SimulatedDisk(world, name, persistent=False)


def rules_broken(
    plan: Plan, defect: str = "", *, seed: int = 1, make_disk: MakeDisk | None = None
) -> set[str]:
    """The promises that a world breaks."""
    defects = [defect] if defect else []
    outcome = run(Choices.seeded(seed), plan, defects=defects, make_disk=make_disk)
    return {each.requirement for each in outcome.violations}


@GUARANTEES
@pytest.mark.parametrize("standbys", [0, 1])
@pytest.mark.parametrize("make_disk", [None, in_memory], ids=["on disk", "in memory"])
def test_all_rules_hold_while_tasks_move(
    *, exactly_once: bool, standbys: int, make_disk: MakeDisk | None
) -> None:
    """Warm-ups are made and taken over, and instances die."""
    plan = plan_of(exactly_once=exactly_once, num_standby_replicas=standbys)
    outcome = run(Choices.seeded(2), plan, make_disk=make_disk)
    assert list(outcome.violations) == []


@GUARANTEES
def test_the_group_looks_again_at_warm_ups(*, exactly_once: bool) -> None:
    """In some of these worlds."""
    plan = plan_of(exactly_once=exactly_once)
    mark = "the group looked again at what was on its way"
    assert any(run(Choices.seeded(seed), plan).marks[mark] for seed in range(20))


def test_a_world_goes_on_while_tasks_have_to_move() -> None:
    """Also at rest: so ordinary worlds show that a group never looks again."""
    defects = ["forgets-to-look-again"]
    found = (run(Choices.seeded(seed), defects=defects).violations for seed in range(120))
    assert "ASSIGN-008" in (each.requirement for violations in found for each in violations)


@pytest.mark.parametrize(
    ("defect", "rules"),
    [
        ("takes-unknown-for-latest", {"ASSIGN-007", "ASSIGN-013"}),
        ("reports-what-was-in-memory", {"ASSIGN-007"}),
        ("begins-anew-without-need", {"ASSIGN-004"}),
        ("forgets-to-look-again", {"ASSIGN-008"}),
    ],
)
def test_a_mistake_is_found(defect: str, rules: set[str]) -> None:
    """And the same world without it is well."""
    plan = plan_of(exactly_once=True)
    make_disk = in_memory if defect == "reports-what-was-in-memory" else None
    seed = next(
        seed
        for seed in range(40)
        if rules_broken(plan, defect, seed=seed, make_disk=make_disk) == rules
    )
    assert rules_broken(plan, seed=seed, make_disk=make_disk) == set()
