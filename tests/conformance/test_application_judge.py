"""Two runs of an application are compared, and the faults of a seed are always the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from hand_made_events import made

from streamproof.conformance.application_checks import fault_checks
from streamproof.conformance.application_checks.fault_plans import draw_faults, told
from streamproof.conformance.application_checks.log_comparison import compared, differences
from streamproof.conformance.catalogue import load_catalogue, requirements_that_bind
from streamproof.conformance.check_loader import checks_for
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.check_runner import run_check
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import load_subject
from streamproof.errors import UsageError
from streamproof.reports.verification import guarantee_of
from streamproof.scenarios.kafka import user_play
from streamproof.scenarios.kafka.application import RealRecord
from streamproof.scenarios.kafka.application_file import ApplicationFile, read_application
from streamproof.scenarios.kafka.recording import Recorded
from streamproof.scenarios.kafka.user_play import ApplicationRest, NotRunningError, Played
from streamproof.scenarios.scenario import Crash, Occurrence
from streamproof.sim.invariants.judging import EVERYTHING_SEEN
from streamproof.sim.trace import Event

TEXT = """
[application]
command = ["sh", "{bootstrap}", "{state}"]
guarantee = "GUARANTEE"
instances = 2
faults = ["kill", "pause"]

[[inputs]]
topic = "in"
records = [{ key = "a", value = "1" }]

[[outputs]]
topic = "out"
OUTPUT

[state]
leave_out = ["clock"]
"""

NOTHING_SEEN = Recorded(
    [made(0, "mine", "application.started", exactly_once=True)], EVERYTHING_SEEN
)
"""A recording in which nothing happens after the start."""

RIGHT_LOGS = {"out-0": [RealRecord(0, b"a", b"1", 0)]}

RIGHT = Played(
    NOTHING_SEEN, RIGHT_LOGS, [], frozenset(), has_come_to_rest=True, behind="", errors=[]
)
"""A run that is right."""

EXACTLY, AT_LEAST = "exactly-once", "at-least-once"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.toml"


def described(path: Path, guarantee: str, output: str = "") -> ApplicationFile:
    text = TEXT.replace("GUARANTEE", guarantee).replace("OUTPUT", output)
    path.write_text(text, "utf-8")
    return read_application(path)


def logs(*values: str | None, topic: str = "out") -> dict[str, list[RealRecord]]:
    """A log with these values of one key."""
    records = [
        RealRecord(at, b"a", None if value is None else value.encode(), at)
        for at, value in enumerate(values)
    ]
    return {f"{topic}-0": records}


@pytest.mark.parametrize(
    ("guarantee", "output", "found", "broken"),
    [
        (EXACTLY, "", "123", []),
        (EXACTLY, "", "12", [("APP-001", "lost")]),
        (EXACTLY, "", "1223", [("APP-001", "repeated")]),
        (EXACTLY, "", "124", [("APP-001", "other-values")]),
        (EXACTLY, "", "132", [("APP-002", "another-order")]),
        (EXACTLY, "ordered = false", "132", []),
        (AT_LEAST, "", "121233", []),
        (AT_LEAST, "", "1133", [("APP-003", "lost")]),
        (AT_LEAST, "table = true", "3", []),
        (AT_LEAST, "table = true", "1232", [("APP-004", "another-last-row")]),
    ],
)
def test_an_output_is_held_to_the_guarantee(
    path: Path, guarantee: str, output: str, found: str, broken: list[tuple[str, str]]
) -> None:
    told = differences(described(path, guarantee, output), logs(*"123"), logs(*found))

    assert [(each.requirement, each.shape) for each in told] == broken


def test_a_difference_is_told_from_where_it_begins(path: Path) -> None:
    (told,) = differences(described(path, EXACTLY), logs(*"1234"), logs(*"1254"))

    assert told.expected == ("3, 4 for the key a in out-0, after 2 records that are as expected")
    assert told.found == "5, 4"


@pytest.mark.parametrize(
    ("after", "broken"),
    [
        (("1", "1", "2"), []),
        (("3",), ["another-row"]),
        (("2", None), ["lost"]),
    ],
)
def test_the_latest_rows_of_stores_are_compared(
    path: Path, after: tuple[str | None, ...], broken: list[str]
) -> None:
    changelog = "app-counts-changelog"
    before = logs("1", "2", topic=changelog)
    told = differences(described(path, EXACTLY), before, logs(*after, topic=changelog))

    assert [(each.requirement, each.shape) for each in told] == [("APP-005", x) for x in broken]
    # Nobody compares the state of an application that counts again, unless asked to.
    assert differences(described(path, AT_LEAST), before, logs(*after, topic=changelog)) == []


def test_a_store_that_is_left_out_is_not_compared(path: Path) -> None:
    before, after = (logs(each, topic="app-clock-changelog") for each in "12")

    assert differences(described(path, EXACTLY), before, after) == []


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (NotRunningError("instance-0 ended"), ["APP-006"]),
        (UsageError("the broker did not start"), []),
    ],
)
def test_only_an_instance_that_does_not_run_is_a_failure_of_the_application(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: UsageError,
    found: list[str],
) -> None:
    """The run without faults was right; then the run with faults cannot be made."""
    outcome = checked(path, monkeypatch, [RIGHT, error])

    assert [each.requirement for each in outcome.findings] == found
    assert bool(outcome.suite_error) == (not found)


@pytest.mark.parametrize(
    ("has_come_to_rest", "found"), [(False, ["APP-006"]), (True, ["TASK-008"])]
)
def test_an_application_that_is_stuck_is_not_taken_for_a_mistake_of_kafka(
    path: Path, monkeypatch: pytest.MonkeyPatch, *, has_come_to_rest: bool, found: list[str]
) -> None:
    """A task that runs nowhere is a mistake of Kafka if the application has come to rest."""
    nowhere = Recorded(
        [made(0, "mine", "application.started", exactly_once=True, tasks=["0_0"])], EVERYTHING_SEEN
    )
    after = RIGHT._replace(recorded=nowhere, has_come_to_rest=has_come_to_rest)
    outcome = checked(path, monkeypatch, [RIGHT, after])

    assert [each.requirement for each in outcome.findings] == found


def test_a_stuck_application_is_shown_with_the_errors_that_it_wrote(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that ended alone is named nowhere else."""
    error = 'instance-0: Exception in thread "reader" java.lang.IllegalStateException'
    after = RIGHT._replace(has_come_to_rest=False, behind="orders-0 is behind", errors=[error])
    (finding,) = checked(path, monkeypatch, [RIGHT, after]).findings

    assert finding.found.startswith("orders-0 is behind; given up after ")
    assert finding.found.endswith(f" The instances wrote these errors:\n  {error}")


def checked(
    path: Path, monkeypatch: pytest.MonkeyPatch, plays: Sequence[Played | UsageError]
) -> CheckOutcome:
    """What the check finds if its runs come to this."""
    described(path, EXACTLY)
    runs = iter(plays)

    def play(*_: object) -> Played:
        played = next(runs)
        if isinstance(played, UsageError):
            raise played
        return played

    monkeypatch.setattr(fault_checks, "play_application", play)
    status = RunningCall(path.with_name("status"), create=True)
    check = checks_for(str(path))["fault.kills_and_restarts"]
    settings = Settings(profile="smoke")
    return run_check(CheckRun(check, load_subject(str(path)), settings, path.parent, status))


def running(known: list[str], active: list[str]) -> Iterator[Event]:
    """A thread is given tasks, of which some run after the rebalance."""
    given = {"generation": 1, "standby": []}
    yield made(0, "a/thread-1", "thread.assigned", active=known, **given)
    for task in known:
        yield made(1, "a/thread-1", "task.state", task=task, before="CREATED", after="RUNNING")
    for task in sorted(set(known) - set(active)):
        yield made(2, "a/thread-1", "task.state", task=task, before="RUNNING", after="CLOSED")
    yield made(3, "a/thread-1", "thread.assigned", active=active, **given)


@pytest.mark.parametrize(("active", "is_reached"), [(["0_0", "0_1"], True), (["0_0"], False)])
def test_an_application_rests_only_while_all_its_tasks_run(
    path: Path, monkeypatch: pytest.MonkeyPatch, active: list[str], *, is_reached: bool
) -> None:
    """A task that was revoked is given to nobody until the next rebalance."""
    monkeypatch.setattr(user_play, "QUIET_S", -1.0)
    rest = ApplicationRest(described(path, EXACTLY))
    for each in running(["0_0", "0_1"], active):
        rest.see(each)

    assert rest.is_reached(["a"]) == is_reached


def test_what_a_run_has_nothing_of_is_not_tried(path: Path) -> None:
    file = described(path, EXACTLY)

    assert compared(file, {}) == set()
    assert compared(file, logs("1")) == {"APP-001", "APP-002"}
    assert compared(file, logs("1", topic="app-counts-changelog")) == {"APP-005"}
    assert compared(described(path, AT_LEAST, "table = true"), logs("1")) == {"APP-004"}


def test_a_seed_draws_the_same_faults_again(path: Path) -> None:
    file = described(path, EXACTLY)
    plans = [told(draw_faults(file, 100, Random(seed))) for seed in range(20)]

    assert plans == [told(draw_faults(file, 100, Random(seed))) for seed in range(20)]
    assert len(set(plans)) == 20
    assert all(each.startswith("kill instance-") for each in plans)
    assert any("freeze" in each for each in plans)
    assert not any("SIGTERM" in each for each in plans)


def test_a_fault_is_told_with_its_moment() -> None:
    when = Occurrence(kind="task.processed", actor="instance-1", nth=3)
    fault = Crash(instance="instance-1", when=when, after_ms=40, down_ms=2000)

    assert told([fault]) == (
        "kill instance-1 (SIGKILL) and start it again 2,000 ms later, 40 ms after it has processed "
        "its 3rd record"
    )


def test_an_application_is_asked_for_what_its_runs_can_show() -> None:
    asked = {each.id: each for each in requirements_that_bind("application")}
    own = {each for each in load_catalogue() if each.startswith("APP-")}

    assert own <= asked.keys()
    assert {each for each in asked if asked[each].core} < own
    # Its invariant can be judged by what a recorder saw.
    assert asked["EOS-001"].checks == ["fault.kills_and_restarts"]
    assert "CRASH-001" not in asked


def test_the_guarantee_of_a_run_is_that_of_the_file(path: Path) -> None:
    described(path, AT_LEAST)

    assert guarantee_of([str(path)], None) == AT_LEAST
    assert guarantee_of(["rocksdb"], None) == EXACTLY
    with pytest.raises(UsageError, match="claims at-least-once, and not exactly-once"):
        guarantee_of([str(path)], "exactly-once")
