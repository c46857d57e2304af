"""A search for a given time: whose turn it is, what a round does, and what a run says of it."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import signal
from collections import Counter

import msgspec
import pytest
from command_lines import SUBJECTS, CommandLine, until

from streamproof.conformance.budget import RAREST, Search, parse_duration
from streamproof.conformance.check_engine import CheckTask, Engine
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_records import CheckEvidence, CheckFinding, CheckOutcome
from streamproof.conformance.settings import Settings, derive_seed
from streamproof.conformance.work_directory import work_directory
from streamproof.errors import UsageError
from streamproof.reports.run_log import read_run_log

EXAMPLE, PROPERTY, CRASH = "kv.empty_key", "kv.keys_are_exact", "crash.between_operations"
PLAN = [("s", load_checks()[name]) for name in (EXAMPLE, PROPERTY, CRASH)]


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def outcome(check: str, *reached: str, **fields: object) -> CheckOutcome:
    """An outcome that reached something."""
    return CheckOutcome(check=check, evidence=CheckEvidence(reached=set(reached)), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1h", 3600), ("1.5h", 5400), ("0.5s", 0.5)]
)
def test_a_length_of_time(text: str, seconds: float) -> None:
    """In seconds, minutes or hours."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "-1s", "0s", "10 minutes", "1e9s", "10d", "nan"])
def test_no_length_of_time(text: str) -> None:
    """Refused, with what to write."""
    with pytest.raises(UsageError, match="write 90s, 10m or 1h"):
        parse_duration(text)


def test_only_what_searches_has_rounds() -> None:
    """An example does the same every time; the others take turns, round after round."""
    tasks = Search(PLAN, 10, clock=Clock()).tasks()
    first = [(task.check.name, task.round) for task in itertools.islice(tasks, 4)]
    assert first == [(PROPERTY, 1), (CRASH, 1), (PROPERTY, 2), (CRASH, 2)]
    later = Search(PLAN, 10, first=7, clock=Clock()).tasks()
    assert next(later).round == 8
    assert list(Search(PLAN[:1], 10, clock=Clock()).tasks()) == []


def test_no_round_begins_after_the_end() -> None:
    """The last that was begun before it may end after it."""
    clock = Clock()
    tasks = Search(PLAN, 10, clock=clock).tasks()
    next(tasks)
    clock.now += 9.9
    next(tasks)
    clock.now += 0.1
    assert list(tasks) == []


def test_who_learns_has_more_turns_and_nobody_is_forgotten() -> None:
    """A check that reaches nothing new is asked less and less often, and more again if it does."""
    search = Search(PLAN, 10, clock=Clock())
    turns = {PROPERTY: 0, CRASH: 0}
    tasks = search.tasks()
    while turns[PROPERTY] < 200:
        task = next(tasks)
        turns[task.check.name] += 1
        fresh = f"{task.round}" if task.check.name == PROPERTY else "always the same"
        search.take("s", outcome(task.check.name, fresh))
    assert 200 // 2**RAREST <= turns[CRASH] <= 200 // 2**RAREST + RAREST + 1
    search.take("s", outcome(CRASH, "something new"))
    found = {next(tasks).check.name for _ in range(2)}
    assert found == {PROPERTY, CRASH}


def test_a_new_shape_is_something_new() -> None:
    """A search that only ever found the same broken promise would look no further."""
    search = Search(PLAN, 10, clock=Clock())
    finding = CheckFinding(
        requirement="KV-011", tried="", expected="", found="", program="", shape="stale-value"
    )
    search.take("s", outcome(PROPERTY, findings=[finding]))
    assert "kv.keys_are_exact of s (1 new in round 0)" in search.summary()
    search.take("s", outcome(PROPERTY, findings=[finding]))
    assert "No check was still learning" in search.summary()


@pytest.mark.parametrize("field", ["subject_error", "suite_error", "skipped"])
def test_what_gives_no_answer_is_not_asked_again(field: str) -> None:
    """A hang costs the whole time limit, and would do so in every round."""
    search = Search(PLAN, 10, clock=Clock())
    search.take("s", outcome(CRASH, **{field: "why"}))
    tasks = itertools.islice(search.tasks(), 5)
    assert {task.check.name for task in tasks} == {PROPERTY}


def test_each_round_has_a_seed_of_its_own() -> None:
    """The first has that of a run without rounds."""
    seeds = [derive_seed(1, PROPERTY, number) for number in range(50)]
    assert len(set(seeds)) == 50
    assert seeds[0] == derive_seed(1, PROPERTY)
    # "1/x" of the seed 1 is not the round 1 of anything.
    assert derive_seed(1, "x", 12) != derive_seed(1, "x/1", 2)


def test_a_round_does_the_same_in_a_search_and_by_itself() -> None:
    """So a failure that a search found is found again without the search."""

    def run(settings: Settings, task: CheckTask) -> CheckOutcome:
        found: list[CheckOutcome] = []
        with work_directory() as directory, Engine(settings, directory, jobs=1) as engine:
            engine.load(["in-memory"])
            engine.run([task], lambda _, each: found.append(each))
        return msgspec.structs.replace(found[0], duration_s=0.0)

    check = load_checks()["model.random_programs"]
    searching = run(Settings(profile="smoke", seed=5), CheckTask("in-memory", check, 3))
    alone = run(Settings(profile="smoke", seed=5, round=3), CheckTask("in-memory", check))
    first = run(Settings(profile="smoke", seed=5), CheckTask("in-memory", check))
    assert searching == alone
    assert searching.round == 3
    assert searching.evidence.reached != first.evidence.reached


# Runs.

RARE = """
from streamproof.stores.memory import InMemoryKeyValueStore

RARE = range(8, 10)

class Store(InMemoryKeyValueStore):
    def get(self, key):
        value = super().get(key)
        return None if len(key) == 3 and key[0] in RARE else value

def make():
    return Store("mine")
"""


def test_a_search_finds_what_one_round_does_not(command_line: CommandLine) -> None:
    """One result for each requirement, the failure with its round, and a note on the search."""
    (command_line.cwd / "mine.py").write_text(RARE)
    options = ("mine.py:make", "--only", "KV-001,KV-011", "--no-bank")
    assert command_line.verify(*options).code == 0
    found = command_line.verify(*options, "--budget", "20s")
    assert found.code == 1
    failure = found.failures["KV-011"]
    assert len(found.log.results) == 2
    assert found.results["KV-011"].examples > 4
    (note,) = found.log.notes
    assert note.kind == "search"
    assert "rounds after the first" in note.text
    assert note.text in found.stdout
    assert found.log.header.command.endswith("--seed 1 --budget 20s")

    words = shlex.split(failure.reproduce)
    number = words[words.index("--round") + 1]
    again = command_line.verify(*options[:2], "KV-011", "--no-bank", "--round", number)
    assert again.failures["KV-011"].shape == failure.shape


def test_ctrl_c_in_a_search_keeps_the_results(command_line: CommandLine) -> None:
    """All of them, because every check has run once; only the verdict is missing."""
    bad = f"{SUBJECTS / 'bad_stores.py'}:delete_raises"
    options = (bad, "--only", "KV-001,KV-006,KV-011", "--no-bank")
    checks = {each.check for each in command_line.verify(*options).log.checks}
    log = command_line.out / "run.ndjson"
    log.unlink()

    def searches() -> bool:
        """Whether each check has ended once, and one of them again."""
        text = log.read_text() if log.exists() else ""
        ended = Counter(re.findall('"check","subject":"[^"]+","check":"([^"]+)"', text))
        return ended.keys() >= checks and ended["kv.keys_are_exact"] > 1

    arguments = command_line.verify_arguments(*options, "--budget", "1h")
    with command_line.start(*arguments) as process:
        assert until(searches)
        os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (130, "")
    command_line.expect_nothing_left()
    found = read_run_log(log)
    assert not found.complete
    statuses = {each.requirement: each.status for each in found.results}
    assert statuses["KV-006"] == "fail"
    assert statuses["KV-001"] == "pass"
    assert [each.kind for each in found.notes] == ["search"]
    assert stdout.splitlines()[-1].endswith("--budget 1h")


def test_a_budget_that_is_none_is_refused(command_line: CommandLine) -> None:
    """Before anything is run."""
    with command_line.start("verify", "in-memory", "--budget", "soon") as process:
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "'soon'" in stderr
