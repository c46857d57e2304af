"""Playing a scenario: what a timeline says happens at its moment, and what comes is judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamproof.errors import UsageError
from streamproof.scenarios.choice_codec import encode
from streamproof.scenarios.director import matches
from streamproof.scenarios.play import Judged, play
from streamproof.scenarios.real_stores import needs_model_stores, rocksdb_disks
from streamproof.scenarios.scenario import EventPattern
from streamproof.scenarios.scenario_reader import find, read
from streamproof.sim.broker_errors import DivergedError
from streamproof.sim.trace import Event
from streamproof.sim.world_plan import WORLD_VERSION

HEAD = """\
[plan]
partitions = 1
instances = 1
[settings]
commit_interval_ms = 1000
[[timeline]]
do = "send"
at = 100
topic = "in"
records = [{ key = "a", value = "1" }, { key = "b", value = "2" }]
"""


def scenario_of(directory: Path, timeline: str, head: str = HEAD, name: str = "mine") -> Any:
    """A scenario that counts two records, and what else its timeline says."""
    path = directory / f"{name}.toml"
    path.write_text(head + timeline)
    return read(path)


def played(directory: Path, timeline: str, **more: Any) -> Judged:
    """One run of it."""
    scenario = scenario_of(directory, timeline)
    return play(scenario, next(iter(scenario.setups.values())), **more)


def times(judged: Judged, kind: str, **fields: Any) -> list[int]:
    """When events of a kind were."""
    return [
        each.time
        for each in judged.played.events
        if each.kind == kind and all(getattr(each, key) == value for key, value in fields.items())
    ]


def test_without_a_timeline_nothing_goes_wrong(tmp_path: Path) -> None:
    """All is as plain as it can be: the same run, whenever it is played."""
    first, second = (played(tmp_path, "") for _ in range(2))
    assert first.surprises == []
    assert first.played.violations == []
    assert first.played.digest == second.played.digest
    assert len(times(first, "task.processed")) == 2
    assert all(choice == 0 for _, choice in first.played.choices)


@pytest.mark.parametrize(
    ("action", "began", "ended"),
    [
        ('do = "crash"', "instance.crashed", "instance.started"),
        ('do = "stop"', "instance.stopped", "instance.started"),
        ('do = "power"', "disk.power_lost", "instance.started"),
        ('do = "pause"', "instance.stood_still", "instance.went_on"),
        ('do = "cut"', "network.cut", "network.connected"),
        ('do = "fill"', "disk.filled", "disk.emptied"),
        ('do = "hold"', "instance.paused", "instance.resumed"),
    ],
)
def test_what_is_done_to_an_instance_begins_and_ends(
    action: str, began: str, ended: str, tmp_path: Path
) -> None:
    """At its moment, and so long after that."""
    length = "down_ms" if ended == "instance.started" else "lasts_ms"
    judged = played(
        tmp_path, f'[[timeline]]\n{action}\nat = 5000\ninstance = "instance-0"\n{length} = 700\n'
    )
    assert judged.surprises == []
    (start,) = times(judged, began)
    end = times(judged, ended)[-1]
    assert 5000 <= start <= 5010
    assert end == start + 700


def test_what_has_no_end_lasts_until_all_is_healed(tmp_path: Path) -> None:
    """And something else may end it before."""
    crash = '[[timeline]]\ndo = "crash"\nat = 5000\ninstance = "instance-0"\n'
    assert times(played(tmp_path, crash), "instance.started") == [0, 60_000]
    start = '[[timeline]]\ndo = "start"\nat = 7000\ninstance = "instance-0"\n'
    assert times(played(tmp_path, crash + start), "instance.started") == [0, 7_000]


def test_nothing_is_cleaned_up_while_a_process_stops(tmp_path: Path) -> None:
    """It has closed its tasks, and cannot leave the group before the network is there again."""
    leaves = """state_cleanup_delay_ms = 2000
group_membership_operation = "LEAVE_GROUP"
"""
    head = HEAD.replace("[[timeline]]", f"{leaves}[[timeline]]", 1)
    cut = '[[timeline]]\ndo = "cut"\nat = 5000\ninstance = "instance-0"\nlasts_ms = 20000\n'
    stop = '[[timeline]]\ndo = "stop"\nat = 5001\ninstance = "instance-0"\ndown_ms = 100\n'
    scenario = scenario_of(tmp_path, cut + stop, head)
    judged = play(scenario, next(iter(scenario.setups.values())))
    assert judged.surprises == []
    assert times(judged, "task.closed")[0] < 5100
    assert times(judged, "thread.stopped")[0] > 25_000
    assert times(judged, "state.cleaned") == []


def test_what_waits_for_an_event_comes_right_after_it(tmp_path: Path) -> None:
    """After the step in which it was, and before anything else happens."""
    judged = played(
        tmp_path,
        '[[timeline]]\ndo = "crash"\nwhen = { kind = "transaction.decided", nth = 1 }\n'
        'instance = "instance-0"\n',
    )
    kinds = [each.kind for each in judged.played.events]
    decided = kinds.index("transaction.decided")
    assert kinds[decided + 1] == "instance.crashed"
    assert times(judged, "store.committed", time=times(judged, "instance.crashed")[0]) == []
    later = played(
        tmp_path,
        '[[timeline]]\ndo = "crash"\nwhen = { kind = "task.processed", nth = 2 }\n'
        'after_ms = 50\ninstance = "instance-0"\n',
    )
    assert times(later, "instance.crashed") == [times(later, "task.processed")[1] + 50]


def test_a_flush_brings_to_the_disk_what_is_in_memory(tmp_path: Path) -> None:
    """Of all open stores of an instance, or of one task."""
    flush = '[[timeline]]\ndo = "flush"\nat = 150\ninstance = "instance-0"\n'
    assert times(played(tmp_path, flush), "store.flushed") == [150]
    assert times(played(tmp_path, flush + 'task = "0_9"\n'), "store.flushed") == []


@pytest.mark.parametrize(("flushes", "left"), [(0, [[b"a", b"1"], [b"b", b"1"]]), (1, [])])
def test_a_loss_of_power_takes_flushes(flushes: int, left: list[Any], tmp_path: Path) -> None:
    """So many of those that were not synced; without any, it is as a kill."""
    head = HEAD.replace("[settings]", "[settings]\nexactly_once = false")
    scenario = scenario_of(
        tmp_path,
        '[[timeline]]\ndo = "flush"\nat = 500\ninstance = "instance-0"\n'
        '[[timeline]]\ndo = "power"\nat = 600\ninstance = "instance-0"\ndown_ms = 100\n'
        f"flushes = {flushes}\n",
        head,
    )
    judged = play(scenario, scenario.setups["fixed"])
    assert judged.surprises == []
    found = [each for each in judged.played.events if each.kind == "store.found"]
    assert found[-1].attributes["rows"] == left


def test_an_upgrade_has_a_pace(tmp_path: Path) -> None:
    """Its steps are as far apart as the plan says."""
    head = HEAD.replace("[plan]", '[plan]\nupgrade = "offsets-up"\nupgrade_every_ms = 2000')
    scenario = scenario_of(tmp_path, "", head)
    judged = play(scenario, scenario.setups["fixed"])
    assert judged.surprises == []
    (stopped,) = times(judged, "instance.stopped")
    assert 2000 <= stopped <= 2010


def test_an_event_of_the_very_first_moment_counts(tmp_path: Path) -> None:
    """The first start of an instance is the first one."""
    judged = played(
        tmp_path,
        '[[timeline]]\ndo = "crash"\nwhen = { kind = "instance.started", nth = 1 }\n'
        'instance = "instance-0"\ndown_ms = 50\n',
    )
    assert times(judged, "instance.crashed") == [0]


@pytest.mark.parametrize(("ending", "processed"), [("commit", 3), ("abort", 2)])
def test_records_are_sent_in_a_transaction(ending: str, processed: int, tmp_path: Path) -> None:
    """It is open for a while, and those of an aborted one are not processed."""
    judged = played(
        tmp_path,
        '[[timeline]]\ndo = "send"\nat = 2000\ntopic = "in"\nopen_ms = 300\n'
        f'transaction = "{ending}"\nrecords = [{{ key = "c" }}]\n',
    )
    assert len(times(judged, "task.processed")) == processed
    appended = next(each for each in judged.played.events if each.attributes.get("key") == b"c")
    assert (appended.kind, appended.time) == ("log.appended", 2000)
    assert appended.attributes["value"] is None
    markers = times(judged, "transaction.marker", partition="in-0")
    assert 2300 <= markers[0] <= 2310


def test_a_fault_happens_at_its_site(tmp_path: Path) -> None:
    """The nth time that it is asked for this request of this instance, and no other time."""
    fault = (
        '[[timeline]]\ndo = "fault"\nsite = "network.reply_lost"\nwhom = "instance-0"\n'
        'what = "end transaction"\n'
    )
    judged = played(tmp_path, fault)
    assert judged.surprises == []
    (lost,) = [each for each in judged.played.events if each.kind == "network.reply_lost"]
    assert lost.attributes == {"what": "end transaction"}
    slow = '[[timeline]]\ndo = "fault"\nsite = "network.slow"\nwhat = "end transaction"\n'
    quick, late = played(tmp_path, ""), played(tmp_path, f"{slow}amount = 499\n")
    assert times(late, "transaction.decided")[0] == times(quick, "transaction.decided")[0] + 500


def test_what_never_comes_about_is_told(tmp_path: Path) -> None:
    """An action that waits in vain makes the scenario another one than it says it is."""
    judged = played(
        tmp_path,
        '[[timeline]]\ndo = "crash"\nwhen = { kind = "task.processed", nth = 3 }\n'
        'instance = "instance-0"\n'
        '[[timeline]]\ndo = "fault"\nsite = "network.slow"\nwhat = "dance"\n',
    )
    assert judged.surprises == [
        "timeline[1] (crash) never happened: its event or its site never came",
        "timeline[2] (fault) never happened: its event or its site never came",
    ]


CRASH = """
[[timeline]]
do = "flush"
when = { kind = "task.processed", nth = 2 }
instance = "instance-0"
[[timeline]]
do = "crash"
when = { kind = "task.processed", nth = 2 }
after_ms = 20
instance = "instance-0"
down_ms = 100
"""


@pytest.mark.parametrize(
    ("expected", "told"),
    [
        ("", []),
        ('contents.counts = { a = "1", b = "1" }', []),
        ('outputs.out = { a = "1", b = "1" }', []),
        ('contents.counts = { a = "2" }', ["expected store counts to hold {'a': '2'} at the end"]),
        ("outputs.out = {}", ["expected output out to hold {} at the end"]),
        ('events = [{ kind = "task.wiped", least = 1, most = 1 }]', []),
        ('events = [{ kind = "task.wiped" }]', []),
        (
            'events = [{ kind = "task.wiped", most = 0 }]',
            ["expected task.wiped 0 to 0 times, but found it 1 times"],
        ),
        (
            'events = [{ kind = "task.wiped", least = 2 }]',
            ["expected task.wiped 2 to any number of times, but found it 1 times"],
        ),
        ('breaks = ["TASK-003"]', ["expected TASK-003 to be broken, but every promise held"]),
        ('defects = ["keeps-unclean-store"]\nbreaks = ["TASK-003"]', []),
        ('defects = ["keeps-unclean-store"]', ["expected every promise to hold, but TASK-003 was"]),
        (
            'defects = ["keeps-unclean-store"]\nbreaks = ["TASK-001"]',
            ["expected TASK-001 to be broken, but TASK-003 was broken"],
        ),
    ],
)
def test_a_run_is_judged(expected: str, told: list[str], tmp_path: Path) -> None:
    """By what is broken, by what is there in the end, and by what has happened on the way."""
    judged = played(tmp_path, f"{CRASH}\n[variants.only]\n{expected}\n")
    assert len(judged.surprises) == len(told)
    for surprise, beginning in zip(judged.surprises, told, strict=True):
        assert surprise.startswith(beginning)


def test_a_defect_can_be_added(tmp_path: Path) -> None:
    """To see what it does to a scenario that is not about it."""
    judged = played(tmp_path, CRASH, defects=["keeps-unclean-store"])
    assert judged.played.defects == ("keeps-unclean-store",)
    assert judged.played.violations[0].requirement == "TASK-003"


def test_recorded_choices_are_the_same_run_or_none(tmp_path: Path) -> None:
    """Its digest is that of the run that was recorded; what does not fit is refused."""
    plain = scenario_of(tmp_path, CRASH)
    first = play(plain, plain.setups["fixed"], seed=3)
    text = encode(first.played.choices)
    own = f'variant = "fixed"\nworld = {WORLD_VERSION}\nrecorded = """{text}"""\n'
    table = f"\n[variants.fixed]\n[choices]\n{own}"
    again = scenario_of(tmp_path, f'{CRASH}{table}digest = "{first.played.digest}"\n')
    second = play(again, again.setups["fixed"])
    assert second.played.digest == first.played.digest
    assert second.surprises == []
    other = scenario_of(tmp_path, f'{CRASH}{table}digest = "0123"\n')
    (surprise,) = play(other, other.setups["fixed"]).surprises
    assert surprise.startswith("this is not the run that was recorded")
    head = HEAD.replace("instances = 1", "instances = 2")
    changed = scenario_of(tmp_path, f"{CRASH}{table}", head)
    with pytest.raises(DivergedError, match="do not fit this run"):
        play(changed, changed.setups["fixed"])
    # What is asked to be another run goes as near to it as it can.
    near = play(changed, changed.setups["fixed"], defects=["keeps-unclean-store"])
    assert near.played.choices != first.played.choices


def test_a_seed_draws_what_is_left_open(tmp_path: Path) -> None:
    """Another seed is another run, with the same timeline."""
    runs = [played(tmp_path, CRASH, seed=seed) for seed in (1, 1, 2)]
    digests = [each.played.digest for each in runs]
    assert digests[0] == digests[1] != digests[2]
    assert [len(times(each, "instance.crashed")) for each in runs] == [1, 1, 1]


@pytest.mark.parametrize("transactional", [True, False])
def test_a_scenario_is_played_with_real_stores(transactional: bool, tmp_path: Path) -> None:
    """RocksDB goes through the same crash, and comes to the same."""
    scenario = scenario_of(
        tmp_path,
        f'{CRASH}[variants.only]\ncontents.counts = {{ a = "1", b = "1" }}\n'
        f"settings.transactional = {str(transactional).lower()}\n",
    )
    setup = scenario.setups["only"]
    assert needs_model_stores(scenario, setup) == ""
    real = play(scenario, setup, make_disk=rocksdb_disks(tmp_path / "disks", setup.plan))
    assert real.surprises == []
    assert play(scenario, setup).played.digest == real.played.digest


def test_what_needs_model_stores_is_refused(tmp_path: Path) -> None:
    """The power, formats, and what a variant says itself."""
    power = '[[timeline]]\ndo = "power"\nat = 5000\ninstance = "instance-0"\n'
    with pytest.raises(UsageError, match=r"mine \(fixed\) cannot be played with real stores"):
        played(tmp_path, power, make_disk=lambda *_: None)
    scenario = read(find("KAFKA-20685"))
    reasons = [needs_model_stores(scenario, each) for each in scenario.setups.values()]
    assert [bool(each) for each in reasons] == [False, True]
    formats = scenario_of(tmp_path, "", HEAD.replace("[plan]", '[plan]\nupgrade="format-offline"'))
    assert "formats" in needs_model_stores(formats, formats.setups["fixed"])


@pytest.mark.parametrize(
    ("pattern", "is_meant"),
    [
        ({}, True),
        ({"kind": "store.opened"}, False),
        ({"actor": "instance-1"}, True),
        ({"actor": "instance-1/thread-0"}, True),
        ({"actor": "instance-1/thread-1"}, False),
        ({"actor": "instance"}, False),
        ({"task": "0_0", "partition": "in-0", "offset": 3}, True),
        ({"task": "0_1"}, False),
        ({"partition": "in-1"}, False),
        ({"offset": 4}, False),
        ({"attributes": {"key": "a"}}, True),
        ({"attributes": {"key": "b"}}, False),
        ({"attributes": {"others": {"in-1": [5]}}}, True),
        ({"attributes": {"none": None}}, False),
        ({"attributes": {"release": "4.3"}}, True),
        ({"attributes": {"release": "4.3.10"}}, False),
        ({"attributes": {"release": "4.2"}}, False),
    ],
)
def test_a_pattern_means_some_events(pattern: dict[str, Any], is_meant: bool) -> None:
    """What it leaves out may be anything; bytes are text in it."""
    attributes = {"key": b"a", "others": {"in-1": (5,)}, "release": "4.3.1"}
    event = Event(7, 7, "instance-1/thread-0", "task.processed", "0_0", "in-0", 3, attributes)
    assert matches(EventPattern(**{"kind": "task.processed", **pattern}), event) is is_meant


def test_the_run_is_kept_whole(tmp_path: Path) -> None:
    """With a name that tells the variant, and all that a picture needs."""
    scenario = scenario_of(tmp_path, CRASH)
    setup = scenario.setups["fixed"]
    judged = play(scenario, replace(setup, name="fixed"), command="streamproof replay mine@fixed")
    assert judged.played.name == "mine (fixed)"
    assert judged.played.command == "streamproof replay mine@fixed"
    assert [each.sequence for each in judged.played.events] == list(
        range(len(judged.played.events))
    )
