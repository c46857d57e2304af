"""The engine under pressure: killed, interrupted, and asked the same thing twice."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest
from command_lines import REPORTS, CommandLine, processes_with, until
from msgspec.structs import replace

from streamproof.conformance.canary import CANARY_SUBJECT
from streamproof.conformance.check_engine import Engine
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.failure_groups import group_failures
from streamproof.conformance.known_failures import KnownFailure, KnownFailures
from streamproof.conformance.results import SCHEMA_VERSION, Footer, Header, SubjectInfo
from streamproof.conformance.settings import Settings
from streamproof.conformance.verify_session import Observer, Session, select_requirements
from streamproof.conformance.work_directory import work_directory
from streamproof.errors import UsageError
from streamproof.reports.render import render_all
from streamproof.reports.run_log import RunLogWriter, read_run_log

ROOT = Path(__file__).resolve().parents[2]
SIDE_FILE = f"{ROOT / 'examples' / 'sqlite_side_file.py'}:make"


def start_and_wait_for_results(line: CommandLine) -> subprocess.Popen[str]:
    """A run that has found something out, and is far from its end."""
    process = line.start(*line.verify_arguments("rocksdb", "in-memory", profile="full"))
    log = line.out / "run.ndjson"

    def under_way() -> bool:
        results = log.read_bytes().count(b'"type":"result"') if log.is_file() else 0
        return results > 60 and len(processes_with(line.marker)) > 4

    assert until(under_way)
    assert process.poll() is None
    return process


def test_a_supervisor_that_is_killed_leaves_nothing_but_its_log(
    command_line: CommandLine,
) -> None:
    """No process, no database; the log is rendered as a run that died, and never as a pass."""
    with start_and_wait_for_results(command_line) as process:
        process.kill()
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    command_line.expect_nothing_left()
    log = read_run_log(command_line.out / "run.ndjson")
    assert not log.complete
    assert len(log.results) > 60
    with command_line.start("report", str(command_line.out / "run.ndjson")) as report:
        stdout, stderr = report.communicate(timeout=60)
    assert (report.returncode, stderr) == (0, "")
    assert len(stdout.splitlines()) == len(REPORTS) - 1
    assert "incomplete" in (command_line.out / "summary.md").read_text("utf-8").lower()
    badge = (command_line.out / "badge.json").read_text("utf-8")
    assert "incomplete" in badge
    assert "green" not in badge


def test_ctrl_c_keeps_what_was_found(command_line: CommandLine) -> None:
    """Exit code 130, the reports are rendered, and the last line tells how to run it again."""
    with start_and_wait_for_results(command_line) as process:
        # A terminal sends it to the whole foreground group.
        os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr == ""
    command_line.expect_nothing_left()
    assert not read_run_log(command_line.out / "run.ndjson").complete
    assert sorted(path.name for path in command_line.out.iterdir()) == sorted(REPORTS)
    last = stdout.splitlines()[-1]
    assert last.endswith("streamproof verify rocksdb in-memory --profile full --seed 1")


def outcomes(plan: dict[str, list[str]], jobs: int) -> dict[tuple[str, str], Any]:
    """What checks find out, without how long they took."""
    found: dict[tuple[str, str], Any] = {}

    def keep(subject: str, outcome: CheckOutcome) -> None:
        first = {name: replace(effort, seconds=0.0) for name, effort in outcome.first.items()}
        outcome = replace(outcome, duration_s=0.0, first=first)
        found[subject, outcome.check] = msgspec.to_builtins(outcome, order="deterministic")

    checks = load_checks()
    settings = Settings(profile="smoke", seed=5)
    with work_directory() as directory, Engine(settings, directory, jobs) as engine:
        engine.load(plan)
        pairs = [(subject, checks[name]) for subject, names in plan.items() for name in names]
        engine.run(pairs, keep)
    return found


PLAIN = [name for name, check in load_checks().items() if not check.raw]
CRASHES = ["crash.between_operations", "crash.in_every_line_of_commit"]
RANDOM = "model.random_programs"
MUTANTS = "streamproof.conformance.mutants.store_mutants"
PLAN = {
    "in-memory": [*(name for name in PLAIN if name.startswith(("kv.", "restoration."))), RANDOM],
    SIDE_FILE: [*(name for name in PLAIN if name.startswith("commits.")), RANDOM, *CRASHES],
    f"{MUTANTS}:prefix_end_overflows": ["range.prefix_scan", RANDOM],
    f"{MUTANTS}:range_end_exclusive": ["range.bounds", "range.reverse_is_the_reverse", RANDOM],
    f"{MUTANTS}:tombstones_dropped_on_commit": ["kv.delete_survives_commits", RANDOM],
}


def test_the_same_seed_gives_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many checks run at a time, and whatever order sets have: programs included."""
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    one = outcomes(PLAN, jobs=1)
    monkeypatch.setenv("PYTHONHASHSEED", "2")
    two = outcomes(PLAN, jobs=2)
    assert one.keys() == two.keys()
    differing = [key for key in one if one[key] != two[key]]
    assert {key: (one[key], two[key]) for key in differing} == {}
    broken = {finding["requirement"] for each in one.values() for finding in each["findings"]}
    assert {"CRASH-004", "KV-004", "COMMIT-008"} <= broken


NOTING = """
import os
from pathlib import Path
from streamproof.stores.memory import InMemoryKeyValueStore

class Noting(InMemoryKeyValueStore):
    def put(self, key, value):
        with Path(os.environ["NOTES"], str(os.getpid())).open("a") as notes:
            notes.write(f"{key!r} {value!r}\\n")
        super().put(key, value)

def make():
    return Noting("noting")
"""


def test_what_a_check_draws_follows_from_its_seed_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not from the modules that checks before it have loaded, such as the simulator's."""
    (tmp_path / "noting.py").write_text(NOTING)
    subject, drawn = f"{tmp_path / 'noting.py'}:make", ["kv.keys_are_exact", "kv.put_all_in_order"]

    def notes(checks: list[str]) -> set[str]:
        """What the store was told in each process."""
        directory = tmp_path / checks[0]
        directory.mkdir()
        monkeypatch.setenv("NOTES", str(directory))
        outcomes({subject: checks}, jobs=1)
        return {each.read_text() for each in directory.iterdir()}

    alone, after = notes(drawn), notes(["protocol.same_twice", *drawn])
    assert len(alone) == len(drawn)
    assert alone < after


def reports_of(directory: Path, jobs: int) -> dict[str, str]:
    """The reports of a run in which promises are kept, broken, and not claimed, without times."""
    directory.mkdir()
    settings = Settings(profile="smoke", seed=5)
    with (
        work_directory() as work,
        Engine(settings, work, jobs) as engine,
        RunLogWriter(directory / "run.ndjson") as log,
    ):
        infos = engine.load(["in-memory", f"{MUTANTS}:tombstones_dropped_on_commit"])
        session = Session(infos, settings, select_requirements(["KV", "COMMIT"]))
        log.write(
            Header(
                schema_version=SCHEMA_VERSION,
                run_id="run",
                tool_version="0",
                started_at="",
                seed=settings.seed,
                profile=settings.profile,
                guarantee=settings.guarantee,
                spec=settings.spec,
                only=[],
                command="",
                subjects=list(infos.values()),
            )
        )

        class Writing(Observer):
            """Writes every record."""

            def record(self, record: Any) -> None:
                log.write(record)

        session.run(engine, Writing())
        first = group_failures(session.failures)[0].first
        log.write(
            Footer(
                finished_at="",
                duration_s=0.0,
                verdict="failure",
                exit_code=1,
                verdicts=session.verdicts(),
                reproduce=first.reproduce,
            )
        )
    paths = render_all(directory / "run.ndjson", directory)
    times = re.compile(r"\d+\.\d+( s)?|\d+( min \d+)? s\b")
    return {name: times.sub("", path.read_text()) for name, path in paths.items()}


def test_reports_are_the_same_for_any_number_of_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever check ends first and however Python hashes, apart from durations.

    So are statuses, failures, order and verdicts.
    """
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    one = reports_of(tmp_path / "one", jobs=1)
    monkeypatch.setenv("PYTHONHASHSEED", "2")
    four = reports_of(tmp_path / "four", jobs=4)
    assert one == four
    assert "KV-004" in one["markdown"]


def test_another_seed_gives_other_programs() -> None:
    """The seed is used: what a run does follows from it. Two seeds may make as many calls."""
    found = []
    for seed in (1, 2, 3):
        settings = Settings(profile="smoke", seed=seed)
        with work_directory() as directory, Engine(settings, directory, jobs=1) as engine:
            engine.load(["in-memory"])
            each: list[int] = []
            engine.run(
                [("in-memory", load_checks()[RANDOM])],
                lambda _, outcome, each=each: each.append(outcome.evidence.operations),
            )
            found += each

    assert len({*found}) > 1


def test_an_engine_can_run_again_and_stops_twice(tmp_path: Path) -> None:
    """A test runner asks for one check after another; a stopped engine has left no process."""
    engine = Engine(Settings(profile="smoke"), tmp_path, jobs=1)
    engine.load(["in-memory"])
    found: list[CheckOutcome] = []
    for name in ("kv.put_then_get", "kv.empty_key"):
        engine.run([("in-memory", load_checks()[name])], lambda _, each: found.append(each))
    assert [each.check for each in found] == ["kv.put_then_get", "kv.empty_key"]
    assert all(each.evidence.exercised for each in found)
    engine.stop()
    engine.stop()


def test_a_failure_is_noticed_before_its_program_is_small(tmp_path: Path) -> None:
    """Nobody waits for the shrinking to learn of a failure, and no right store is suspected."""
    told: list[tuple[str, str]] = []
    check = load_checks()["crash.in_every_line_of_commit"]
    with Engine(Settings(profile="smoke"), tmp_path, jobs=1) as engine:
        engine.load([SIDE_FILE, "rocksdb"])
        for subject in (SIDE_FILE, "rocksdb"):
            engine.run(
                [(subject, check)],
                lambda subject, outcome: told.append((subject, f"{len(outcome.findings)} found")),
                lambda *noticed: told.append(noticed),
            )
    (subject, requirement), (_, found), right = told
    assert subject == SIDE_FILE
    assert requirement in check.requirements
    assert found != "0 found"
    assert right == ("rocksdb", "0 found")


def test_a_check_that_sums_up_suspects_its_own_requirement(tmp_path: Path) -> None:
    """A lost commit without a journal is one of a promise about commits, until it is reported."""
    told: list[tuple[str, str]] = []
    subject = "streamproof.conformance.mutants.power_mutants:directory_made_without_a_sync"
    with Engine(Settings(profile="smoke"), tmp_path, jobs=1) as engine:
        engine.load([subject])
        engine.run(
            [(subject, load_checks()["power.without_a_journal"])],
            lambda subject, outcome: told.extend(
                (subject, n.requirement) for n in outcome.findings
            ),
            lambda *noticed: told.append(noticed),
        )
    assert len(told) > 1
    assert set(told) == {(subject, "POWER-014")}


def test_only_what_can_fail_the_run_is_suspected() -> None:
    """Nothing is told of what nobody asks for, of known failures, and of the canary."""
    told: list[tuple[str, str]] = []

    class Noting(Observer):
        """Keeps what is noticed."""

        def noticed(self, subject: str, requirement: str) -> None:
            told.append((subject, requirement))

    known = KnownFailure(subject="mine", requirement="KV-002", reason="r", expires=date.max)
    info = SubjectInfo(name="mine", version="1", capabilities={})
    session = Session(
        {"mine": info}, Settings(), select_requirements(["KV"]), known=KnownFailures([known])
    )
    notice = session._noticing(Noting())
    for subject, requirement in [
        ("mine", "CRASH-003"),
        ("mine", "KV-002"),
        (CANARY_SUBJECT, "KV-001"),
        ("mine", "KV-001"),
    ]:
        notice(subject, requirement)
    assert told == [("mine", "KV-001")]


def test_no_job_of_an_engine_has_the_number_of_another(tmp_path: Path) -> None:
    """A file about a job of an earlier run would be taken for one about a later job."""
    with Engine(Settings(profile="smoke"), tmp_path, jobs=1) as engine:
        engine.load(["in-memory"])
        for name in ("kv.put_then_get", "kv.empty_key"):
            engine.run([("in-memory", load_checks()[name])], lambda *_: None)
        left = sorted(path.name for path in (tmp_path / "subject-0").glob("*.status"))
    assert left == ["task-1.status", "task-2.status"]


def test_a_lost_starter_answers_for_all_that_follows(tmp_path: Path) -> None:
    """Its checks end with an error, now and later, and nothing waits for ever."""
    found: list[CheckOutcome] = []
    with Engine(Settings(profile="smoke"), tmp_path, jobs=1) as engine:
        engine.load(["in-memory"])
        os.kill(engine._zygotes["in-memory"].pid, signal.SIGKILL)
        for _ in range(2):
            plan = [("in-memory", load_checks()[name]) for name in ("kv.empty_key", RANDOM)]
            engine.run(plan, lambda _, each: found.append(each))
    assert len(found) == 4
    assert all("the process that starts the checks died" in each.suite_error for each in found)


def test_a_lost_nursery_costs_no_answer_of_what_is_loaded(tmp_path: Path) -> None:
    """Only what is to be loaded after it is refused, with the reason."""
    found: list[CheckOutcome] = []
    with Engine(Settings(profile="smoke"), tmp_path, jobs=1) as engine:
        engine.load(["in-memory"])
        assert engine._nursery is not None
        engine._nursery._process.kill()
        with pytest.raises(UsageError, match=r"'rocksdb': the process that imports the suite died"):
            engine.load(["rocksdb"])
        plan = [("in-memory", load_checks()["kv.empty_key"])]
        engine.run(plan, lambda _, each: found.append(each))
    assert [each.suite_error for each in found] == [""]


def test_no_room_for_the_databases(tmp_path: Path) -> None:
    """A work directory that cannot be made is a usage error with a way out."""
    with pytest.raises(Exception, match=r"Choose another one with --work-dir"):  # noqa: SIM117
        with work_directory(tmp_path / "absent"):
            pass
