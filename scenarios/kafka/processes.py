"""Real processes with one directory, which all end with the process that started them.

A guard, a small shell, makes the directory and waits for the end of its standard input. That end
comes when the owner closes it and when the owner dies in any way, also by SIGKILL. Then the guard
kills every process of its group, and deletes the directory. So a run that is interrupted leaves
what a run that ends leaves: nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from streamproof.errors import UsageError

__all__ = ["TOLD_S", "Processes", "RealProcess"]

TOLD_S = 60.0
"""The most that a process may take to carry out a command, in seconds. It takes a moment, and much
longer on a busy machine."""

STOPPING_S = 30.0
"""A process that was asked to stop is killed after so long, in seconds."""

SHOWN_LINES = 15
"""How many lines of the log of a process an error has at most, from the end."""

SHOWN_ERRORS = 3
"""How many errors from before these lines an error has at most."""

ERROR = re.compile(r"(^|[\[\s])ERROR\b|^(Exception in|[\w.]+(Exception|Error)\b)")
"""What an error of a Java program looks like in its log."""

LONGEST_LINE = 300
"""The most characters of such a line."""

NATIVES = "ROCKSDB_SHAREDLIB_DIR"
"""The variable that tells RocksDB in a JVM where to unpack its library of 15 MB. A JVM that is
killed does not delete its copy, so each process has a directory for it, deleted with the kill."""

GUARD = """
trap '' INT TERM HUP PIPE
directory=$(mktemp -d -t streamproof-kafka-XXXXXXXX) || exit
echo "$directory"
cat >/dev/null
setsid sh -c '
    kill -s KILL -- "-$1" 2>/dev/null
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
        rm -rf -- "$2" 2>/dev/null && break
        sleep 0.1
    done' sh $$ "$directory"
"""
"""The program of the guard. The session of its last step is a new one, because the guard kills the
group that it is in itself. A process that is being killed may still write, so deleting may fail."""


class RealProcess:
    """A process, which writes what it prints into a log.

    Attributes:
        pid: its id.
    """

    def __init__(self, log: Path, natives: Path, popen: subprocess.Popen[bytes]) -> None:
        self.pid = popen.pid
        self._log = log
        self._natives = natives
        self._popen = popen

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._popen.poll() is None

    @property
    def log(self) -> str:
        """All that it wrote."""
        return self._log.read_text("utf-8", "backslashreplace")

    def wait(self, patience_s: float) -> int | None:
        """Its exit code, negative for a signal; ``None`` if it has not ended after so long."""
        try:
            return self._popen.wait(patience_s)
        except subprocess.TimeoutExpired:
            return None

    def terminate(self) -> None:
        """Ask the process to stop (SIGTERM)."""
        self._popen.terminate()

    def stop(self) -> None:
        """Ask the process to stop, and wait for its end."""
        self.terminate()
        if self.wait(STOPPING_S) is None:
            self.kill()

    def kill(self) -> None:
        """End the process at once (SIGKILL)."""
        self._popen.kill()
        self._popen.wait()
        shutil.rmtree(self._natives, ignore_errors=True)

    def freeze(self) -> None:
        """Let the process stand still without noticing (SIGSTOP)."""
        self._popen.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a process that stands still go on (SIGCONT)."""
        self._popen.send_signal(signal.SIGCONT)

    def errors(self) -> list[str]:
        """The last errors that the process wrote, each as one line and once."""
        return _errors(self.log.splitlines())

    def told(self) -> str:
        """What the process wrote last, for the end of an error; it says so if that is nothing.

        Errors that it wrote before come first: a process may tell much while it stops.
        """
        lines = self.log.splitlines()
        if not lines:
            return "It wrote nothing."
        errors = _errors(lines[:-SHOWN_LINES])
        told = ["It wrote these errors:", *map(_indented, errors)] if errors else []
        return "\n".join([*told, "It wrote last:", *map(_indented, lines[-SHOWN_LINES:])])


def _errors(lines: Sequence[str]) -> list[str]:
    found = [each for each in lines if ERROR.search(each)]
    return list(dict.fromkeys(found))[-SHOWN_ERRORS:]


def _indented(line: str) -> str:
    return f"  {line[:LONGEST_LINE]}"


class Processes:
    """The processes of one world, which end with the block or with this process.

    Args:
        place: where their directory is made; by default, among the temporary files.

    Attributes:
        directory: for their files; it is deleted after them.

    Raises:
        UsageError: no directory can be made.
    """

    def __init__(self, place: Path | None = None) -> None:
        self._guard = subprocess.Popen(
            ["sh", "-c", GUARD],
            env={**os.environ, **({"TMPDIR": str(place)} if place else {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # A Ctrl-C at the terminal is for the owner, which ends its processes in order.
            process_group=0,
        )
        self._started: list[RealProcess] = []
        said = self._read().strip()
        self.directory = Path(said)
        if not (said and self.directory.is_dir()):
            self.close()
            raise UsageError(f"No directory can be made for the processes of Kafka: {said}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        where: Path | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> RealProcess:
        """Start a process.

        Args:
            name: its name among the processes, which no other one has.
            command: its program and arguments.
            where: its current directory; by default, that of the processes.
            environment: variables besides those of this process, or instead of them.
        """
        log = self.directory / f"{name}.log"
        natives = self.directory / f"{name}.natives"
        natives.mkdir()
        with log.open("xb") as output:
            popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=where or self.directory,
                env={**os.environ, NATIVES: str(natives), **environment},
                process_group=self._guard.pid,
            )
        self._started.append(RealProcess(log, natives, popen))
        return self._started[-1]

    def close(self) -> None:
        """End all processes, and delete their files."""
        stdin, stdout = self._guard.stdin, self._guard.stdout
        if stdin is None or stdout is None or stdin.closed:
            return
        stdin.close()
        # The last step of the guard holds the pipe until it is done.
        stdout.read()
        stdout.close()
        self._guard.wait()
        for each in self._started:
            each.kill()

    def _read(self) -> str:
        return self._guard.stdout.readline() if self._guard.stdout else ""
