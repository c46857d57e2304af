"""Subjects that cannot be loaded, and stores that misbehave, as their author meets them."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from command_lines import REPORTS, SUBJECTS, CommandLine, Ended, until

from streamproof.version import __version__

BAD = f"{SUBJECTS / 'bad_stores.py'}"

FILES = {
    "raising.py": "raise LookupError('no\\nsettings')",
    "exiting.py": "import os; os._exit(4)",
    "leaving.py": "import sys; sys.exit('bye')",
    "unfinished.py": "def make(:\n",
    "bare.py": "class Thing: pass",
    "quixstreams.py": "raise ModuleNotFoundError('gone', name='quixstreams')",
    "needy.py": "import streamproof_no_such_library",
}
"""Modules in the user's directory."""

REFUSED = {
    "no_such_module:make": "no module named 'no_such_module'",
    "needy:make": "no module named 'streamproof_no_such_library'",
    "raising:make": "importing raising raised LookupError: no settings",
    "raising.py:make": "importing raising.py raised LookupError: no settings",
    "exiting:make": "the process ended while it was being loaded",
    "leaving:make": "the process ended while it was being loaded (bye)",
    "unfinished.py:make": "importing unfinished.py raised SyntaxError",
    "bare.py:make": "bare.py has no attribute 'make'",
    "bare:Thing.make": "bare has no attribute 'Thing.make'",
    "bare.py:Thing": "the factory returned Thing, which has no method init(context, root)",
    "nowhere/store.py:make": "There is no file 'nowhere/store.py'",
    "rocks-db": "There is no subject 'rocks-db'. Did you mean rocksdb",
    "bare.py:": "There is no subject 'bare.py:'. `streamproof subjects` lists all. Name a store",
    "quixstreams": "pip install 'streamproof[quix]'",
    f"{BAD}:not_callable": "'not_callable' is not callable",
    f"{BAD}:factory_raises": "the factory raised ConnectionError: no database at hand",
    f"{BAD}:factory_needs_arguments": "the factory raised TypeError",
    f"{BAD}:factory_returns_none": "the factory returned NoneType",
    f"{BAD}:factory_exits": "the process ended while it was being loaded",
    f"{BAD}:wrong_capabilities": "its attribute 'capabilities' is dict",
}
"""Subjects that cannot be loaded, and what is said of them."""


@pytest.mark.parametrize("subject", REFUSED, ids=[name.rpartition("/")[2] for name in REFUSED])
def test_a_subject_that_cannot_be_loaded(subject: str, command_line: CommandLine) -> None:
    """Exit code 3, one line that says what is wrong, and nothing left behind."""
    for name, text in FILES.items():
        (command_line.cwd / name).write_text(text)
    ended = command_line.verify(subject)
    assert ended.code == 3
    (line,) = ended.stderr.splitlines()
    assert line.startswith("streamproof: ")
    assert REFUSED[subject] in line
    assert ended.stdout == ""


def test_a_refused_subject_names_itself_among_several(command_line: CommandLine) -> None:
    """One bad subject of two stops the run before it starts."""
    ended = command_line.verify("in-memory", f"{BAD}:factory_raises")
    assert ended.code == 3
    assert f"{BAD}:factory_raises" in ended.stderr
    assert not (command_line.out / "run.ndjson").exists()


def verify(
    command_line: CommandLine, factory: str, only: str = "KV,LIFE", timeout: str = "20"
) -> Ended:
    """Verify a bad store, and demand whole evidence whatever it did."""
    ended = command_line.verify(f"{BAD}:{factory}", "--only", only, "--timeout", timeout)
    assert "Traceback" not in ended.stdout + ended.stderr
    assert ended.stderr == ""
    files = (path.name for path in command_line.out.iterdir() if path.is_file())
    assert sorted(files) == sorted(REPORTS)
    assert ended.log.complete
    asked = set(ended.log.header.requirements)
    assert asked <= ended.results.keys()
    # A check may break a requirement that was not asked for. No other result is beside the asked.
    beside = ended.results.keys() - asked
    assert {ended.results[each].status for each in beside} <= {"fail"}
    for report in REPORTS:
        assert (command_line.out / report).read_text(encoding="utf-8")
    ET.parse(command_line.out / "junit.xml")  # noqa: S314 - our own report.
    json.loads((command_line.out / "badge.json").read_text())
    return ended


def statuses(ended: Ended, *identifiers: str) -> list[str]:
    """The statuses of some requirements."""
    return [ended.results[identifier].status for identifier in identifiers]


@pytest.mark.parametrize(
    ("factory", "found"),
    [
        ("without_delete", "AttributeError"),
        ("delete_raises", "RuntimeError: delete is not done yet"),
        ("delete_panics", "_Panic: called Option::unwrap()"),
    ],
)
def test_a_method_that_fails(factory: str, found: str, command_line: CommandLine) -> None:
    """The promise that needs it is broken, the call is named, and the rest is judged."""
    ended = verify(command_line, factory, only="KV-001,KV-004,KV-006,LIFE-008")
    assert ended.code == 1
    assert statuses(ended, "KV-001", "KV-004", "KV-006") == ["pass", "fail", "fail"]
    assert "store.delete(b'a')" in ended.failures["KV-006"].program.splitlines()[-1]
    assert found in ended.failures["KV-006"].found
    missing = factory == "without_delete"
    assert statuses(ended, "LIFE-008") == ["fail" if missing else "pass"]
    if missing:
        assert ended.failures["LIFE-008"].found == "no delete"


SMALL = """{comment}
from streamproof.stores.memory import InMemoryKeyValueStore

def make():
    return InMemoryKeyValueStore("mine")
"""


def test_a_store_in_a_file_has_a_version(command_line: CommandLine) -> None:
    """A digest that changes with the file, or the text of the user."""
    store = command_line.cwd / "mine.py"
    versions = []
    for comment in ("", "# Changed."):
        store.write_text(SMALL.format(comment=comment))
        ended = command_line.verify("mine.py:make", "in-memory", "--only", "LIFE-001")
        versions.append([each.version for each in ended.log.header.subjects])
    assert versions[0][0].startswith("digest ")
    assert versions[0][0] != versions[1][0]
    assert versions[0][1] == versions[1][1] == __version__
    named = command_line.verify(
        "mine.py:make", "in-memory", "--only", "LIFE-001", "--subject-version", "7.1"
    )
    assert [each.version for each in named.log.header.subjects] == ["7.1", __version__]


def test_a_wrong_type_is_named(command_line: CommandLine) -> None:
    """Answers are type-checked: str is not bytes."""
    ended = verify(command_line, "get_returns_text", only="KV-001,KV-002,KV-006")
    assert ended.code == 1
    failure = ended.failures["KV-001"]
    assert (failure.expected, failure.found) == ("bytes or None from get", "str")
    assert statuses(ended, "KV-002", "KV-006") == ["pass", "pass"]


def test_a_property_without_its_decorator(command_line: CommandLine) -> None:
    """is_open as a method is true for ever; the mistake is guessed."""
    ended = verify(command_line, "is_open_is_a_method", only="KV-001,LIFE-001")
    assert ended.code == 1
    assert "property" in ended.failures["LIFE-001"].found
    assert statuses(ended, "KV-001") == ["pass"]


def test_answers_that_cannot_be_printed(command_line: CommandLine) -> None:
    """An error without a message and an answer without a representation are findings, too."""
    ended = verify(command_line, "unprintable")
    assert ended.code == 1
    assert statuses(ended, "KV-001", "KV-004", "KV-009") == ["pass", "fail", "fail"]
    assert "_OddError" in ended.failures["KV-009"].found
    assert "error" not in {result.status for result in ended.log.results}


def test_a_call_that_hangs(command_line: CommandLine) -> None:
    """Given up after the timeout, with the call that hangs; what needs no put is judged."""
    ended = verify(command_line, "put_hangs", only="KV-001,KV-004,LIFE", timeout="1")
    assert ended.code == 1
    assert statuses(ended, "KV-001", "LIFE-001", "LIFE-005") == ["error", "pass", "pass"]
    reason = "kv.put_then_get: store.put(b'a', b'1') did not return within 1 s"
    assert ended.results["KV-001"].reason == reason


def test_a_call_that_hangs_in_another_process(command_line: CommandLine) -> None:
    """In a doomed process, and in one that only holds the store open, the limit is the same."""
    only = "CRASH-012,ERR-005,LIFE-001"
    ended = verify(command_line, "durable_put_hangs", only=only, timeout="1")
    assert ended.code == 1
    assert statuses(ended, "CRASH-012", "ERR-005", "LIFE-001") == ["error", "error", "pass"]
    assert "store.put(b'a', b'1') did not return" in ended.results["CRASH-012"].reason
    assert "put(…) in another process did not return" in ended.results["ERR-005"].reason


@pytest.mark.parametrize(
    ("factory", "how", "why"),
    [
        ("commit_exits", "exit code 3", "the process exited during store.commit("),
        ("commit_segfaults", "SIGSEGV", "the process was ended by SIGSEGV during store.commit("),
    ],
)
def test_a_call_that_ends_the_process(
    factory: str, how: str, why: str, command_line: CommandLine
) -> None:
    """The call is named; a crash that was not ours is a broken promise, and no evidence."""
    ended = verify(command_line, factory, only="KV-001,KV-004,COMMIT-001,CRASH-001,CRASH-014")
    assert ended.code == 1
    assert statuses(ended, "KV-001", "KV-004", "COMMIT-001") == ["pass", "error", "error"]
    assert why in ended.results["COMMIT-001"].reason
    assert statuses(ended, "CRASH-001") == ["fail"]
    assert how in ended.failures["CRASH-001"].found


def test_an_end_between_two_calls(command_line: CommandLine) -> None:
    """No call is under way, and yet it is the subject that ended the process, not the suite."""
    ended = verify(command_line, "exits_later", only="KV-001,LIFE-001")
    assert ended.code == 1
    assert statuses(ended, "KV-001", "LIFE-001") == ["error", "pass"]
    assert "the process exited between two calls" in ended.results["KV-001"].reason


def test_a_store_that_kills_the_process_that_starts_checks(command_line: CommandLine) -> None:
    """The run ends, every requirement gets a result, and none of them is a pass by mistake."""
    ended = verify(command_line, "kills_starter")
    assert ended.code == 70
    assert statuses(ended, "KV-006") == ["error"]
    assert "the process that starts the checks died" in ended.results["KV-006"].reason


def test_an_iterator_that_never_ends(command_line: CommandLine) -> None:
    """It is cut off; what does not scan is judged."""
    ended = verify(command_line, "endless_scan", only="RANGE,KV-001,ISO", timeout="10")
    assert ended.code == 1
    assert statuses(ended, "KV-001", "RANGE-001", "RANGE-010") == ["pass", "fail", "fail"]
    assert ended.failures["RANGE-001"].expected == "an iterator that ends"
    # Nobody could read the rows of an endless scan, and a program that asks for all never ends.
    assert max(len(each.program) for each in ended.log.failures) < 10_000
    program = command_line.cwd / "program.py"
    program.write_text(ended.failures["RANGE-001"].program)
    done = subprocess.run(
        [sys.executable, "-P", program], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "AssertionError"


def test_a_view_that_raises(command_line: CommandLine) -> None:
    """A check that drives threads blames the subject, not the suite."""
    ended = verify(command_line, "view_raises", only="ISO")
    assert ended.code == 1
    assert statuses(ended, "ISO-001", "ISO-007") == ["fail", "fail"]
    assert "no view" in ended.failures["ISO-007"].found


def test_hostile_texts(command_line: CommandLine) -> None:
    """Control characters, markup, half surrogates and long texts stay texts everywhere."""
    ended = verify(command_line, "hostile")
    assert ended.code == 1
    assert statuses(ended, "KV-001", "KV-006", "KV-009") == ["pass", "fail", "fail"]
    written = [path for path in command_line.out.rglob("*") if path.is_file()]
    for text in (ended.stdout, *(path.read_text("utf-8") for path in written)):
        assert "\x1b" not in text
        assert "\x07" not in text
    assert "<script>alert" not in (command_line.out / "report.html").read_text("utf-8")
    assert len(ended.failures["KV-006"].found) < 3000
    assert "\n" not in ended.failures["KV-006"].found


def test_a_store_that_prints(command_line: CommandLine) -> None:
    """What it prints, as a protocol message or not, reaches neither the engine nor the user."""
    ended = verify(command_line, "chatty")
    assert ended.code == 0
    assert "not json" not in ended.stdout
    assert "noise" not in ended.stdout
    assert "loading" not in ended.stdout


def test_a_store_that_starts_processes(command_line: CommandLine) -> None:
    """They end with the check that they were started in; see `CommandLine.verify`."""
    ended = verify(command_line, "spawning", only="KV-001,LIFE-001")
    assert ended.code == 0


def test_a_class_whose_instances_declare(command_line: CommandLine) -> None:
    """A class as the factory, with the capabilities in a property."""
    ended = verify(command_line, "_ClassProperty", only="LIFE-001,LIFE-003")
    assert ended.code == 0
    assert statuses(ended, "LIFE-003") == ["unsupported"]


def test_a_refused_run_leaves_the_evidence_of_an_earlier_one(command_line: CommandLine) -> None:
    """All of it: reports without their log, or beside an empty one, would be of no run."""
    assert command_line.verify("in-memory", "--only", "KV-001").code == 0
    before = {path.name: path.read_bytes() for path in command_line.out.iterdir()}
    assert command_line.verify(f"{BAD}:factory_raises").code == 3
    assert {path.name: path.read_bytes() for path in command_line.out.iterdir()} == before


def test_a_run_that_begins_clears_the_reports_of_an_earlier_one(
    command_line: CommandLine,
) -> None:
    """A green badge does not stay beside the log of a run that was killed."""
    assert command_line.verify("in-memory", "--only", "KV-001").code == 0
    with command_line.start(*command_line.verify_arguments("rocksdb", profile="full")) as process:
        log = command_line.out / "run.ndjson"
        assert until(lambda: log.is_file() and b'"profile":"full"' in log.read_bytes())
        process.kill()
        process.communicate(timeout=60)
    command_line.expect_nothing_left()
    assert [path.name for path in command_line.out.iterdir()] == ["run.ndjson"]
