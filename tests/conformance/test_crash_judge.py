"""The judge on hand-made crashes: what is legal is accepted, and what is not is named rightly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_registry import UNCLEAN
from streamproof.conformance.crash.crash_judge import history_of, judge
from streamproof.conformance.crash.crash_records import Crashed, CrashPoint, Observation
from streamproof.conformance.crash.program import (
    PARTITIONS,
    Program,
    ProgramBuilder,
    random_program,
)
from streamproof.conformance.lab import CHANGELOG, OTHER_CHANGELOG, TopicPartition
from streamproof.conformance.oracle import (
    Commit,
    History,
    changelog_of,
    ends_of,
    fold,
    partitions_of,
)
from streamproof.conformance.ruling import Ruling
from streamproof.stores.capabilities import Capabilities

MODEL = settings.get_profile("conformance")

TRANSACTIONAL = Capabilities(transactional=True)
PLAIN = Capabilities()


def crashed_at(program: Program, started: int, *, in_flight: bool = False) -> Crashed:
    """A program that died after ``started`` operations, or within the last of them."""
    point = CrashPoint("boundary", started)
    return Crashed(program, point, Path("gone"), started, started - in_flight, 0, reached=True)


def seen_at(
    history: History, offsets: dict[TopicPartition, int], content: dict[bytes, bytes]
) -> Observation:
    """What a store shows that has these offsets and this content, and is restored rightly."""
    changelog = changelog_of(history)
    ends = ends_of(changelog)
    return Observation(
        offsets=[offsets.get(each) for each in partitions_of(history)],
        content=content,
        scanned=sorted(content.items()),
        restored=fold(changelog),
        restored_offsets=[ends.get(each) for each in partitions_of(history)],
    )


def seen_at_commit(history: History, commit: Commit) -> Observation:
    """A store that holds exactly one commit."""
    return seen_at(history, commit.offsets, history.content_at(commit))


def broken(rulings: list[Ruling]) -> list[str]:
    """Which promises are broken; the judge stops at the first."""
    return [ruling.requirement for ruling in rulings if ruling.broken]


def two_commits() -> Program:
    """Offsets 1, 3 and 5; the first is committed, and the crash comes before the second commit."""
    builder = ProgramBuilder(gap=2).put(b"a", b"1").commit().put(b"a", b"2").put(b"b", b"3")
    return builder.commit().build()


BEFORE_SECOND = 5
"""Operations of `two_commits` before the second commit."""


class Case:
    """A crash, its history, and an observation of the first commit, to be made wrong."""

    def __init__(self, capabilities: Capabilities, *, exact: bool) -> None:
        self.capabilities = capabilities
        self.crashed = crashed_at(two_commits(), BEFORE_SECOND)
        self.history = history_of(self.crashed, capabilities, exact=exact)
        self.seen = seen_at_commit(self.history, self.history.commits[1])

    def judge(self, **changes: Any) -> list[Ruling]:
        """The rulings on the observation with some changes."""
        if "content" in changes:
            changes.setdefault("scanned", sorted(changes["content"].items()))
        seen = msgspec.structs.replace(self.seen, **changes)
        return judge(self.crashed, self.history, seen, self.capabilities)


EXACT = Case(TRANSACTIONAL, exact=True)
LOOSE = Case(TRANSACTIONAL, exact=False)
MARKED = Case(PLAIN, exact=False)


@pytest.mark.parametrize("case", [EXACT, LOOSE, MARKED], ids=["exact", "replayable", "plain"])
def test_the_last_commit_is_legal(case: Case) -> None:
    """The state from which each of the next tests departs in one thing is accepted."""
    assert broken(case.judge()) == []


@pytest.mark.parametrize(
    ("requirement", "case", "changes"),
    [
        ("CRASH-001", EXACT, {"error": "opening the store raised OSError"}),
        ("CRASH-001", EXACT, {"refused": "TaskCorruptedError"}),
        ("CRASH-001", MARKED, {"error": "reading the store raised OSError"}),
        ("CRASH-002", EXACT, {"offsets": [0]}),
        ("CRASH-002", LOOSE, {"offsets": [3]}),
        ("CRASH-003", EXACT, {"content": {}}),
        ("CRASH-004", EXACT, {"content": {b"a": b"2"}}),
        ("CRASH-004", EXACT, {"content": {b"a": b"1", b"b": b"3"}}),
        ("CRASH-005", LOOSE, {"content": {}}),
        ("CRASH-005", MARKED, {"content": {b"b": b"3"}}),
        ("CRASH-006", EXACT, {"content": {b"a": b"9"}}),
        ("CRASH-006", LOOSE, {"content": {b"a": b"1", b"b": b"1"}}),
        ("CRASH-006", LOOSE, {"content": {b"a": b"1", b"c": b"1"}}),
        ("CRASH-008", EXACT, {"offsets": [None], "content": {}}),
        ("CRASH-008", LOOSE, {"offsets": [None]}),
        ("CRASH-009", MARKED, {"content": {b"a": b"2"}}),
        ("CRASH-010", EXACT, {"offsets": [2]}),
        ("CRASH-010", LOOSE, {"offsets": [6]}),
        ("CRASH-013", EXACT, {"scanned": []}),
        ("CRASH-013", EXACT, {"scanned": [(b"a", b"1"), (b"a", b"1")]}),
        ("CRASH-013", LOOSE, {"scanned": [(b"a", b"2")]}),
        ("RESTORE-006", EXACT, {"restored": {}}),
        ("RESTORE-006", EXACT, {"restored_offsets": [None]}),
        ("RESTORE-006", LOOSE, {"restored": {b"a": b"1"}}),
        ("RESTORE-006", LOOSE, {"restored_offsets": [1]}),
    ],
)
def test_the_smallest_break_is_named(requirement: str, case: Case, changes: dict[str, Any]) -> None:
    """One thing is wrong, and exactly the promise that it breaks is reported."""
    rulings = case.judge(**changes)
    assert broken(rulings) == [requirement]
    assert rulings[-1].expected


def several() -> tuple[Crashed, History]:
    """Two partitions, committed together twice."""
    builder = ProgramBuilder().put(b"a", b"1").put(b"b", b"2", OTHER_CHANGELOG).commit()
    program = builder.put(b"a", b"3").put(b"b", b"4", OTHER_CHANGELOG).commit().build()
    crashed = crashed_at(program, len(program), in_flight=True)
    return crashed, history_of(crashed, TRANSACTIONAL, exact=True)


def test_offsets_of_two_commits_are_not_those_of_one() -> None:
    """CRASH-007: each offset was committed, but never the two of them together."""
    crashed, history = several()
    for offsets in ({CHANGELOG: 1, OTHER_CHANGELOG: 0}, {CHANGELOG: 0}, {OTHER_CHANGELOG: 1}):
        seen = seen_at(history, offsets, history.content_at(history.commits[1]))
        assert broken(judge(crashed, history, seen, TRANSACTIONAL)) == ["CRASH-007"]
    for commit in history.commits[1:]:
        seen = seen_at_commit(history, commit)
        assert broken(judge(crashed, history, seen, TRANSACTIONAL)) == []


@pytest.mark.parametrize(
    ("check", "requirement", "unclean"),
    [
        ("crash.several_partitions", "CRASH-007", ""),
        ("crash.while_closing", "CRASH-011", ""),
        ("upgrade.older_store_killed", "UPGRADE-014", "UPGRADE-014"),
        ("disk_fault.full_disk", "ERR-008", ""),
        ("power.without_a_journal", "POWER-014", ""),
    ],
)
def test_checks_of_one_situation_blame_one_requirement(
    check: str, requirement: str, unclean: str
) -> None:
    """Whatever breaks while a store closes, say, is the concern of that promise."""
    reported_as = load_checks()[check].reported_as
    broken = (requirement, "CRASH-003", "POWER-001", "RESTORE-006")
    assert {reported_as(each) for each in broken} == {requirement}
    # An unclean stop that nobody notices is the concern of other checks.
    assert {reported_as(each) for each in UNCLEAN} == {unclean}


def test_other_checks_blame_what_is_broken() -> None:
    every_line, full_disk = load_checks()["crash.in_every_line_of_commit"], "disk_fault.full_disk"
    assert every_line.reported_as("CRASH-003") == "CRASH-003"
    assert every_line.reported_as("CRASH-009") == "CRASH-009"
    assert load_checks()[full_disk].reported_as("ERR-010") == "ERR-010"


def test_a_plain_store_may_refuse_what_a_crash_left() -> None:
    """CRASH-009: init raised TaskCorruptedError, and the store was wiped and restored."""
    rulings = MARKED.judge(refused="not closed cleanly", offsets=[], content={}, scanned=None)
    assert broken(rulings) == []
    assert "CRASH-009" in [ruling.requirement for ruling in rulings]


def test_a_recommendation_does_not_hide_what_is_binding() -> None:
    """A store that notices no unclean stop (SHOULD) must still converge (MUST)."""
    uncommitted = {b"a": b"2", b"b": b"3"}
    assert "RESTORE-006" in [each.requirement for each in MARKED.judge(content=uncommitted)]
    assert broken(MARKED.judge(content=uncommitted, restored={})) == ["RESTORE-006"]


@pytest.mark.parametrize("exact", [True, False])
def test_a_commit_in_flight_counts_or_not(exact: bool) -> None:
    """It may have happened or not, and nothing in between is legal for an exact store."""
    crashed = crashed_at(two_commits(), BEFORE_SECOND + 1, in_flight=True)
    history = history_of(crashed, TRANSACTIONAL, exact=exact)
    for commit in history.commits[1:]:
        seen = seen_at_commit(history, commit)
        assert broken(judge(crashed, history, seen, TRANSACTIONAL)) == []
    half = seen_at(history, {CHANGELOG: 1}, {b"a": b"2"})
    assert bool(broken(judge(crashed, history, half, TRANSACTIONAL))) == exact
    half = seen_at(history, {CHANGELOG: 5}, {b"a": b"2"})
    requirement = "CRASH-003" if exact else "CRASH-005"
    assert broken(judge(crashed, history, half, TRANSACTIONAL)) == [requirement]


def test_a_write_in_flight_counts_or_not() -> None:
    """A plain store may hold a put that had not returned."""
    crashed = crashed_at(two_commits(), 4, in_flight=True)
    history = history_of(crashed, TRANSACTIONAL, exact=False)
    for content in ({b"a": b"1"}, {b"a": b"2"}):
        seen = seen_at(history, {CHANGELOG: 1}, content)
        assert broken(judge(crashed, history, seen, TRANSACTIONAL)) == []


@pytest.mark.parametrize(
    ("durability", "last", "survives"),
    [
        ("flush", "commit", False),
        ("process", "commit", True),
        ("power", "commit", True),
        ("flush", "flush", True),
        ("flush", "close", True),
        ("process", "close", True),
    ],
)
def test_what_must_survive_depends_on_the_declaration(
    durability: Any, last: str, survives: bool
) -> None:
    """Losing a returned commit breaks CRASH-008 exactly where it was declared durable."""
    builder = ProgramBuilder().put(b"a", b"1").commit()
    program = builder.build() if last == "commit" else builder.then(last).build()
    capabilities = replace(TRANSACTIONAL, durability=durability)
    for in_flight in (False, True):
        crashed = crashed_at(program, len(program), in_flight=in_flight)
        history = history_of(crashed, capabilities, exact=True)
        lost = judge(crashed, history, seen_at(history, {}, {}), capabilities)
        # What is in flight has promised nothing; the commit before a flush may have.
        promised = survives and not in_flight
        promised |= in_flight and last != "commit" and durability != "flush"
        assert broken(lost) == (["CRASH-008"] if promised else [])


@pytest.mark.parametrize("in_flight", [False, True])
def test_restored_records_may_stay_without_a_commit(in_flight: bool) -> None:
    """What is restored is committed in the changelog: a store may keep it, or any part of it."""
    builder = ProgramBuilder(gap=2).restore([(b"a", b"1"), (b"b", b"2"), (b"a", None)]).commit()
    program = builder.restore([(b"c", b"3")]).build()
    crashed = crashed_at(program, len(program), in_flight=in_flight)
    history = history_of(crashed, TRANSACTIONAL, exact=True)
    assert not history.exact
    ends = (({CHANGELOG: 5}, {b"b": b"2"}), ({CHANGELOG: 5}, {b"b": b"2", b"c": b"3"}))
    for offsets, content in (*ends, ({CHANGELOG: 7}, {b"b": b"2", b"c": b"3"})):
        seen = seen_at(history, offsets, content)
        for capabilities in (TRANSACTIONAL, PLAIN):
            assert broken(judge(crashed, history, seen, capabilities)) == []
    ahead = seen_at(history, {CHANGELOG: 7}, {b"b": b"2"})
    assert broken(judge(crashed, history, ahead, TRANSACTIONAL)) == ["CRASH-005"]


def test_forgotten_offsets_are_legal_after_an_empty_commit() -> None:
    """The offsets are those of before or none while commit({}) is under way."""
    program = ProgramBuilder().put(b"a", b"1").commit().put(b"a", b"2").commit({}).build()
    crashed = crashed_at(program, len(program), in_flight=True)
    history = history_of(crashed, TRANSACTIONAL, exact=True)
    legal = [({CHANGELOG: 0}, {b"a": b"1"}), ({}, {b"a": b"2"})]
    for offsets, content in legal:
        seen = seen_at(history, offsets, content)
        assert broken(judge(crashed, history, seen, TRANSACTIONAL)) == []
    seen = seen_at(history, {CHANGELOG: 0}, {b"a": b"2"})
    assert broken(judge(crashed, history, seen, TRANSACTIONAL)) == ["CRASH-004"]


def test_aborted_records_are_not_in_the_changelog() -> None:
    """Under exactly-once, what no commit covers is aborted; otherwise it is replayed."""
    crashed = crashed_at(two_commits(), BEFORE_SECOND)
    exact = history_of(crashed, TRANSACTIONAL, exact=True)
    loose = history_of(crashed, TRANSACTIONAL, exact=False)
    assert ends_of(changelog_of(exact)) == {CHANGELOG: 1}
    assert ends_of(changelog_of(loose)) == {CHANGELOG: 5}


PROGRAMS = st.builds(
    lambda seed, commits, several: random_program(
        Random(seed), commits=commits, partitions=PARTITIONS if several else (CHANGELOG,)
    ),
    st.integers(0, 10_000),
    st.integers(1, 4),
    st.booleans(),
)


@st.composite
def histories(draw: st.DrawFn, *, exact: bool) -> tuple[Crashed, History, Commit, Capabilities]:
    """A random program that died somewhere, and a commit that it may have left."""
    program = draw(PROGRAMS)
    started = draw(st.integers(1, len(program)))
    crashed = crashed_at(program, started, in_flight=draw(st.booleans()))
    durability = draw(st.sampled_from(["flush", "process", "power"]))
    capabilities = replace(TRANSACTIONAL, durability=durability)
    history = history_of(crashed, capabilities, exact=exact)
    commit = draw(st.sampled_from(history.commits[history.durable :]))
    return crashed, history, commit, capabilities


@MODEL
@given(histories(exact=True))
def test_every_legal_commit_is_accepted(
    example: tuple[Crashed, History, Commit, Capabilities],
) -> None:
    """The fold at any commit that may have survived is legal, for exact stores and others."""
    crashed, history, commit, capabilities = example
    for exact in (True, False):
        each = history_of(crashed, capabilities, exact=exact)
        rulings = judge(crashed, each, seen_at_commit(each, commit), capabilities)
        assert broken(rulings) == []
    assert history.exact


@MODEL
@given(histories(exact=True), st.data())
def test_any_other_content_is_rejected(
    example: tuple[Crashed, History, Commit, Capabilities], data: st.DataObject
) -> None:
    """For an exact store every content but that of the commit breaks one of three promises."""
    crashed, history, commit, capabilities = example
    values = sorted({write.value for write in history.writes if write.value} | {b"invented"})
    keys = crashed.program.keys
    content = data.draw(st.dictionaries(st.sampled_from(keys), st.sampled_from(values)))
    legal = [history.content_at(each) for each in history.candidates(commit.offsets)]
    assume(content not in legal)
    seen = seen_at(history, commit.offsets, content)
    (requirement,) = broken(judge(crashed, history, seen, capabilities))
    assert requirement in {"CRASH-003", "CRASH-004", "CRASH-006"}


@MODEL
@given(histories(exact=False), st.data())
def test_later_values_may_stay_where_a_replay_mends_them(
    example: tuple[Crashed, History, Commit, Capabilities], data: st.DataObject
) -> None:
    """Not exact: each key on its own has the committed value or any later one, and no other."""
    crashed, history, commit, capabilities = example
    allowed = history.values_since(commit)
    drawn = {
        key: data.draw(st.sampled_from(sorted(allowed[key], key=repr))) for key in sorted(allowed)
    }
    content = {key: value for key, value in drawn.items() if value is not None}
    seen = seen_at(history, commit.offsets, content)
    assert broken(judge(crashed, history, seen, capabilities)) == []
    every = {
        key: set().union(
            *(history.values_since(each)[key] for each in history.candidates(commit.offsets))
        )
        for key in allowed
    }
    for key in allowed:
        for value in history.values_ever()[key] - every[key]:
            wrong = {**content, key: value}
            if value is None:
                del wrong[key]
            seen = seen_at(history, commit.offsets, wrong)
            assert broken(judge(crashed, history, seen, capabilities)) == ["CRASH-005"]


@MODEL
@given(histories(exact=True))
def test_offsets_that_no_commit_left_are_rejected(
    example: tuple[Crashed, History, Commit, Capabilities],
) -> None:
    """Offsets are never invented, never mixed, and never ahead."""
    crashed, history, commit, capabilities = example
    for shift in (-1, 1, 1000):
        offsets = {partition: offset + shift for partition, offset in commit.offsets.items()}
        if not offsets or offsets in [each.offsets for each in history.commits]:
            continue
        seen = seen_at(history, offsets, history.content_at(commit))
        (requirement,) = broken(judge(crashed, history, seen, capabilities))
        assert requirement in {"CRASH-002", "CRASH-007", "CRASH-010"}
        assert shift < 1000 or requirement == "CRASH-010"
