"""Stores of the JVM as their authors meet them: Kafka's own, and those of a class path."""

from __future__ import annotations

import subprocess
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
        ("java:com.acme.Stores#noStore", "gives java.lang.String, which is no supplier"),
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
        ("kafka:granite", "Kafka's stores are kafka:rocksdb, kafka:in-memory."),
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
