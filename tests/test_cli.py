"""The command line, as a person at a terminal of 80 columns uses it."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import refused, run
from typer.main import get_command

import streamproof
from streamproof.cli import COMMANDS, app, main
from streamproof.conformance.catalogue import AREAS, load_catalogue, requirements_that_bind
from streamproof.conformance.clauses import PROPOSALS, STATES, load_proposal
from streamproof.exit_codes import ExitCode
from streamproof.reports.run_log import read_run_log
from streamproof.runs.exploration import ExploreRequest
from streamproof.stores.builtin import BUILTIN
from streamproof.stores.jvm.subjects import KAFKA

ROOT = Path(__file__).resolve().parents[1]
REPORTS = ["badge.json", "junit.xml", "report.html", "run.ndjson", "summary.md"]
MUTANT = "streamproof.conformance.mutants.store_mutants:tombstones_dropped_on_commit"


def test_version(tmp_path: Path) -> None:
    """One line that names the tool and its version."""
    assert run("--version", cwd=tmp_path).stdout == f"streamproof {streamproof.__version__}\n"


def test_help_lists_the_commands(tmp_path: Path) -> None:
    """Each with its summary, on a line of its own."""
    text = run("--help", cwd=tmp_path).stdout
    for name, entry in COMMANDS.items():
        assert f"  {name:12}  {entry.summary}\n" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command(name: str, tmp_path: Path) -> None:
    """It begins with the summary, every argument and option is described, and no line is cut."""
    module, _, function = COMMANDS[name].function.partition(":")
    command = getattr(importlib.import_module(f"streamproof.commands.{module}"), function)
    assert command.__doc__.splitlines()[0] == COMMANDS[name].summary
    text = run(name, "--help", cwd=tmp_path).stdout
    assert COMMANDS[name].summary in text
    for parameter in get_command(app).get_command(None, name).params:
        assert parameter.help
        assert parameter.help.endswith(".")
    assert max(map(len, text.splitlines())) < 80
    assert not re.search(r"list\[|x>=|[{]\w+[}]\.\.\.", text)


def test_requirements_may_be_named_one_by_one(tmp_path: Path) -> None:
    smoke = ("--profile", "smoke", "--seed", "1", "--no-bank")
    run("verify", "in-memory", "--only", "KV-001", "--only", "KV-002,KV-001", *smoke, cwd=tmp_path)
    assert read_run_log(tmp_path / "streamproof-out" / "run.ndjson").header.only == [
        "KV-001",
        "KV-002",
    ]


def test_defaults_that_help_names_are_those_of_an_exploration(tmp_path: Path) -> None:
    """Help is printed without importing what explores."""
    text = run("explore", "--help", cwd=tmp_path).stdout
    assert f"Run N worlds in all. Default: {ExploreRequest().runs}." in text
    assert f"Default: {ExploreRequest().shrink_runs:,}." in text


def test_a_misspelt_command_is_named_with_what_is_close(tmp_path: Path) -> None:
    """Although no command is imported before it is asked for."""
    done = run("requirments", cwd=tmp_path, code=3)
    assert "No such command 'requirments'" in done.stderr
    assert "'requirements'" in done.stderr


def test_the_module_is_the_command(tmp_path: Path) -> None:
    """`python -m streamproof` does the same."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "streamproof", "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert streamproof.__version__ in done.stdout


@pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), OSError(5, "Input/output error")])
def test_a_mistake_of_streamproof_is_no_verdict(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code of Python itself would say that a MUST is broken."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("streamproof.commands.requirements.load_catalogue", fail)
    monkeypatch.setattr(sys, "argv", ["streamproof", "requirements"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == ExitCode.SUITE_ERROR
    *trace, last = capsys.readouterr().err.splitlines()
    assert trace[-1] == f"{type(error).__name__}: {error}"
    assert last.startswith("streamproof: streamproof itself failed, which is no verdict.")


def test_all_requirements(tmp_path: Path) -> None:
    """Each has a line, with its level and title, and the areas are named."""
    lines = run("requirements", cwd=tmp_path).stdout.splitlines()
    listed = [line.split()[0] for line in lines if line[:1].isupper() and "-" in line.split()[0]]
    assert listed == list(load_catalogue())
    assert lines[-1] == f"Areas: {', '.join(AREAS)}"


@pytest.mark.parametrize("area", ["KV", "CRASH"])
def test_requirements_of_an_area(area: str, tmp_path: Path) -> None:
    """Only those of the area."""
    text = run("requirements", area, cwd=tmp_path).stdout
    for each in load_catalogue().values():
        assert (f"{each.id} " in text) == (each.area == area)


@pytest.mark.parametrize("identifier", ["KV-001", "CRASH-015"])
def test_one_requirement_in_full(identifier: str, tmp_path: Path) -> None:
    """Promise, source and what tests it, or why nothing does."""
    requirement = load_catalogue()[identifier]
    text = " ".join(run("requirements", identifier, cwd=tmp_path).stdout.split())
    assert text.startswith(f"{identifier} {requirement.title}")
    for part in (requirement.promise, requirement.source, *requirement.checks):
        assert " ".join(part.split()) in text
    assert requirement.untested in text


def test_an_unknown_requirement(tmp_path: Path) -> None:
    """It is named, with the command that lists those that there are."""
    assert "'KV-999'" in refused("requirements", "KV-999", cwd=tmp_path)


@pytest.mark.parametrize("name", PROPOSALS)
def test_the_clauses_of_a_proposal(name: str, tmp_path: Path) -> None:
    """Each clause with its requirements or what it lacks, by state, and how many there are."""
    proposal = load_proposal(name)
    lines = run("requirements", "--source", name, cwd=tmp_path).stdout.splitlines()
    listed = [line.split()[0] for line in lines if line.startswith(f"{name}/")]
    by_state = [each.id for state in STATES for each in proposal.in_state(state)]
    assert listed == by_state
    assert lines[0] == f"{name}: {proposal.title}"
    assert lines[-1] == f"Clauses: {proposal.total}."
    text = " ".join(lines)
    assert text.count("Shipped:") == sum(bool(each.shipped) for each in proposal.clauses)
    assert text.count("Lacking:") == sum(bool(each.lacks) for each in proposal.clauses)
    for each in proposal.clauses:
        assert all(requirement in text for requirement in each.requirements)


@pytest.mark.parametrize("name", ["KIP-98", ""])
def test_an_unknown_proposal(name: str, tmp_path: Path) -> None:
    """The five are named."""
    message = refused("requirements", "--source", name, cwd=tmp_path)
    assert all(each in message for each in PROPOSALS)
    assert "not both" in refused("requirements", "KV-001", "--source", "KIP-892", cwd=tmp_path)


def test_subjects(tmp_path: Path) -> None:
    """Each store that comes along, installed or not."""
    text = run("subjects", cwd=tmp_path).stdout
    for name in BUILTIN:
        assert name in text
    for name in KAFKA:
        assert name in text
    for word in ("java:CLASS#METHOD", "'cmd:COMMAND'", "path.py:factory"):
        assert word in text


def test_subjects_on_a_narrow_terminal(tmp_path: Path) -> None:
    """No name of a store or of a class is cut."""
    lines = run("subjects", cwd=tmp_path).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    words = set(" ".join(lines).split())
    assert {*BUILTIN, *KAFKA} <= words
    assert {word for text in KAFKA.values() for word in text.split()} <= words


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run of the in-memory store in an empty directory, and what it printed."""
    directory = tmp_path_factory.mktemp("smoke")
    done = run("verify", "in-memory", "--profile", "smoke", "--seed", "7", cwd=directory)
    assert done.stderr == ""
    return directory, done.stdout


def test_a_run_writes_all_reports(smoke: tuple[Path, str]) -> None:
    """Into one directory, and nowhere else."""
    directory, _ = smoke
    assert [path.name for path in directory.iterdir()] == ["streamproof-out"]
    out = directory / "streamproof-out"
    assert sorted(path.name for path in out.iterdir()) == REPORTS
    log = read_run_log(out / "run.ndjson")
    assert log.complete
    assert log.header.seed == 7
    assert len(log.results) == len(requirements_that_bind("store"))


def test_the_last_line_repeats_the_run(smoke: tuple[Path, str], tmp_path: Path) -> None:
    """The command can be pasted, and does the same."""
    directory, text = smoke
    last = text.splitlines()[-1]
    assert last == "streamproof verify in-memory --profile smoke --seed 7"
    run(*shlex.split(last.removeprefix("streamproof ")), cwd=tmp_path)
    one, two = (
        read_run_log(each / "streamproof-out" / "run.ndjson") for each in (directory, tmp_path)
    )
    statuses = [
        {result.requirement: (result.status, result.examples) for result in log.results}
        for log in (one, two)
    ]
    # How often a thread reads beside the commits depends on the machine.
    statuses = [
        {
            id_: (status, 0 if id_.startswith("ISO-") else tried)
            for id_, (status, tried) in each.items()
        }
        for each in statuses
    ]
    assert statuses[0] == statuses[1]


def test_a_report_can_be_rendered_again(smoke: tuple[Path, str], tmp_path: Path) -> None:
    """The same bytes, elsewhere."""
    directory, _ = smoke
    log = directory / "streamproof-out" / "run.ndjson"
    printed = run("report", log, "--out", tmp_path / "again", cwd=tmp_path).stdout.splitlines()
    assert sorted(Path(line).name for line in printed) == [r for r in REPORTS if r != "run.ndjson"]
    for line in printed:
        assert Path(line).read_bytes() == (log.parent / Path(line).name).read_bytes()


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    """A usage error that names the file."""
    assert "nowhere.ndjson" in refused("report", "nowhere.ndjson", cwd=tmp_path)


def test_a_file_in_place_of_the_output_directory(tmp_path: Path) -> None:
    """Nothing is run whose evidence could not be kept."""
    (tmp_path / "taken").write_text("mine")
    line = refused("verify", "in-memory", "--out", "taken", cwd=tmp_path)
    assert "'taken'" in line
    assert "--out" in line
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_work_directory_that_is_not_there(tmp_path: Path) -> None:
    """A usage error with a way out."""
    line = refused("verify", "in-memory", "--work-dir", "absent", cwd=tmp_path)
    assert "--work-dir" in line


@pytest.mark.parametrize("only", ["KV-999", "NOPE", "KV-001,XY", "kv-001"])
def test_an_unknown_requirement_in_only(only: str, tmp_path: Path) -> None:
    """Refused before anything is run."""
    assert repr(only.rpartition(",")[2]) in refused(
        "verify", "in-memory", "--only", only, cwd=tmp_path
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify",),
        ("verify", "in-memory", "--profile", "huge"),
        ("verify", "in-memory", "--seed", "-1"),
        ("verify", "in-memory", "-j", "0"),
        ("verify", "in-memory", "--timeout", "soon"),
        ("no-such-command",),
    ],
    ids=" ".join,
)
def test_a_wrong_command_line(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Exit code 3, as for every other usage error."""
    done = run(*arguments, cwd=tmp_path, code=3)
    assert done.stderr
    assert list(tmp_path.iterdir()) == []


def test_several_subjects_share_a_matrix(tmp_path: Path) -> None:
    """One column each, one verdict each; the worst is the exit code."""
    chosen = ("--only", "KV-001,KV-004", "--profile", "smoke", "--seed", "1")
    done = run("verify", "in-memory", "rocksdb", MUTANT, *chosen, cwd=tmp_path, code=1)
    lines = done.stdout.splitlines()
    (heading,) = (line for line in lines if line.startswith("area "))
    assert heading.index("in-memory") < heading.index("rocksdb")
    (row,) = (line for line in lines if line.startswith("Point operations"))
    assert row.count("✓") == 3
    assert row.count("✗1") == 1
    assert sum(line.startswith("SUCCESS") for line in lines) == 2
    assert sum(line.startswith("FAILURE") for line in lines) == 1
    log = read_run_log(tmp_path / "streamproof-out" / "run.ndjson")
    assert [subject.name for subject in log.header.subjects] == ["in-memory", "rocksdb", MUTANT]
    assert lines[-1] == (f"streamproof verify {MUTANT} --profile smoke --only KV-004 --seed 1")


def test_the_same_subject_twice_is_one(tmp_path: Path) -> None:
    """A name that is repeated is verified once."""
    run("verify", "in-memory", "in-memory", "--only", "KV-001", cwd=tmp_path)
    log = read_run_log(tmp_path / "streamproof-out" / "run.ndjson")
    assert len(log.results) == 1


def test_commands_and_programs_are_printed_whole(tmp_path: Path) -> None:
    """At 80 columns no command, path or line of a program is broken in the middle."""
    long = tmp_path / ("a-directory-with-a-very-long-name-" + "x" * 60)
    long.mkdir()
    out = long / "out"
    chosen = ("--only", "KV-004", "--profile", "smoke", "--seed", "1", "--out", out)
    done = run("verify", MUTANT, *chosen, cwd=long, code=1)
    lines = done.stdout.splitlines()
    (failure,) = read_run_log(out / "run.ndjson").failures
    assert f"  $ {failure.reproduce}" in lines
    assert f"Report: {out / 'report.html'}" in lines
    assert lines[-1] == failure.reproduce
    for line in failure.program.splitlines():
        assert f"    {line}" in lines
    commands = [line for line in lines if "streamproof verify" in line]
    assert all(line.endswith("--seed 1") for line in commands)


def test_no_markup_and_no_colour_where_nobody_looks(smoke: tuple[Path, str]) -> None:
    """Output that goes to a file has neither escape sequences nor trailing markup."""
    assert "\x1b" not in smoke[1]
    assert "[/" not in smoke[1]
