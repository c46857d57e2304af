"""The schedules and races behind the anomalies, and the two sides of the metamorphic checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.checks import anomaly_checks as anomalies
from streamproof.conformance.checks import metamorphic_checks as metamorphic
from streamproof.conformance.checks import race_checks as races
from streamproof.conformance.isolation_history import PERMITTED, Anomaly, Read, Span
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import load_subject
from streamproof.conformance.trial import Trial
from streamproof.conformance.violations import Violation
from streamproof.stores.api import IsolationLevel

ROOT = Path(__file__).parents[2]
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


@pytest.fixture(name="trial_of")
def make_trials(tmp_path: Path) -> Iterator[Callable[..., Trial]]:
    """Trials of the check that interleaves."""
    open_trials = []

    def trial_of(subject: str, **settings: Any) -> Trial:
        run = CheckRun(
            load_checks()["anomaly.interleaved"],
            load_subject(subject),
            Settings(profile="smoke", **settings),
            tmp_path,
            RunningCall(tmp_path / "status", create=True),
        )
        context = run.trial("ISO-009")
        open_trials.append(context)
        return context.__enter__()

    yield trial_of
    for context in open_trials:
        context.__exit__(None, None, None)


def rows_of_the_table() -> dict[str, tuple[str, str, str]]:
    """By anomaly: the marks of both levels, and the requirement, as documented."""
    text = (ROOT / "docs" / "isolation.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (.+?) \| .+? \| ([✓✗].*?) \| ([✓✗].*?) \| (.*?)\s*\|$", text, re.MULTILINE
    )
    return {
        name: (first, second, requirement.strip("`")) for name, first, second, requirement in rows
    }


@pytest.mark.parametrize("anomaly", Anomaly, ids=lambda each: each.name.lower())
def test_the_documented_table_is_what_is_judged(anomaly: Anomaly) -> None:
    committed, uncommitted, requirement = rows_of_the_table()[anomaly.value.partition(":")[0]]

    assert committed.startswith("✓") is (anomaly in PERMITTED[COMMITTED])
    assert uncommitted.startswith("✓") is (anomaly in PERMITTED[UNCOMMITTED])
    assert requirement == anomalies.REQUIREMENTS.get(anomaly, "")
    if requirement:
        level = load_catalogue()[requirement].level
        assert (level == "SHOULD") is ("SHOULD" in committed)


def test_a_schedule_is_read_from_words() -> None:
    found = anomalies.steps("w1 put a, r0 scan, w12 commit")

    assert found == [("w", 1, "put", b"a"), ("r", 0, "scan", b""), ("w", 12, "commit", b"")]


def test_there_is_a_schedule_for_each_requirement_of_the_check() -> None:
    for requirement, text in anomalies.SCHEDULES.items():
        assert "anomaly.interleaved" in load_catalogue()[requirement].checks
        assert anomalies.steps(text)


@pytest.mark.parametrize(
    ("subject", "settings", "writers", "levels"),
    [
        ("rocksdb-transactional", {}, [0, 1, 2], [COMMITTED, UNCOMMITTED]),
        ("rocksdb-transactional", {"spec": "kafka-4.4"}, [0], [COMMITTED, UNCOMMITTED]),
        ("rocksdb", {}, [0], [COMMITTED, UNCOMMITTED]),
        (f"{__file__}:bare", {}, [1, 2], [COMMITTED]),
    ],
)
def test_who_is_on_the_stage(
    subject: str,
    settings: dict[str, Any],
    writers: list[int],
    levels: list[IsolationLevel],
    trial_of: Callable[..., Trial],
) -> None:
    """Views read and the store writes, where there are views; else the store reads."""
    stage = anomalies.AnomalyStage(trial_of(subject, **settings))

    assert stage.writers == writers
    assert [level for _, level in stage.readers] == levels


def bare() -> object:
    """A store with explicit transactions and nothing around it."""
    from streamproof.stores.transactional import TransactionalRocksDBStore

    return TransactionalRocksDBStore("store")


def test_what_is_done_is_told(trial_of: Callable[..., Trial]) -> None:
    """The history has every write, read and end, with the values that the store gave."""
    stage = anomalies.AnomalyStage(trial_of("rocksdb-transactional"))
    for step in anomalies.steps(
        "w0 put a, r0 get a, r1 get a, w1 put b, w1 get b, "
        "w2 put c, w2 rollback, w0 commit, r0 scan"
    ):
        stage.do(step)
    told = stage.history

    assert [read.values for read in told.reads] == [
        {b"a": b"1"},
        {b"a": b"3"},
        {b"b": b"4"},
        {b"a": b"3", b"b": b"4", b"c": None},
    ]
    outcomes = {each.name: each.outcome for each in told.transactions[:-1]}
    assert outcomes == {
        "the base": "committed",
        "store": "committed",
        "transaction": "committed",  # With the store, as KIP-892 has it.
        "transaction2": "rolled back",
    }
    assert stage.forbidden() == []


def test_an_anomaly_ends_the_program_at_its_read(trial_of: Callable[..., Trial]) -> None:
    t = trial_of("rocksdb-transactional")
    stage = anomalies.AnomalyStage(t)
    stage.look()
    place = len(t.lines) - 1
    wrong = Read("view", COMMITTED, Span(100, 101), {b"a": b"99"}, place=place)
    stage.history.read(wrong)
    stage.look()
    with pytest.raises(Violation) as caught:
        anomalies.judge(stage, "try")

    assert caught.value.requirement == "ISO-017"
    assert caught.value.shape.startswith("invented-value-")
    assert len(t.lines) == place + 1
    assert "got b'99' for b'a'" in caught.value.program.splitlines()[-1]


@pytest.mark.parametrize(
    ("subject", "settings", "level", "requirement"),
    [
        ("rocksdb-transactional", {}, COMMITTED, "ISO-014"),
        ("rocksdb-transactional", {"spec": "kafka-4.4"}, COMMITTED, "ISO-016"),
        ("rocksdb-transactional", {}, UNCOMMITTED, "ISO-019"),
        ("rocksdb-transactional", {"guarantee": "at-least-once"}, COMMITTED, "ISO-019"),
        ("rocksdb", {}, COMMITTED, "ISO-020"),
        ("rocksdb", {"guarantee": "at-least-once"}, UNCOMMITTED, "ISO-020"),
    ],
)
def test_who_forbids_a_lost_write(
    subject: str,
    settings: dict[str, Any],
    level: IsolationLevel,
    requirement: str,
    trial_of: Callable[..., Trial],
) -> None:
    """It depends on the level of the reader, on the guarantee, and on what the subject has."""
    stage = anomalies.AnomalyStage(trial_of(subject, **settings))
    stage.history.read(Read("view", level, Span(100, 101), {b"a": None}))
    with pytest.raises(Violation) as caught:
        anomalies.judge(stage, "try")

    assert caught.value.requirement == requirement
    assert "no lost write" in str(caught.value)


def test_what_a_thread_raises_breaks_the_promise(trial_of: Callable[..., Trial]) -> None:
    t = trial_of("in-memory")
    crew = races.Crew(t)
    crew.start(lambda: (_ for _ in ()).throw(KeyError("lost")))
    with pytest.raises(Violation, match="KeyError: 'lost'"):
        crew.finish()


# Two sides.


@given(st.lists(st.integers()), st.sets(st.integers(0, 10)))
def test_the_pieces_of_a_list_are_the_list(items: list[int], at: set[int]) -> None:
    pieces = metamorphic.cut(items, at)

    assert [each for piece in pieces for each in piece] == items
    assert all(pieces)


def test_pieces_end_where_they_should() -> None:
    assert metamorphic.cut("abcde", {1, 3, 9}) == ["ab", "cd", "e"]
    assert metamorphic.cut("abc", set()) == ["abc"]


def test_what_is_reported_is_where_two_sides_differ(trial_of: Callable[..., Trial]) -> None:
    t = trial_of("in-memory")
    t.note("one()")
    metamorphic.agree(t, {b"a": b"1"}, {b"a": b"1"})
    with pytest.raises(Violation) as caught:
        metamorphic.agree(t, {b"a": b"1", b"b": b"2"}, {b"a": b"1", b"c": b"3"})

    assert caught.value.expected == "{b'b': b'2', b'c': None}"
    assert caught.value.found == "{b'b': None, b'c': b'3'}"


def test_an_entry_that_comes_twice_is_no_entry() -> None:
    once, twice = [(b"a", b"1")], [(b"a", b"1"), (b"a", b"1")]

    assert metamorphic.entries(once) == {b"a": b"1"}
    assert metamorphic.entries(once) != metamorphic.entries(twice)


def test_ranges_begin_and_end_with_keys_that_are_there() -> None:
    assert metamorphic.ranges_of([b"a", b"c"], (b"b", b"d")) == [
        (b"b", b"d"),
        (b"a", None),
        (None, b"c"),
    ]
    assert metamorphic.is_within(b"b", (b"b", b"b"))
    assert not metamorphic.is_within(b"a", (b"b", None))
    assert not metamorphic.is_within(b"c", (None, b"b"))
