"""Idle hosts of a process that ends, handed over to one that lends them to its next children.

Starting a host may take longer than most checks. So a check hands its idle hosts over to the
process that has forked it, and that process lends them to the next check. A host belongs to one
process at a time: whoever hands it over, or forks a child that takes it, does not use it again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket

import msgspec

from streamproof.stores.host import process
from streamproof.stores.host.process import HostCommand, HostProcess

__all__ = ["Lender", "hand_over"]

MOST_OPENINGS = 100
"""A host that has opened so many stores is not handed over: each may have left something behind."""

MOST_BYTES = 64 * 1024
"""The largest description of a host, in bytes; its command line is most of it."""

DESCRIPTORS = 4
"""Those of the input, the output, the log and the process itself."""


class _IdleHost(msgspec.Struct):
    """A host without a process that uses it."""

    pid: int
    command: HostCommand
    protocol: int
    requests: int
    openings: int
    descriptors: list[int] = []

    def adopted(self) -> HostProcess:
        """The host, in the process that uses it from now on."""
        host = HostProcess.adopt(self.command, self.pid, self.descriptors)
        host.protocol, host.reopens = self.protocol, True
        host.requests, host.openings = self.requests, self.openings
        return host

    def close(self) -> None:
        """Close the descriptors: the host goes on, or leaves if it was the last to have them."""
        for each in self.descriptors:
            os.close(each)


def hand_over(channel: socket.socket) -> None:
    """Send the idle hosts of this process to the lender that has forked it.

    Args:
        channel: what the lender calls its ``channel``.
    """
    for host in process.idle_hosts():
        if not host.reopens or host.openings > MOST_OPENINGS:
            continue
        told = _IdleHost(host.pid, host.command, host.protocol, host.requests, host.openings)
        # Without room in the channel, the host leaves when this process ends.
        with contextlib.suppress(OSError):
            socket.send_fds(
                channel, [msgspec.json.encode(told)], host.descriptors, socket.MSG_DONTWAIT
            )


class Lender:
    """The side of the process that lends hosts.

    Attributes:
        channel: through which children hand hosts over.
    """

    def __init__(self) -> None:
        self._mine, self.channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._mine.setblocking(False)
        self._idle: list[_IdleHost] = []
        # By the borrower: the process ids of hosts, and descriptors of these processes.
        self._lent: dict[int, dict[int, int]] = {}

    def close(self) -> None:
        """Let the idle hosts leave."""
        self._mine.close()
        self.channel.close()
        for each in self._idle:
            each.close()
        self._idle.clear()

    def lend(self, borrower: int) -> None:
        """Note, after a fork, that a child has taken all idle hosts."""
        self._lent[borrower] = {each.pid: os.dup(each.descriptors[-1]) for each in self._idle}
        for each in self._idle:
            each.close()
        self._idle.clear()

    def borrow(self) -> None:
        """Take all idle hosts, in a child that was just forked."""
        self._mine.close()
        process.take_idle(each.adopted() for each in self._idle)
        self._idle.clear()
        self._lent.clear()

    def returned(self, borrower: int) -> None:
        """Take what was handed over, and kill what a child had taken that has ended without it."""
        self._receive()
        for death in self._lent.pop(borrower, {}).values():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(death, signal.SIGKILL)
            os.close(death)

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                told, descriptors, *_ = socket.recv_fds(self._mine, MOST_BYTES, DESCRIPTORS)
                idle = msgspec.json.decode(told, type=_IdleHost)
                idle.descriptors = descriptors
                self._idle.append(idle)
                # It may be lent again before the end of its last borrower is noticed.
                for lent in self._lent.values():
                    if idle.pid in lent:
                        os.close(lent.pop(idle.pid))
