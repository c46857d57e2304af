"""Every check, run in this process on stores that are right: it holds, and it tries something.

The command runs checks in processes of their own, which end without a word to anybody who
measures coverage. Checks that fork are left out: RocksDB's threads do not survive a fork.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.check_runner import run_check
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import load_subject

FORKING = {
    name
    for name in load_checks()
    if name.startswith(("crash.", "disk_fault.", "expiry.", "overflow.", "power."))
} | {
    "error.second_process",
    "position.position_after_a_crash",
    "upgrade.killed_while_upgrading",
    "upgrade.killed_while_upgrading_again",
    "upgrade.killed_after_the_upgrade",
    "upgrade.killed_while_preparing",
    "upgrade.older_store_killed",
}
SETTINGS = Settings(spec="kafka-4.4", profile="smoke", seed=5)
KIPS = Settings(spec="kips", profile="smoke", seed=5)
SUBJECTS = (
    "in-memory",
    "rocksdb",
    "rocksdb-transactional",
    "rocksdb-window-transactional",
    "rocksdb-window-duplicates",
    "rocksdb-session-transactional",
    "rocksdb-timestamped-transactional",
    "rocksdb-stack",
)
BY_KAFKA = ("in-memory", "rocksdb-transactional", "rocksdb-window-transactional")
"""Those for which it makes a difference what Kafka shipped of the proposals."""

ALOS = Settings(guarantee="at-least-once", profile="smoke", seed=5)
ALONE = (
    ("single-file", "commit.commit_writes_the_files", KIPS),
    ("rocksdb-transactional", "isolation.at_least_once_stages_nothing", ALOS),
    ("rocksdb-transactional", "isolation.at_least_once_holds_nothing_back", ALOS),
    ("rocksdb-timestamped-stack", "timestamp.changelog_records", KIPS),
    ("rocksdb-timestamped-stack", "timestamp.every_write_is_logged", KIPS),
    ("rocksdb-window-timestamped-stack", "timestamp.changelog_records", KIPS),
    ("rocksdb-window-timestamped-stack", "timestamp.every_write_is_logged", KIPS),
    ("rocksdb-session-timestamped-stack", "timestamp.changelog_records", KIPS),
    ("rocksdb-session-timestamped-stack", "timestamp.every_write_is_logged", KIPS),
    ("in-memory-window-timestamped", "timestamp.window_scans", KIPS),
    ("in-memory-window-timestamped", "timestamp.window_of_the_record", KIPS),
    ("in-memory-session-timestamped", "timestamp.session_scans", KIPS),
    ("rocksdb-window-timestamped-stack", "metric.dropped_records", KIPS),
)
"""Checks that nobody else is asked."""

LEAVES_NOTHING = ("rocksdb-timestamped-transactional", "position.position_file_is_taken_over")
"""A store whose older kind keeps its position beside its rows, so that there is no file to find."""

CASES = [
    *ALONE,
    *(
        (subject, name, settings)
        for subject in SUBJECTS
        for settings in (KIPS, SETTINGS)
        for name in load_checks()
        if name not in FORKING
        and (settings is KIPS or subject in BY_KAFKA)
        and (subject, name) != LEAVES_NOTHING
    ),
]


def run_of(subject: str, name: str, settings: Settings, directory: Path) -> CheckRun:
    """A check on a subject, not yet run."""
    status = RunningCall(directory / "status", create=True)
    return CheckRun(load_checks()[name], load_subject(subject), settings, directory, status)


@pytest.mark.parametrize(
    ("subject", "name", "settings"),
    CASES,
    ids=[
        f"{subject}-{name}-{settings.spec}-{settings.guarantee}"
        for subject, name, settings in CASES
    ],
)
def test_a_check_holds_for_a_store_that_is_right(
    subject: str, name: str, settings: Settings, tmp_path: Path
) -> None:
    """There is no finding, and each requirement that applies was put to the test."""
    run = run_of(subject, name, settings, tmp_path)
    applicable = {each for each in run.check.requirements if run.applies(each)}
    catalogue = load_catalogue()
    tested = {each for each in applicable if name in catalogue[each].checks}
    if not tested:
        # Nothing of this check is asked of this subject; the command would not run it.
        return
    outcome = run_check(run)

    assert outcome.findings == []
    assert (outcome.suite_error, outcome.subject_error, outcome.skipped) == ("", "", "")
    if run.check.given is None:
        assert outcome.evidence.exercised >= tested
    else:
        # What is drawn decides which of its requirements a property tries in so short a run.
        assert outcome.evidence.exercised & tested
    assert outcome.evidence.operations > 0
    assert not [path for path in tmp_path.iterdir() if path.is_dir() and any(path.iterdir())]


def test_a_check_without_anything_to_try_says_so(tmp_path: Path) -> None:
    """The result is neither a finding nor a requirement that was put to the test."""
    subject, name = LEAVES_NOTHING
    outcome = run_check(run_of(subject, name, KIPS, tmp_path))
    assert outcome.findings == []
    assert outcome.evidence.exercised == set()
    assert outcome.skipped == "The older store keeps its position in no file of its own."


def test_the_cases_cover_every_check_that_does_not_fork() -> None:
    """Each such check applies to at least one of the subjects."""
    tried = set()
    for subject, name, settings in CASES:
        run = CheckRun(
            load_checks()[name],
            load_subject(subject),
            settings,
            Path(),
            None,  # type: ignore[arg-type]  # It is not run.
        )
        if any(run.applies(each) for each in run.check.requirements):
            tried.add(name)

    assert tried == set(load_checks()) - FORKING
