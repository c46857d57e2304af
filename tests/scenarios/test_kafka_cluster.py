"""Real brokers: they come up, say why they do not, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from streamproof.errors import UsageError
from streamproof.scenarios.kafka.cluster import require_cluster, start_broker
from streamproof.scenarios.kafka.processes import Processes
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE

OWNER = f"""
import signal
import time
from streamproof.scenarios.kafka.cluster import start_broker
from streamproof.scenarios.kafka.processes import Processes
# Tests that run in the background ignore it, and so would this program.
signal.signal(signal.SIGINT, signal.default_int_handler)
with Processes() as processes:
    broker = start_broker(processes, "{DEFAULT_RELEASE}")
    print(processes.directory, broker.process.pid, broker.address, flush=True)
    time.sleep(600)
"""
"""A program that starts a broker and does not end."""

GONE_S = 60.0
"""Killing a JVM and deleting its directory takes less, in seconds, on a busy machine, too."""


@pytest.fixture
def processes() -> Iterator[Processes]:
    with Processes() as made:
        yield made


def listens(address: str) -> bool:
    """Whether anybody accepts connections."""
    host, _, port = address.partition(":")
    try:
        socket.create_connection((host, int(port)), 5).close()
    except ConnectionRefusedError:
        return False
    return True


def is_alive(pid: int) -> bool:
    """Whether a process has not ended; one that nobody has waited for yet has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def what_is_left(directory: Path, pid: int, address: str) -> list[str]:
    """What a broker left behind after a while."""
    left = ["something"]
    deadline = time.monotonic() + GONE_S
    while left and time.monotonic() < deadline:
        left = [str(directory)] if directory.exists() else []
        left += [f"process {pid}"] if is_alive(pid) else []
        left += [address] if listens(address) else []
        time.sleep(0.05)
    return left


def test_a_broker_serves_clients_and_leaves_nothing() -> None:
    with Processes() as processes:
        broker = start_broker(processes, DEFAULT_RELEASE)
        require_cluster(broker.address)
        directory = processes.directory
        assert directory.is_dir()

    assert what_is_left(directory, broker.process.pid, broker.address) == []


def test_a_broker_listens_on_the_loopback_address_alone(processes: Processes) -> None:
    """A socket on all addresses would keep everybody else from this port."""
    port = int(start_broker(processes, DEFAULT_RELEASE).address.rpartition(":")[2])

    with closing(socket.socket()) as other:
        other.bind(("127.0.0.2", port))
        other.listen()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_owner_that_is_ended_leaves_nothing(how: signal.Signals) -> None:
    command = [sys.executable, "-P", "-c", OWNER]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as owner:
        assert owner.stdout is not None
        directory, pid, address = owner.stdout.readline().split()
        owner.send_signal(how)
        owner.wait(GONE_S)

    assert what_is_left(Path(directory), int(pid), address) == []


def test_a_paused_process_is_ended_too() -> None:
    with Processes() as processes:
        process = processes.start("sleeper", ["sleep", "600"])
        os.kill(process.pid, signal.SIGSTOP)

    assert not is_alive(process.pid)


def test_each_broker_has_a_cluster_of_its_own() -> None:
    ids = []
    for _ in range(2):
        with Processes() as processes:
            start_broker(processes, DEFAULT_RELEASE)
            text = (processes.directory / "broker" / "meta.properties").read_text("utf-8")
            ids += [each for each in text.splitlines() if each.startswith("cluster.id=")]

    assert len(set(ids)) == 2


def test_a_port_in_use_is_named(processes: Processes) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(UsageError, match=f"cannot listen on port {port} of 127.0.0.1"):
            start_broker(processes, DEFAULT_RELEASE, port=port)


def test_a_broker_that_ends_tells_its_last_lines(processes: Processes) -> None:
    with pytest.raises(
        UsageError, match=r"(?s)did not come up: it ended\. It wrote last:.*num\.io"
    ):
        start_broker(processes, DEFAULT_RELEASE, settings={"num.io.threads": "none"})


def test_a_broker_that_takes_too_long_is_given_up(processes: Processes) -> None:
    with pytest.raises(UsageError, match=r"did not come up: it is not ready after 0\.1 s"):
        start_broker(processes, DEFAULT_RELEASE, coming_up_s=0.1)


@pytest.mark.parametrize("program", ["java", "mvn"])
def test_a_missing_program_is_named(
    processes: Processes, program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing is prepared yet, and the program is not installed."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for each in {"java", "mvn"} - {program}:
        (programs / each).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    with pytest.raises(UsageError, match=f"needs the program '{program}'"):
        start_broker(processes, DEFAULT_RELEASE)


@pytest.mark.parametrize("release", ["4.3", "2.8.0"])
def test_a_release_that_cannot_be_had_is_named(processes: Processes, release: str) -> None:
    with pytest.raises(UsageError, match=release):
        start_broker(processes, release)


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:1", "127.0.0.1:70000"])
def test_a_cluster_that_is_not_there_is_named(address: str) -> None:
    with pytest.raises(UsageError, match=address):
        require_cluster(address)


def test_no_directory_for_processes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    monkeypatch.setattr(tempfile, "tempdir", None)

    with pytest.raises(UsageError, match="No directory can be made"):
        Processes()
