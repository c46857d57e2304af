"""Worlds for real processes: what is drawn, what is done with a failure, and one that is played."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from commands import COMMAND, refused

from streamproof.runs.real_exploration import real_space
from streamproof.scenarios.kafka.application import STATIC_MEMBERS
from streamproof.scenarios.kafka.followed_lines import Rest
from streamproof.scenarios.kafka.real_search import (
    Confirmed,
    confirmed,
    expecting,
    failures_of,
    simulated,
    smaller,
)
from streamproof.scenarios.kafka.real_settings import settings_of, why_not
from streamproof.scenarios.kafka.real_worlds import (
    FOUND,
    LEFT_OUT,
    REAL_WORLDS,
    drawn_world,
    real_worlds_of,
    world_of,
)
from streamproof.scenarios.kafka.recording import Recorded
from streamproof.scenarios.kafka.shared_broker import RealRun, Share
from streamproof.scenarios.scenario import Crash, Scenario, Send
from streamproof.scenarios.scenario_reader import read
from streamproof.scenarios.scenario_writer import drawn_scenario_text
from streamproof.scenarios.shrinking import Shape
from streamproof.sim.application import StreamsConfig
from streamproof.sim.invariants.invariant import InvariantViolation
from streamproof.sim.invariants.judging import EVERYTHING_SEEN, Judgement
from streamproof.sim.trace import Event
from streamproof.stores.api import TRANSACTIONAL_STATESTORES_CONFIG
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE

SEEDS = range(60)
BROKEN = Shape("TASK-004", "nothing is lost")


def run_of(*, wrong: tuple[str, ...] = (), broken: bool = False, rests: bool = True) -> RealRun:
    """A run that was played, with what went wrong in it."""
    violations = (
        [InvariantViolation(BROKEN.invariant, BROKEN.requirement, "one is lost", None)]
        if broken
        else []
    )
    recorded = Recorded([], EVERYTHING_SEEN)
    return RealRun(recorded, Judgement(violations, {}, 0), list(wrong), frozenset(), rests, 1.0)


FIELDS = {
    TRANSACTIONAL_STATESTORES_CONFIG: "transactional",
    "statestore.uncommitted.max.bytes": "max_uncommitted_bytes",
    STATIC_MEMBERS: "static_members",
}
"""The fields of a plan whose settings have other names."""


def has_crash(scenario: Scenario) -> bool:
    return any(isinstance(each, Crash) for each in scenario.file.timeline)


def crashing() -> Scenario:
    """The first drawn world with a crash."""
    return next(each for each in map(drawn_world, SEEDS) if has_crash(each))


def test_every_drawn_world_can_be_played() -> None:
    reasons = {
        why_not(each, each.setups[FOUND], DEFAULT_RELEASE) for each in map(drawn_world, SEEDS)
    }

    assert reasons == {""}


def test_older_releases_have_no_stores_that_stage_writes() -> None:
    worlds = [drawn_world(each, real_worlds_of("4.3.1")) for each in SEEDS]

    assert {why_not(each, each.setups[FOUND], "4.3.1") for each in worlds} == {""}


def test_a_seed_always_draws_the_same_world() -> None:
    assert drawn_world(7) == drawn_world(7)
    assert drawn_world(7) != drawn_world(8)


def test_worlds_have_input_and_faults_of_all_kinds() -> None:
    kinds = {type(act).__name__ for seed in SEEDS for act in drawn_world(seed).file.timeline}

    assert kinds == {"Send", "Crash", "Stop", "Pause", "Hold", "Power"}


def test_each_setting_that_varies_reaches_the_real_processes() -> None:
    """A setting that only the simulator knew would make two worlds of one plan."""
    plans = [drawn_world(seed).setups[FOUND].plan for seed in range(300)]
    varying = {
        name
        for name in StreamsConfig.__dataclass_fields__
        if len({getattr(each.config, name) for each in plans}) > 1
    }
    told = {
        FIELDS.get(name, name.replace(".", "_"))
        for each in plans
        for name in settings_of(each, DEFAULT_RELEASE)
    }

    assert varying - {"exactly_once", "assignor"} <= told
    assert len(varying) >= 6


def test_the_page_has_what_is_left_out() -> None:
    page = (Path(__file__).parents[2] / "docs" / "real-worlds.md").read_text("utf-8")

    assert all(f"| {what} | {why} |" in page for what, why in LEFT_OUT.items())


def test_a_world_is_written_and_read_again(tmp_path: Path) -> None:
    world = crashing()
    path = tmp_path / "world.toml"
    path.write_text(drawn_scenario_text(expecting(world, BROKEN), FOUND, "A story."), "utf-8")
    again = read(path)

    assert again.file.timeline == world.file.timeline
    assert again.setups[FOUND].plan == world.setups[FOUND].plan
    assert again.setups[FOUND].variant.breaks == ["TASK-004"]


def test_simulated_worlds_of_the_plan_keep_all_promises() -> None:
    found = [simulated(drawn_world(seed), "TASK-008", 2) for seed in range(6)]

    assert found == [None] * 6


def test_a_failure_becomes_as_small_as_it_stays() -> None:
    world = crashing()
    least = smaller(lambda each: run_of(broken=has_crash(each)), world, BROKEN, 500)
    kinds = sorted(type(each).__name__ for each in least.file.timeline)

    assert kinds == ["Crash", "Send"]


def test_a_failure_is_made_smaller_within_its_plays() -> None:
    plays = []

    def play(world: Scenario) -> RealRun:
        plays.append(world)
        return run_of(broken=has_crash(world))

    smaller(play, crashing(), BROKEN, 5)

    assert len(plays) == 5


def test_a_failure_is_played_again_and_counted() -> None:
    runs = iter([run_of(), run_of(broken=True), run_of(broken=True)])

    assert confirmed(lambda _: next(runs), crashing(), BROKEN, 3) == Confirmed(2, 3)


def test_an_instance_that_ends_by_itself_is_the_first_failure() -> None:
    log = """instance-1 ended by itself. It wrote last:
      org.apache.kafka.streams.errors.StreamsException: Encounter unexpected fatal error
      Caused by: java.lang.IllegalStateException: The changelog reader is wrong"""
    first, second = failures_of(run_of(wrong=(log,), broken=True))

    assert first.shape.requirement == "TASK-008"
    assert "IllegalStateException" in first.shape.invariant
    assert first.message.startswith("instance-1 ended by itself: IllegalStateException: The")
    assert second.shape == BROKEN


def test_an_application_that_does_not_come_to_rest_is_a_failure() -> None:
    (failure,) = failures_of(run_of(rests=False))

    assert failure.shape.requirement == "TASK-008"


def test_a_command_that_takes_long_is_no_failure() -> None:
    assert failures_of(run_of(wrong=("instance-0 did not carry out a command in 20 s",))) == []


def test_a_world_takes_its_own_lines_from_the_recording_of_the_broker(tmp_path: Path) -> None:
    broker = tmp_path / "broker.events"
    broker.write_text('{"about":"brokers"}\n{"partition":"other.in-0"}\n')
    at = broker.stat().st_size
    share = Share(broker, "mine.", at)
    (tmp_path / "world").mkdir()
    with broker.open("a") as file:
        file.write('{"partition":"mine.in-0"}\n{"partition":"other.in-1"}\n{"partition":"mine.in')
    share.begin(tmp_path / "world")
    share.take()
    mine = (tmp_path / "world" / "broker.events").read_text()

    assert mine == '{"about":"brokers"}\n{"partition":"in-0"}\n'


def assigned(process: str, *standbys: str) -> Event:
    more = {"generation": 1, "standby": [*standbys]}
    return Event(0, 0, f"{process}/thread-1", "thread.assigned", "", "", -1, more)


def appended(offset: int, *, transactional: bool) -> Event:
    more = {"producer": 7, "transactional": transactional}
    return Event(0, 0, "brokers", "log.appended", "", "in-0", offset, more)


def goes_on_before_an_aborted_record(rest: Rest) -> None:
    """A task runs that has committed offset 1, and its input has an aborted record there."""
    rest.see(assigned("a"))
    rest.see(appended(0, transactional=False))
    rest.see(appended(1, transactional=True))
    marker = {"producer": 7, "commit": False}
    rest.see(Event(0, 0, "brokers", "transaction.marker", "", "in-0", 2, marker))
    rest.see(Event(0, 0, "brokers", "offsets.committed", "", "", -1, {"offsets": {"in-0": 1}}))
    running = {"before": "RESTORING", "after": "RUNNING"}
    rest.see(Event(0, 0, "a/thread-1", "task.state", "0_0", "", -1, running))


def test_who_reads_uncommitted_records_has_aborted_ones_to_process() -> None:
    """A run that ended before would show an input that was never committed to its end."""
    rest = Rest({"0_0": ["in-0"]}, reads_committed=False)
    goes_on_before_an_aborted_record(rest)
    found = [rest.is_reached(["a"])]
    rest.see(Event(0, 0, "a/thread-1", "task.processed", "0_0", "in-0", 1, {}))
    rest.see(Event(0, 0, "brokers", "offsets.committed", "", "", -1, {"offsets": {"in-0": 3}}))
    found.append(rest.is_reached(["a"]))

    assert found == [False, True]


def test_markers_behind_the_last_record_keep_no_task_from_its_rest() -> None:
    """Kafka does not commit them once the task that processed the records has moved."""
    rest = Rest({"0_0": ["in-0"]})
    goes_on_before_an_aborted_record(rest)
    fresh = rest.is_reached(["a"])
    rest.see(Event(0, 0, "a/thread-1", "task.processed", "0_0", "in-0", 0, {}))

    assert fresh
    assert not rest.is_reached(["a"])


def test_an_application_does_not_rest_before_its_standbys_have_all_records() -> None:
    """A run that ended before would not show what a standby copies."""
    rest = Rest({"0_0": ["in-0"]})
    rest.see(assigned("a"))
    rest.see(assigned("b", "0_0"))
    for process in ("a", "b"):
        opened = Event(0, 0, f"{process}/thread-1", "store.opened", "0_0", "changelog-0", -1, {})
        rest.see(opened)
    running = {"before": "RESTORING", "after": "RUNNING"}
    rest.see(Event(0, 0, "a/thread-1", "task.state", "0_0", "", -1, running))
    more = {"producer": 7, "transactional": False}
    rest.see(Event(0, 0, "brokers", "log.appended", "", "changelog-0", 4, more))
    found = [rest.is_reached(["a", "b"])]
    rest.see(Event(0, 0, "b/updater-1", "update.start", "0_0", "changelog-0", -1, {"start": 2}))
    found.append(rest.is_reached(["a", "b"]))
    rest.see(Event(0, 0, "b/updater-1", "update.batch", "0_0", "changelog-0", 4, {}))
    found.append(rest.is_reached(["a", "b"]))
    rest.see(Event(0, 0, "b", "instance.crashed", "", "", -1, {}))
    rest.see(assigned("b", "0_0"))
    found.append(rest.is_reached(["a", "b"]))

    assert found == [False, False, True, False]


def test_a_swarm_file_narrows_the_worlds(tmp_path: Path) -> None:
    swarm = tmp_path / "swarm.toml"
    swarm.write_text('guarantees = ["at-least-once"]\nkinds = ["crash"]\n')
    space = real_space(swarm, DEFAULT_RELEASE)

    assert space.topologies == REAL_WORLDS.topologies
    assert not any(
        drawn_world(each, space).setups[FOUND].plan.config.exactly_once for each in SEEDS
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--defect", "ignores-lag"], "--defect changes the simulator"),
        (["--subject", "rocksdb"], "--subject changes the simulator"),
        (["--swarm", "swarm.toml"], "can be played by real processes"),
        (["--runs", "1", "--budget", "1m"], "exclude each other"),
    ],
)
def test_what_cannot_be_explored_for_real(tmp_path: Path, options: list[str], told: str) -> None:
    (tmp_path / "swarm.toml").write_text('topologies = ["global-table-join"]\n')
    assert told in refused("explore", "--on", "kafka", *options, cwd=tmp_path)


def test_two_worlds_are_played_on_one_broker(tmp_path: Path) -> None:
    swarm = tmp_path / "swarm.toml"
    swarm.write_text(
        'topologies = ["count"]\nkinds = ["crash"]\n[plan]\ninstances = [1]\npartitions = [1]\n'
    )
    done = subprocess.run(
        [COMMAND, "explore", "--on", "kafka", "--runs", "2", "--swarm", str(swarm), "-j", "2"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 worlds," in done.stdout
    assert "Nothing was found." in done.stdout
    assert [each.name for each in (tmp_path / "streamproof-explored").iterdir()] == [
        "explored.ndjson"
    ]


def test_a_world_without_input_fails_with_nothing() -> None:
    """Smaller worlds keep some input."""
    world = crashing()
    least = smaller(lambda _: run_of(broken=True), world, BROKEN, 500)

    assert [type(each) for each in least.file.timeline] == [Send]
    assert world_of("w", world.setups[FOUND].plan, []).file.timeline == []
