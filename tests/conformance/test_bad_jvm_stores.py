"""Stores of the JVM that cannot be used, or that misbehave as programs: what the user is told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_lines import CommandLine, Ended

from streamproof.conformance.check_engine import Engine
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import load_subject
from streamproof.errors import UsageError
from streamproof.stores.jvm import subjects
from streamproof.stores.jvm.subjects import command_of

BAD = "java:com.acme.BadStores"
DECLARED = "java:com.acme.Declared"


@pytest.fixture
def clean(of_a_user: CommandLine, tmp_path: Path) -> Iterator[CommandLine]:
    """A command line with a class path that must leave no temporary file."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    of_a_user.environment["TMPDIR"] = str(temporary)
    # The JVM takes no notice of the variable above, and knows this one.
    of_a_user.environment["JAVA_TOOL_OPTIONS"] = f"-Djava.io.tmpdir={temporary}"
    yield of_a_user
    assert list(temporary.iterdir()) == []


def message_of(ended: Ended) -> str:
    """The only line that a refused command prints."""
    assert ended.code == 3, ended.stderr
    (line,) = ended.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("java:com.acme.Nothing", "There is no class com.acme.Nothing. Check its name"),
        ("java:com.acme.Stores", "com.acme.Stores has no public constructor without parameters."),
        ("java:com.acme.Stores#nothing", "There is no public method com.acme.Stores#nothing"),
        ("java:com.acme.Stores#notStatic", "com.acme.Stores#notStatic is not static."),
        ("java:com.acme.Stores#throwing", "raised java.lang.IllegalStateException: no license at"),
        ("java:com.acme.Stores#noStore", "gives java.lang.String, which is no supplier of a store"),
        (f"{BAD}#needsParameter", "BadStores#needsParameter without parameters."),
        (f"{BAD}#givesNull", "gives null, which is no supplier of a store"),
        (f"{BAD}#suppliesNull", "The supplier of com.acme.BadStores#suppliesNull gives null"),
        (f"{BAD}#suppliesNullWindows", "BadStores#suppliesNullWindows gives null"),
        (f"{BAD}#buildsText", "a store with other keys or values than Bytes and byte[]."),
        (f"{BAD}#buildsTextWithTimestamps", "other keys or values than Bytes and byte[]."),
        (f"{BAD}#buildsTextWindows", "other keys or values than Bytes and byte[]."),
        (f"{BAD}#windowsAlone", "keeps a record. Let it return a WindowBytesStoreSup"),
        (f"{BAD}#throwingLater", "raised java.lang.IllegalStateException: no space at"),
        (f"{BAD}$ExitsAtOnce", "left with exit code 5 during hello (no license at all)"),
        (f"{BAD}$RaisesAtLoading", "cannot be loaded: java.lang.IllegalStateException: no settin"),
        (f"{DECLARED}$UnknownName", "claims the unknown capabilities transaction. Choose from:"),
        (f"{DECLARED}$WrongValue", "with a wrong value: Invalid enum value 'forever'"),
        (f"{DECLARED}$WrongType", "the value of transactional is of the type java.lang.Double."),
        (f"{DECLARED}$NotDeclarable", "CAPABILITIES declares kind, which the store itself shows"),
        (f"{DECLARED}$NoMap", "CAPABILITIES is no static Map. Declare it as: public static"),
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
    assert "\n" not in str(raised.value)


def test_a_name_that_gives_no_store_ends_the_run(clean: CommandLine) -> None:
    """Nothing is tried, though another subject could be."""
    ended = clean.verify("java:com.acme.Stores#right", "java:com.acme.Nothing")

    line = message_of(ended)
    assert line.startswith("streamproof: Subject 'java:com.acme.Nothing': There is no class")
    assert not (ended.out / "run.ndjson").exists()


def test_a_class_of_a_newer_java(clean: CommandLine, classes: Path, tmp_path: Path) -> None:
    """The message says how to compile it."""
    target = tmp_path / "newer" / "com" / "acme"
    target.mkdir(parents=True)
    data = bytearray((classes / "com/acme/Declared.class").read_bytes())
    data[6:8] = (90).to_bytes(2, "big")
    (target / "Declared.class").write_bytes(data)
    ended = clean.verify(DECLARED, "--classpath", str(tmp_path / "newer"))

    line = message_of(ended)
    assert "UnsupportedClassVersionError: com/acme/Declared has been compiled by a more re" in line
    assert "Compile it with --release " in line


def test_a_directory_that_is_not_there(clean: CommandLine) -> None:
    """It is named once a class is not found."""
    ended = clean.verify("java:com.acme.Stores#right", "--classpath", "target/clases")

    assert message_of(ended).endswith("The class path names what does not exist: target/clases.")


def test_jars_of_another_release(clean: CommandLine, classes: Path, tmp_path: Path) -> None:
    """A store is not tried on another Kafka than the report names."""
    version = tmp_path / "lib" / "kafka" / "kafka-version.properties"
    version.parent.mkdir(parents=True)
    version.write_text("version=3.9.1\ncommitId=0\n")
    path = f"{classes}:{tmp_path / 'lib'}"
    ended = clean.verify("java:com.acme.Stores#right", "--classpath", path)

    assert "The class path has jars of Kafka 3.9.1, and the host is that of " in message_of(ended)


def test_stores_that_die(clean: CommandLine) -> None:
    """The failure has the last words of the JVM. Other checks and other subjects go on."""
    ended = clean.verify(
        *(f"{BAD}$ExitsInPut", f"{BAD}$Hoards", "java:com.acme.Stores#exiting", f"{BAD}$Crashes"),
        *("java:com.acme.Stores#right", "--only", "KV-001,LIFE-001"),
    )

    assert ended.code == 1
    found = {each.subject: each.found for each in ended.log.failures}
    ends = {
        f"{BAD}$ExitsInPut": "left with exit code 5 during put (no license for writes).",
        f"{BAD}$Hoards": "during put (java.lang.OutOfMemoryError: Java heap space at com.acme.Bad",
        f"{BAD}$Crashes": "during put (SIGSEGV (0xb) at pc=",
        "java:com.acme.Stores#exiting": "left with exit code 7 during get (the store gives up).",
    }
    assert found.keys() == ends.keys()
    assert {name: text in found[name] for name, text in ends.items()} == dict.fromkeys(ends, True)
    lives = {each.subject: each.status for each in ended.log.results if each.requirement[0] == "L"}
    assert set(lives.values()) == {"pass"}
    assert len(lives) == 5
    assert "in V [libjvm.so" in " ".join(found[f"{BAD}$Crashes"].split())
    # Neither a report of the JVM nor a core.
    assert [each.name for each in clean.cwd.iterdir()] == [".streamproof"]


def test_a_store_that_hangs(clean: CommandLine) -> None:
    """The call is named, and ended after --timeout."""
    ended = clean.verify(f"{BAD}$HangsInInit", "--only", "LIFE-001", "--timeout", "1")

    assert ended.code == 1
    assert "open() did not return within 1 s" in ended.results["LIFE-001"].reason


def test_threads_and_streams_that_a_store_must_not_use(clean: CommandLine) -> None:
    """They do no harm: the host ends, reads its requests, and answers them."""
    ended = clean.verify(
        *(f"{BAD}$LeavesThreads", f"{BAD}$ReadsInput", "java:com.acme.Stores#babbling"),
        *("--only", "KV-001"),
    )

    assert ended.code == 0, ended.stdout


def test_threads_that_a_store_leaves_are_counted(clean: CommandLine) -> None:
    """The JVM serves one opening after another, and so shows what each of them leaves."""
    right, only = "java:com.acme.Stores#right", "LIFE-015,LIFE-016,LIFE-017,LIFE-018"
    ended = clean.verify(f"{BAD}$LeavesThreads", right, "--only", only)

    found = {each.requirement: each.status for each in ended.log.results if each.subject == right}
    assert found == {"LIFE-015": "unsupported", **dict.fromkeys(only.split(",")[1:], "pass")}
    failures = {(each.subject, each.requirement) for each in ended.log.failures}
    assert failures == {(f"{BAD}$LeavesThreads", "LIFE-017")}


@pytest.mark.parametrize("program", ["java", "javac", "mvn"])
def test_a_machine_without_java_or_maven(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing is named, with the remedy."""
    for each in {"java", "javac", "mvn"} - {program}:
        (tmp_path / each).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(UsageError, match=rf"needs the program '{program}'. Install "):
        command_of("kafka:rocksdb")


def test_the_first_use_of_a_release_has_no_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The jars come and the host is built before the time for loading the subject begins."""

    def command_of(name: str) -> str:
        raise UsageError(f"{name} is built in process {os.getpid()}")

    monkeypatch.setattr(subjects, "command_of", command_of)
    with (
        Engine(Settings(), tmp_path, jobs=1) as engine,
        pytest.raises(UsageError, match=f"kafka:rocksdb is built in process {os.getpid()}"),
    ):
        engine.load(["in-memory", "kafka:rocksdb"])


def test_maven_that_reaches_nothing(clean: CommandLine, tmp_path: Path) -> None:
    """With an empty repository and no network, its own error is shown; nothing is kept."""
    cache = tmp_path / "cache"
    nowhere = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1"
    clean.environment |= {
        "XDG_CACHE_HOME": str(cache),
        "MAVEN_OPTS": f"-Dmaven.repo.local={tmp_path / 'repository'} {nowhere}",
    }
    # Maven prints whatever the JVM takes from it.
    del clean.environment["JAVA_TOOL_OPTIONS"]
    line = message_of(clean.verify("kafka:rocksdb"))

    assert "Maven cannot get the jars of Kafka 4.4.0: No plugin found for prefix" in line
    assert list(cache.glob("streamproof/kafka-*")) == []
