"""The process of a store host: how it is started, asked, and ended.

The host belongs to the process group of this process, so that killing the group kills the host.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, NamedTuple, NoReturn, Self, TypeVar

import msgspec
from msgspec.json import Decoder

from streamproof.errors import UsageError
from streamproof.stores.errors import ProcessorStateError, StoreError
from streamproof.stores.host.adopted_process import UNKNOWN_CODE, AdoptedProcess
from streamproof.stores.host.protocol import KINDS, MAX_LINE_BYTES, PROTOCOL, Hello, HostReply

__all__ = ["HostCommand", "HostProcess", "die_with_hosts", "host_for", "hosts", "kill_hosts"]

HELLO_TIMEOUT_S = 20.0
"""How long a host may take to start and to say hello, in seconds."""

LEAVE_TIMEOUT_S = 5.0
"""How long a host may take to leave once its input has ended, in seconds; then it is killed."""

DIRECTORY = "{dir}"
"""Stands for the directory of the task in a command."""

LOG_END_BYTES = 16_384
"""How many bytes at the end of the standard error are searched for its last line."""

LONGEST_WORDS = 600
"""The most characters of that line."""

UNUSABLE = 3
"""The exit code of a host that cannot serve its store; its last line says why."""

CRASH_OF_JVM = b"# A fatal error has been detected by the Java Runtime Environment:"
"""The beginning of the report of a JVM that crashed, on its standard error."""

FRAME_OF_CRASH = "Problematic frame:"
"""The line of the report before the function that crashed."""

_FRAME = re.compile(r"\s+at |\s+\.\.\. \d+ ")
"""The start of a line below an error in Java: the error is more telling than where it arose."""

KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""The exit codes of a host that was killed: its own, and that of a shell which had started it."""

T = TypeVar("T")

_reply = Decoder(HostReply)
_hello = Decoder(Hello)
_encode = msgspec.json.Encoder().encode

_hosts: set[HostProcess] = set()
_idle: list[HostProcess] = []
_was_killed: Callable[[], bool] | None = None
"""Tells whether a host that has died was killed on purpose; ``None`` if none is to be killed."""


def die_with_hosts(was_killed: Callable[[], bool]) -> None:
    """From now on, this process dies by SIGKILL as soon as one of its hosts was killed on purpose.

    Args:
        was_killed: tells whether the host that has just died was. A store may kill its host
            itself, or leave with the exit code of a process that was killed.
    """
    global _was_killed  # noqa: PLW0603 - it is a property of the process
    _was_killed = was_killed


def kill_hosts() -> None:
    """Kill every host of this process, and wait until all are dead."""
    for host in list(_hosts):
        host.kill()


def _forget_idle_hosts() -> None:
    """Leave the idle hosts to the parent of this process, which a fork has just made."""
    _hosts.difference_update(_idle)
    _idle.clear()


os.register_at_fork(after_in_child=_forget_idle_hosts)


def _end_idle_hosts() -> None:
    """Leave no idle host behind; Python would warn of a process that nobody has waited for."""
    for host in idle_hosts():
        host.kill()


atexit.register(_end_idle_hosts)


def hosts() -> Sequence[HostProcess]:
    """The living hosts of this process."""
    return tuple(_hosts)


def idle_hosts() -> Sequence[HostProcess]:
    """The hosts of this process that have closed their stores."""
    return tuple(_idle)


def take_idle(host: HostProcess) -> None:
    """Keep a host that has closed its store."""
    _idle.append(host)


class HostCommand(NamedTuple):
    """The command line that starts a host, and the short name of the host in messages."""

    line: str
    label: str


def host_for(command: HostCommand, directory: Path) -> HostProcess:
    """A host that can open a store: one that has closed its last store, or else a new one.

    Until then a host that has closed its store answers calls on the closed one.

    Args:
        command: the command that starts the host.
        directory: the directory of the store.

    Raises:
        UsageError: the host cannot be started, or does not speak the protocol.
    """
    for host in [each for each in _idle if each.command == command]:
        _idle.remove(host)
        if host.reopens and not host.has_ended():
            return host
        host.leave()
    host = HostProcess.start(command, directory)
    host.hello()
    return host


class HostProcess:
    """A process that speaks the protocol. As a context it is dead in the end.

    Args:
        command: the command that has started the process, and its name in messages.
        process: the process.
        log: its standard error, which is read only after its death.
        death: a descriptor of the process, which shows when the process has ended.

    Attributes:
        protocol: the version of the protocol that both speak, from ``hello`` on.
        requests: how many requests the process was sent.
        openings: how many stores the process was asked to open.
        reopens: whether the process can open another store once it has closed one.
    """

    def __init__(
        self,
        command: HostCommand,
        process: subprocess.Popen[bytes] | AdoptedProcess,
        log: BinaryIO,
        death: int,
    ) -> None:
        self.command = command
        self.protocol = PROTOCOL
        self.reopens = False
        self.requests = 0
        self.openings = 0
        self._buffer = bytearray()
        self._logged: list[tuple[bytes, bytes | None, int]] = []
        # One request at a time, even if several threads use the store.
        self._lock = Lock()
        self._process = process
        self._log = log
        self._said = ""
        stdin, stdout = process.stdin, process.stdout
        if stdin is None or stdout is None:
            raise AssertionError("Both are pipes.")
        self._stdin, self._stdout = stdin.fileno(), stdout.fileno()
        self._death = death
        self._events = select.poll()
        for each in (self._stdout, self._death):
            self._events.register(each, select.POLLIN)
        _hosts.add(self)

    @classmethod
    def start(cls, command: HostCommand, directory: Path) -> Self:
        """Start a process.

        Args:
            command: the command, and its name in messages.
            directory: the directory that replaces ``{dir}`` in the command.

        Raises:
            UsageError: the command cannot be started.
        """
        # The file is on no disk.
        log = os.fdopen(os.memfd_create("streamproof-host-log"), "r+b")
        words = [word.replace(DIRECTORY, str(directory)) for word in shlex.split(command.line)]
        try:
            started = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0
            )
        except OSError as error:
            log.close()
            raise UsageError(
                f"The store host {words[0]!r} cannot be started: {error.strerror}. Check its path "
                "and permissions."
            ) from error
        # A child of the host may keep the output open, so that the end of the output does not show
        # the death of the host.
        return cls(command, started, log, os.pidfd_open(started.pid))

    @classmethod
    def adopt(cls, command: HostCommand, pid: int, descriptors: Sequence[int]) -> Self:
        """Take a process that another process has started, and does not use any more.

        Args:
            command: the command that has started it.
            pid: its process id.
            descriptors: as in the attribute of this name.
        """
        stdin, stdout, log, death = descriptors
        # What the host has said before is no matter of this process.
        os.ftruncate(log, 0)
        os.lseek(log, 0, os.SEEK_SET)
        adopted = AdoptedProcess(pid, stdin, stdout, death)
        return cls(command, adopted, os.fdopen(log, "r+b"), death)

    @property
    def pid(self) -> int:
        """The process id of the host."""
        return self._process.pid

    @property
    def descriptors(self) -> tuple[int, int, int, int]:
        """Those of the standard input, output and error, and that of the process."""
        return self._stdin, self._stdout, self._log.fileno(), self._death

    def hello(self) -> Hello:
        """Ask the host for its name and version.

        Raises:
            UsageError: the host does not answer, or speaks another version of the protocol.
        """
        try:
            found = self.call(_hello, "hello", {"protocol": PROTOCOL}, timeout_s=HELLO_TIMEOUT_S)
        except StoreError as error:
            raise UsageError(self._why_no_hello(str(error))) from error
        if not 1 <= found.protocol <= PROTOCOL:
            raise UsageError(
                f"{self} speaks version {found.protocol} of the protocol, but this streamproof "
                f"speaks versions 1 to {PROTOCOL}. Use a host of one of them."
            )
        self.protocol = found.protocol
        # The directory in a command is that of one store.
        self.reopens = found.reopens and DIRECTORY not in self.command.line
        return found

    def _why_no_hello(self, error: str) -> str:
        if self._process.returncode == UNUSABLE and self._said:
            return f"Subject {self.command.label!r}: {self._said}"
        # How a host ended is a sentence about the host already.
        return error if error.startswith(str(self)) else f"{self} did not answer hello: {error}"

    def call(
        self,
        answer: Decoder[T],
        op: str,
        arguments: Mapping[str, Any],
        timeout_s: float | None = None,
    ) -> T:
        """Send a request and wait for its answer.

        Args:
            answer: the type of the answer.
            op: the operation.
            arguments: the other fields of the request.
            timeout_s: how long the answer may take, in seconds. ``None`` waits for ever: the time
                limit of the check then ends a call that hangs.

        Raises:
            StoreError: the host refuses, or is dead, or answers with nonsense.
        """
        if self not in _hosts:
            raise ProcessorStateError(
                f"{self} is dead and cannot answer {op}; open the store again."
            )
        with self._lock:
            self.requests += 1
            try:
                self._write(_encode({"id": self.requests, "op": op, **arguments}) + b"\n")
            except BrokenPipeError:
                self._be_gone(op)
            try:
                line = self._read_line(op, timeout_s)
            except StoreError:
                raise
            except BaseException:
                # The answer that comes late would pass for that to the next request.
                self.kill()
                raise
            return self._decode(answer, op, line)

    def take_logged(self) -> list[tuple[bytes, bytes | None, int]]:
        """What the store has sent to its changelog since the last call: key, value, timestamp."""
        taken, self._logged = self._logged, []
        return taken

    def _decode(self, answer: Decoder[T], op: str, line: bytes) -> T:
        """The answer to the last request, from its line."""
        try:
            reply = _reply.decode(line)
            if reply.id != self.requests:
                self._speaks_nonsense(
                    op, f"an answer to request {reply.id}, not to {self.requests}"
                )
            if self._buffer:
                self._speaks_nonsense(op, f"more than one answer: {_start_of(self._buffer)}")
            self._logged += reply.logged
            if reply.error is not None:
                kind = KINDS.get(reply.error.kind, StoreError)
                raise kind(reply.error.message or reply.error.kind)
            if not bytes(reply.ok):
                self._speaks_nonsense(op, f"{_start_of(line)}, which has neither ok nor error")
            return answer.decode(reply.ok)
        except msgspec.MsgspecError as error:
            self._speaks_nonsense(op, f"{_start_of(line)} ({error})")

    def _write(self, line: bytes) -> None:
        while line:
            line = line[os.write(self._stdin, line) :]

    def _read_line(self, op: str, timeout_s: float | None) -> bytes:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            self._wait(op, deadline)
            chunk = os.read(self._stdout, 1 << 16)
            if not chunk:
                self._be_gone(op)
            self._buffer += chunk
            if len(self._buffer) > MAX_LINE_BYTES:
                self._speaks_nonsense(op, f"a line of more than {MAX_LINE_BYTES} bytes")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _wait(self, op: str, deadline: float | None) -> None:
        """Wait until the output of the host can be read."""
        left_ms = None if deadline is None else max(deadline - time.monotonic(), 0) * 1000
        ready = [descriptor for descriptor, _ in self._events.poll(left_ms)]
        if not ready:
            self.kill()
            raise ProcessorStateError(
                f"no answer to {op} within {HELLO_TIMEOUT_S:g} s{self._aside()}. Find out what the "
                "host, or whatever makes its store, waits for at the start."
            )
        # An answer that the host wrote before its death comes first.
        if self._stdout not in ready and len(self._events.poll(0)) == 1:
            self._be_gone(op)

    def _be_gone(self, op: str) -> NoReturn:
        """Raise how the host ended; or die with it, if it was killed on purpose."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LEAVE_TIMEOUT_S)
        code = self._process.poll()
        if _was_killed is not None and code in KILLED and _was_killed():
            kill_hosts()
            os.kill(os.getpid(), signal.SIGKILL)
        self.kill()
        raise ProcessorStateError(f"{self} {_ended(code)} during {op}{self._aside()}.")

    def _speaks_nonsense(self, op: str, what: str) -> NoReturn:
        self.kill()
        raise ProcessorStateError(
            f"{self} answered {op} with {what}. Answer each request with one line of the protocol, "
            "and write nothing else to standard output."
        )

    def _last_words(self) -> str:
        """The last line of the host's standard error that tells something."""
        if crash := self._crash_of_jvm():
            return crash
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - LOG_END_BYTES))
        lines = self._log.read().decode("utf-8", "replace").rstrip().splitlines()
        telling = [each for each in lines if each.strip() and not _FRAME.match(each)]
        return telling[-1].strip()[:LONGEST_WORDS] if telling else ""

    def _crash_of_jvm(self) -> str:
        """What ended a JVM that crashed, as the head of its report says; empty if none crashed."""
        self._log.seek(0)
        _, found, report = self._log.read().partition(CRASH_OF_JVM)
        head = report[:LOG_END_BYTES].decode("utf-8", "replace").splitlines()
        lines = [each.strip("# ") for each in head if each.startswith("#")]
        # The signal or the internal error comes first; the function has a line of its own.
        told = [*filter(None, lines)][:1]
        if FRAME_OF_CRASH in lines[:-1]:
            told.append(lines[lines.index(FRAME_OF_CRASH) + 1])
        return ", in ".join(told)[:LONGEST_WORDS] if found else ""

    def _aside(self) -> str:
        """The last words of a host that is dead, to be added to a sentence."""
        return f" ({self._said})" if self._said else ""

    def release(self) -> None:
        """Keep the host for calls on its closed store, and for another store if it can open one.

        Hosts of version 1 answer nothing after a close: they leave.
        """
        if self.protocol > 1 and self.is_alive:
            _idle.append(self)
        else:
            self.leave()

    def leave(self) -> None:
        """End the input of the host, and wait until the host has left."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LEAVE_TIMEOUT_S)
        self.kill()

    @property
    def is_alive(self) -> bool:
        """Whether the host is alive, as far as this process knows."""
        return self in _hosts

    def let_go(self) -> None:
        """Leave an idle host to another process, which has its descriptors."""
        _hosts.discard(self)
        _idle.remove(self)
        # Popen warns of a process that nobody has waited for.
        self._process.returncode = UNKNOWN_CODE
        self._close()

    def has_ended(self) -> bool:
        """Whether the host has ended by itself, or by a stranger."""
        return bool(select.select([self._death], [], [], 0)[0])

    def kill(self) -> None:
        """Kill the host and its children, if it is alive, and wait until all are dead."""
        if not self.is_alive:
            return
        _hosts.discard(self)
        if self in _idle:
            _idle.remove(self)
        # The store may be in a child, where the command is a script that starts it.
        family = [] if self._process.poll() is not None else _descendants(self._process.pid)
        self._process.kill()
        self._process.wait()
        for each in family:
            _kill(each)
        self._said = self._last_words()
        self._close()

    def _close(self) -> None:
        """Close all descriptors."""
        self._log.close()
        os.close(self._death)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def __str__(self) -> str:
        return f"The store host {self.command.label!r}"


def _descendants(pid: int) -> list[int]:
    """Descriptors of all descendants of a process."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        # Any of them may end during this loop.
        with contextlib.suppress(OSError):
            for child in map(int, path.read_text().split()):
                found += [os.pidfd_open(child), *_descendants(child)]
    return found


def _kill(process: int) -> None:
    """Kill a process, wait until it is dead, and close its descriptor."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(process, signal.SIGKILL)
    dead = select.poll()
    dead.register(process, select.POLLIN)
    dead.poll(LEAVE_TIMEOUT_S * 1000)
    os.close(process)


def _start_of(line: bytes | bytearray) -> str:
    """The beginning of a line, to be shown in a message."""
    return repr(bytes(line[:200]))


def _ended(code: int | None) -> str:
    if code is None:
        return "has closed its output"
    if code == UNKNOWN_CODE:
        return "left with an unknown exit code"
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"left with exit code {code}"
