"""Stores in another process, as their author meets them: verified, killed, and misbehaving."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_lines import SUBJECTS, CommandLine

from streamproof.conformance import zygote

# What measures coverage writes files of its own, which a host must not, once its power is taken.
UNMEASURED = "env -u COVERAGE_PROCESS_CONFIG -u COVERAGE_PROCESS_START"
PYTHON = f"{UNMEASURED} {shlex.quote(sys.executable)}"
SMALL = f"{PYTHON} {SUBJECTS / 'small_host.py'}"


def bad(how: str) -> str:
    """A subject that does one thing wrong."""
    return f"cmd:{PYTHON} {SUBJECTS / 'bad_hosts.py'} {shlex.quote(how)}"


def served(subject: str) -> str:
    """A store in Python behind the protocol, whose process opens one store after another."""
    return f"cmd:{PYTHON} -P -m streamproof.host {subject}"


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("cmd:", "The command of the store host is empty"),
        ("cmd:'", "is not a valid command line: No closing quotation"),
        ("cmd:./no-such-host", "'./no-such-host' cannot be started: No such file or directory"),
        ("cmd:/bin/false", "left with exit code 1 during hello"),
        (bad("talks first"), "answered hello with b'Welcome to my store!'"),
        (bad("from the future"), "speaks version 3 of the protocol"),
        (bad("windows without times"), "a window store must declare retention_ms"),
        (bad("unknown capability"), "claims the unknown capabilities quantum"),
    ],
)
def test_a_host_that_cannot_be_used(subject: str, message: str, command_line: CommandLine) -> None:
    """Exit code 3, one line that says what the host did, and nothing left behind."""
    ended = command_line.verify(subject)

    assert ended.code == 3
    (line,) = ended.stderr.splitlines()
    assert line.startswith(("streamproof: The ", "streamproof: Subject "))
    assert message in line


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ("dies", "left with exit code 3 during get (the disk is on fire)."),
        ("is killed", "was ended by SIGSEGV during get."),
        ("nonsense", "answered get with b'Segmentation fault (core dumped)'"),
        ("wrong id", "with an answer to request"),
        ("twice", "with more than one answer"),
        ("unsupported", "UnsupportedOperationError: no such thing"),
        ("dies beside a child", "left with exit code 3 during get"),
    ],
)
def test_a_host_that_misbehaves(how: str, found: str, command_line: CommandLine) -> None:
    """The promise is broken, with what the host did; the rest is judged, and nothing is left."""
    ended = command_line.verify(bad(how), "--only", "KV-002,LIFE-001,LIFE-004")

    assert ended.code == 1
    assert "Traceback" not in ended.stdout + ended.stderr
    assert {each.requirement: each.status for each in ended.log.results} == {
        "KV-002": "fail",
        "LIFE-001": "pass",
        "LIFE-004": "pass",
    }
    assert found in ended.failures["KV-002"].found


def test_a_host_that_leaves_a_process_behind(command_line: CommandLine) -> None:
    """It is ended with the check that the host was started for."""
    ended = command_line.verify(bad("leaves a child"), "--only", "LIFE-001,LIFE-004")

    assert ended.code == 0
    assert {each.status for each in ended.log.results} == {"pass"}


def test_a_host_that_answers_late(command_line: CommandLine) -> None:
    """It is given up after the timeout, with the call that has no answer."""
    ended = command_line.verify(bad("late"), "--only", "KV-002,LIFE-001", "--timeout", "1")

    assert ended.code == 1
    assert ended.results["KV-002"].status == "error"
    assert "store.get(b'a') did not return within 1 s" in ended.results["KV-002"].reason
    assert ended.results["LIFE-001"].status == "pass"


def test_a_host_that_keeps_its_promises(command_line: CommandLine) -> None:
    """It is killed between its operations and within them, and nothing is found."""
    only = "KV,OFFSET,COMMIT,CRASH-003,CRASH-011,CRASH-012,ERR-008,POWER-003"
    ended = command_line.verify(f"cmd:{SMALL}", "--only", only)

    skipped = {name: each for name, each in ended.results.items() if each.status == "skip"}
    assert skipped.keys() == {"COMMIT-011"}
    assert "not one on RocksDB" in skipped["COMMIT-011"].reason
    assert {each.status for each in ended.log.results} == {"pass", "skip", "unsupported"}
    passed = {name: each for name, each in ended.results.items() if each.status == "pass"}
    assert {"KV-015", "OFFSET-013", "COMMIT-008"} < passed.keys()
    points = {"CRASH-003": "syscall", "CRASH-011": "syscall", "CRASH-012": "syscall"}
    for name, kind in {**points, "ERR-008": "enospc", "POWER-003": "power"}.items():
        assert passed[name].crash_points[kind] > 0
    # Lines of the client are no lines of the store.
    assert not [name for name, each in passed.items() if "line" in each.crash_points]
    assert ended.code == 0


def test_checks_take_over_the_host_of_the_check_before(
    command_line: CommandLine, tmp_path: Path
) -> None:
    """The end of a check ends no host that another check uses by then."""
    starts = tmp_path / "starts"
    host = f"echo started >> {starts}; exec {sys.executable} -P -m streamproof.host rocksdb"
    only = "KV-002,KV-003,LIFE-001,OFFSET-001,OFFSET-003,RESTORE-001"
    ended = command_line.verify(f"cmd:sh -c {shlex.quote(host)}", "--only", only, "-j", "1")

    assert ended.code == 0, ended.stdout
    assert {each.status for each in ended.log.results} == {"pass"}
    # One says hello. A check that leaves its store open leaves no host to the next one.
    assert len(starts.read_text().split()) < 1 + len(ended.log.checks)


def test_the_end_of_a_check_ends_what_it_has_left() -> None:
    """All processes of its group, but for those that were handed over."""
    sleep = ["/bin/sleep", "60"]
    leader = subprocess.Popen(sleep, process_group=0)
    left, spared = (subprocess.Popen(sleep, process_group=leader.pid) for _ in range(2))
    try:
        zygote._end_group(leader.pid, {spared.pid})
        assert [each.wait(10) for each in (leader, left)] == [-signal.SIGKILL] * 2
        assert spared.poll() is None
    finally:
        for each in (leader, left, spared):
            each.kill()
            each.wait()


def test_a_host_behind_a_shell(command_line: CommandLine) -> None:
    """The store is in a child of what is started, and that is killed."""
    subject = f"cmd:sh -c {shlex.quote(SMALL + '; exit $?')}"
    ended = command_line.verify(subject, "--only", "CRASH-003")

    crashes = ended.results["CRASH-003"]
    assert (crashes.status, ended.code) == ("pass", 0)
    assert min(crashes.crash_points["boundary"], crashes.crash_points["syscall"]) > 0
    assert "line" not in crashes.crash_points


def test_a_mistake_is_found_and_its_program_shows_it(command_line: CommandLine) -> None:
    """The program of the report runs as it stands, kills the host, and finds the same."""
    ended = command_line.verify(f"cmd:{SMALL} --bug", "--only", "CRASH-003")

    failure = ended.failures["CRASH-003"]
    assert "lab.arm(syscall=" in failure.program
    program = command_line.cwd / "program.py"
    program.write_text(failure.program)
    done = subprocess.run(
        [sys.executable, "-P", program],
        env=command_line.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"found {failure.found}\n" in done.stderr
    assert "AssertionError" in done.stderr
    command_line.expect_nothing_left()


IN_THE_PROCESS = {f"TXN-0{number}" for number in (19, 21, 22, 24, 26, 27, 30)}
"""Requirements on objects of Python, which only a store in the same process has, and on its disk,
which cannot be made to fail while a host runs."""


def test_the_verdict_is_the_same_from_afar(command_line: CommandLine) -> None:
    """Whether a store is called or asked changes no result of what both can be asked.

    test_rust_host.py cuts the power of a host, too.
    """
    only = ("--only", "KV,OFFSET,TXN,CRASH-003")
    near = command_line.verify("rocksdb-transactional", *only).results
    far = command_line.verify(served("rocksdb-transactional"), *only).results

    assert {each.status for each in near.values()} == {"pass", "unsupported"}
    skipped = {name: each.reason for name, each in far.items() if each.status == "skip"}
    assert skipped.keys() == IN_THE_PROCESS
    assert all("store host" in reason for reason in skipped.values()), skipped
    both = near.keys() - skipped.keys()
    assert {name: near[name].status for name in both} == {name: far[name].status for name in both}
    assert far.keys() == near.keys()
    assert far["CRASH-003"].crash_points["syscall"] > 0


@pytest.mark.parametrize(
    ("subject", "only"),
    [
        ("rocksdb-window", "WIN-007,WIN-016,WIN-033,WIN-038,WIN-040,WIN-041,WIN-044,CRASH-001"),
        ("in-memory-session", "SESS-004,SESS-010,SESS-025,SESS-030,SESS-032,SESS-033,SESS-036"),
    ],
)
def test_the_verdict_on_windows_is_the_same_from_afar(
    subject: str, only: str, command_line: CommandLine
) -> None:
    """Expiry, iterators that outlive other calls and the close of the store, restoration, kills."""
    passed = dict.fromkeys(only.split(","), "pass")
    for name in (subject, served(subject)):
        results = command_line.verify(name, "--only", only).results

        assert {id_: each.status for id_, each in results.items()} == passed
