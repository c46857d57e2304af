"""No store is judged by a method that it does not claim: windows and sessions, key by key."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from command_lines import SUBJECTS, CommandLine

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.check_runner import run_check
from streamproof.conformance.claimed_methods import is_claimed
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import Subject, load_subject
from streamproof.stores.capabilities import Capabilities

sys.path.append(str(SUBJECTS))

from dict_windows import DictDuplicates, DictSessions, DictStore, DictWindows
from one_key_stores import OneKeyStore

STORES = SUBJECTS / "one_key_stores.py"
ONE_KEY = replace(Capabilities(kind="window"), scan=False, ranges=False, reverse=False)
CLAIMS = ("scan", "ranges", "reverse", "neither scan nor ranges")

SHARED = ["ISO-003", "ISO-007", "ISO-018", "ISO-025", "CRASH-013", "LISTEN-008", "ERR-007"]
SHARED += [f"PROTOCOL-{number:03}" for number in range(1, 12)]
"""The requirements of every kind that need a scan."""

WINDOWS = ["WIN-009", "WIN-010", "WIN-011", "WIN-013", "WIN-014", "WIN-015", "WIN-016", "WIN-018"]
WINDOWS += ["WIN-053"]

SESSIONS = ["SESS-009", "SESS-013", "SESS-014", "SESS-015", "SESS-017", "SESS-018", "SESS-019"]
SESSIONS += ["SESS-048"]


@pytest.mark.parametrize(("store", "missed"), [("windows", WINDOWS), ("sessions", SESSIONS)])
def test_a_store_that_reads_one_key_at_a_time_is_right(
    store: str, missed: list[str], command_line: CommandLine
) -> None:
    """Nothing fails, nothing is skipped, and only what needs more is unsupported."""
    ended = command_line.verify(f"{STORES}:{store}", "--profile", "smoke", "--seed", "0")

    assert {each.requirement for each in ended.log.results if each.status == "fail"} == set()
    assert {each.requirement for each in ended.log.results if each.status == "skip"} == set()
    unclaimed = [
        each.requirement
        for each in ended.log.results
        if each.status == "unsupported" and each.reason.endswith(CLAIMS)
    ]
    assert sorted(unclaimed) == sorted([*SHARED, *missed])
    assert ended.code == 0


def one_key_of(store: type[DictStore]) -> Subject:
    """A dictionary of windows or sessions that is read key by key."""
    capabilities = OneKeyStore(None, store.capabilities).capabilities
    return Subject(store.__name__, lambda: OneKeyStore(store(), capabilities), capabilities, None)


OTHERS = [one_key_of(store) for store in (DictWindows, DictDuplicates, DictSessions)]
OTHERS += [
    load_subject(f"{STORES}:{name}")
    for name in (
        "windows_in_memory",
        "windows_with_timestamps",
        "duplicates",
        "sessions_in_memory",
        "sessions_with_timestamps",
    )
]


@pytest.mark.parametrize("subject", OTHERS, ids=lambda subject: subject.name.rpartition(":")[2])
def test_what_needs_no_scan_is_tried_without_one(subject: Subject, tmp_path: Path) -> None:
    """All that applies to windows, sessions and timestamps is tried and holds."""
    catalogue = load_catalogue()
    status = RunningCall(tmp_path / "status", create=True)
    applicable, exercised, findings = set(), set(), []
    for name, check in load_checks().items():
        directory = tmp_path / name
        directory.mkdir()
        run = CheckRun(check, subject, Settings(profile="smoke", seed=3), directory, status)
        wanted = {
            each
            for each in check.requirements
            if catalogue[each].area in ("WIN", "SESS", "TS") and run.applies(each)
        }
        if wanted:
            outcome = run_check(run)
            assert outcome.suite_error == ""
            findings += outcome.findings
            exercised |= outcome.evidence.exercised
            applicable |= wanted

    assert findings == []
    assert applicable - exercised == set()


@pytest.mark.parametrize(
    ("method", "claims", "claimed"),
    [
        ("all", {}, False),
        ("all", {"scan": True}, True),
        ("backward_all", {"scan": True}, False),
        ("backward_all", {"scan": True, "reverse": True}, True),
        ("fetch_all_with_timestamp", {"scan": True}, True),
        ("fetch_range", {"scan": True}, False),
        ("fetch_range_with_timestamp", {"ranges": True}, True),
        ("find_sessions_range", {"kind": "session", "ranges": True}, True),
        ("find_sessions_between", {"kind": "session", "ranges": True}, False),
        ("backward_fetch_between", {"ranges": True}, False),
        ("backward_fetch", {"kind": "session", "reverse": True}, True),
        ("fetch_between", {}, True),
        ("prefix_scan", {"ranges": True}, False),
        ("range", {"kind": "key-value", "ranges": True}, True),
        ("reverse_all", {"kind": "key-value", "ranges": True}, False),
        ("put", {"kind": "key-value"}, True),
    ],
)
def test_which_capability_covers_a_method(
    method: str, claims: dict[str, object], claimed: bool
) -> None:
    """Scans, ranges of keys and backward fetches are claims; what reads one key is not."""
    assert is_claimed(method, replace(ONE_KEY, **claims)) is claimed  # type: ignore[arg-type]
