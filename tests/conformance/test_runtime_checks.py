"""The checks of the runtime: right decisions pass, and each promise can be found broken."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broken_lags import WRONG_LAGS
from broken_runtimes import WRONG_HANDLING, Break
from broken_updaters import WRONG_UPDATERS

from streamproof.conformance import program_runs
from streamproof.conformance.catalogue import load_catalogue, requirements_that_bind
from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_records import CheckOutcome
from streamproof.conformance.check_registry import Check
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.check_runner import run_check
from streamproof.conformance.program_text import fails_by_itself
from streamproof.conformance.results import Profile
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.runtime_checks.judging import judge
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import load_subject
from streamproof.conformance.violations import Skipped
from streamproof.errors import NotTriedError
from streamproof.sim.decisions.assignment import Assignment
from streamproof.sim.decisions.idling import Readiness
from streamproof.sim.decisions.lag import LagAnswer
from streamproof.sim.decisions.recovery import Recovery

CHECKS = load_checks("runtime")
QUICK_CHECKS = {name: each for name, each in CHECKS.items() if not name.startswith("swarm.")}


def outcome(
    directory: Path, check: Check, subject: str = "runtime", **settings: Any
) -> CheckOutcome:
    """What becomes of a check, run here and now."""
    asked = Settings(**{"profile": "smoke", "seed": 1, **settings})
    status = RunningCall(directory / "status", create=True)
    return run_check(CheckRun(check, load_subject(subject), asked, directory, status))


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are run in forks, where the mistake of a test is; pytest-xdist has threads."""
    monkeypatch.setattr(program_runs, "_has_threads", lambda: False)


def ending(program: str) -> str:
    """The name of the error with which a program ends, here and now; empty without one."""
    try:
        exec(program, {})  # noqa: S102 - it is ours.
    except Exception as error:  # noqa: BLE001 - whatever it is
        return type(error).__name__
    return ""


@pytest.mark.parametrize("name", QUICK_CHECKS)
@pytest.mark.parametrize("profile", ["smoke", "quick"])
def test_the_simulated_runtime_keeps_its_promises(
    name: str, profile: Profile, tmp_path: Path
) -> None:
    """And each of them was put to the test."""
    spec = load_catalogue()[CHECKS[name].requirements[0]].specs[0]
    found = outcome(tmp_path, CHECKS[name], profile=profile, spec=spec)
    assert (found.findings, found.suite_error, found.skipped) == ([], "", "")
    assert found.evidence.exercised == set(CHECKS[name].requirements)
    assert found.evidence.examples >= 1


Right = Callable[..., Any]


def replaced(**fields: Any) -> Callable[[Right], Right]:
    """The same answer, but for these fields."""
    return lambda right: lambda *args, **kwargs: right(*args, **kwargs)._replace(**fields)


def answering(value: Any) -> Callable[[Right], Right]:
    """Always the same answer."""
    return lambda _: lambda *_args, **_kwargs: value


def shifted(right: Right) -> Right:
    """One more than it should be."""
    return lambda *args, **kwargs: right(*args, **kwargs) + 1


def negated(right: Right) -> Right:
    """The contrary."""
    return lambda *args, **kwargs: not right(*args, **kwargs)


def without_deadlines(right: Right) -> Right:
    """Idling is begun anew in each decision."""
    return lambda inputs, _deadlines, **more: right(inputs, {}, **more)


def keeping_deadlines(right: Right) -> Right:
    """An idle time goes on, whatever came in between."""

    def wrong(inputs: Any, deadlines: Any, **more: Any) -> Readiness:
        found: Readiness = right(inputs, deadlines, **more)
        return found._replace(deadlines={**found.deadlines, **deadlines})

    return wrong


def without_mirrors(right: Right) -> Right:
    """Members that only make copies are answered like all others."""
    return lambda spoken, supported, _mirrors: right(spoken, supported)


def in_kafka_mode(right: Right) -> Right:
    """The quirks of what shipped."""
    return lambda *args, **kwargs: right(*args, **{**kwargs, "mode": "kafka"})


def without_one(right: Right) -> Right:
    """An active task is left out."""

    def wrong(*args: Any, **kwargs: Any) -> Assignment:
        found: Assignment = right(*args, **kwargs)
        for each in found.clients.values():
            if each.active:
                each.active.pop()
                break
        return found

    return wrong


def with_copies(role: str) -> Callable[[Right], Right]:
    """Each client gets all of its active tasks in another role, too."""

    def make(right: Right) -> Right:
        def wrong(*args: Any, **kwargs: Any) -> Assignment:
            found: Assignment = right(*args, **kwargs)
            for each in found.clients.values():
                getattr(each, role).update(each.active)
            return found

        return wrong

    return make


def all_for_the_first(right: Right) -> Right:
    """One client gets all active tasks."""

    def wrong(clients: Any, *args: Any, **kwargs: Any) -> Assignment:
        found: Assignment = right(clients, *args, **kwargs)
        first = next(iter(clients))
        for name, each in found.clients.items():
            if name != first:
                found.clients[first].active |= each.active
                each.active.clear()
        return found

    return wrong


DECISIONS = "streamproof.sim.decisions"

Mistake = tuple[str, str, str, Callable[[Right], Right]]

MISTAKES: list[Mistake] = [
    ("IDLE-001", "idling.least_head_first", "idling.next_partitions", answering(["in-0"])),
    (
        "IDLE-002",
        "idling.waits_until_caught_up",
        "idling.ready_to_process",
        replaced(ready=True),
    ),
    ("IDLE-003", "idling.never_waits", "idling.ready_to_process", replaced(ready=False)),
    ("IDLE-004", "idling.no_idling_with_zero", "idling.ready_to_process", replaced(ready=False)),
    ("IDLE-005", "idling.idles_for_its_time", "idling.ready_to_process", without_deadlines),
    ("IDLE-006", "idling.idle_time_begins_anew", "idling.ready_to_process", keeping_deadlines),
    ("IDLE-007", "idling.side_by_side", "idling.ready_to_process", in_kafka_mode),
    ("IDLE-008", "idling.nothing_to_process", "idling.ready_to_process", replaced(ready=True)),
    ("IDLE-009", "idling.says_why", "idling.ready_to_process", replaced(waiting={})),
    ("LAG-001", "lag.is_end_less_position", "lag.current_lag", answering(LagAnswer(0, False))),
    ("LAG-002", "lag.no_position_no_lag", "lag.current_lag", answering(LagAnswer(0, False))),
    ("LAG-003", "lag.asks_once", "lag.current_lag", answering(LagAnswer(None, True))),
    ("LAG-012", "lag.never_asks", "lag.current_lag", answering(LagAnswer(None, True))),
    ("LAG-008", "lag.sums", "lag.offset_sum", shifted),
    ("LAG-009", "lag.of_clients", "lag.task_lag", shifted),
    ("LAG-010", "lag.who_is_caught_up", "lag.is_caught_up", answering(True)),
    (
        "TASK-013",
        "recovery.goes_on_after_the_offset",
        "recovery.opening",
        answering(Recovery(False)),
    ),
    (
        "TASK-014",
        "recovery.distrusts_what_was_aborted",
        "recovery.opening",
        replaced(wipe=False),
    ),
    ("TASK-015", "recovery.staged_stores_are_kept", "recovery.opening", replaced(wipe=True)),
    ("TASK-016", "recovery.running_stores_get_no_offset", "recovery.commits_after", negated),
    ("TASK-017", "recovery.clean_ends_are_vouched_for", "recovery.wipes_after", negated),
    ("TASK-018", "recovery.unclean_ends_are_not", "recovery.commits_after", answering(True)),
    ("TASK-019", "recovery.an_empty_store_is_healthy", "recovery.opening", replaced(wipe=True)),
    ("ALOS-002", "recovery.a_replay_mends", "recovery.wipes_after", answering(True)),
    ("TASK-020", "restore_range.ends_with_the_log", "restore_range.end_of", shifted),
    ("TASK-021", "restore_range.inputs_end_where_committed", "restore_range.end_of", shifted),
    (
        "TASK-022",
        "restore_range.complete_when_all_is_applied",
        "restore_range.is_complete",
        answering(True),
    ),
    (
        "TASK-022",
        "restore_range.complete_when_all_is_applied",
        "restore_range.is_complete",
        answering(False),
    ),
    ("TASK-023", "restore_range.nothing_beyond_the_end", "restore_range.applicable", shifted),
    (
        "METRIC-106",
        "restore_range.what_remains_counts_offsets",
        "restore_range.remaining_after",
        shifted,
    ),
    (
        "TASK-024",
        "commit_timing.the_next_to_process",
        "commits.committable_offset",
        lambda _: lambda _head, position: position,
    ),
    ("TASK-025", "commit_timing.passes_markers", "commits.needs_commit", answering(False)),
    ("TASK-026", "commit_timing.after_the_interval", "commits.commit_is_due", answering(True)),
    (
        "TASK-068",
        "commit_timing.requested_commits_put_nothing_off",
        "commits.periodic_commit_after",
        lambda _: lambda now, *_, **__: now,
    ),
    (
        "TASK-027",
        "commit_timing.before_too_much_is_staged",
        "commits.commit_is_due",
        answering(False),
    ),
    ("TASK-028", "commit_timing.looks_up_in_time", "commits.next_iterations", answering(0)),
    (
        "TASK-029",
        "commit_timing.punctuations_stay_on_their_beat",
        "punctuation.next_punctuation",
        lambda _: lambda _due, now, interval: now + interval,
    ),
    ("ASSIGN-001", "assignment.each_task_is_active_once", "assignment.assign", without_one),
    (
        "ASSIGN-002",
        "assignment.nobody_has_a_task_twice",
        "assignment.assign",
        with_copies("standby"),
    ),
    (
        "ASSIGN-003",
        "assignment.as_many_standbys_as_asked_for",
        "assignment.assign",
        with_copies("standby"),
    ),
    (
        "ASSIGN-004",
        "assignment.work_stays_with_its_state",
        "assignment.assign",
        all_for_the_first,
    ),
    ("ASSIGN-004", "assignment.the_least_behind_goes_on", "assignment.assign", all_for_the_first),
    ("ASSIGN-005", "assignment.warmups_are_bounded", "assignment.assign", with_copies("warmup")),
    ("ASSIGN-006", "assignment.load_follows_threads", "assignment.assign", all_for_the_first),
    (
        "ASSIGN-008",
        "assignment.looks_again_while_something_moves",
        "assignment.assign",
        replaced(probing=False),
    ),
    (
        "ASSIGN-009",
        "assignment.the_same_group_is_assigned_the_same",
        "assignment.assign",
        all_for_the_first,
    ),
    (
        "UPGRADE-102",
        "metadata_version.all_can_read_the_answer",
        "versions.answer_of",
        replaced(version=2),
    ),
    (
        "UPGRADE-102",
        "metadata_version.the_oldest_member_sets_the_version",
        "versions.answer_of",
        replaced(version=3),
    ),
    (
        "UPGRADE-102",
        "metadata_version.the_oldest_member_sets_the_version",
        "versions.next_version",
        replaced(rejoin=True),
    ),
    (
        "UPGRADE-106",
        "metadata_version.reports_name_the_newest_version",
        "versions.readable",
        replaced(supported=6),
    ),
    (
        "UPGRADE-109",
        "metadata_version.mirrors_get_their_own_version",
        "versions.answers_of",
        without_mirrors,
    ),
    (
        "UPGRADE-103",
        "metadata_version.members_find_a_version",
        "versions.next_version",
        replaced(version=3),
    ),
    ("ASSIGN-010", "assignment.a_group_comes_to_rest", "assignment.assign", replaced(probing=True)),
]
"""For each promise about a decision a check of it, and the function with a mistake in it."""


@pytest.mark.parametrize(
    "case", MISTAKES, ids=[f"{name}-{number}" for number, (_, name, *_) in enumerate(MISTAKES)]
)
def test_a_wrong_decision_is_found(
    case: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a program that fails with the mistake, and passes without it."""
    requirement, name, function, mistake = case
    module_name, _, attribute = function.partition(".")
    module = importlib.import_module(f"{DECISIONS}.{module_name}")
    right = getattr(module, attribute)
    monkeypatch.setattr(module, attribute, functools.wraps(right)(mistake(right)))
    promise = load_catalogue()[requirement]
    (spec, *_), (guarantee, *_) = promise.specs, promise.guarantees
    found = outcome(tmp_path, CHECKS[name], profile="quick", spec=spec, guarantee=guarantee)
    assert found.suite_error == ""
    assert {each.requirement for each in found.findings} == {requirement}
    (finding, *_) = found.findings
    assert f"{attribute}(" in finding.program
    assert requirement not in found.evidence.exercised or found.evidence.examples > 1
    assert fails_by_itself(finding.program)
    assert ending(finding.program) == "AssertionError"
    monkeypatch.undo()
    assert ending(finding.program) == ""


def test_a_decision_that_raises_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the runtime's mistake, and not the suite's."""

    def fails(*_: object, **__: object) -> None:
        raise KeyError("in-7")

    monkeypatch.setattr(f"{DECISIONS}.lag.current_lag", fails)
    (finding,) = outcome(tmp_path, CHECKS["lag.is_end_less_position"]).findings
    assert (finding.requirement, finding.shape) == ("LAG-001", "raised")
    assert finding.found == "raised KeyError: 'in-7'"


def test_a_decision_that_raises_makes_its_program_raise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise KeyError("in-7")

    right = importlib.import_module(f"{DECISIONS}.lag").current_lag
    monkeypatch.setattr(f"{DECISIONS}.lag.current_lag", functools.wraps(right)(fails))
    (finding,) = outcome(tmp_path, CHECKS["lag.is_end_less_position"]).findings

    assert fails_by_itself(finding.program)
    monkeypatch.undo()
    assert ending(finding.program) == ""


def test_one_question_is_asked_and_its_answer_asserted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = importlib.import_module(f"{DECISIONS}.restore_range").end_of
    monkeypatch.setattr(f"{DECISIONS}.restore_range.end_of", functools.wraps(right)(shifted(right)))
    (finding,) = outcome(tmp_path, CHECKS["restore_range.ends_with_the_log"]).findings

    assert finding.program.splitlines() == [
        f"from {DECISIONS}.restore_range import end_of",
        "",
        "assert end_of(0, None) == 0  # found 1",
    ]


def test_several_questions_are_asked_again_by_their_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later question may depend on an earlier answer, so the program has them as comments."""
    right = importlib.import_module(f"{DECISIONS}.recovery").wipes_after
    wrong = functools.wraps(right)(lambda *_: True)
    monkeypatch.setattr(f"{DECISIONS}.recovery.wipes_after", wrong)
    (finding,) = outcome(tmp_path, CHECKS["recovery.clean_ends_are_vouched_for"]).findings
    traits = "Traits(exactly_once=False, transactional=False)"
    drawn = f"{{'traits': {traits}, 'closing': Closing.RESTORED}}"

    assert finding.program.splitlines() == [
        "from streamproof.conformance.runtime_checks.judging import judge",
        f"from {DECISIONS}.recovery import Closing, Traits",
        "",
        f"# commits_after({traits}, Closing.RESTORED)",
        "#     answered True",
        f"# wipes_after({traits}, Closing.RESTORED)",
        "#     answered True",
        f"judge('recovery.clean_ends_are_vouched_for', {drawn}, seed=1)",
    ]


def test_a_program_that_cannot_try_anything_does_not_show_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In pytest its test is skipped."""

    def skips(*_: object, **__: object) -> None:
        raise Skipped("the world of the check did not have a write")

    check = CHECKS["restore_range.ends_with_the_log"]
    monkeypatch.setattr(check.function, "__wrapped__", skips)

    with pytest.raises(NotTriedError, match="did not have a write"):
        judge(check.name, {"end": 0, "committed": None})


BY_DEFECT = [
    ("chooses-by-largest-time", "queue.taken_in_order", "IDLE-001"),
    ("does-not-fence-producer", "fencing.a_new_producer_fences_the_one_before", "EOS-005"),
    ("ignores-generation", "fencing.old_generations_cannot_commit", "REBAL-003"),
    ("restores-to-stable-end", "state_updater.waits_for_an_open_transaction", "TASK-030"),
    ("suspends-without-a-word", "state_updater.suspended_and_started_again", "LISTEN-104"),
    ("queries-read-through-the-transaction", "query.hidden_until_the_commit", "QUERY-101"),
    ("never-renews-what-queries-see", "query.hidden_until_the_commit", "QUERY-102"),
    ("commits-ten-times-too-late", "query.visible_within_the_commit_interval", "QUERY-103"),
    ("never-renews-what-queries-see", "query.visible_at_once", "QUERY-104"),
    ("queries-read-committed-by-default", "query.default_as_proposed", "QUERY-106"),
    ("queries-read-uncommitted-by-default", "query.default_as_proposed", "QUERY-106"),
    ("ignores-isolation-of-a-query", "query.default_as_shipped", "QUERY-108"),
    ("ignores-position-bounds", "query.bound_keeps_an_old_copy_out", "QUERY-109"),
    ("ranges-leave-the-last-key-out", "query.range_with_both_bounds", "QUERY-115"),
    (
        "routes-to-standbys-without-leave",
        "query.standby_answers_with_leave_alone",
        "QUERY-118",
    ),
]


@pytest.mark.parametrize(("defect", "name", "requirement"), BY_DEFECT)
def test_a_defect_is_found_by_a_small_world(
    defect: str, name: str, requirement: str, tmp_path: Path
) -> None:
    """With a program that fails with the defect, and passes without it."""
    (finding,) = outcome(tmp_path, CHECKS[name], f"runtime:{defect}").findings
    assert finding.requirement == requirement
    assert fails_by_itself(finding.program)
    assert ending(finding.program) == "AssertionError"
    right = finding.program.replace(f", defect={defect!r}", "")
    assert ending(right) == ""


SIM = "streamproof.sim"
CONSUMER = f"{SIM}.clients.consumer.Consumer"
ANNOUNCER = f"{SIM}.tasks.restoration_progress.Announcer"
METRICS = "streamproof.stores.runtime.restore_metrics"

Broken = tuple[str, str, str, object]

BROKEN: list[Broken] = [
    (
        "IDLE-010",
        "queue.taken_in_order",
        f"{SIM}.tasks.record_queues.PartitionGroup._advance",
        None,
    ),
    (
        "IDLE-011",
        "queue.paused_when_full",
        f"{SIM}.tasks.record_queues.PartitionGroup.has_space",
        True,
    ),
    (
        "IDLE-012",
        "configuration.other_negative_idle_times_are_refused",
        f"{SIM}.application.StreamsConfig.__post_init__",
        None,
    ),
    (
        "UPGRADE-117",
        "configuration.only_releases_are_upgraded",
        f"{SIM}.releases.Release.__post_init__",
        None,
    ),
    (
        "UPGRADE-118",
        "configuration.modes_are_known",
        f"{SIM}.releases.Release.__post_init__",
        None,
    ),
    (
        "EOS-007",
        "configuration.transactions_outlive_the_interval",
        f"{SIM}.application.StreamsConfig.__post_init__",
        None,
    ),
    ("LAG-002", "consumer.empty_without_a_position", f"{CONSUMER}.current_lag", 0),
    ("LAG-004", "consumer.never_blocks", f"{CONSUMER}.current_lag", None),
    ("LAG-003", "consumer.asks_in_the_background", f"{CONSUMER}.current_lag", None),
    ("LAG-003", "consumer.asks_for_what_is_stable", f"{CONSUMER}.current_lag", 5),
    ("LAG-005", "consumer.up_to_what_is_stable", f"{CONSUMER}.current_lag", 5),
    ("LAG-012", "consumer.sends_no_request", f"{CONSUMER}.current_lag", 3),
    ("LAG-006", "consumer.a_seek_leaves_it_stale", f"{CONSUMER}.current_lag", 0),
    ("LAG-007", "consumer.only_of_what_is_assigned", f"{CONSUMER}.current_lag", None),
    ("LAG-011", "consumer.markers_are_passed", f"{CONSUMER}.current_lag", 1),
    (
        "EOS-004",
        "consumer.only_what_is_committed",
        f"{SIM}.brokers.partition_log.PartitionLog.is_aborted",
        0,
    ),
    (
        "EOS-006",
        "fencing.pending_offsets_are_waited_for",
        f"{SIM}.brokers.group_coordinator.GroupCoordinator.committed",
        5,
    ),
    (
        "REBAL-004",
        "fencing.the_silent_are_left_out",
        f"{SIM}.brokers.group_coordinator.GroupCoordinator.heartbeat",
        False,
    ),
    (
        "REBAL-005",
        "fencing.static_members_come_back",
        f"{SIM}.brokers.group_coordinator.GroupCoordinator.poll_sync",
        None,
    ),
    ("LISTEN-103", "state_updater.start_batches_end", f"{ANNOUNCER}.ended", None),
    ("LISTEN-105", "state_updater.a_completed_one_is_not_suspended", f"{ANNOUNCER}.applied", None),
    ("LISTEN-106", "state_updater.a_listener_that_raises", f"{ANNOUNCER}._tell", None),
    (
        "LISTEN-107",
        "state_updater.standbys_have_a_listener_of_their_own",
        f"{ANNOUNCER}.suspended",
        None,
    ),
    (
        "LISTEN-108",
        "state_updater.nothing_has_to_be_overridden",
        f"{ANNOUNCER}.suspended",
        None,
    ),
    (
        "METRIC-112",
        "state_updater.tasks_are_counted",
        f"{SIM}.tasks.state_updater.StateUpdater._count",
        None,
    ),
    (
        "METRIC-113",
        "state_updater.metrics_outlive_the_updater",
        f"{METRICS}.TaskRestoreMetrics.close",
        None,
    ),
    (
        "STANDBY-002",
        "state_updater.standbys_wait_for_active_tasks",
        f"{SIM}.tasks.stream_task.StreamTask.apply",
        None,
    ),
    (
        "STANDBY-003",
        "state_updater.standbys_follow",
        f"{SIM}.tasks.stream_task.StreamTask.apply",
        None,
    ),
    (
        "TASK-031",
        "state_updater.commits_while_it_restores",
        f"{SIM}.tasks.stream_task.StreamTask.commit_store",
        None,
    ),
    (
        "UPGRADE-104",
        "metadata_version.what_cannot_agree_is_refused",
        f"{DECISIONS}.versions.answer_of",
        "an answer",
    ),
    (
        "METRIC-102",
        "runtime_metric.of_the_updater",
        f"{METRICS}.StateUpdaterMetrics._register",
        None,
    ),
    ("METRIC-103", "runtime_metric.of_a_task", f"{METRICS}.TaskUpdateMetrics.__init__", None),
    (
        "METRIC-106",
        "state_updater.what_remains_counts_offsets",
        f"{METRICS}.TaskRestoreMetrics.on_batch_restored",
        None,
    ),
    (
        "METRIC-117",
        "state_updater.what_remains_counts_records",
        f"{METRICS}.TaskRestoreMetrics.on_batch_restored",
        None,
    ),
    (
        "METRIC-115",
        "application.the_recording_level_decides",
        "streamproof.stores.metrics.Metrics._is_recorded",
        True,
    ),
    (
        "METRIC-111",
        "application.the_deprecated_ratio_stays",
        "streamproof.stores.metrics.Metrics.gauge",
        None,
    ),
    (
        "METRIC-119",
        "application.the_deprecated_ratio_is_gone",
        "streamproof.stores.metrics.Metrics.rows",
        (),
    ),
    (
        "LISTEN-109",
        "application.every_updater_tells_the_listeners",
        f"{ANNOUNCER}._tell",
        None,
    ),
    (
        "METRIC-104",
        "runtime_metric.ratios_sum_to_one",
        f"{METRICS}.StateUpdaterMetrics._ratio",
        0.3,
    ),
    (
        "METRIC-105",
        "runtime_metric.restores_or_updates",
        f"{METRICS}.StateUpdaterMetrics._ratio",
        0.25,
    ),
    (
        "METRIC-107",
        "runtime_metric.totals_stay",
        f"{METRICS}.TaskRestoreMetrics.on_batch_restored",
        None,
    ),
    (
        "METRIC-108",
        "runtime_metric.standbys_count_updates",
        f"{METRICS}.TaskUpdateMetrics.record",
        None,
    ),
    (
        "METRIC-109",
        "runtime_metric.rates_are_per_second",
        f"{METRICS}.StateUpdaterMetrics.record_restore_call",
        None,
    ),
    (
        "METRIC-110",
        "runtime_metric.waiting_is_counted",
        "streamproof.stores.metrics.Sensor.record",
        None,
    ),
]
"""For each promise that is kept by an object a check, and a method that only answers so."""


@pytest.mark.parametrize("case", BROKEN, ids=[name for _, name, *_ in BROKEN])
def test_a_wrong_runtime_is_found(
    case: Broken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something that it needs is not done."""
    requirement, name, method, answer = case
    monkeypatch.setattr(method, lambda *_, **__: answer)
    found = outcome(tmp_path, CHECKS[name], profile="quick")
    assert found.suite_error == ""
    assert requirement in {each.requirement for each in found.findings}
    monkeypatch.undo()
    for finding in found.findings:
        assert fails_by_itself(finding.program)
        assert ending(finding.program) == ""


BY_CHANGE = [*WRONG_LAGS, *WRONG_UPDATERS]


@pytest.mark.parametrize(("requirement", "name", "change"), BY_CHANGE)
def test_a_runtime_that_waits_or_restores_wrongly_is_found(
    requirement: str,
    name: str,
    change: Break,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the times at which records are processed, by calls, or by metrics."""
    change(monkeypatch)
    found = outcome(tmp_path, CHECKS[name], profile="quick")
    assert found.suite_error == ""
    assert requirement in {each.requirement for each in found.findings}


def test_each_promise_that_a_check_alone_keeps_was_broken() -> None:
    """By a wrong decision, a wrong method, or a defect."""
    broken = {(requirement, name) for requirement, name, *_ in [*MISTAKES, *BROKEN]}
    broken |= {(requirement, name) for _, name, requirement in BY_DEFECT}
    broken |= {(requirement, name) for requirement, name, _ in [*WRONG_HANDLING, *BY_CHANGE]}
    asked = {
        (requirement, name)
        for name, each in QUICK_CHECKS.items()
        for requirement in each.requirements
    }
    assert asked == broken


def test_every_requirement_of_the_runtime_is_tested_or_says_why_not() -> None:
    """And most of them are tested."""
    bound = requirements_that_bind("runtime")
    assert [each.id for each in bound if not (each.checks or each.untested)] == []
