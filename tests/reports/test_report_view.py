"""How a run log is arranged, counted and judged."""

from __future__ import annotations

import msgspec
import pytest
from sample_logs import failure, footer, good_log, header, mixed_log, realistic_log, result

from streamproof.conformance.results import RequirementResult, Verdict
from streamproof.conformance.verdict_rule import Outcome
from streamproof.reports.headlines import headline, subline
from streamproof.reports.report_builder import build_view
from streamproof.reports.run_log import RunLog
from streamproof.reports.wording import duration


def _judged(*results: RequirementResult, stated: Verdict = "success") -> RunLog:
    return RunLog(
        header=header("rocksdb"),
        results=list(results),
        failures=[],
        footer=footer(list(results), {"rocksdb": stated}),
    )


def test_areas_have_a_fixed_order_and_unknown_ones_come_last() -> None:
    """The order is the report's, not the log's."""
    wanted = ["LIFE", "KV", "RANGE", "OFFSET", "COMMIT", "TXN", "ISO", "CRASH", "RESTORE", "ERR"]
    ids = [f"{area}-001" for area in ("ZZ", *reversed(wanted), "AA")]
    view = build_view(_judged(*(result(requirement=each) for each in ids)))
    assert [area.code for area in view.areas] == [*wanted, "AA", "ZZ"]


def test_failures_come_worst_first() -> None:
    """MUST before SHOULD, core before extended."""
    assert [each.record.requirement for each in build_view(mixed_log()).failures] == [
        "CRASH-002",
        "XTRA-001",
    ]


def test_evidence_is_summed_over_checks() -> None:
    """Examples, operations and kills count once, however many requirements a check serves."""
    log = good_log()
    (subject,) = build_view(log).subjects
    again = msgspec.structs.replace(log.results[1], requirement="CRASH-002")
    shared = msgspec.structs.replace(log, results=[*log.results, again])
    (same,) = build_view(shared).subjects
    assert same.evidence == subject.evidence
    assert (subject.evidence.examples, subject.evidence.operations) == (300, 12651)
    assert subject.evidence.crashes == {"boundary": 12, "line": 31, "syscall": 9}
    assert subject.evidence.kills == 52


def test_a_planned_requirement_that_was_never_reached_is_shown() -> None:
    """The header of a run that died names what it had planned."""
    log = mixed_log(complete=False)
    header = msgspec.structs.replace(log.header, requirements=["KV-001", "KV-099"])
    rows = {
        row.requirement: row
        for area in build_view(msgspec.structs.replace(log, header=header)).areas
        for row in area.rows
    }
    assert [cell.status for cell in rows["KV-099"].cells] == ["no result", "no result"]


def test_a_requirement_without_a_result_is_shown_as_such() -> None:
    """The quix subject has no row of its own for one requirement of rocksdb."""
    log = mixed_log()
    log.results.pop(3)
    (row,) = (row for row in build_view(log).rows if row.requirement == "KV-001")
    assert [cell.status for cell in row.cells] == ["pass", "no result"]


def test_an_incomplete_log_is_never_a_pass() -> None:
    """Without a footer there is no verdict, even if every result so far is a pass."""
    log = msgspec.structs.replace(good_log(), footer=None)
    view = build_view(log)
    assert view.outcome == "incomplete"
    assert view.subjects[0].outcome == "incomplete"
    assert headline(view) == "This run did not finish; it left 3 results and no verdict"
    assert "nothing was found broken" in subline(view)


def test_a_failure_without_its_result_is_a_failure() -> None:
    """A run that died between the two records does not lose what it found."""
    broken = result(requirement="CRASH-001", status="fail")
    log = RunLog(header=header("rocksdb"), results=[], failures=[failure(broken)], footer=None)
    view = build_view(log)
    assert view.rows[0].cells[0].status == "fail"
    assert view.subjects[0].core.broken == 1


def test_a_failed_result_without_its_failure_is_listed() -> None:
    """It has no program, but it is not forgotten."""
    view = build_view(_judged(result(status="fail", reason="torn"), stated="failure"))
    assert [each.record.found for each in view.failures] == ["torn"]
    assert view.rows[0].cells[0].anchor == view.failures[0].anchor


@pytest.mark.parametrize(
    ("results", "best"),
    [
        ([result()], "success"),
        ([result(), result(requirement="KV-002", status="unsupported")], "success"),
        ([result(status="fail")], "failure"),
        ([result(status="fail", core=False)], "failure"),
        ([result(), result(requirement="KV-002", status="fail", level="SHOULD")], "partial"),
        ([result(), result(requirement="KV-002", status="fail", level="MAY")], "partial"),
        ([result(), result(requirement="KV-002", status="error")], "error"),
        ([result(), result(requirement="KV-002", status="known")], "partial"),
        ([result(), result(requirement="KV-002", status="known", core=False)], "partial"),
        ([result(), result(requirement="KV-002", status="skip")], "partial"),
        ([result(), result(requirement="KV-002", status="skip", core=False)], "success"),
        ([result(status="unsupported")], "partial"),
        ([], "error"),
    ],
)
def test_no_verdict_is_better_than_its_results(
    results: list[RequirementResult], best: Outcome
) -> None:
    """A footer that says success is believed only as far as the results allow."""
    view = build_view(_judged(*results))
    assert view.outcome == best
    assert view.subjects[0].outcome == best


def test_a_stated_verdict_is_never_improved() -> None:
    """The footer may know of something worse than the results show."""
    view = build_view(_judged(result(), stated="error"))
    assert view.outcome == "error"


def test_a_subject_without_a_verdict_is_incomplete() -> None:
    """A footer that leaves one out does not make it a success."""
    log = mixed_log()
    log.header.subjects.append(header("late").subjects[0])
    view = build_view(log)
    assert view.subjects[2].outcome == "incomplete"
    assert view.outcome == "failure"


def test_no_subject_is_no_success() -> None:
    """A run over nothing proves nothing."""
    log = RunLog(header=header(), results=[], failures=[], footer=footer([], {}))
    view = build_view(log)
    assert (view.outcome, headline(view)) == ("error", "No subject was tested")


def test_not_asked_is_left_out_of_the_count_and_a_skip_is_not() -> None:
    """Of n of m: unsupported and untested are not in m; skip, error and no result are."""
    rocksdb, quix = build_view(mixed_log()).subjects
    assert (rocksdb.core.passed, rocksdb.core.asked) == (2, 3)
    assert (rocksdb.extended.passed, rocksdb.extended.asked) == (0, 0)
    assert (quix.core.passed, quix.core.asked) == (0, 2)


def test_the_headline_names_the_worst_subject() -> None:
    """One sentence for the worst, and a calm one for the others."""
    view = build_view(realistic_log("rocksdb", "quixstreams", "faust-streaming"))
    assert headline(view) == (
        "faust-streaming breaks 6 of 58 requirements (6 core, 1 probable cause)"
    )
    assert subline(view) == (
        "quixstreams breaks 2 of 64 requirements (2 core, 1 probable cause); "
        "rocksdb keeps all 58 core requirements."
    )


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([result()], "rocksdb keeps all 1 core requirement"),
        ([result(core=False)], "rocksdb keeps all 1 extended requirement"),
        (
            [result(status="fail"), result(requirement="KV-002", status="fail", core=False)],
            "rocksdb breaks 2 of 2 requirements (1 core)",
        ),
        ([result(status="error")], "rocksdb left 1 requirement without an answer"),
        (
            [result(), result(requirement="KV-002", status="known")],
            "rocksdb breaks 1 requirement, in ways that are known",
        ),
        (
            [result(), result(requirement="KV-002", status="skip")],
            "rocksdb breaks nothing, but 1 core requirement went untried",
        ),
        ([result(status="unsupported")], "rocksdb was asked nothing that it could keep or break"),
    ],
)
def test_every_kind_of_run_has_its_sentence(results: list[RequirementResult], said: str) -> None:
    """Each headline says what was found, and no more."""
    assert headline(build_view(_judged(*results))) == said


def test_anchors_are_harmless_and_unique() -> None:
    """Subjects whose names differ only in what a URL cannot hold get anchors of their own."""
    names = ["a:b", "a/b", 'a"b']
    broken = [result(name, status="fail") for name in names]
    log = RunLog(
        header=header(*names),
        results=broken,
        failures=[failure(each) for each in broken],
        footer=footer(broken, dict.fromkeys(names, "failure")),
    )
    anchors = [each.anchor for each in build_view(log).failures]
    assert anchors == ["f-a-b-KV-001", "f-a-b-KV-001-2", "f-a-b-KV-001-3"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0.0 s"), (9.94, "9.9 s"), (12, "12 s"), (59.7, "1 min 0 s"), (7260, "2 h 1 min")],
)
def test_durations_read_well(seconds: float, said: str) -> None:
    """No length of time is printed as 60 seconds or 119 minutes."""
    assert duration(seconds) == said


def test_several_successes_share_one_sentence() -> None:
    """Nobody is singled out when there is nothing to single out."""
    view = build_view(realistic_log("one", "two"))
    assert headline(view) == "All 2 subjects keep every core requirement asked of them"
    assert not subline(view)
