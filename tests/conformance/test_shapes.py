"""What tells one way of breaking a promise from another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.check_records import CheckEvidence, CheckFinding, CheckOutcome
from streamproof.conformance.check_registry import Check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.check_runner import run_check
from streamproof.conformance.failure_shapes import (
    answers,
    asked,
    difference,
    shape_of_error,
    shape_of_words,
)
from streamproof.conformance.results import Failure
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import load_subject
from streamproof.conformance.trial import Trial
from streamproof.conformance.verdicts import failures_of, result_of

MODEL = settings.get_profile("conformance")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("store.get(b'a')", "value"),
        ("print(store.get(b'a'))", "value"),
        ("list(store.range(b'a', None))", "entries"),
        ("list(entries)", "entries"),
        ("next(entries, None)", "value"),
        ("store.committed_offset(CHANGELOG)", "offset"),
        ("[store.committed_offset(each) for each in (CHANGELOG, OTHER_CHANGELOG)]", "offset"),
        ("store.position.as_dict()", "position"),
        ("store.is_open", "is-open"),
        ("store = lab.open()", "open"),
        ("store.put(b'a', b'get')", "put"),
        ("", "answer"),
    ],
)
def test_what_a_line_asks_for(line: str, what: str) -> None:
    """Many methods, few kinds of answers."""
    assert asked(line) == what
    assert answers(line) == (what in ("value", "entries", "offset", "position"))


@pytest.mark.parametrize(
    ("expected", "found", "how"),
    [
        (b"1", None, "missing"),
        (None, b"1", "stale"),
        (None, b"9", "invented"),
        (b"2", b"1", "stale"),
        (b"2", b"9", "invented"),
        (b"1", "1", "mistyped"),
        (True, 1, "mistyped"),
        (True, False, "changed"),
        (5, 3, "lower"),
        (3, 5, "higher"),
        (3, None, "missing"),
        ([b"1", None], [b"1", b"9"], "invented"),
        ([b"1", b"2"], [b"1"], "missing"),
        ({b"a": b"2"}, {b"a": None}, "missing"),
        ({b"a": b"2"}, {b"a": b"2", b"b": b"1"}, "stale"),
        ([(b"a", b"1"), (b"b", b"2")], [(b"a", b"1")], "missing"),
        ([(b"a", b"1")], [(b"a", b"1"), (b"b", b"2")], "extra"),
        ([(b"a", b"1"), (b"b", b"2")], [(b"b", b"2"), (b"a", b"1")], "reordered"),
        ([(b"a", b"1")], [(b"a", b"1"), (b"a", b"1")], "repeated"),
        ([(b"a", b"1")], [(b"a", b"2")], "changed"),
    ],
)
def test_how_an_answer_differs(expected: Any, found: Any, how: str) -> None:
    """The value 1 had been written, the value 9 never."""
    assert difference(expected, found, "store.put(b'a', b'1')") == how


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.binary(), st.text())
ANSWERS = st.one_of(
    VALUES,
    st.lists(st.one_of(VALUES, st.tuples(st.binary(), VALUES))),
    st.dictionaries(st.binary(), VALUES),
)


@MODEL
@given(ANSWERS, ANSWERS)
def test_any_two_answers_differ_somehow(expected: Any, found: Any) -> None:
    """There is a word for each difference, and never an error."""
    assert difference(expected, found).isalpha()


@pytest.mark.parametrize(
    ("expected", "found", "read", "shape"),
    [
        ("no exception", "commit raised OSError: no space", "", "raised-OSError"),
        ("to return", "put() ended the process: SIGSEGV", "", "died-call"),
        ("to return", "put() did not return within 20 s", "", "hung-call"),
        ("put raises", "no exception; it returned None", "", "accepted-call"),
        ("b'a' to be b'1'", "None", "store.get(b'a')", "missing-value"),
        ("b'a' to be absent", "b'1'", "store.get(b'a')", "extra-value"),
        ("b'a' to be absent", "b'1', which was not committed", "", "early-answer"),
        ("one", "another", "", "changed-answer"),
    ],
)
def test_where_only_words_are_known(expected: str, found: str, read: str, shape: str) -> None:
    """Of a crash, what is known is what the judge says."""
    assert shape_of_words(expected, found, read) == shape


def test_an_error_is_told_by_its_class_and_its_call() -> None:
    """Whatever its text says."""
    assert shape_of_error(KeyError("a"), "store.put_if_absent(b'a', b'')") == (
        "raised-KeyError-put-if-absent"
    )
    assert shape_of_error(KeyError("b"), "") == "raised-KeyError-call"


def run_of(function: Any, directory: Path, **check: Any) -> CheckOutcome:
    """The outcome of a check of ours on a store that is right."""
    made = Check("kv.ours", ("KV-001",), function, check.get("given"), raw=False, weight=1)
    status = RunningCall(directory / "status", create=True)
    quick = Settings(profile="quick", seed=1)
    return run_check(CheckRun(made, load_subject("in-memory"), quick, directory, status))


def test_a_property_that_breaks_in_two_shapes_has_two_findings(tmp_path: Path) -> None:
    """Each is made small by itself, and has choices of its own kind."""

    def two_mistakes(t: Trial, number: int) -> None:
        t.claim("KV-001", "put, then get")
        store = t.open()
        store.put(b"a", b"%d" % number)
        found = store.get(b"a")
        if number > 20:
            found = None
        elif number > 10:
            found = b"other"
        t.expect(found, b"%d" % number)

    outcome = run_of(two_mistakes, tmp_path, given=lambda _: {"number": st.integers(0, 1000)})
    programs = {each.shape: each.program for each in outcome.findings}
    assert set(programs) == {"missing-value", "invented-value"}
    assert "store.put(b'a', b'21')" in programs["missing-value"]
    assert "store.put(b'a', b'11')" in programs["invented-value"]
    assert all(each.choices.examples for each in outcome.findings)


@pytest.fixture
def any_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take promises of a test as those of right stores, which keep none of them."""
    monkeypatch.setattr("streamproof.conformance.check_run.passes", lambda *_: True)


@pytest.mark.usefixtures("any_promise")
def test_a_program_compares_all_reads_that_were_compared(tmp_path: Path) -> None:
    """And none of those before the last comparison that held."""

    def several(t: Trial) -> None:
        t.claim("KV-001", "put, then get twice")
        store = t.open()
        t.expect(store.get(b"early"), None)
        store.put(b"a", b"1")
        t.expect([store.get(b"a"), store.get(b"b")], [b"1", b"2"])

    (finding,) = run_of(several, tmp_path).findings
    assert finding.shape == "missing-value"
    *_, early, put, first, second, last = finding.program.splitlines()
    assert early == "store.get(b'early')"
    assert put == "store.put(b'a', b'1')"
    assert first == "answer_3 = store.get(b'a')"
    assert second == "answer_4 = store.get(b'b')"
    assert last == "assert [answer_3, answer_4] == [b'1', b'2']  # found [b'1', None]"


@pytest.mark.usefixtures("any_promise")
def test_an_answer_that_is_compared_twice_is_asked_for_once(tmp_path: Path) -> None:
    """Asked again, an iterator would go on, and a deletion would find nothing."""

    def twice(t: Trial) -> None:
        t.claim("KV-001", "put, delete, and compare the answer twice")
        store = t.open()
        store.put(b"a", b"1")
        answer = store.delete(b"a")
        t.expect(answer, b"1")
        t.expect(answer, b"2")

    (finding,) = run_of(twice, tmp_path).findings
    *_, put, last = finding.program.splitlines()
    assert put == "store.put(b'a', b'1')"
    assert last == "assert store.delete(b'a') == b'2'  # found b'1'"


def test_a_program_that_right_stores_fail_only_refuses_the_wrong_answer(tmp_path: Path) -> None:
    """The check may compare another form of an answer than the program reads."""

    def upper(t: Trial) -> None:
        t.claim("KV-001", "put, and compare what the store never returns")
        store = t.open()
        store.put(b"a", b"1")
        t.expect(store.get(b"a"), b"ONE")

    (finding,) = run_of(upper, tmp_path).findings
    assert finding.program.splitlines()[-1].startswith("assert store.get(b'a') != b'1'  # ")


def outcome_of(check: str, *findings: tuple[str, str]) -> CheckOutcome:
    """An outcome with findings of a shape and a program."""
    return CheckOutcome(
        check=check,
        evidence=CheckEvidence(),
        findings=[
            CheckFinding(
                requirement="KV-001",
                tried="",
                expected="1",
                found=program,
                program=program,
                shape=shape,
            )
            for shape, program in findings
        ],
    )


def failures(*outcomes: CheckOutcome) -> list[Failure]:
    """The failures that follow."""
    requirement = load_catalogue()["KV-001"]
    return [each for each, _ in failures_of("s", requirement, outcomes, lambda o: o.check)]


def test_one_failure_for_each_shape_with_the_smallest_program() -> None:
    """The same shape found by several checks is one failure, which names the others."""
    first = outcome_of("kv.a", ("stale-value", "one\ntwo"), ("missing-value", "one\ntwo\nthree"))
    second = outcome_of("kv.b", ("stale-value", "one"))
    third = outcome_of("kv.c", ("stale-value", "one\ntwo\nthree"))
    stale, missing = failures(first, second, third)
    assert (stale.shape, stale.program, stale.check) == ("stale-value", "one", "kv.b")
    assert (stale.also_found_by, stale.reproduce) == (["kv.a", "kv.c"], "kv.b")
    assert (missing.shape, missing.check, missing.also_found_by) == ("missing-value", "kv.a", [])
    assert failures(third, second, first) == [stale, missing]
    result = result_of("s", load_catalogue()["KV-001"], [first, second, third])
    assert result.reason == "expected 1, found one (and 1 more)"
