"""Stores of the JVM as their authors meet them: Kafka's own, and those of a class path."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_lines import CommandLine

from streamproof.conformance.subject import load_subject
from streamproof.errors import UsageError
from streamproof.stores.api import (
    AT_LEAST_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    ChangelogRecord,
    Position,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import NullArgumentError
from streamproof.stores.host.client import kill_hosts
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE
from streamproof.stores.jvm.subjects import command_of
from streamproof.stores.timestamps import ValueAndTimestamp
from streamproof.stores.windowed.keys import window_key
from streamproof.stores.windows import Window, Windowed


def test_a_mistake_of_kafka_is_found(command_line: CommandLine) -> None:
    """A prefix scan that ends in 0xFF has no upper bound; what else is asked, it keeps."""
    ended = command_line.verify("kafka:rocksdb", "--only", "KV-001,OFFSET-001,RANGE-009")

    assert ended.code == 1
    assert {name: each.status for name, each in ended.results.items()} == {
        "KV-001": "pass",
        "OFFSET-001": "pass",
        "RANGE-009": "fail",
    }
    assert "lab = Lab('kafka:rocksdb'" in ended.failures["RANGE-009"].program
    (subject,) = ended.log.header.subjects
    assert (subject.package, subject.version) == ("kafka-streams", DEFAULT_RELEASE)


def test_a_clean_close_keeps_what_a_kill_loses(tmp_path: Path) -> None:
    """The level close: flush does nothing, and offsets never get ahead of the data."""
    factory = load_subject("kafka:rocksdb").factory
    changelog = TopicPartition("changelog", 0)

    def opened() -> tuple[Any, StateStoreContext]:
        configs = {PROCESSING_GUARANTEE_CONFIG: AT_LEAST_ONCE}
        context = StateStoreContext(state_dir=tmp_path, app_configs=configs)
        store = factory()
        store.init(context, store)
        return store, context

    store, context = opened()
    context.record_metadata = RecordMetadata("input", 0, 7)
    store.put(b"a", b"1")
    store.commit({changelog: 0})
    store.close()
    store, _ = opened()
    store.put(b"a", b"2")
    store.commit({changelog: 1})
    store.flush()
    kill_hosts()
    store, _ = opened()
    assert (store.get(b"a"), store.committed_offset(changelog)) == (b"1", 0)
    assert store.position == Position({TopicPartition("input", 0): 7})
    store.restore([ChangelogRecord(b"a", b"2", 1), ChangelogRecord(b"b", b"3", 2)])
    assert list(store.reverse_all()) == [(b"b", b"3"), (b"a", b"2")]
    store.close()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    """Opens a store of Kafka, with its context."""

    def open_one(subject: str) -> tuple[Any, StateStoreContext]:
        context = StateStoreContext(
            state_dir=tmp_path, app_configs={PROCESSING_GUARANTEE_CONFIG: AT_LEAST_ONCE}
        )
        store = load_subject(subject).factory()
        store.init(context, store)
        return store, context

    yield open_one
    kill_hosts()


def test_windows_with_timestamps(opened: Any) -> None:
    """Values come with their timestamps, also those that were restored."""
    store, context = opened("kafka:rocksdb-timestamped-window")
    context.record_metadata, context.record_timestamp = RecordMetadata("in", 0, 7), 70
    store.put(b"a", b"1", 0)
    store.put_with_timestamp(b"a", b"2", 5)
    store.put_with_timestamp(b"b", b"", -1, 100_000)
    store.restore([ChangelogRecord(window_key(b"c", 0), b"4", 9, 90)])

    assert store.fetch(b"a", 0) == b"1"
    assert store.fetch_with_timestamp(b"c", 0) == ValueAndTimestamp(b"4", 90)
    found = store.fetch_between_with_timestamp(b"a", 0, 99)
    assert list(found) == [(0, ValueAndTimestamp(b"1", 70)), (70, ValueAndTimestamp(b"2", 5))]
    with store.backward_all() as rows:
        assert rows.peek_next_key() == Windowed(b"b", Window(100_000, 110_000))
        assert [value for _, value in rows] == [b"", b"4", b"2", b"1"]
    store.close()


def test_the_latest_versions(opened: Any) -> None:
    """Whatever time a record has, it is later than what was written before."""
    store, _ = opened("kafka:rocksdb-versioned")
    changelog = TopicPartition("changelog", 0)
    store.put_all([(b"a", b"1"), (b"b", b"1")])
    with pytest.raises(NullArgumentError):
        store.put_all([(b"a", b"2"), (None, b"2")])
    assert store.put_if_absent(b"a", b"2") == b"1"
    assert store.put_if_absent(b"c", b"1") is None
    store.restore([ChangelogRecord(b"b", b"2", 7, 0), ChangelogRecord(b"c", None, 8, 0)])
    store.commit({changelog: 8})
    store.close()
    store, _ = opened("kafka:rocksdb-versioned")

    assert [store.get(each) for each in (b"a", b"b", b"c")] == [b"1", b"2", None]
    assert (store.delete(b"b"), store.get(b"b")) == (b"2", None)
    assert store.committed_offset(changelog) == 8
    store.close()


def test_sessions_and_what_comes_too_late(opened: Any) -> None:
    """The count of dropped records is that of Kafka's metric."""
    store, _ = opened("kafka:in-memory-session")
    for start, end in ((0, 5), (7, 7)):
        store.put(Windowed(b"a", Window(start, end)), b"1")
    store.remove(Windowed(b"a", Window(7, 7)))
    rows = store.find_sessions(b"a", -1, 9)
    store.put(Windowed(b"b", Window(10_000_000, 10_000_000)), b"1")
    store.put(Windowed(b"b", Window(0, 0)), b"late")

    assert store.dropped_records == 1
    assert list(rows) == [(Windowed(b"a", Window(0, 5)), b"1")]
    store.close()


KEPT = {"retention_ms": 180_000}
SEGMENTED = {**KEPT, "segment_interval_ms": 90_000, "expiry": "segment", "scan_order": "segment"}
BY_TIME = {**KEPT, "segment_interval_ms": 0, "expiry": "record", "scan_order": "time"}


@pytest.mark.parametrize(
    ("subject", "claims"),
    [
        ("kafka:rocksdb-versioned", {"timestamped": False, "scan": False, "position": True}),
        ("kafka:rocksdb-timestamped", {"kind": "key-value", "timestamped": True}),
        ("kafka:rocksdb-window", {"kind": "window", "window_size_ms": 10_000, **SEGMENTED}),
        ("kafka:rocksdb-session", {"kind": "session", "manages_offsets": True, **SEGMENTED}),
        ("kafka:in-memory-window", {"persistent": False, "timestamped": False, **BY_TIME}),
        ("java:com.acme.Stores#windows", {"kind": "window", "persistent": False, **BY_TIME}),
        ("java:com.acme.Stores#built", {"kind": "key-value", "timestamped": False}),
        ("java:com.acme.Stores#builtWithTimestamps", {"kind": "key-value", "timestamped": True}),
        ("java:com.acme.Stores#builtWindows", {"kind": "window", "timestamped": False, **BY_TIME}),
        ("java:com.acme.Stores#builtWindowsWithTimestamps", {"timestamped": True, **BY_TIME}),
        ("java:com.acme.Stores#builtSessions", {"kind": "session", **BY_TIME}),
    ],
)
def test_claims_come_from_the_store_and_its_supplier(
    subject: str, claims: dict[str, Any], classes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows say how long they are kept, and what decides that a record comes too late."""
    monkeypatch.setenv("CLASSPATH", str(classes))
    found = load_subject(subject).capabilities

    assert {name: getattr(found, name) for name in claims} == claims


@pytest.mark.parametrize(
    ("subject", "takes_name"),
    [
        ("kafka:rocksdb", True),
        ("kafka:rocksdb-window:metered", True),
        ("kafka:rocksdb:task", False),
        ("java:com.acme.Stores#named", True),
        ("java:com.acme.Stores#right", False),
    ],
)
def test_stores_have_the_names_that_they_are_given(
    subject: str, takes_name: bool, classes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task has one store in its directory, and a method says with its parameter what it takes."""
    monkeypatch.setenv("CLASSPATH", str(classes))

    assert load_subject(subject).takes_name == takes_name


def test_a_wrong_store_of_a_user(of_a_user: CommandLine) -> None:
    """It is found; what it prints is not taken for an answer."""
    ended = of_a_user.verify(
        *("java:com.acme.Stores#right", "java:com.acme.Stores#babbling"),
        *("java:com.acme.Stores#lostTombstones", "--only", "KV-001,KV-007"),
    )

    assert ended.code == 1
    broken = {each.subject for each in ended.log.failures}
    assert broken == {"java:com.acme.Stores#lostTombstones"}
    assert {each.status for each in ended.log.results if each.subject not in broken} == {"pass"}


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("kafka:rocks", "Kafka has no store 'kafka:rocks'. Did you mean kafka:rocksdb"),
        ("kafka:rocksdb:tasks", "A layer (bytes, metered, task) may follow behind another colon."),
        ("kafka:rocksdb@newest", "'newest' is no release of Kafka."),
        ("kafka:rocksdb:bytes@3.9.1", "The stores of Kafka 3.9.1 keep no offsets"),
        ("java:com.acme.Stores", "needs your classes: name their jars and directories"),
    ],
)
def test_a_name_that_is_none(subject: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what there is."""
    monkeypatch.delenv("CLASSPATH", raising=False)
    with pytest.raises(UsageError) as raised:
        command_of(subject)
    assert message in str(raised.value)


def test_options_name_the_classes_and_the_release(command_line: CommandLine, classes: Path) -> None:
    """What a run prints and saves finds them again, in a shell that knows nothing of them."""
    command_line.environment.pop("CLASSPATH", None)
    (command_line.cwd / "lib").symlink_to(classes)
    subject = "java:com.acme.Stores#lostTombstones"
    options = ("--classpath", "lib:lib/*", "--kafka", DEFAULT_RELEASE)
    ended = command_line.verify(subject, "--only", "KV-007", *options)

    failure = ended.failures["KV-007"]
    assert failure.subject == f"{subject}@{DEFAULT_RELEASE}"
    assert failure.reproduce.endswith(" --seed 1 --classpath 'lib:lib/*'")
    saved = ended.out / failure.saved
    with command_line.start("replay", str(saved)) as replayed:
        assert replayed.wait(60) == 1
    program = subprocess.run(
        [sys.executable, "-P", saved.with_suffix(".py")],
        cwd=command_line.cwd,
        env=command_line.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "AssertionError" in program.stderr
    command_line.expect_nothing_left()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("in-memory", "--kafka", "4.3.1"), "--kafka is for stores of the JVM: name one,"),
        (("kafka:rocksdb", "--classpath", "x"), "--classpath is for stores of your own:"),
        (("kafka:rocksdb", "--kafka", "3.8.1"), "Kafka 3.8.1 is too old to be verified."),
        (("kafka:rocksdb", "--layer", "cake"), "--layer: there is no layer 'cake'."),
        (("kafka:rocksdb-versioned", "--layer", "metered"), "A versioned store takes no cache"),
        (("kafka:rocksdb@4.2.2", "--layer", "bytes"), "The stores of Kafka 4.2.2 keep no offsets"),
        (("java:com.acme.A",), "needs your classes: name their jars and directories"),
        (("java:com.acme.A", "--classpath", "a.jar"), "There is no jar 'a.jar'."),
    ],
)
def test_options_that_do_not_fit(
    arguments: tuple[str, ...], message: str, command_line: CommandLine
) -> None:
    """Exit code 3, and one line."""
    command_line.environment.pop("CLASSPATH", None)
    ended = command_line.verify(*arguments)

    assert ended.code == 3
    (line,) = ended.stderr.splitlines()
    assert message in line


@pytest.mark.parametrize(
    ("subject", "claims"),
    [
        (
            "java:com.acme.Declared",
            {
                "position": False,
                "transactional": True,
                "iterator_view": "snapshot",
                "persistent": False,
            },
        ),
        (
            "java:com.acme.Declared$OfSupplier#store",
            {"disposable_files": "LOCK", "position": True, "iterator_view": "weak"},
        ),
    ],
)
def test_claims_are_declared_in_a_field(
    subject: str, claims: dict[str, Any], classes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the named class counts, or else that of the store; the others are inferred."""
    monkeypatch.setenv("CLASSPATH", str(classes))
    found = load_subject(subject).capabilities

    assert {name: getattr(found, name) for name in claims} == claims
