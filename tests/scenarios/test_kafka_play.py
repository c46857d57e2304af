"""Scenarios are played by real processes, which are killed at the event that the timeline names."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamproof.commands.options import release_of_world
from streamproof.conformance.store_worlds.hosted_play import Wanted
from streamproof.errors import UsageError
from streamproof.runs.scenario_runs import play_targets
from streamproof.scenarios.kafka.real_play import play_for_real, returned_late
from streamproof.scenarios.kafka.real_settings import (
    fitting,
    needs_proxy,
    restarts_of,
    settings_of,
    topics_of,
    why_not,
)
from streamproof.scenarios.kafka.real_upgrades import bounces_of
from streamproof.scenarios.scenario import Fault
from streamproof.scenarios.scenario_reader import find, library, read
from streamproof.sim.trace import Event
from streamproof.sim.world_plan import Plan
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE, broker_release

ROOT = Path(__file__).resolve().parents[2]


def obstacle(name: str, variant: str, release: str = DEFAULT_RELEASE) -> str:
    scenario = read(find(name))
    return why_not(scenario, scenario.setups[variant], release)


def test_a_kill_hits_the_event_that_it_waits_for() -> None:
    """The instance stands still at the third record, so it has not processed a fourth."""
    scenario = read(find("KAFKA-7192"))
    judged = play_for_real(scenario, scenario.setups["fixed"], DEFAULT_RELEASE)
    run = judged.played
    kinds = [each.kind for each in run.events]
    crashed = kinds.index("instance.crashed")

    assert judged.surprises == []
    assert list(run.violations) == []
    assert kinds.count("instance.crashed") == 1
    assert "instance.started" in kinds[crashed:]
    assert kinds[-1] != "instance.crashed"


def test_most_variants_without_a_mistake_of_the_simulator_say_why_they_cannot_be_played() -> None:
    playable = 0
    for path in library().values():
        scenario = read(path)
        for setup in scenario.setups.values():
            reason = why_not(scenario, setup, DEFAULT_RELEASE)
            playable += not reason
            assert reason == "" or not reason.endswith(".")

    assert playable >= 40


def test_a_reply_that_is_lost_is_noticed_and_its_task_is_restored() -> None:
    """The commit has no answer, so nobody knows whether the store has too much.

    On a busy machine, one play in seven ended with a store that was behind its changelog.
    """
    scenario = read(find("KAFKA-12486"))
    plays = (play_for_real(scenario, scenario.setups["fixed"], DEFAULT_RELEASE) for _ in range(2))
    judged = next((each for each in plays if not each.surprises), None)
    assert judged is not None
    kinds = [each.kind for each in judged.played.events]

    assert kinds.index("network.reply_lost") < kinds.index("task.corrupted")


def test_punctuations_are_recorded_with_their_intervals() -> None:
    scenario = read(find("KIP-834-punctuation"))
    judged = play_for_real(scenario, scenario.setups["fixed"], DEFAULT_RELEASE)
    seen = [each.attributes for each in judged.played.events if each.kind == "task.punctuated"]

    assert judged.surprises == list(judged.played.violations) == []
    assert {(each["clock"], each["interval_ms"]) for each in seen} <= {
        ("stream time", 500),
        ("wall-clock time", 3000),
    }
    assert seen


@pytest.mark.parametrize(
    ("name", "variant", "reason"),
    [
        ("KAFKA-7192", "defect", "one of the simulated runtime"),
        ("KIP-1259", "fixed", "at a given moment: broker.compacted"),
        ("KIP-892-crash-between-commits", "staged", "no stores that stage their writes"),
        ("KAFKA-20685", "fixed", r"kafka@4\.2\.0"),
        ("KIP-268", "fixed", "releases that are no more"),
        ("KAFKA-20805", "fixed", r"4\.3\.1 makes the mistake of the variant defect"),
    ],
)
def test_why_a_variant_cannot_be_played(name: str, variant: str, reason: str) -> None:
    scenario = read(find(name))

    with pytest.raises(UsageError, match=reason):
        play_for_real(scenario, scenario.setups[variant], "4.3.1")


def test_a_release_that_has_mended_a_bug_plays_the_right_variant() -> None:
    assert obstacle("KAFKA-20685", "fixed", "4.2.2") == ""
    assert "one of the simulated" in obstacle("KAFKA-20685", "defect", "4.2.2")


def test_an_upgrade_is_played_by_the_two_releases_that_it_names() -> None:
    assert obstacle("KIP-1035-downgrade", "prepared", "4.3.1") == ""
    assert "of Kafka 4.2 and 4.3" in obstacle("KIP-1035-downgrade", "prepared", "4.4.0")


def test_each_instance_restarts_once_for_each_further_release() -> None:
    plan = Plan(instances=2, upgrade="offsets-down", upgrade_every_ms=5_000)
    times = [(each.at_ms, each.instance) for each in bounces_of(plan)]

    assert times == [
        (5_000, "instance-0"),
        (10_000, "instance-1"),
        (15_000, "instance-0"),
        (20_000, "instance-1"),
    ]


def test_stores_stage_their_writes_with_the_limit_of_the_plan() -> None:
    setup = read(find("KIP-892-commit-threshold")).setups["bounded"]
    settings = settings_of(setup.plan, DEFAULT_RELEASE)

    assert settings["enable.transactional.statestores"] == "true"
    assert settings["statestore.uncommitted.max.bytes"] == "64"


def test_faults_that_no_real_process_has_at_a_given_moment_are_named() -> None:
    assert obstacle("KIP-1259", "fixed").endswith("at a given moment: broker.compacted")


@pytest.mark.parametrize("name", ["KAFKA-12486", "KAFKA-10167", "KIP-890-late-commit"])
def test_faults_of_the_network_can_be_played(name: str) -> None:
    assert needs_proxy(read(find(name)).file.timeline)
    assert obstacle(name, "fixed") == ""


@pytest.mark.parametrize(
    ("whom", "amount", "reason"),
    [
        ("table-0", 0, ""),
        ("", 4, ""),
        ("table-0", 2, "an answer to a fetch has all records here, or none"),
        ("stream-table-join-rows-changelog-0", 0, "the proxy does not know the topics"),
    ],
)
def test_answers_without_records(whom: str, amount: int, reason: str) -> None:
    scenario = read(find("KIP-695-out-of-order-join"))
    scenario.file.timeline[0] = Fault(at=1, site="broker.empty_fetch", whom=whom, amount=amount)

    assert needs_proxy(scenario.file.timeline)
    assert why_not(scenario, scenario.setups["zero"], DEFAULT_RELEASE).startswith(reason)
    assert bool(why_not(scenario, scenario.setups["zero"], DEFAULT_RELEASE)) == bool(reason)


def test_a_plan_is_played_with_all_that_it_says() -> None:
    """A scenario whose handlers stayed behind would blame Kafka for its outputs."""
    setup = read(find("KIP-1034")).setups["fixed"]
    settings = settings_of(setup.plan, DEFAULT_RELEASE)

    assert settings["processing.exception.handler"].endswith(
        "LogAndContinueProcessingExceptionHandler"
    )
    assert settings["errors.dead.letter.queue.topic.name"] == "dead-letters"
    assert topics_of(setup.plan) == {"in": 1, "out": 1, "dead-letters": 1}


def test_internal_topics_are_left_to_kafka() -> None:
    assert topics_of(Plan(topology="last-byte-count", partitions=2)) == {"in": 2, "out": 2}


def test_an_older_release_plays_instances_before_stores_kept_offsets() -> None:
    assert obstacle("KAFKA-20685", "defect", "4.2.0") == ""


def test_a_bug_of_kafka_is_shown_on_a_release_that_has_it() -> None:
    """A checkpoint that outlived the restoration lets Kafka 4.2 keep what was aborted.

    On a busy machine the transaction may be committed before the kill, which shows nothing.
    """
    scenario = read(find("KAFKA-20685"))
    runs = (play_for_real(scenario, scenario.setups["defect"], "4.2.0") for _ in range(4))
    shown = next((each for each in runs if each.played.violations), None)

    assert shown is not None
    assert shown.played.violations[0].requirement == "TASK-003"


def test_rows_of_a_running_application_are_lost_in_a_kill() -> None:
    """Its window store trusts the offset of the newest segment."""
    scenario = read(find("KAFKA-20663"))
    judged = play_for_real(scenario, scenario.setups["defect"], DEFAULT_RELEASE)

    assert judged.surprises == []
    assert {each.requirement for each in judged.played.violations} >= {"TASK-003"}


def test_an_older_release_than_can_be_verified_shows_a_bug_that_a_later_one_has_not() -> None:
    """Without input, Kafka 3.3 leaves the transaction of a punctuation open; Kafka 3.4 commits it.

    On a busy machine the kill may come after the punctuation, which shows nothing.
    """
    scenario = read(find("KAFKA-14294"))
    old = (play_for_real(scenario, scenario.setups["defect"], "3.3.1") for _ in range(3))
    assert any(not each.surprises for each in old)

    for _ in range(3):
        new = play_for_real(scenario, scenario.setups["fixed"], "3.4.0")
        assert list(new.played.violations) == []
        if not new.surprises:
            break
    assert new.surprises == []


def test_settings_fit_the_release() -> None:
    handler = {"deserialization.exception.handler": "Handler"}

    assert fitting(handler, "4.0.0") == handler
    assert fitting(handler, "3.9.2") == {"default.deserialization.exception.handler": "Handler"}
    assert fitting({}, "3.7.1") == {"__state.updater.enabled__": "true"}
    assert fitting({}, "3.6.2") == fitting({}, "3.8.0") == {}

    plan = read(find("KAFKA-6502")).setups["fixed"].plan
    for on_existing in (False, True):
        old = settings_of(plan, "3.9.2", on_existing=on_existing)
        assert old["default.deserialization.exception.handler"].endswith("ContinueExceptionHandler")


def test_a_target_of_which_nothing_can_be_played_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be played on Kafka"):
        play_targets(["KIP-1259"], Wanted(release=DEFAULT_RELEASE), {})


@pytest.mark.parametrize(
    ("world", "release"), [("", ""), ("kafka", DEFAULT_RELEASE), ("kafka@4.2.0", "4.2.0")]
)
def test_worlds(world: str, release: str) -> None:
    assert release_of_world(world) == release


def test_scenarios_are_played_on_older_releases_too() -> None:
    assert release_of_world("kafka@3.3.1", plays_scenarios=True) == "3.3.1"
    assert broker_release("3.3.1") == DEFAULT_RELEASE
    assert broker_release("4.2.0") == "4.2.0"
    with pytest.raises(UsageError, match="too old to play scenarios"):
        release_of_world("kafka@3.0.0", plays_scenarios=True)


@pytest.mark.parametrize("world", ["kafka@", "kafka@new", "pulsar", "kafka@3.1.0"])
def test_a_world_that_is_none(world: str) -> None:
    with pytest.raises(UsageError):
        release_of_world(world)


def test_sessions_that_a_plan_leaves_open_are_short() -> None:
    assert settings_of(Plan(), DEFAULT_RELEASE)["session.timeout.ms"] == "3000"


@pytest.mark.parametrize(
    ("name", "restarts"),
    [
        ("KIP-892-power-loss", {"instance-0": 2}),
        ("KAFKA-18943", {"instance-1": 1}),
        # Nobody but the end of the run starts the instance again.
        ("KAFKA-8755", {}),
    ],
)
def test_how_often_a_timeline_starts_an_instance_again(name: str, restarts: dict[str, int]) -> None:
    assert restarts_of(read(find(name)).file.timeline) == restarts


@pytest.mark.parametrize(
    ("session_ms", "told"),
    [
        (6000, ["instance-0 joined its group 7.0 s after it was killed, when its session of 6 s"]),
        (9000, []),
        # The scenario itself has the instance down for longer.
        (900, []),
    ],
)
def test_an_instance_that_a_slow_machine_brings_back_too_late(
    session_ms: int, told: list[str]
) -> None:
    events = [
        Event(0, 10, "instance-0/thread-1", "thread.subscribed", "", "", -1, {}),
        Event(1, 2000, "instance-0", "instance.crashed", "", "", -1, {}),
        Event(2, 8900, "instance-1/thread-1", "thread.subscribed", "", "", -1, {}),
        Event(3, 9000, "instance-0/thread-1", "thread.subscribed", "", "", -1, {}),
        Event(4, 9900, "instance-0/thread-1", "thread.subscribed", "", "", -1, {}),
    ]
    timeline = read(find("KIP-1035-stale-offset-sums")).file.timeline
    found = [each.partition(" was over")[0] for each in returned_late(timeline, events, session_ms)]

    assert found == told


def test_a_standby_that_is_resumed_ends_the_state_updater() -> None:
    """The release has the bug of the example, which a search with real processes has found."""
    path = ROOT / "examples" / "kafka-findings" / "KAFKA-20731.toml"
    scenario = read(path)
    judged = play_for_real(scenario, scenario.setups["mended"], DEFAULT_RELEASE)

    assert "instance-0 ended by itself" in judged.surprises[0]
    assert "(is STANDBY_UPDATING)" in judged.surprises[0]


def test_a_restoration_is_slowed_down_without_a_proxy() -> None:
    assert obstacle("KAFKA-16017", "fixed") == ""
    assert not needs_proxy(read(find("KAFKA-12634")).file.timeline)


def test_rows_are_lost_after_an_abort_that_times_out() -> None:
    """The restoration has to be slow, so the test also shows that the recorder slows it down."""
    scenario = read(find("offsets-survive-a-failed-abort"))
    judged = play_for_real(scenario, scenario.setups["wrong"], DEFAULT_RELEASE)

    assert not judged.surprises
    assert judged.played.violations[0].requirement == "TASK-002"


def test_an_upgrade_restarts_an_instance_with_the_other_release() -> None:
    """The expected offsets depend on which records share a transaction, and are not compared."""
    scenario = read(find("KIP-1035-upgrade"))
    judged = play_for_real(scenario, scenario.setups["exactly-once"], "4.3.1")
    started = [
        each.attributes["release"]
        for each in judged.played.events
        if each.kind == "instance.started"
    ]

    assert not judged.played.violations
    assert (started[0], started[-1]) == ("4.2.2", "4.3.1")
    assert len(started) == 5
    assert "task.wiped" not in {each.kind for each in judged.played.events}


def test_a_thread_of_kafka_commits_what_it_has_staged_too_much() -> None:
    scenario = read(find("KIP-892-unbounded-staging"))
    judged = play_for_real(scenario, scenario.setups["fixed"], DEFAULT_RELEASE)

    assert not judged.surprises
    assert judged.played.events[0].attributes["transactional"]
    assert "thread.staged" in {each.kind for each in judged.played.events}
