"""Worlds are played on a cluster that somebody else has started, and leave nothing there."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import COMMAND, refused

from streamproof.errors import UsageError
from streamproof.scenarios.kafka.cluster import start_broker
from streamproof.scenarios.kafka.existing_cluster import WatchedRest, await_deleted
from streamproof.scenarios.kafka.processes import Processes
from streamproof.scenarios.kafka.shared_broker import SharedBroker
from streamproof.scenarios.scenario_reader import find, read
from streamproof.sim.trace import Event
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE

# As Kafka has it.
PLAIN = {"group.min.session.timeout.ms": "6000"}

SWARM = """
topologies = ["count"]
kinds = ["crash"]

[plan]
instances = [1]
partitions = [1]
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[str, Path]]:
    """The address of a cluster, and the directory with its logs."""
    with Processes() as processes:
        broker = start_broker(processes, DEFAULT_RELEASE, settings=PLAIN)
        yield broker.address, processes.directory / "broker"


def left(logs: Path) -> list[str]:
    """The topics that are not deleted; the broker still keeps the files of others for a while."""
    return [each.name for each in logs.glob("streamproof-*") if each.suffix[-7:] != "-delete"]


def test_a_killed_world_comes_to_rest_and_leaves_nothing(
    cluster: tuple[str, Path], tmp_path: Path
) -> None:
    address, logs = cluster
    swarm = tmp_path / "swarm.toml"
    swarm.write_text(SWARM)
    words = [COMMAND, "explore", "--on", "kafka", "--bootstrap", address, "--runs", "2"]
    done = subprocess.run(
        [*words, "--swarm", str(swarm), "-j", "1"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 worlds," in done.stdout
    assert left(logs) == []


def test_a_world_is_judged_without_the_logs_of_the_brokers(cluster: tuple[str, Path]) -> None:
    scenario = read(find("KIP-1035-stale-offset-sums"))
    with SharedBroker(DEFAULT_RELEASE, existing=cluster[0]) as broker:
        run = broker.play(scenario, scenario.setups["strict"])

    assert run.has_come_to_rest
    assert run.wrong == list(run.judgement.violations) == []
    assert run.recorded.unseen.logs == "no broker was recorded"
    assert run.judgement.held > 20


def test_a_scenario_is_replayed(cluster: tuple[str, Path], tmp_path: Path) -> None:
    """After a clean stop nothing is restored, however long the machine takes for each step."""
    words = ["replay", "KAFKA-13249@fixed", "--on", "kafka"]
    done = subprocess.run(
        [COMMAND, *words, "--bootstrap", cluster[0]],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"--on kafka@{DEFAULT_RELEASE} --bootstrap {cluster[0]}" in done.stdout
    assert left(cluster[1]) == []


def test_an_event_that_only_a_recorded_broker_tells_is_refused(cluster: tuple[str, Path]) -> None:
    scenario = read(find("KAFKA-7192"))
    with (
        SharedBroker(DEFAULT_RELEASE, existing=cluster[0]) as broker,
        pytest.raises(UsageError, match=r"waits for log\.appended, which only a recorded broker"),
    ):
        broker.play(scenario, scenario.setups["fixed"])


def test_faults_of_the_brokers_are_refused(cluster: tuple[str, Path]) -> None:
    scenario = read(find("KAFKA-12486"))
    with (
        SharedBroker(DEFAULT_RELEASE, existing=cluster[0]) as broker,
        pytest.raises(UsageError, match=r"no proxy stands before .* another cluster"),
    ):
        broker.play(scenario, scenario.setups["fixed"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--on", "kafka", "--bootstrap", "127.0.0.1:1"], "No cluster of Kafka serves clients at"),
        (["--on", "kafka", "--bootstrap", "here"], "'here' is no address of a cluster. Give a"),
        (["--bootstrap", "127.0.0.1:9092"], "--bootstrap names a real cluster: give --on kafka"),
    ],
)
def test_a_wrong_cluster_is_refused(options: list[str], told: str, tmp_path: Path) -> None:
    assert told in refused("explore", *options, "--runs", "1", cwd=tmp_path)


def test_what_is_left_is_told(tmp_path: Path) -> None:
    world = tmp_path / "0"
    world.mkdir()
    (world / "topics").write_text("streamproof-1-world-0.\nin\t1\n")
    (world / "deleted").write_text("not authorized")

    with pytest.raises(UsageError, match=r"streamproof-1-world-0\. are left on x:1: not auth"):
        await_deleted(tmp_path, "x:1")


def running(rest: WatchedRest) -> None:
    """A task runs, and its thread follows the group."""
    for kind, attributes in (
        ("thread.assigned", {"generation": 1, "active": ["0_0"], "standby": []}),
        ("task.state", {"before": "RESTORING", "after": "RUNNING"}),
    ):
        rest.see(Event(0, 0, "instance-0/thread-1", kind, "0_0", "", -1, attributes))


@pytest.mark.parametrize(
    ("line", "is_reached"),
    [
        ("in-0\t3\t3\t3", True),
        ("in-0\t3\t3\t2", False),
        # A marker stands behind the last record, and nothing was processed since the start.
        ("in-0\t4\t3\t3", True),
    ],
)
def test_a_rest_is_seen_from_outside(line: str, is_reached: bool, tmp_path: Path) -> None:
    watched = tmp_path / "watched"
    rest = WatchedRest({"0_0": ["in-0"]}, 0.0, watched)
    running(rest)
    assert not rest.is_reached(["instance-0"])
    watched.write_text(f"7000000000\n{line}\n")

    assert rest.is_reached(["instance-0"]) == is_reached
    # A record may have come since the look began, however long the look took.
    assert rest.known_at(9.0) == 7.0
