"""The checks of windows and sessions: right stores pass each, and each catches a wrong one.

They run in this process, on stores that are dictionaries, and on those that are kept in memory.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_lines import SUBJECTS

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_records import CheckFinding, CheckOutcome
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.check_runner import run_check
from streamproof.conformance.lab import ChangelogRecord
from streamproof.conformance.mutants import MUTANTS
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import Subject, load_subject
from streamproof.conformance.trial import entry_key
from streamproof.conformance.windowed_trial import Times
from streamproof.conformance.windows_oracle import WindowedContent
from streamproof.errors import UsageError
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.windows import Window, Windowed

sys.path.append(str(SUBJECTS))

import bad_sessions  # noqa: F401 - it adds to BROKEN
from bad_windows import BROKEN
from dict_windows import CAPABILITIES, DictDuplicates, DictSessions, DictStore, DictWindows

pytestmark = pytest.mark.usefixtures("programs_not_run")

CATALOGUE = load_catalogue()
AREAS = ("WIN", "SESS")
CHECKS = {
    name: check
    for name, check in load_checks().items()
    if {CATALOGUE[each].area for each in check.requirements} & set(AREAS)
}
SETTINGS = Settings(profile="smoke", seed=3)


def subject_of(store: type[DictStore]) -> Subject:
    """A class of stores as a subject."""
    module = sys.modules[DictStore.__module__]
    return Subject(f"{module.__name__}:{store.__name__}", store, store.capabilities, module)


RIGHT = [subject_of(store) for store in (DictWindows, DictDuplicates, DictSessions)]
RIGHT += [load_subject(name) for name in ("in-memory-window", "in-memory-session")]


def outcome_of(
    subject: Subject, name: str, directory: Path, settings: Settings = SETTINGS
) -> CheckOutcome | None:
    """What a check finds out about a subject; ``None`` if nothing of it applies."""
    status = RunningCall(directory / "status", create=True)
    run = CheckRun(CHECKS[name], subject, settings, directory, status)
    return run_check(run) if any(map(run.applies, run.check.requirements)) else None


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("subject", RIGHT, ids=lambda subject: subject.name)
def test_a_check_holds_for_a_right_store(subject: Subject, name: str, tmp_path: Path) -> None:
    """There is no finding, and each requirement that applies was put to the test."""
    outcome = outcome_of(subject, name, tmp_path)
    if outcome is None:
        # Nothing of this check is asked of this kind of store; the command would not run it.
        return
    assert outcome.findings == []
    assert outcome.suite_error == ""
    applicable = {
        each
        for each in CHECKS[name].requirements
        if not CATALOGUE[each].why_not_applicable(subject.capabilities, "exactly-once", "kips")
    }
    if CHECKS[name].given is None:
        assert outcome.evidence.exercised == applicable
    else:
        # What is drawn decides which of its requirements a property tries in so short a run.
        assert outcome.evidence.exercised & applicable


def test_the_dictionaries_are_asked_everything() -> None:
    """Every requirement of both areas applies to one of them, and has a check."""
    asked = {
        each.id
        for each in CATALOGUE.values()
        for subject in RIGHT[:3]
        if each.area in AREAS
        and not each.why_not_applicable(subject.capabilities, "exactly-once", "kips")
    }
    assert asked == {each.id for each in CATALOGUE.values() if each.area in AREAS}
    assert not [each for each in asked if CATALOGUE[each].untested]


def test_every_requirement_has_a_wrong_store() -> None:
    """No requirement of windows and sessions is without a mistake that it must catch."""
    wrong = {requirement for requirement, _ in BROKEN}
    wrong |= {mutant.requirement for mutant in MUTANTS}
    assert {each.id for each in CATALOGUE.values() if each.area in AREAS} <= wrong


@pytest.mark.parametrize(
    ("requirement", "store"),
    BROKEN,
    ids=[f"{requirement}-{store.__name__}" for requirement, store in BROKEN],
)
def test_a_wrong_store_is_caught(requirement: str, store: type[DictStore], tmp_path: Path) -> None:
    """By the requirement that it breaks, with a program, and without a fault of the suite."""
    findings: list[CheckFinding] = []
    # Plain examples come first, since they are quick.
    for name in sorted(CATALOGUE[requirement].checks, key=lambda each: bool(CHECKS[each].given)):
        if not findings:
            directory = tmp_path / name
            directory.mkdir()
            settings = Settings(profile="smoke", seed=3)
            outcome = outcome_of(subject_of(store), name, directory, settings)
            assert outcome is not None
            assert outcome.suite_error == ""
            findings = [each for each in outcome.findings if each.requirement == requirement]
    assert findings
    compile(findings[0].program, requirement, "exec")


@pytest.mark.parametrize(
    ("store", "check", "requirement"),
    [
        ("BoundExclusive", "window.time_ranges", "WIN-007"),
        ("NoTombstones", "windowed.restoring_equals_putting", "WIN-044"),
        ("TouchingMissed", "session.searches_by_example", "SESS-011"),
    ],
)
def test_a_printed_program_fails_as_it_stands(
    store: str, check: str, requirement: str, tmp_path: Path
) -> None:
    """Its last line asserts what was found, on a store of windows or sessions itself."""
    (wrong,) = (each for known, each in BROKEN if (known, each.__name__) == (requirement, store))
    settings = Settings(profile="quick", seed=3)
    outcome = outcome_of(subject_of(wrong), check, tmp_path, settings)
    assert outcome is not None
    (finding,) = (each for each in outcome.findings if each.requirement == requirement)
    module = tmp_path / "wrong.py"
    module.write_text(
        f"import sys\n\nsys.path.append({str(SUBJECTS)!r})\n\n"
        "import bad_sessions\nfrom bad_windows import BROKEN\n\n"
        f"make = dict((each.__name__ + known, each) for known, each in BROKEN)"
        f"[{store + requirement!r}]\n"
    )
    name = subject_of(wrong).name
    assert name in finding.program
    program = tmp_path / "program.py"
    program.write_text(finding.program.replace(name, f"{module}:make"))
    ended = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=False, timeout=600
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == "AssertionError"
    # Reports leave out the names of the fields of windows.
    assert f"# found {finding.found}\n" in re.sub(r"\b(key|window|start|end)=", "", ended.stderr)


def capabilities(**changes: Any) -> Capabilities:
    """Windows with a retention of 1000 ms, in segments of 300 ms, with changes."""
    return replace(CAPABILITIES, **changes)


@pytest.mark.parametrize(
    ("expiry", "stream_time", "first_kept", "first_readable"),
    [
        ("segment", 1000, 0, 1),
        ("segment", 1299, 0, 300),
        ("segment", 1300, 300, 301),
        ("segment", 1599, 300, 600),
        ("record", 1299, 300, 300),
        ("record", 1300, 301, 301),
        ("segment", 500, -600, -499),
    ],
)
def test_what_is_too_late(
    expiry: str, stream_time: int, first_kept: int, first_readable: int
) -> None:
    """As Kafka computes it: by the segment of what just expires, or by the record itself."""
    times = Times(capabilities(expiry=expiry))
    assert times.first_kept(stream_time) == first_kept
    assert times.first_readable(stream_time) == first_readable


def test_times_lie_within_one_retention() -> None:
    """Ticks ascend, the first few lie around the start of a segment, the last is still in time."""
    for changes in ({}, {"segment_interval_ms": 0}, {"retention_ms": 100}, {"retention_ms": 10**9}):
        times = Times(capabilities(**changes))
        ticks = [times.at(tick) for tick in range(16)]
        assert ticks == sorted(set(ticks))
        assert ticks[0] == times.base == times.first_readable(ticks[-1])
        assert times.segment_of(ticks[3]) + 1 == times.segment_of(ticks[4])


def windows(*pairs: tuple[bytes, int]) -> list[Windowed]:
    """Windows by key and start."""
    return [Windowed(key, Window(start, start + 10)) for key, start in pairs]


def test_the_declared_order() -> None:
    """By time, or by segment; keys that begin like others may be mixed within a segment."""
    by_time = windows((b"a", 1), (b"b", 1), (b"a", 2))
    by_segment = windows((b"b", 2), (b"a", 301), (b"a", 302), (b"b", 300))
    assert Times(capabilities(scan_order="time")).in_order(by_time)
    assert not Times(capabilities(scan_order="time")).in_order(by_segment)
    assert not Times(capabilities()).in_order(by_time)
    assert Times(capabilities()).in_order(by_segment)
    mixed = windows((b"a\0", 1), (b"a", 2), (b"a\0", 3))
    assert Times(capabilities()).in_order(mixed)
    assert not Times(capabilities()).in_order(windows((b"a", 2), (b"a\0", 3), (b"a", 1)))


def test_the_oracle_forgets() -> None:
    """It counts what comes too late, and hides what is expired though its segment is kept."""
    content = WindowedContent(Times(capabilities()))
    early, late, now = windows((b"a", 299), (b"a", 310), (b"b", 1400))
    content.put(early, b"1")
    content.put(late, b"2")
    content.put(now, b"3")
    content.put(early, b"4")
    content.put(late, b"5")
    assert content.entries() == [(now, b"3")]
    assert (content.dropped, content.stream_time, content.get(late)) == (1, 1400, None)
    content.put(now, None)
    assert content.entries() == []


def test_the_oracle_keeps_duplicates() -> None:
    """All of them, in order, and None is ignored."""
    content = WindowedContent(Times(capabilities(retain_duplicates=True)))
    (window,) = windows((b"a", 5))
    for value in (b"2", b"1", None, b"2"):
        content.put(window, value)
    assert content.entries() == [(window, b"2"), (window, b"1"), (window, b"2")]


def test_keys_of_entries() -> None:
    """Plain tuples are taken for windowed keys; what is no key at all is told apart."""
    assert entry_key((b"a", (1, 2))) == Windowed(b"a", Window(1, 2))
    assert isinstance(entry_key((b"a", (1, 2))), Windowed)
    assert (entry_key(b"a"), entry_key(5)) == (b"a", 5)
    for key in ("a", None, (b"a", 1), (b"a", (1,)), ("a", (1, 2)), (b"a", (1, "2"))):
        assert entry_key(key) is None


def test_changelog_records() -> None:
    """Duplicates are numbered by their offsets, other windows by 0, sessions by end and start."""
    window = b"a" + (7).to_bytes(8, "big")
    assert Times(capabilities()).record(b"a", b"1", 7, 3) == ChangelogRecord(
        window + bytes(4), b"1", 3
    )
    duplicates = Times(capabilities(retain_duplicates=True)).record(b"a", None, 7, 3)
    assert duplicates.key == window + (3).to_bytes(4, "big")
    session = Times(capabilities(kind="session")).record(b"a", b"1", 7, 3)
    assert session.key == window + (2).to_bytes(8, "big")


@pytest.mark.parametrize(
    ("requirement", "changes", "reason"),
    [
        ("KV-001", {}, "the subject is a window store"),
        ("SESS-001", {}, "the subject is a window store"),
        ("WIN-001", {"kind": "session"}, "the subject is a session store"),
        ("WIN-001", {"kind": "key-value"}, "the subject is a key-value store"),
        ("WIN-001", {"retain_duplicates": True}, "the subject claims retain_duplicates"),
        ("WIN-025", {}, "the subject does not claim retain_duplicates"),
        (
            "COMMIT-001",
            {"retain_duplicates": True},
            "the subject retains duplicates: a put does not overwrite",
        ),
    ],
)
def test_why_a_requirement_does_not_apply(
    requirement: str, changes: dict[str, Any], reason: str
) -> None:
    """The reason says what the subject is, in words."""
    found = CATALOGUE[requirement].why_not_applicable(
        capabilities(**changes), "exactly-once", "kips"
    )
    assert found == reason


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"retention_ms": 99}, "retention_ms in its capabilities, at least 100; it declares 99"),
        ({"window_size_ms": 0}, "window_size_ms in its capabilities, at least 1; it declares 0"),
        ({"segment_interval_ms": 0}, "segment_interval_ms in its capabilities, at least 1"),
    ],
)
def test_a_window_store_must_declare_its_times(
    changes: dict[str, int], missing: str, tmp_path: Path
) -> None:
    """The checks compute what expires from them."""
    module = tmp_path / "undeclared.py"
    module.write_text(
        f"import sys\n\nsys.path.append({str(SUBJECTS)!r})\n\n"
        "from dataclasses import replace\n\n"
        "from dict_windows import CAPABILITIES, DictWindows\n\n\n"
        f"class make(DictWindows):\n    capabilities = replace(CAPABILITIES, **{changes!r})\n"
    )
    with pytest.raises(UsageError, match=missing):
        load_subject(f"{module}:make")
