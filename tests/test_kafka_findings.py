"""The programs that show what was found in Kafka's own stores, against unmodified Kafka."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples" / "kafka-findings"

SHOWN = {
    "BatchesAreHalfApplied": [
        "rocksdb, after a refused batch: nothing is stored",
        "in-memory, after a refused batch: the first row is stored",
    ],
    "ClosedStoresAnswer": [
        f"{store}, closed: get gives {found}"
        for store, found in {
            "rocksdb": "an InvalidStateStoreException, put an InvalidStateStoreException",
            "in-memory": "null, put returns",
            "rocksdb-window": "null, put returns",
            "in-memory-window": "null, put returns",
            "rocksdb-session": "null, put returns",
            "in-memory-session": "null, put returns",
        }.items()
    ],
    "KilledWhileSegmentsExpire": [
        "after the kill: ProcessorStateException, because a file is missing",
        "at the next start: ProcessorStateException, because a file is missing",
    ],
    "OffsetsBeforeTheFirstWindow": ["rocksdb, the offset after a commit of 7: null"],
    "PrefixScanHasNoEnd": [
        r"rocksdb, with the key b, scan of the prefix a\xFF: b",
        r"rocksdb, with the key b, scan of the prefix \xFF: nothing",
        r"in-memory, with the key b, scan of the prefix a\xFF: b",
        r"in-memory, with the key b, scan of the prefix \xFF: java.lang.IndexOutOfBoundsException",
    ],
    "RemovalsLeaveThePosition": [
        "rocksdb, after offset 1: Position{position={in={0=1}}}",
        "in-memory, after offset 1: Position{position={in={0=0}}}",
        "rocksdb-session, after offset 1: Position{position={in={0=0}}}",
        "in-memory-session, after offset 1: Position{position={in={0=0}}}",
    ],
    "ReverseScansShowDeletedRows": [
        "rocksdb, after the removal of a, all: [b, c]",
        "rocksdb, after the removal of a, reverseAll: [c, b, a]",
        "in-memory, after the removal of a, all: [b, c]",
        "in-memory, after the removal of a, reverseAll: [c, b, a]",
    ],
    "StreamTimeIsForgotten": [
        f"{store}, {when}: {found}"
        for store in ("rocksdb-window", "rocksdb-session")
        for when, found in {
            "after a late put": "null",
            "after a late put into the store opened again": "late",
        }.items()
    ],
    "SwappedSessionRanges": [
        "rocksdb, range from b to a: nothing",
        "in-memory, range from b to a: java.lang.IllegalArgumentException: inconsistent range",
    ],
    "VersionedStoresForgetThePosition": [
        "rocksdb, after offset 0: Position{position={in={0=0}}}",
        "rocksdb, opened again: value, Position{position={in={0=0}}}",
        "rocksdb-versioned, after offset 0: Position{position={in={0=0}}}",
        "rocksdb-versioned, opened again: value, Position{position={}}",
    ],
    "WindowRangesMissKeys": [
        r"rocksdb, with the keys a and a\0, range from a to a\0: [long]",
        r"in-memory, with the keys a and a\0, range from a to a\0: [short, long]",
    ],
    "WindowsBeforeTimeZero": [
        "rocksdb, after a put at -1: all() finds nothing, fetch() finds value",
        "in-memory, after a put at -1: all() finds nothing, fetch() finds null",
    ],
}
"""What each program prints, if Kafka does what docs/kafka.md says."""


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The compiled programs, and the jars of Kafka."""
    directory = tmp_path_factory.mktemp("findings")
    found = directory / "class-path"
    maven = ["mvn", "--quiet", "--batch-mode", "--file", str(FOLDER / "pom.xml")]
    run([*maven, "dependency:build-classpath", f"-Dmdep.outputFile={found}"])
    jars = found.read_text("utf-8").strip()
    programs = map(str, FOLDER.glob("*.java"))
    run(["javac", "-Xlint:all", "-Werror", "-d", str(directory), "-cp", jars, *programs])
    return f"{directory}:{jars}"


def java(program: str, class_path: str, directory: Path) -> list[str]:
    """The command of a program, which leaves nothing outside of a directory."""
    return ["java", f"-Djava.io.tmpdir={directory}", "-cp", class_path, program, str(directory)]


def run(command: list[str], **environment: str) -> list[str]:
    """The lines that a command prints."""
    done = subprocess.run(
        command,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("program", SHOWN)
def test_a_program_shows_what_kafka_does(program: str, class_path: str, tmp_path: Path) -> None:
    """A store is opened by a task of Kafka Streams, and called."""
    printed = run(java(program, class_path, tmp_path))

    assert printed == SHOWN[program]


def test_rows_are_lost_in_a_kill(class_path: str, tmp_path: Path) -> None:
    """The store says that it has the row, so no application would restore it."""
    assert_lost(run(java("RowsAreLost", class_path, tmp_path)))


def test_rows_of_transactional_stores_are_lost_under_exactly_once() -> None:
    """Kafka has such stores from 4.4 on."""
    assert_lost(run([str(FOLDER / "show"), "RowsAreLost", "4.4.0", "transactional"])[-2:])


def assert_lost(printed: list[str]) -> None:
    found = re.compile(
        r"(\w+): has all records up to offset \d+, as it says; the record at offset 0 is lost"
    )
    assert [found.sub(r"\1", each) for each in printed] == ["windows", "sessions"]


def test_the_command_of_the_page() -> None:
    """It needs nothing but Java and Maven."""
    printed = run([str(FOLDER / "show"), "SwappedSessionRanges"])

    assert printed[-2:] == SHOWN["SwappedSessionRanges"]


def test_the_command_leaves_no_files(tmp_path: Path) -> None:
    """Each JVM copies the library of RocksDB, and deletes it only if it is not killed."""
    # The JVM takes no notice of TMPDIR. It knows this option, which its command line wins over.
    option = f"-Djava.io.tmpdir={tmp_path}"
    run([str(FOLDER / "show"), "RowsAreLost"], TMPDIR=str(tmp_path), JAVA_TOOL_OPTIONS=option)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("release", "found"), [("3.9.2", "[a, b=null]"), ("4.3.1", "[a]")])
def test_a_finding_of_an_old_release(release: str, found: str) -> None:
    """The newest one has mended it."""
    printed = run([str(FOLDER / "show"), "IteratorsShowDeletedRows", release])

    assert printed[-2:] == [
        "rocksdb, b is deleted during the scan: [a, b=2]",
        f"in-memory, b is deleted during the scan: {found}",
    ]


@pytest.mark.parametrize(
    ("release", "reverse", "timestamped"),
    [("4.3.1", "[c, b]", "[a, b]"), ("4.4.0", "[c, b, a]", "[a, b, c]")],
)
def test_a_finding_in_transactional_stores(release: str, reverse: str, timestamped: str) -> None:
    """Kafka has them from 4.4 on; an older release takes no notice of the configuration."""
    printed = run([str(FOLDER / "show"), "TransactionalRangesIgnoreABound", release])

    assert printed[-4:] == [
        "without transactions, reverseRange(b, null): [c, b]",
        "without transactions, timestamped, range(null, b): [a, b]",
        f"with transactions, reverseRange(b, null): {reverse}",
        f"with transactions, timestamped, range(null, b): {timestamped}",
    ]


def test_an_iterator_that_is_open_during_a_commit() -> None:
    printed = run([str(FOLDER / "show"), "CommitsEndOpenIterators", "4.4.0"])

    assert printed[-2:] == [
        "without transactions, the rest of a scan: [b, c, d]",
        "with transactions, the rest of a scan: java.util.ConcurrentModificationException",
    ]


def test_the_page_names_every_program() -> None:
    """With the command that runs it."""
    page = (ROOT / "docs" / "kafka.md").read_text("utf-8")

    assert {*re.findall(r"kafka-findings/show (\w+)", page)} == {
        *SHOWN,
        *("RowsAreLost", "IteratorsShowDeletedRows", "TransactionalRangesIgnoreABound"),
        "CommitsEndOpenIterators",
    }
