"""Mistakes of an application are found by the right invariant in runs of real processes.

Some are planted into a copy of a topology in Java, whose instances are really killed. The others
are planted into what the recorders of two real runs saw: there an application or Kafka would have
done otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamproof.scenarios.kafka import builds
from streamproof.scenarios.kafka.real_play import judgement_of
from streamproof.scenarios.kafka.recording import SUFFIX, read_recording
from streamproof.scenarios.kafka.shared_broker import RealRun, SharedBroker
from streamproof.scenarios.scenario_reader import find, read
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE

TOPOLOGY = "streamproof/application/CountTopology.java"

CHANGELOG = "count-counts-changelog-0"

# The instance is killed with the second record in an open transaction, and then counts a key again.
KILLED = """
title = "An instance is killed with an open transaction"
story = "It goes on with what is committed."
sources = ["KIP-892"]

[plan]
topology = "count"
partitions = 1
instances = 1

[settings]
commit_interval_ms = 1000

[[timeline]]
do = "send"
at = 100
topic = "in"
records = [{ key = "apple", value = "first" }]

[[timeline]]
do = "send"
when = { kind = "thread.committed" }
topic = "in"
records = [{ key = "apple", value = "second" }]

[[timeline]]
do = "crash"
when = { kind = "log.appended", partition = "count-counts-changelog-0", nth = 2 }
instance = "instance-0"
down_ms = 0

[variants.right]
why = "Both records count once."
"""

PROCESS = """      counts.put(record.key(), next);
      context.forward(record.withValue(next));
"""

COUNTED = "byte[] next = record.value() == null ? null : Texts.more(counts.get(record.key()));"

# By mistake, what of the topology is written otherwise, and the broken promise.
IN_JAVA = {
    "an output outside the transaction": (
        "EOS-010",
        PROCESS,
        """      var config = new java.util.HashMap<String, Object>();
      config.put("bootstrap.servers", context.appConfigs().get("bootstrap.servers"));
      var bytes = new ByteArraySerializer();
      try (var own =
          new org.apache.kafka.clients.producer.KafkaProducer<byte[], byte[]>(
              config, bytes, bytes)) {
        own.send(new org.apache.kafka.clients.producer.ProducerRecord<>(
            Topics.named("out"), 0, record.timestamp(), record.key(), next));
      }
      counts.put(record.key(), next);
""",
    ),
    "state outside of the store": (
        "EOS-003",
        COUNTED,
        """byte[] next = Texts.more(MEMORY.get(new String(record.key())));
      MEMORY.put(new String(record.key()), next);""",
    ),
    "a timestamp of the wall clock": (
        "EOS-003",
        PROCESS,
        """      counts.put(record.key(), next);
      context.forward(
          record.withValue(next).withTimestamp(System.currentTimeMillis()));
""",
    ),
}

MEMORY = """
    static final java.util.Map<String, byte[]> MEMORY = new java.util.HashMap<>();
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[SharedBroker]:
    with SharedBroker(DEFAULT_RELEASE) as made:
        yield made


@pytest.fixture(scope="module")
def runs(broker: SharedBroker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The recordings of one run under each guarantee, in which every promise held."""
    recorded = {}
    for guarantee, (name, variant) in {
        "exactly-once": ("KAFKA-7192", "fixed"),
        "at-least-once": ("KIP-447-zombie", "at-least-once"),
    }.items():
        scenario = read(find(name))
        keep = tmp_path_factory.mktemp(guarantee)
        run = broker.play(scenario, scenario.setups[variant], keep)
        assert broken(run) == []
        recorded[guarantee] = keep
    return recorded


def broken(run: RealRun) -> list[str]:
    return [each.requirement for each in run.judgement.violations]


def play(broker: SharedBroker, directory: Path) -> RealRun:
    path = directory / "killed.toml"
    path.write_text(KILLED)
    scenario = read(path)
    return broker.play(scenario, scenario.setups["right"])


def test_the_topology_without_a_mistake_keeps_every_promise(
    broker: SharedBroker, tmp_path: Path
) -> None:
    run = play(broker, tmp_path)

    assert broken(run) == run.wrong == []
    assert not run.undone


@pytest.mark.parametrize("mistake", IN_JAVA)
def test_a_mistake_in_java_is_found(
    mistake: str, broker: SharedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each output is in a transaction, with the value and timestamp of a run without faults."""
    given = builds._sources
    sources = given("application")
    requirement, right, wrong = IN_JAVA[mistake]
    assert sources[TOPOLOGY].count(right) == 1
    text = sources[TOPOLOGY].replace(right, wrong)
    head = "private KeyValueStore<byte[], byte[]> counts;\n"
    sources[TOPOLOGY] = text.replace(head, f"{head}{MEMORY}")
    monkeypatch.setattr(
        builds, "_sources", lambda package: sources if package == "application" else given(package)
    )
    run = play(broker, tmp_path)

    assert run.wrong == []
    assert requirement in broken(run)


class Seen:
    """What the recorders of one run saw, with the lines of each file.

    Args:
        directory: the recordings.
    """

    def __init__(self, directory: Path) -> None:
        self._files = {
            path.name: [json.loads(line) for line in path.read_text().splitlines()]
            for path in directory.glob(f"*{SUFFIX}")
        }

    def events(self, kind: str, **wanted: Any) -> list[dict[str, Any]]:
        """The events of a kind with these values, in order."""
        lines = [each for file in self._files.values() for each in file]
        found = [each for each in lines if each.get("kind") == kind]
        for name, value in wanted.items():
            found = [each for each in found if value in (each.get(name), self.of(each).get(name))]
        return sorted(found, key=lambda each: each["at"])

    @staticmethod
    def of(event: dict[str, Any]) -> dict[str, Any]:
        """The attributes of an event."""
        attributes: dict[str, Any] = event["attributes"]
        return attributes

    def drop(self, event: dict[str, Any]) -> None:
        """Let an event not have happened."""
        self._file(event).remove(event)

    def repeat(self, event: dict[str, Any]) -> None:
        """Let an event have happened twice."""
        lines = self._file(event)
        lines.insert(lines.index(event), event)

    def delay(self, event: dict[str, Any]) -> None:
        """Let the append of a record have happened after all else."""
        lines = self._file(event)
        lines.remove(event)
        # Another process may have the last word, such as an instance whose commit was answered.
        last = max(each["at"] for file in self._files.values() for each in file)
        event.update(at=last + 1, offset=event["offset"] + 2)
        lines.append(event)

    def _file(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        return next(each for each in self._files.values() if event in each)

    def broken(self, directory: Path) -> list[str]:
        """The promises that are broken in this run."""
        for name, lines in self._files.items():
            (directory / name).write_text("".join(f"{json.dumps(each)}\n" for each in lines))
        violations = judgement_of(read_recording(directory)).violations
        return [each.requirement for each in violations]


def append(seen: Seen, partition: str, number: int = -1) -> dict[str, Any]:
    return seen.events("log.appended", partition=partition)[number]


def output_of_the_aborted_transaction_outside(seen: Seen) -> None:
    seen.of(append(seen, "out-0", 1))["transactional"] = False


def output_of_the_last_transaction_outside(seen: Seen) -> None:
    seen.of(append(seen, "out-0"))["transactional"] = False


def changelog_of_the_aborted_transaction_outside(seen: Seen) -> None:
    seen.of(append(seen, CHANGELOG, 1))["transactional"] = False


def store_written_after_the_commit(seen: Seen) -> None:
    seen.delay(append(seen, CHANGELOG))


def output_after_the_commit(seen: Seen) -> None:
    seen.delay(append(seen, "out-0"))


def committed_before_the_flush(seen: Seen) -> None:
    """The offset of the last record is committed when the change is not in the changelog yet."""
    record = append(seen, CHANGELOG)
    (committed,) = seen.events("offsets.committed")[-1:]
    at = record["at"] - 1
    lines = seen._file(committed)
    lines.remove(committed)
    committed["at"] = at
    lines.insert(lines.index(record), committed)


def offsets_outside_the_transaction(seen: Seen) -> None:
    seen.drop(seen.events("offsets.added")[-1])


def committed_too_far(seen: Seen) -> None:
    for kind in ("offsets.added", "offsets.committed", "thread.committed"):
        for each in seen.events(kind)[-1:]:
            offsets = seen.of(each)["offsets"]
            offsets |= {partition: offset + 1 for partition, offset in offsets.items()}


def record_left_out(seen: Seen) -> None:
    for each in seen.events("task.processed", offset=1):
        seen.drop(each)


def record_processed_twice(seen: Seen) -> None:
    seen.repeat(seen.events("task.processed", offset=1)[-1])


def aborted_row_kept(seen: Seen) -> None:
    seen.of(seen.events("store.running")[-1])["rows"].append(["cGVhcg==", "MQ=="])


def unclean_store_kept(seen: Seen) -> None:
    seen.of(seen.events("store.found")[-1])["rows"] = [["cGVhcg==", "MQ=="]]


def restoration_that_ends_early(seen: Seen) -> None:
    for kind in ("store.restored", "restore.batch"):
        seen.drop(seen.events(kind)[-1])


def store_offset_beyond_its_changelog(seen: Seen) -> None:
    seen.events("store.committed")[-1]["offset"] = 99


def corrupted_task_without_a_rebalance(seen: Seen) -> None:
    seen.drop(seen.events("thread.subscribed", owned=["0_0"])[-1])


def task_that_never_runs(seen: Seen) -> None:
    seen.drop(seen.events("task.state", after="RUNNING")[-1])


MISTAKES: dict[Callable[[Seen], None], dict[str, str]] = {
    output_of_the_aborted_transaction_outside: {"exactly-once": "EOS-010"},
    output_of_the_last_transaction_outside: {"exactly-once": "EOS-010"},
    changelog_of_the_aborted_transaction_outside: {"exactly-once": "TASK-001"},
    store_written_after_the_commit: {"exactly-once": "EOS-003", "at-least-once": "ALOS-001"},
    output_after_the_commit: {"exactly-once": "EOS-003"},
    committed_before_the_flush: {"at-least-once": "ALOS-001"},
    offsets_outside_the_transaction: {"exactly-once": "EOS-001"},
    committed_too_far: {"exactly-once": "TASK-005", "at-least-once": "TASK-005"},
    record_left_out: {"exactly-once": "TASK-005", "at-least-once": "TASK-005"},
    record_processed_twice: {"exactly-once": "TASK-070", "at-least-once": "TASK-070"},
    aborted_row_kept: {"exactly-once": "TASK-001", "at-least-once": "TASK-001"},
    unclean_store_kept: {"exactly-once": "TASK-003", "at-least-once": "TASK-003"},
    restoration_that_ends_early: {"exactly-once": "LISTEN-103", "at-least-once": "LISTEN-103"},
    store_offset_beyond_its_changelog: {"exactly-once": "TASK-004", "at-least-once": "TASK-004"},
    corrupted_task_without_a_rebalance: {"exactly-once": "REBAL-009"},
    task_that_never_runs: {"exactly-once": "TASK-008"},
}


@pytest.mark.parametrize(
    ("plant", "guarantee", "requirement"),
    [
        pytest.param(plant, guarantee, requirement, id=f"{plant.__name__}-{guarantee}")
        for plant, wanted in MISTAKES.items()
        for guarantee, requirement in wanted.items()
    ],
)
def test_a_mistake_in_a_recorded_run_is_found(
    plant: Callable[[Seen], None],
    guarantee: str,
    requirement: str,
    runs: dict[str, Path],
    tmp_path: Path,
) -> None:
    seen = Seen(runs[guarantee])
    plant(seen)

    assert requirement in seen.broken(tmp_path)
