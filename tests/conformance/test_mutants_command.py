"""The command that prints the kill matrix, and what it writes."""

from __future__ import annotations

import json
import os
import signal
from importlib import resources
from pathlib import Path

import jsonschema
import msgspec
import pytest
from command_lines import CommandLine, until

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.check_records import Effort
from streamproof.conformance.kill_matrix import (
    MOST_TOGETHER,
    Trying,
    area_rows,
    group_of,
    group_runs,
    groups_of,
    row_of,
    select_mutants,
)
from streamproof.conformance.kill_results import MATRIX_VERSION, KillMatrix, MutantRow
from streamproof.conformance.mutants import MUTANTS
from streamproof.conformance.settings import Settings
from streamproof.reports.kill_matrix_report import (
    MATRIX_SCHEMA_FILE,
    matrix_schema_text,
    render_matrix,
)

MUTANT = next(each for each in MUTANTS if each.name == "empty_value_deletes")
KILLED = Trying(
    status="fail",
    reason="",
    by="kv.empty_value_is_a_value",
    effort=Effort(seconds=2.0, examples=5, crashes=1),
    right={"rocksdb": "pass"},
    collateral=[],
)


def run(line: CommandLine, *arguments: str) -> tuple[int, str, KillMatrix | None]:
    """Run the command; its exit code, what it printed, and the matrix that it wrote."""
    words = ["mutants", *arguments, "--profile", "smoke", "-j", "2"]
    words += ["--out", str(line.out), "--work-dir", str(line.work)]
    with line.start(*words) as process:
        stdout, stderr = process.communicate(timeout=240)
    line.expect_nothing_left()
    path = line.out / "mutants.json"
    matrix = msgspec.json.decode(path.read_bytes(), type=KillMatrix) if path.is_file() else None
    return process.returncode, stdout + stderr, matrix


def test_mutants_are_killed_and_the_matrix_is_written(command_line: CommandLine) -> None:
    """With two seeds; the numbers are of the moment at which the first wrong answer was seen."""
    code, text, matrix = run(
        command_line, "empty_value_deletes", "offsets_written_before_rows", "--seeds", "2"
    )
    assert code == 0, text
    assert "2 of 2 mutants killed" in text
    assert matrix is not None
    assert matrix.complete
    canary, plain = sorted(matrix.rows, key=lambda row: row.requirement)
    assert (canary.requirement, canary.outcome, canary.seeds) == ("CRASH-005", "killed", [0, 1])
    assert canary.by[0].startswith(("crash.", "overflow."))
    assert 0 < (canary.crashes or 0) <= (canary.examples or 0)
    assert (plain.by, plain.examples, plain.crashes) == (["kv.empty_value_is_a_value"], 1, 0)
    assert plain.right == {"rocksdb": "pass", "rocksdb-transactional": "pass"}
    assert (command_line.out / "mutants.md").read_text("utf-8") == render_matrix(matrix)


@pytest.mark.parametrize("more", [[], ["--rates"]], ids=["plain", "rates"])
def test_all_requirements_can_be_asked(command_line: CommandLine, more: list[str]) -> None:
    """What else a mutant breaks is told, and is not what kills it."""
    code, text, matrix = run(command_line, "duplicates_overwrite", "--all", *more)
    assert code == 0, text
    assert matrix is not None
    (row,) = matrix.rows
    # The first of its checks to come to an end.
    assert set(row.by) <= set(load_catalogue()[row.requirement].checks)
    assert "WIN-028" in row.collateral
    assert row.requirement not in row.collateral
    assert set(row.collateral) <= load_catalogue().keys()


def test_rates_are_told_without_right_stores(command_line: CommandLine) -> None:
    """A mutant that every seed finds is found by enough of them."""
    code, text, matrix = run(command_line, "empty_value_deletes", "--rates", "--seeds", "2")
    assert code == 0, text
    assert "1 of 1 mutants were found with at least 95% of their seeds." in text
    assert matrix is not None
    (row,) = matrix.rows
    assert (row.found, row.rate, row.right) == (2, 1.0, {})


def test_a_mutant_that_is_caught_needs_no_further_check(tmp_path: Path) -> None:
    """The check that caught it before comes first; if that one misses it, the others follow."""
    (mutant,) = select_mutants(["large_commits_in_parts"])
    settings = Settings(profile="smoke", shrinks=False)

    def run_checks(first: str) -> list[str]:
        (run,) = group_runs([mutant], settings, with_right=False, likely={mutant.subject: first})
        needless: list[int] = []
        run.run(tmp_path / first, 1, needless.append)
        assert run.finished(mutant)
        assert run.result(mutant.subject, mutant.requirement)[0].status == "fail"
        assert sum(needless) == len(run.outcomes)
        return [check for _, check in run.outcomes]

    assert run_checks("crash.large_commits") == ["crash.large_commits"]
    missed, *others = run_checks("crash.offsets_alone")
    assert missed == "crash.offsets_alone"
    assert others
    assert {missed, *others} < {*load_catalogue()[mutant.requirement].checks}


def test_ctrl_c_keeps_what_is_done(command_line: CommandLine) -> None:
    """What was found out is written, as an incomplete matrix, and nothing is left behind."""
    out, log = command_line.out, command_line.cwd / "printed"
    words = ["mutants", "empty_value_deletes", "--profile", "smoke", "--seeds", "1000"]
    words += ["--out", str(out), "--work-dir", str(command_line.work)]
    with log.open("w") as printed, command_line.start(*words, stdout=printed) as process:
        try:
            assert until(lambda: "killed by" in log.read_text())
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)
        finally:
            process.kill()
    command_line.expect_nothing_left()
    assert process.returncode == 130
    matrix = msgspec.json.decode((out / "mutants.json").read_bytes(), type=KillMatrix)
    assert not matrix.complete
    (row,) = matrix.rows
    assert row.outcome == "killed"
    assert 0 < len(row.seeds) < 1000
    assert "Interrupted" in log.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_mutant"], "no mutant 'no_such_mutant'"),
        (["--only", "NOPE"], "no requirement or area 'NOPE'"),
        (["empty_value_deletes", "--only", "CRASH"], "No mutant is bound"),
    ],
)
def test_what_is_not_there_is_refused(
    command_line: CommandLine, arguments: list[str], message: str
) -> None:
    """Before anything is run."""
    code, text, matrix = run(command_line, *arguments)
    assert code == 3
    assert message in text
    assert matrix is None


def test_the_list_names_all(command_line: CommandLine) -> None:
    """Without a run, and without a file."""
    code, text, matrix = run(command_line, "--list")
    assert code == 0
    assert all(mutant.name in text for mutant in MUTANTS)
    assert matrix is None


# From what was found to a row.


def test_a_row_has_the_medians_of_the_seeds() -> None:
    """The most frequent check comes first."""
    slow = KILLED._replace(by="kv.other", effort=Effort(seconds=9.0, examples=1, crashes=0))
    row = row_of(MUTANT, {0: slow, 1: KILLED, 2: KILLED})
    assert (row.outcome, row.seeds, row.reason) == ("killed", [0, 1, 2], "")
    assert row.by == ["kv.empty_value_is_a_value", "kv.other"]
    assert (row.seconds, row.examples, row.crashes) == (2.0, 5, 1)


def test_one_seed_that_misses_it_is_enough_to_survive() -> None:
    """And the seed is named."""
    missed = Trying("pass", "", "", None, {"rocksdb": "pass"}, [])
    row = row_of(MUTANT, {0: KILLED, 7: missed})
    assert (row.outcome, row.reason) == ("survived", "pass with seed 7")
    assert (row.found, row.rate) == (1, 0.5)


@pytest.mark.parametrize("status", ["fail", "skip", "error"])
def test_a_right_store_that_does_not_pass_is_a_false_alarm(status: str) -> None:
    """Whatever kept it from it."""
    alarm = KILLED._replace(right={"rocksdb": status})
    row = row_of(MUTANT, {0: alarm, 1: KILLED})
    assert (row.outcome, row.reason) == ("false alarm", f"rocksdb with seed 0: {status}")
    assert row.right == {"rocksdb": status}


def test_groups_are_small_and_of_one_kind() -> None:
    """And all mutants are in one of them."""
    groups = groups_of(MUTANTS)
    assert sorted(each.name for group in groups for each in group) == sorted(
        each.name for each in MUTANTS
    )
    for group in groups:
        assert len(group) <= MOST_TOGETHER
        assert len({group_of(each) for each in group}) == 1


def test_every_area_has_mutants() -> None:
    """No area is without one, so that none is all talk."""
    rows = [row_of(each, {0: KILLED}) for each in MUTANTS]
    for area in area_rows(rows):
        assert area.killed == area.mutants > 0, area.title
        assert area.with_mutants <= area.requirements


# What is written.


def matrix_of(*rows: MutantRow, complete: bool = True) -> KillMatrix:
    """A matrix with these rows."""
    return KillMatrix(
        matrix_version=MATRIX_VERSION,
        tool_version="1.0",
        profile="quick",
        seed=3,
        seeds=1,
        everything=False,
        complete=complete,
        duration_s=1.5,
        rows=list(rows),
        areas=area_rows(rows),
    )


def test_the_page_in_markdown() -> None:
    """A row a mutant; what survived stands out; text of others ends no cell."""
    killed = row_of(MUTANT, {3: KILLED})
    survived = msgspec.structs.replace(killed, outcome="survived", reason="a | b")
    page = render_matrix(matrix_of(killed, survived, complete=False))
    assert page.startswith("## 1 of 2 mutants killed\n")
    assert "Interrupted" in page
    (line,) = (each for each in page.splitlines() if "KV-008 | killed |" in each)
    assert "| killed | 1 of 1 | kv.empty\\_value\\_is\\_a\\_value | 2.00 | 5 | 1 |" in line
    assert "SURVIVED: a \\| b" in page
    assert "| Point operations | " in page


def test_the_published_schema_is_the_generated_one() -> None:
    """The committed file equals what the record types give (the update switch rewrites it)."""
    published = resources.files("streamproof.reports").joinpath(MATRIX_SCHEMA_FILE)
    if os.environ.get("STREAMPROOF_UPDATE_GOLDENS") == "1":
        Path(str(published)).write_text(matrix_schema_text(), encoding="utf-8")
    assert published.read_text("utf-8") == matrix_schema_text()


def test_a_matrix_fits_the_schema_and_another_does_not() -> None:
    """An independent validator agrees."""
    validator = jsonschema.Draft202012Validator(json.loads(matrix_schema_text()))
    matrix = json.loads(msgspec.json.encode(matrix_of(row_of(MUTANT, {3: KILLED}))))
    validator.validate(matrix)
    matrix["rows"][0]["outcome"] = "wounded"
    assert not validator.is_valid(matrix)
