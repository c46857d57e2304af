"""The example of an application: the right one passes, and each mistake fails where it should."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
COMMAND = Path(sys.executable).parent / "streamproof"

BROKERLESS = """
[application]
command = COMMAND
guarantee = "exactly-once"
starts_s = STARTS_S

[[inputs]]
topic = "orders"
records = [{ key = "ada", value = "1" }]

[[outputs]]
topic = "totals"
"""

ORDERS = '["java", "-cp", "CLASSES", "com.acme.orders.Orders", "right", "{bootstrap}", "{state}"]'


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, built."""
    copy = tmp_path_factory.mktemp("orders") / "kafka-application"
    left = shutil.ignore_patterns("target", ".streamproof", "streamproof-out")
    shutil.copytree(ROOT / "examples" / "kafka-application", copy, ignore=left)
    words = ["mvn", "--quiet", "--batch-mode", "compile"]
    subprocess.run(words, cwd=copy, check=True, capture_output=True, timeout=280)
    return copy


def verify(where: Path, file: str, *options: str) -> tuple[int, str, list[dict[str, Any]]]:
    """The exit code, what was printed, and the records of the run log."""
    words = [COMMAND, "verify", file, "--profile", "smoke", "--no-bank", "--out", f"out-{file}"]
    done = subprocess.run(
        [*words, *options], cwd=where, capture_output=True, text=True, check=False, timeout=290
    )
    log = where / f"out-{file}" / "run.ndjson"
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    return done.returncode, done.stdout + done.stderr, [json.loads(each) for each in lines]


def statuses(records: list[dict[str, Any]]) -> dict[str, str]:
    return {each["requirement"]: each["status"] for each in records if each["type"] == "result"}


def test_the_right_application_passes(project: Path) -> None:
    """What was tried passes; whether a kill hits a transaction depends on the machine."""
    code, printed, records = verify(project, "app.toml", "--seed", "20")
    found = statuses(records)

    assert code == 0, printed
    assert [found[f"APP-00{each}"] for each in (1, 2, 5, 6)] == ["pass"] * 4
    assert (found["EOS-002"], found["TASK-003"]) == ("pass", "skip")
    assert (project / "out-app.toml" / "report.html").is_file()


MOST_SEEDS = 5
"""The most seeds until a mistake shows. Transactions depend on the speed of the machine."""


@pytest.mark.parametrize(
    ("file", "seed", "topic"),
    [
        ("static-map.toml", 1, "totals"),
        ("own-producer.toml", 11, "receipts"),
        ("uncommitted-reader.toml", 20, "notices"),
    ],
)
def test_a_mistake_is_found(project: Path, file: str, seed: int, topic: str) -> None:
    """With one of a few seeds, a smoke run with one run with faults shows each mistake."""
    for each in range(seed, seed + MOST_SEEDS):
        code, printed, records = verify(project, file, "--seed", str(each), "--only", "APP-001")
        failures = [record for record in records if record["type"] == "failure"]
        if failures:
            break

    assert code == 1, printed
    requirements = {failure["requirement"] for failure in failures}
    assert requirements <= {"APP-001", "APP-002", "APP-005"}, printed
    shown = [failure for failure in failures if failure["shape"].endswith(f"-{topic}")]
    assert [failure["requirement"] for failure in shown] == ["APP-001"]
    assert shown[0]["tried"].startswith(("kill instance-", "stop instance-", "pause instance-"))
    assert shown[0]["reproduce"] == (
        f"streamproof verify {file} --profile smoke --only APP-001 --seed {each}"
    )


ENOUGH_S = 150
"""A JVM starts in less, in seconds, also on a busy machine."""


def brokerless(command: str, starts_s: int = ENOUGH_S) -> str:
    """The file of an application that is started by a command."""
    return BROKERLESS.replace("COMMAND", command).replace("STARTS_S", str(starts_s))


@pytest.mark.parametrize(
    ("command", "starts_s", "message"),
    [
        # A script that starts something else than a JVM, and waits.
        (
            '["sh", "-c", "echo waiting; sleep 600", "{bootstrap}", "{state}"]',
            10,
            "The process that the command starts is no JVM: let a script start Java by exec",
        ),
        # The application itself refuses to start.
        (ORDERS.replace("right", "{instance}"), ENOUGH_S, "There is no variant instance-0."),
    ],
)
def test_an_application_that_never_runs(
    project: Path, command: str, starts_s: int, message: str
) -> None:
    classes = f"{project}/target/classes:{project}/target/jars/*"
    text = brokerless(command.replace("CLASSES", classes), starts_s)
    (project / "never.toml").write_text(text, "utf-8")
    code, printed, records = verify(project, "never.toml")

    assert code == 3
    assert message in " ".join(printed.split())
    assert "It wrote last:" in printed
    assert records == []


def test_an_input_that_the_file_does_not_name(project: Path) -> None:
    classes = f"{project}/target/classes:{project}/target/jars/*"
    text = brokerless(ORDERS.replace("CLASSES", classes))
    (project / "topic.toml").write_text(text.replace('"orders"', '"others"'), "utf-8")
    code, printed, _ = verify(project, "topic.toml")

    assert code == 3
    assert "MissingSourceTopicException: One or more source topics were missing" in printed
    assert "Name every topic that the application reads in [[inputs]]." in printed


def test_nothing_is_left_of_a_run_that_is_killed(project: Path) -> None:
    words = [
        COMMAND,
        "verify",
        "app.toml",
        "--profile",
        "smoke",
        "--no-bank",
        "--out",
        "out-killed",
    ]
    process = subprocess.Popen(words, cwd=project, stdout=subprocess.DEVNULL, text=True)
    try:
        wait_for(lambda: len(instances(project)) == 2)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()

    wait_for(lambda: not instances(project))


def instances(project: Path) -> list[int]:
    """The instances of the application that run."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            here = (path / "cwd").readlink() == project
            if here and b"com.acme.orders.Orders" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)
