"""Real processes are recorded, killed and started again; what they did is merged and judged."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from streamproof.errors import UsageError
from streamproof.runs.trace_runs import read_runs
from streamproof.scenarios.kafka.application import Application, RealRecord
from streamproof.scenarios.kafka.builds import built_recorder
from streamproof.scenarios.kafka.cluster import start_broker
from streamproof.scenarios.kafka.observable import (
    MERGED,
    OF_BROKERS,
    OF_THE_DRIVER,
    UNOBSERVED,
)
from streamproof.scenarios.kafka.processes import Processes
from streamproof.scenarios.kafka.recording import read_recording
from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.sim.event_kinds import KINDS
from streamproof.sim.trace import Event
from streamproof.sim.trace_files import TraceFile
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE

# The transaction must still be open when somebody has seen it, which takes long on a busy machine.
LATE = {
    "processing.guarantee": "exactly_once_v2",
    "commit.interval.ms": "600000",
    "producer.transaction.timeout.ms": "900000",
}
SOON = {**LATE, "commit.interval.ms": "100"}
DONE_S = 120.0

SETTINGS = {"application.id": "orders", "state.dir": "/a", "processing.guarantee": "exactly_once"}
IN_0 = {"partition": "in-0", "offset": 0}
APPENDED = {"key": "YQ==", "value": None, "timestamp": 1, "producer": -1, "transactional": False}


def until(directory: Path, kind: str, times: int) -> None:
    """Wait until a recording has so many events of a kind."""
    deadline = time.monotonic() + DONE_S
    text = f'"kind":"{kind}"'
    while time.monotonic() < deadline:
        if sum(each.read_text().count(text) for each in directory.glob("*.events")) >= times:
            return
        time.sleep(0.02)
    raise AssertionError(f"{kind} never came {times} times")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An application is killed within a transaction, and started again."""
    directory = tmp_path_factory.mktemp("recording")
    with Processes() as processes:
        broker = start_broker(processes, DEFAULT_RELEASE, recording=directory)
        application = Application(processes, broker, "count", directory)
        application.create({"in": 2, "out": 2})
        rows = [RealRecord(-1, b"a", value, at) for at, value in enumerate([b"1", None, b"3"])]
        application.send("in", 1, rows)
        killed = application.start("instance-0", LATE)
        # All writes of the open transaction, besides the input.
        until(directory, "log.appended", 9)
        killed.kill()
        running = application.start("instance-0", SOON)
        until(directory, "offsets.committed", 1)
        running.stop()
    return directory


@pytest.fixture(scope="module")
def run(recording: Path) -> RecordedRun:
    return read_runs([recording], [])[0]


def test_what_is_true_of_the_run_is_recorded(run: RecordedRun) -> None:
    kinds = Counter(each.kind for each in run.events)

    assert kinds["instance.started"] == 2
    assert kinds["instance.crashed"] == kinds["instance.stopped"] == 1
    # The kill aborted what was processed, and the stores were wiped.
    assert kinds["task.processed"] == 6
    assert kinds["task.wiped"] == 2
    decided = [e.attributes["commit"] for e in run.events if e.kind == "transaction.decided"]
    assert decided[:1] == [False]
    assert True in decided


def test_the_promises_that_can_be_judged_hold(run: RecordedRun) -> None:
    assert list(run.violations) == []
    assert "a task begins to run with what its changelog says" not in run.unjudged
    assert "each input record is processed in exactly one committed transaction" not in run.unjudged


def test_what_needs_something_unseen_is_not_judged(run: RecordedRun) -> None:
    name = "an assignment gives each task to one owner"

    assert run.unjudged[name] == (
        "no group.assigned: the recorder does not see what the leader decides"
    )


def test_a_commit_that_comes_before_its_records_is_found(run: RecordedRun) -> None:
    """The judgement is of the events, so a run that is changed is found to be wrong."""
    from streamproof.reports.pipeline.rechecking.run_invariants import KNOWN, judgement_of

    wrong = [each for each in run.events if each.kind != "task.processed"]
    found = judgement_of(iter(wrong), KNOWN, run.unseen).violations

    assert "TASK-005" in {each.requirement for each in found}


def test_a_trace_of_a_recording_says_what_it_lacks(run: RecordedRun, tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    with TraceFile(path, run.name, run.unseen) as file:
        for each in run.events:
            file(each)
    again = read_runs([path], [])[0]

    assert again.unseen == run.unseen
    assert again.unjudged == run.unjudged


def test_every_kind_is_recorded_or_said_not_to_be() -> None:
    words = ["java", "-XX:-UsePerfData", "-jar", str(built_recorder())]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    by_role = dict(zip(printed[1::2], printed[::2], strict=True))
    brokers = {kind for kind, role in by_role.items() if role == "brokers"}
    parts = [by_role.keys() - brokers, OF_BROKERS, OF_THE_DRIVER, MERGED, UNOBSERVED.keys()]

    assert brokers == OF_BROKERS
    assert sorted(kind for part in parts for kind in part) == sorted(KINDS)


class Files:
    """Recordings that a test writes line by line."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, name: str, *lines: dict[str, Any], rest: str = "") -> None:
        text = "".join(f"{json.dumps(each)}\n" for each in lines)
        (self.directory / f"{name}.events").write_text(text + rest)

    def application(self, at: int, **more: Any) -> dict[str, Any]:
        kinds = ["instance.started", "instance.stopped", "thread.stopped", "task.state"]
        about = {"actor": f"process-{at}", "settings": SETTINGS, "kinds": kinds, "epoch_ms": 7}
        return {"about": "application", "at": at, **about, **more}

    def event(self, at: int, kind: str, actor: str, **more: Any) -> dict[str, Any]:
        return {"at": at, "kind": kind, "actor": actor, **more}

    def read(self) -> list[Event]:
        return read_recording(self.directory).events


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_lines_are_merged_by_time(files: Files) -> None:
    stop = {"attributes": {"leaks": []}}
    files.write("1", files.application(0), files.event(9, "instance.stopped", "process-0", **stop))
    broker = {"about": "brokers", "at": 1, "kinds": []}
    files.write("2", broker, files.event(5, "log.appended", "brokers", attributes=APPENDED, **IN_0))

    assert [each.kind for each in files.read()] == [
        "application.started",
        "log.appended",
        "instance.stopped",
    ]


def test_a_line_that_a_kill_cut_off_is_left_out(files: Files) -> None:
    files.write("1", files.application(0), rest='{"at": 5, "kind": "thread.sto')

    assert [each.kind for each in files.read()] == ["application.started"]


def test_a_process_on_the_same_directory_is_the_same_instance(files: Files) -> None:
    stopped = files.event(5, "thread.stopped", "process-0/thread-1")
    files.write("1", files.application(0), stopped)
    later = files.event(15, "thread.stopped", "process-10/thread-1")
    files.write("2", files.application(10), later)

    assert [(each.kind, each.actor) for each in files.read()[1:]] == [
        ("thread.stopped", "instance-0/thread-1"),
        ("instance.crashed", "instance-0"),
        ("thread.stopped", "instance-0/thread-1"),
    ]


@pytest.mark.parametrize("stands_by", [True, False])
def test_a_kill_that_somebody_recorded_is_not_inferred_again(files: Files, stands_by: bool) -> None:
    """The JVM of the next start may be there before the kill, and load classes that are hooked."""
    files.write("1", files.application(0), files.event(5, "thread.stopped", "process-0/thread-1"))
    unfit = {"about": "unfit", "at": 2, "hook": "staged", "kinds": [], "reason": "it is not there"}
    files.write("2", *([unfit] if stands_by else []), files.application(10))
    killed = files.event(7, "instance.crashed", "instance-0")
    files.write("driver", {"about": "driver", "at": 0}, killed)

    assert [each.kind for each in files.read()].count("instance.crashed") == 1


def test_without_a_broker_nothing_is_judged_that_asks_for_logs(files: Files) -> None:
    files.write("1", files.application(0))
    unseen = read_recording(files.directory).unseen

    assert unseen.logs == "no broker was recorded"
    assert unseen.kinds["log.appended"] == "no broker was recorded"


def test_a_log_that_began_before_is_not_known(files: Files) -> None:
    files.write("1", files.application(0))
    log = {"about": "log", "partition": "in-0", "end": 3, "at": 2}
    files.write("2", {"about": "brokers", "at": 1, "kinds": []}, log)

    assert read_recording(files.directory).unseen.logs == (
        "the log of in-0 had records before it was recorded"
    )


def test_what_a_hook_lost_is_not_seen(files: Files) -> None:
    unfit = {"about": "unfit", "at": 0, "hook": "x", "reason": "gone", "kinds": ["task.state"]}
    files.write("1", unfit, files.application(1))

    assert read_recording(files.directory).unseen.kinds["task.state"] == (
        "it could not be observed (gone)"
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"at": 1}\n{"at":\n{"at": 2}\n', r"1\.events is damaged in line 2"),
        ('{"at": 1, "about": "brokers"}\n', "No application was recorded"),
    ],
)
def test_a_recording_that_cannot_be_read(files: Files, lines: str, message: str) -> None:
    files.write("1", rest=lines)

    with pytest.raises(UsageError, match=message):
        files.read()
