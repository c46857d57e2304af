"""Idle hosts go from one process to the next, and belong to one process at a time."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamproof.stores.api import StateStoreContext
from streamproof.stores.errors import ProcessorStateError
from streamproof.stores.host import client, lending, process
from streamproof.stores.host.client import HostFactory, RemoteStore
from streamproof.stores.host.lending import Lender, hand_over

COMMAND = f"{sys.executable} -P -m streamproof.host"
SUBJECTS = Path(__file__).resolve().parent.parent / "subjects"


@pytest.fixture
def lender(tmp_path: Path) -> Iterator[Lender]:
    """A lender whose hosts are dead in the end."""
    yield Lender()
    client.kill_hosts()
    for path in tmp_path.glob("pid-*"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(path.read_text()), signal.SIGKILL)


def forked(lender: Lender, work: Callable[[], None]) -> int:
    """A borrower that works and ends; its exit code is not 0 if the work raises."""
    pid = lender.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            # This process must not return into the test.
            os._exit(code)
    return pid


def in_child(lender: Lender, work: Callable[[], None]) -> None:
    """Let a borrower work, and end."""
    pid = forked(lender, work)
    _, status = os.waitpid(pid, 0)
    lender.returned(pid)
    assert status == 0


def use(lender: Lender, directory: Path) -> None:
    """Open and close a store, and hand its host over."""
    opened(directory).close()
    hand_over(lender.channel)


def opened(directory: Path, subject: str = "in-memory") -> RemoteStore:
    """An open store, whose host has left its process id."""
    store = HostFactory(f"{COMMAND} {subject}")()
    context = StateStoreContext(state_dir=directory)
    store.init(context, store)
    assert store._host is not None
    name = f"pid-{len(list(directory.glob('pid-*')))}"
    (directory / name).write_text(str(store._host.pid))
    return store


def pids(directory: Path) -> list[int]:
    """The process ids of the hosts, in the order of the openings."""
    paths = sorted(directory.glob("pid-*"))
    return [int(path.read_text()) for path in paths]


def has_ended(pid: int) -> bool:
    """Whether a process ends soon."""
    for _ in range(500):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_the_next_child_takes_the_host(lender: Lender, tmp_path: Path) -> None:
    """A store is another one each time, and requests are answered in their order."""

    def work() -> None:
        store = opened(tmp_path)
        assert store.get(b"a") is None
        store.put(b"a", b"1")
        store.close()
        hand_over(lender.channel)

    for _ in range(3):
        in_child(lender, work)
    first, *others = pids(tmp_path)
    assert others == [first, first]


def test_a_store_that_is_left_open_is_closed(lender: Lender, tmp_path: Path) -> None:
    """Its host is handed over all the same."""

    def work() -> None:
        opened(tmp_path).put(b"a", b"1")
        hand_over(lender.channel)

    for _ in range(2):
        in_child(lender, work)
    first, second = pids(tmp_path)
    assert first == second


def test_a_store_that_cannot_be_closed_ends_its_host(lender: Lender, tmp_path: Path) -> None:
    """Nobody knows what such a process would do with the next store."""

    def work() -> None:
        opened(tmp_path, f"{SUBJECTS / 'bad_close.py'}:make")
        hand_over(lender.channel)

    for _ in range(2):
        in_child(lender, work)
    first, second = pids(tmp_path)
    assert first != second
    assert has_ended(first)
    assert has_ended(second)


def test_a_borrowed_host_that_does_not_come_back_is_killed(lender: Lender, tmp_path: Path) -> None:
    """A store in it may hang, and never see the end of its input."""

    def hang() -> None:
        host = opened(tmp_path)._host
        assert host is not None
        os.kill(host.pid, signal.SIGSTOP)

    in_child(lender, lambda: use(lender, tmp_path))
    in_child(lender, hang)
    first, second = pids(tmp_path)
    assert first == second
    assert has_ended(first)


def test_a_lender_that_takes_no_more_hosts_holds_nobody_up(lender: Lender, tmp_path: Path) -> None:
    """The lender may wait for the end of the very process that hands its hosts over."""
    with contextlib.suppress(BlockingIOError):
        while True:
            lender.channel.send(b"no room is left", socket.MSG_DONTWAIT)
    pid = forked(lender, lambda: use(lender, tmp_path))
    ended = select.select([os.pidfd_open(pid)], [], [], 60)[0]
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)

    assert ended


def test_a_host_is_lent_again_before_its_borrower_ends(lender: Lender, tmp_path: Path) -> None:
    """The end of the first borrower, noticed late, does not harm the second one."""
    in_child(lender, lambda: use(lender, tmp_path))
    first = forked(lender, lambda: use(lender, tmp_path))
    assert os.waitpid(first, 0)[1] == 0
    # The end of another child is noticed first.
    lender.returned(-1)

    def late() -> None:
        store = opened(tmp_path)
        (tmp_path / "open").touch()
        while (tmp_path / "open").exists():
            time.sleep(0.01)
        assert store.get(b"a") is None

    second = forked(lender, late)
    while not (tmp_path / "open").exists():
        time.sleep(0.01)
    lender.returned(first)
    (tmp_path / "open").unlink()
    assert os.waitpid(second, 0)[1] == 0
    assert len(set(pids(tmp_path))) == 1


def test_a_host_that_has_ended_meanwhile_is_not_taken(lender: Lender, tmp_path: Path) -> None:
    """A machine without memory may kill it, and a store is not to blame for that."""
    in_child(lender, lambda: use(lender, tmp_path))
    os.kill(pids(tmp_path)[0], signal.SIGKILL)
    in_child(lender, lambda: use(lender, tmp_path))
    first, second = pids(tmp_path)
    assert first != second


def test_a_host_that_dies_in_another_process_is_told(lender: Lender, tmp_path: Path) -> None:
    """Without the exit code, and without what it has said to the process before."""

    def die() -> None:
        store = opened(tmp_path)
        assert store._host is not None
        os.kill(store._host.pid, signal.SIGKILL)
        with pytest.raises(ProcessorStateError, match="unknown exit code during get"):
            store.get(b"a")
        assert not store.is_open
        assert not process._hosts

    in_child(lender, lambda: use(lender, tmp_path))
    in_child(lender, die)


def test_an_old_host_is_not_handed_over(
    lender: Lender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its stores may have left something behind."""
    monkeypatch.setattr(lending, "MOST_OPENINGS", 1)

    for _ in range(3):
        in_child(lender, lambda: use(lender, tmp_path))
    first, second, third = pids(tmp_path)
    assert first == second != third


def test_a_process_that_dies_with_its_hosts_borrows_none(lender: Lender, tmp_path: Path) -> None:
    """A host that it kills must see what only its own hosts see."""

    def fork() -> None:
        child = os.fork()
        if child == 0:
            opened(tmp_path)
            client.kill_hosts()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0

    in_child(lender, lambda: use(lender, tmp_path))
    in_child(lender, fork)
    first, second = pids(tmp_path)
    assert first != second
