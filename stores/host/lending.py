"""Idle hosts go from a process to its children, and back.

Starting a host may take longer than most checks. So a process lends its idle hosts to each child
that it forks for a check or an inspection, and the child hands over what is idle when it ends. A
host belongs to one process at a time: whoever lends it or hands it over does not use it again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from array import array
from collections.abc import Sequence
from typing import Any, Self
from weakref import finalize

import msgspec
from msgspec.json import Decoder

from streamproof.stores.errors import StoreError
from streamproof.stores.host import process
from streamproof.stores.host.process import HostCommand, HostProcess

__all__ = ["Lender", "hand_over"]

MOST_OPENINGS = 100
"""A host that has opened so many stores is not handed over: each may have left something behind."""

MOST_BYTES = 64 * 1024
"""The largest description of a host, in bytes; its command line is most of it."""

CLOSE_TIMEOUT_S = 1.0
"""How long a store may take to close; without an answer its host is killed."""

DESCRIPTORS = 4
"""Those of the input, the output, the log and the process itself."""

_NOTHING: Decoder[Any] = Decoder()


class _Told(msgspec.Struct):
    """What the next process has to know of a host, beside its descriptors."""

    pid: int
    command: HostCommand
    protocol: int
    requests: int
    openings: int

    @classmethod
    def of(cls, host: HostProcess) -> Self:
        """What this process knows of a host."""
        return cls(host.pid, host.command, host.protocol, host.requests, host.openings)

    def adopt(self, descriptors: Sequence[int]) -> None:
        """Take the host as an idle one of this process."""
        host = HostProcess.adopt(self.command, self.pid, descriptors)
        host.protocol, host.reopens = self.protocol, True
        host.requests, host.openings = self.requests, self.openings
        process.take_idle(host)


def hand_over(channel: socket.socket) -> None:
    """Send the hosts that this process does not need any more to the lender that has forked it.

    Args:
        channel: what the lender calls its ``channel``.
    """
    for host in process.hosts():
        if host.reopens and host.openings <= MOST_OPENINGS and _is_idle(host):
            # Without room in the channel, the host leaves when this process ends.
            with contextlib.suppress(OSError):
                told = msgspec.json.encode(_Told.of(host))
                rights = array("i", host.descriptors)
                # socket.send_fds of Python 3.11 ignores its flags, and would wait for room.
                ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
                channel.sendmsg([told], ancillary, socket.MSG_DONTWAIT)


def _is_idle(host: HostProcess) -> bool:
    """Whether a host has closed its store, perhaps now, because nobody uses the store any more."""
    if host in process.idle_hosts():
        return True
    with contextlib.suppress(StoreError):
        host.call(_NOTHING, "close", {}, timeout_s=CLOSE_TIMEOUT_S)
        return True
    return False


class Lender:
    """The side of the process that lends hosts.

    Attributes:
        channel: through which children hand hosts over.
    """

    def __init__(self) -> None:
        self._mine, self.channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._mine.setblocking(False)
        for each in (self._mine, self.channel):
            finalize(self, each.close).atexit = False
        # By the borrower: the process ids of hosts, and descriptors of these processes.
        self._lent: dict[int, dict[int, int]] = {}

    def fork(self) -> int:
        """Fork a child that gets the idle hosts, and which ``returned`` is told when it ends."""
        lent = [each for each in process.idle_hosts() if each.reopens]
        child = os.fork()
        if child:
            self._lent[child] = {each.pid: os.dup(each.descriptors[-1]) for each in lent}
            for each in lent:
                each.let_go()
            return child
        self._mine.close()
        self._lent.clear()
        for each in lent:
            # What the parent knew of the host closes its descriptors as soon as it is forgotten.
            _Told.of(each).adopt([os.dup(one) for one in each.descriptors])
        return child

    def returned(self, borrower: int) -> None:
        """Take what was handed over, and kill what a child had that has ended without it."""
        self._receive()
        for death in self._lent.pop(borrower, {}).values():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(death, signal.SIGKILL)
            os.close(death)

    def hosts(self) -> set[int]:
        """The process ids of all hosts that are idle or lent."""
        return {each.pid for each in process.idle_hosts()}.union(*self._lent.values())

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                message, descriptors, *_ = socket.recv_fds(self._mine, MOST_BYTES, DESCRIPTORS)
                told = msgspec.json.decode(message, type=_Told)
                told.adopt(descriptors)
                # It may be lent again before the end of its last borrower is noticed.
                for lent in self._lent.values():
                    if told.pid in lent:
                        os.close(lent.pop(told.pid))
