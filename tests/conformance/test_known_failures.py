"""Known failures: set aside until a day, shown with a reason, and never a pass."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from command_lines import SUBJECTS, CommandLine

from streamproof.conformance.known_failures import KnownFailures, read_known_failures
from streamproof.conformance.results import Failure, RequirementResult, Status
from streamproof.conformance.verdicts import exit_code, verdict_of
from streamproof.errors import UsageError

TODAY = date(2026, 3, 4)
BAD = f"{SUBJECTS / 'bad_stores.py'}:delete_raises"

ENTRY = """
[[known]]
subject = "*:delete_raises"
requirement = "KV-006"
reason = "it is being written"
expires = 2099-12-31
"""


def known_from(text: str, directory: Path, today: date = TODAY) -> KnownFailures:
    """The known failures of a file with this text."""
    path = directory / "known.toml"
    path.write_text(text)
    return read_known_failures(path, today)


def failure(subject: str = "a:delete_raises", shape: str = "stale-value") -> Failure:
    """A failure of KV-006."""
    texts = dict.fromkeys(
        ("title", "promise", "source", "tried", "program", "expected", "found", "reproduce"), ""
    )
    return Failure(
        subject=subject, requirement="KV-006", check="kv.x", level="MUST", shape=shape, **texts
    )


def result(status: Status, requirement: str = "KV-006", level: str = "MUST") -> RequirementResult:
    """A result of the store that the entry is about."""
    return RequirementResult(
        subject="a:delete_raises",
        requirement=requirement,
        title="",
        promise="",
        source="",
        level=level,  # type: ignore[arg-type]
        core=True,
        status=status,
    )


def test_an_entry_covers_what_it_names(tmp_path: Path) -> None:
    """A pattern of subjects, a requirement, and a shape if it has one."""
    known = known_from(ENTRY + 'shape = "stale-value"\nlink = "https://example.org/1"\n', tmp_path)
    assert known.reason_for(failure()) == (
        "it is being written (until 2099-12-31; https://example.org/1)"
    )
    assert known.reason_for(failure(shape="missing-value")) == ""
    assert known.reason_for(failure(subject="a:other")) == ""


def test_an_entry_counts_up_to_its_last_day(tmp_path: Path) -> None:
    """And is warned of from the next day on."""
    last = known_from(ENTRY, tmp_path, date(2099, 12, 31))
    assert last.reason_for(failure())
    assert last.warnings([result("known")]) == []
    after = known_from(ENTRY, tmp_path, date(2100, 1, 1))
    assert after.reason_for(failure()) == ""
    (warning,) = after.warnings([result("fail")])
    assert "expired on 2099-12-31" in warning


@pytest.mark.parametrize(
    ("results", "text"),
    [
        ([result("pass")], "did not occur again"),
        ([result("fail")], "has another shape now"),
        ([result("unsupported")], "matches nothing: this run tried it on no such subject"),
        ([], ""),
        ([result("skip")], ""),
        ([result("pass", "KV-001")], ""),
    ],
)
def test_an_entry_that_is_of_no_use_is_warned_of(
    results: list[RequirementResult], text: str, tmp_path: Path
) -> None:
    """Unless its requirement was not selected, or nothing is known about it now."""
    warnings = known_from(ENTRY, tmp_path).warnings(results)
    assert len(warnings) == bool(text)
    assert all(text in each for each in warnings)


@pytest.mark.parametrize(
    ("wrong", "line", "word"),
    [
        (ENTRY.replace("2099-12-31", "2099-13-31"), 6, "line 6"),
        (ENTRY.replace("2099-12-31", '"soon"'), 6, "date"),
        (ENTRY.replace("reason", "because"), 5, "because"),
        (ENTRY.replace("KV-006", "KV-999"), 4, "KV-999"),
        (ENTRY.replace('"KV-006"', "6"), 4, "requirement"),
        (ENTRY + ENTRY.replace('reason = "it is being written"\n', ""), 8, "reason"),
        (ENTRY.replace("[[known]]", "[[knwon]]"), 1, "knwon"),
        ("known = 3", 1, "known"),
        ("", 1, "known"),
    ],
)
def test_a_file_that_is_wrong_is_refused(wrong: str, line: int, word: str, tmp_path: Path) -> None:
    """With the line and the field."""
    with pytest.raises(UsageError) as refusal:
        known_from(wrong, tmp_path)
    text = str(refusal.value)
    assert f"line {line}" in text
    assert word in text
    assert str(tmp_path / "known.toml") in text


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """Nothing is quietly unknown."""
    with pytest.raises(UsageError, match=r"absent\.toml: cannot be read"):
        read_known_failures(tmp_path / "absent.toml", TODAY)


def test_a_known_failure_is_partial_and_ends_with_0() -> None:
    """Whatever else is wrong still counts."""
    both = [result("known"), result("pass", "KV-001")]
    verdict = verdict_of("s", both)
    assert verdict.verdict == "partial"
    assert "KV-006" in verdict.summary
    assert exit_code("partial", {"s": both}) == 0
    assert exit_code("partial", {"s": [result("known")]}) == 0
    assert exit_code("partial", {"s": [*both, result("skip", "KV-002")]}) == 2
    assert exit_code("partial", {"s": [*both, result("fail", "KV-002", "SHOULD")]}) == 2
    assert exit_code("partial", {"s": both, "t": [result("skip")]}) == 2
    assert verdict_of("s", [*both, result("fail", "KV-002")]).verdict == "failure"
    assert verdict_of("s", [*both, result("error", "KV-002")]).verdict == "error"


def test_a_known_failure_in_a_run(command_line: CommandLine) -> None:
    """It is in all records with its reason; the run ends well, and the next one without it not."""
    # The check of the empty key deletes, too.
    both = ENTRY + ENTRY.replace("KV-006", "KV-012")
    (command_line.cwd / "known.toml").write_text(both)
    options = ("--only", "KV-001,KV-006", "--no-bank")
    with_it = command_line.verify(BAD, *options, "--known-failures", "known.toml")
    assert with_it.code == 0, with_it.stdout + with_it.stderr
    assert with_it.results["KV-006"].status == "known"
    assert with_it.results["KV-001"].status == "pass"
    assert with_it.failures["KV-006"].known == "it is being written (until 2099-12-31)"
    footer = with_it.log.footer
    assert footer is not None
    assert (footer.verdict, footer.exit_code) == ("partial", 0)
    for name in ("report.html", "summary.md", "junit.xml"):
        text = (with_it.out / name).read_text()
        assert "known" in text
        assert "it is being written" in text
    assert "known" in with_it.stdout

    without = command_line.verify(BAD, *options)
    assert without.code == 1
    assert without.results["KV-006"].status == "fail"
