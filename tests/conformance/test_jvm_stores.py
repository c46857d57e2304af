"""Stores of the JVM as their authors meet them: Kafka's own, and those of a class path."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_lines import SUBJECTS, CommandLine

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
from streamproof.stores.host.client import kill_hosts
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE, class_path_of
from streamproof.stores.jvm.subjects import command_of
from streamproof.stores.timestamps import ValueAndTimestamp
from streamproof.stores.windowed.keys import window_key
from streamproof.stores.windows import Window, Windowed

SOURCE = SUBJECTS / "java" / "com" / "acme" / "Stores.java"


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The class path of a user."""
    directory = tmp_path_factory.mktemp("classes")
    jars = ":".join(map(str, class_path_of(DEFAULT_RELEASE, tmp_path_factory.mktemp("jars"))))
    command = ["javac", "-nowarn", "-d", str(directory), "-cp", jars, str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    return directory


@pytest.fixture
def of_a_user(command_line: CommandLine, classes: Path) -> CommandLine:
    """A command line with a class path."""
    command_line.environment["CLASSPATH"] = str(classes)
    return command_line


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
        ("kafka:rocksdb-timestamped", {"kind": "key-value", "timestamped": True}),
        ("kafka:rocksdb-window", {"kind": "window", "window_size_ms": 10_000, **SEGMENTED}),
        ("kafka:rocksdb-session", {"kind": "session", "manages_offsets": True, **SEGMENTED}),
        ("kafka:in-memory-window", {"persistent": False, "timestamped": False, **BY_TIME}),
        ("java:com.acme.Stores#windows", {"kind": "window", "persistent": False, **BY_TIME}),
    ],
)
def test_claims_come_from_the_store_and_its_supplier(
    subject: str, claims: dict[str, Any], classes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows say how long they are kept, and what decides that a record comes too late."""
    monkeypatch.setenv("CLASSPATH", str(classes))
    found = load_subject(subject).capabilities

    assert {name: getattr(found, name) for name in claims} == claims


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


def test_a_store_that_ends_the_jvm(of_a_user: CommandLine) -> None:
    """The last words of the JVM are in the report, and the other checks go on."""
    ended = of_a_user.verify("java:com.acme.Stores#exiting", "--only", "KV-002,LIFE-001")

    assert ended.code == 1
    assert "left with exit code 7 during get (the store gives up)" in ended.failures["KV-002"].found
    assert ended.results["LIFE-001"].status == "pass"


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("java:com.acme.Nothing", "There is no class com.acme.Nothing."),
        ("java:com.acme.Stores", "com.acme.Stores has no public constructor without parameters."),
        ("java:com.acme.Stores#nothing", "There is no public method com.acme.Stores#nothing"),
        ("java:com.acme.Stores#notStatic", "com.acme.Stores#notStatic is not static."),
        ("java:com.acme.Stores#throwing", "raised java.lang.IllegalStateException: no license."),
        ("java:com.acme.Stores#noStore", "gives java.lang.String, which is no supplier of a store"),
    ],
)
def test_a_class_that_gives_no_store(
    subject: str, message: str, classes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says why, and what to do."""
    monkeypatch.setenv("CLASSPATH", str(classes))
    with pytest.raises(UsageError) as raised:
        load_subject(subject)
    assert message in str(raised.value)


def test_a_name_that_gives_no_store_ends_the_run(of_a_user: CommandLine) -> None:
    """Exit code 3, and one line."""
    ended = of_a_user.verify("java:com.acme.Nothing")

    assert ended.code == 3
    (line,) = ended.stderr.splitlines()
    assert "There is no class com.acme.Nothing." in line


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("kafka:granite", "Kafka's stores are kafka:rocksdb, kafka:rocksdb-timestamped, "),
        ("kafka:rocksdb@newest", "'newest' is no release of Kafka."),
        ("kafka:rocksdb@3.9.1", "The stores of Kafka 3.9.1 keep no offsets"),
        ("java:com.acme.Stores", "the environment variable CLASSPATH is empty."),
    ],
)
def test_a_name_that_is_none(subject: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what there is."""
    monkeypatch.delenv("CLASSPATH", raising=False)
    with pytest.raises(UsageError) as raised:
        command_of(subject)
    assert message in str(raised.value)


@pytest.mark.parametrize("program", ["java", "javac", "mvn"])
def test_a_machine_without_java_or_maven(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing is named, with the remedy."""
    for each in {"java", "javac", "mvn"} - {program}:
        (tmp_path / each).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(UsageError, match=rf"need the program '{program}'. Install "):
        command_of("kafka:rocksdb")
