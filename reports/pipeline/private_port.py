"""Closes a port of this process to everybody else on the machine.

Any user of a machine can connect to a port on its loopback interface. A server that lets in whoever
connects, and runs what it is told, must not stand open like that, not even for a second. Here the
kernel drops all packets to the port but those of one connection, which this process makes itself.
A Unix socket, in a directory that only this user can enter, leads to that connection.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select
from threading import Thread

__all__ = ["private_port"]

_LOOPBACK = "127.0.0.1"

_SO_ATTACH_FILTER = 26
"""The option of a socket that has a filter for what reaches it (``asm-generic/socket.h``)."""

_LOAD, _LOAD_HALF, _JUMP_EQUAL, _RETURN = 0x20, 0x28, 0x15, 0x06
"""Codes of a classic BPF program (``linux/filter.h``)."""

_SENDER_ADDRESS = 0x1_0000_0000 - 0x10_0000 + 12
"""Where a filter finds the address of the sender: in the header of IP, ``SKF_NET_OFF + 12``."""

_SENDER_PORT = 0
"""Where a filter finds the port of the sender: the header of TCP begins with it."""


@contextmanager
def private_port(port: int, path: Path) -> Iterator[None]:
    """Make a port reachable by a Unix socket alone, for one connection, which the block ends.

    Args:
        port: where this process listens, on 127.0.0.1, since a moment ago.
        path: the Unix socket to make, in a directory of this user alone.

    Raises:
        OSError: this kernel does not filter, or somebody connected before the port was closed.
    """
    with socket.socket() as gate, socket.socket(socket.AF_UNIX) as entrance:
        gate.bind((_LOOPBACK, 0))
        with _listener(port) as listener:
            _admit_only(gate.getsockname(), listener)
        _enter(gate, port)
        entrance.bind(str(path))
        entrance.listen()
        Thread(target=_relay, args=(entrance, gate), daemon=True).start()
        try:
            yield
        finally:
            # Who waits for a socket is not woken when another thread closes it.
            for each in (entrance, gate):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


def _enter(gate: socket.socket, port: int) -> None:
    """Connect to a port that has just been closed to everybody else, and check that it has been."""
    if _is_connected(port):
        raise OSError(f"another process connected to port {port} before it was closed")
    with socket.socket() as stranger:
        stranger.setblocking(False)
        stranger.connect_ex((_LOOPBACK, port))
        gate.connect((_LOOPBACK, port))
        # A kernel that takes a filter and heeds it not has connected both by now.
        if stranger in select([], [stranger], [], 0)[1]:
            raise OSError("this kernel does not filter what reaches a socket")


def _listener(port: int) -> socket.socket:
    """The socket of this process that listens at a port."""
    for each in Path("/proc/self/fd").iterdir():
        # The one that lists the directory is closed already.
        with suppress(OSError):
            found = socket.fromfd(int(each.name), socket.AF_INET, socket.SOCK_STREAM)
            if _listens(found, port):
                return found
            found.close()
    raise OSError(f"this process does not listen at port {port}")


def _listens(found: socket.socket, port: int) -> bool:
    try:
        is_there = found.getsockname() == (_LOOPBACK, port)
        return is_there and bool(found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:  # Most files are no sockets.
        return False


def _admit_only(sender: tuple[str, int], listener: socket.socket) -> None:
    """Let the kernel drop what does not come from this address and port."""
    (address,) = struct.unpack("!I", socket.inet_aton(sender[0]))
    program = (
        (_LOAD, 0, 0, _SENDER_ADDRESS),
        (_JUMP_EQUAL, 0, 3, address),
        (_LOAD_HALF, 0, 0, _SENDER_PORT),
        (_JUMP_EQUAL, 0, 1, sender[1]),
        (_RETURN, 0, 0, 0xFFFF_FFFF),
        (_RETURN, 0, 0, 0),
    )
    code = b"".join(struct.pack("=HBBI", *each) for each in program)
    held = ctypes.create_string_buffer(code)
    told = struct.pack("@HP", len(program), ctypes.addressof(held))
    listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, told)


def _is_connected(port: int) -> bool:
    """Whether anybody has a connection to a port of this machine.

    A connection that this machine has ended may stay listed for a minute. It may have been of
    another process, which had the same port before.
    """
    listens, was_ended = "0A", "06"
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text("ascii").splitlines()]
    return any(
        row[1].endswith(f":{port:04X}") and row[3] not in {listens, was_ended} for row in rows[1:]
    )


def _relay(entrance: socket.socket, gate: socket.socket) -> None:
    """Pass on what the first caller of a Unix socket and a server tell each other."""
    with suppress(OSError):
        caller, _ = entrance.accept()
        entrance.close()
        with caller:
            back = Thread(target=_pass_on, args=(gate, caller), daemon=True)
            back.start()
            _pass_on(caller, gate)
            back.join()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    # Either side may end first, and then the other is told.
    with suppress(OSError):
        while told := source.recv(1 << 16):
            sink.sendall(told)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
