"""Runs checks against subjects: several at a time, each with a limit, each in its own process."""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import selectors
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from streamproof.conformance.check_loader import checks_for
from streamproof.conformance.check_records import CheckEvidence, CheckOutcome
from streamproof.conformance.check_registry import Check
from streamproof.conformance.disk_room import why_no_room
from streamproof.conformance.nursery import LOAD_TIMEOUT_S, STOP_S, Nursery, last_line
from streamproof.conformance.process_resources import session
from streamproof.conformance.results import Profile, SubjectInfo
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.saved_failures import Replay
from streamproof.conformance.settings import Settings
from streamproof.conformance.zygote import (
    SUITE_FAILED,
    Job,
    Opening,
    Reply,
    outcome_path,
    status_path,
)
from streamproof.errors import UsageError
from streamproof.patience import Patience
from streamproof.stores.jvm.subjects import prepare

__all__ = ["CheckTask", "Engine"]

POLL_S = 0.25
"""The interval at which the supervisor looks for hanging calls, in seconds."""


class CheckTask(NamedTuple):
    """One check of one subject.

    Attributes:
        round: the number of the round; 0 means the round in the settings.
        replay: a failure to replay, instead of a search.
        profile: a profile that replaces that of the settings.
        postpones: whether failures of campaigns stay as large as they are found.
    """

    subject: str
    check: Check
    round: int = 0
    replay: Replay | None = None
    profile: Profile | None = None
    postpones: bool = False


@dataclass
class _Running:
    """A running check."""

    zygote: _Zygote
    task: CheckTask
    job: int
    pid: int = 0
    started: float = field(default_factory=time.monotonic)
    status: RunningCall | None = None
    given_up: str = ""
    noticed: str = ""
    patience: Patience | None = None


class _Zygote:
    """The supervisor's side of a zygote."""

    def __init__(self, subject: str, settings: Settings, directory: Path, nursery: Nursery) -> None:
        self.subject = subject
        self.directory = directory
        directory.mkdir()
        self.log = directory / "stderr.log"
        opening = Opening(
            subject=subject, settings=settings, directory=str(directory), sys_path=sys.path
        )
        stdin, requests = os.pipe()
        replies, stdout = os.pipe()
        self._requests, self.replies = os.fdopen(requests, "wb"), os.fdopen(replies, "rb")
        try:
            with self.log.open("wb") as log:
                self.pid = nursery.fork(opening, [stdin, stdout, log.fileno()])
        except UsageError:
            self._requests.close()
            self.replies.close()
            raise
        finally:
            os.close(stdin)
            os.close(stdout)
        # The nursery forked the zygote, so this process cannot wait for it. A descriptor shows the
        # end of the zygote. Unlike a process id, it never comes to mean another process.
        self._process = os.pidfd_open(self.pid)
        self.buffer = b""
        self.lost = ""

    def send(self, message: Job) -> None:
        """Send one request. A dead zygote is no error here: ``read`` notices it."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.write(msgspec.json.encode(message) + b"\n")
            self._requests.flush()

    def read(self) -> tuple[list[Reply], bool]:
        """The replies that have arrived, and whether the zygote is still alive."""
        chunk = os.read(self.replies.fileno(), 65536)
        *lines, self.buffer = (self.buffer + chunk).split(b"\n")
        return [msgspec.json.decode(line, type=Reply) for line in lines], bool(chunk)

    def wait_ready(self) -> SubjectInfo:
        """Wait until the subject is loaded.

        Raises:
            UsageError: the subject cannot be loaded; the message says why.
        """
        deadline = time.monotonic() + LOAD_TIMEOUT_S
        with selectors.DefaultSelector() as selector:
            selector.register(self.replies, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0:
                if not selector.select(left):
                    break
                replies, alive = self.read()
                for reply in replies:
                    if reply.ready is not None:
                        return reply.ready
                    raise UsageError(reply.refused)
                if not alive:
                    raise UsageError(
                        f"Subject {self.subject!r}: the process ended while it was being loaded"
                        f"{last_line(self.log)}."
                    )
        raise UsageError(
            f"Subject {self.subject!r} was not loaded within {LOAD_TIMEOUT_S:.0f} s; "
            "importing the module or calling the factory hangs."
        )

    def dismiss(self) -> None:
        """Ask the zygote to end all processes that it started, and then itself.

        Only the zygote can find processes that have left its session.
        """
        with contextlib.suppress(OSError, ValueError):
            self._requests.write(b"\n")
            self._requests.flush()

    def stop(self) -> None:
        """End a dismissed zygote and its whole session."""
        with contextlib.suppress(OSError):
            self._requests.close()
        if not select.select([self._process], [], [], STOP_S)[0]:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
        _kill_session(self.pid)
        select.select([self._process], [], [])
        os.close(self._process)
        self.replies.close()


class Engine:
    """Runs checks, ``jobs`` at a time.

    Args:
        settings: the settings of the run.
        directory: the directory for the databases of the run.
        jobs: the number of checks that run at the same time.
        nursery: a nursery that was started in the directory; the engine ends it. By default, the
            engine starts one.
    """

    def __init__(
        self, settings: Settings, directory: Path, jobs: int, nursery: Nursery | None = None
    ) -> None:
        self._settings = settings
        self._directory = directory
        self._jobs = jobs
        self._nursery = nursery
        self._zygotes: dict[str, _Zygote] = {}
        self._running: dict[tuple[str, int], _Running] = {}
        # Job numbers are never reused. Otherwise a check could read the outcome of an earlier one,
        # or truncate its status file while it is still mapped.
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def load(
        self, subjects: Iterable[str], meanwhile: Callable[[], object] = lambda: None
    ) -> dict[str, SubjectInfo]:
        """Load each subject in a process of its own, and describe the subjects.

        Args:
            subjects: the names of the subjects.
            meanwhile: something to do while the processes start.

        Raises:
            UsageError: a subject cannot be loaded.
        """
        names = list(subjects)
        if self._nursery is None:
            self._nursery = Nursery(self._directory, names)
        for subject in names:
            # The nursery imports the checks as well, and this process would only wait for it.
            checks_for(subject)
            # The time limit for loading is not for the download of jars, nor for a compiler.
            prepare(subject)
        meanwhile()
        for subject in names:
            directory = self._directory / f"subject-{len(self._zygotes)}"
            self._zygotes[subject] = _Zygote(subject, self._settings, directory, self._nursery)
        return {name: zygote.wait_ready() for name, zygote in self._zygotes.items()}

    def run(
        self,
        plan: Iterable[CheckTask | tuple[str, Check]],
        on_outcome: Callable[[str, CheckOutcome], None],
        on_noticed: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        """Run a plan, and pass on each outcome as soon as its check ends.

        A check that sees a promise broken goes on until its program is small. ``on_noticed`` gets
        the subject and the requirement before that.

        The engine takes a task from the plan only when a process is free, so the plan may depend on
        the outcomes so far.
        """
        tasks = (CheckTask(*each) for each in plan)
        task = next(tasks, None)
        with selectors.DefaultSelector() as selector:
            for zygote in self._zygotes.values():
                if not zygote.lost:
                    selector.register(zygote.replies, selectors.EVENT_READ, zygote)
            while task or self._running:
                while task and len(self._running) < self._jobs:
                    self._start(task, next(self._numbers), on_outcome)
                    task = next(tasks, None)
                for key, _ in selector.select(POLL_S):
                    alive = self._receive(key.data, on_outcome)
                    if not alive:
                        selector.unregister(key.fileobj)
                self._pass_on_noticed(on_noticed)
                self._end_hanging()

    def _start(
        self,
        task: CheckTask,
        number: int,
        on_outcome: Callable[[str, CheckOutcome], None],
    ) -> None:
        zygote = self._zygotes[task.subject]
        running = _Running(zygote, task, number)
        if zygote.lost:
            on_outcome(task.subject, _no_answer(running, suite_error=zygote.lost))
            return
        self._running[task.subject, number] = running
        asked = task.round, task.replay, task.profile, task.postpones
        zygote.send(Job(number, task.check.name, *asked))

    def stop(self) -> None:
        """End all running processes."""
        for running in self._running.values():
            _kill_group(running.pid)
        self._running.clear()
        for zygote in self._zygotes.values():
            zygote.dismiss()
        for zygote in self._zygotes.values():
            zygote.stop()
        self._zygotes.clear()
        if self._nursery is not None:
            self._nursery.stop()
            self._nursery = None

    def _receive(self, zygote: _Zygote, on_outcome: Callable[[str, CheckOutcome], None]) -> bool:
        replies, alive = zygote.read()
        for reply in replies:
            running = self._running[zygote.subject, reply.id]
            if reply.pid:
                running.pid = reply.pid
            elif reply.status is not None:
                del self._running[zygote.subject, reply.id]
                on_outcome(zygote.subject, self._outcome(running, reply.status))
        if not alive:
            zygote.lost = "the process that starts the checks died" + last_line(zygote.log)
            _kill_session(zygote.pid)
            for key in [key for key, one in self._running.items() if one.zygote is zygote]:
                lost = self._running.pop(key)
                on_outcome(zygote.subject, _no_answer(lost, suite_error=zygote.lost))
        return alive

    def _outcome(self, running: _Running, status: int) -> CheckOutcome:
        directory = running.zygote.directory
        path = outcome_path(directory, running.job)
        call = self._current_call(running)
        no_room = why_no_room(directory)
        shutil.rmtree(directory / f"task-{running.job}", ignore_errors=True)
        if no_room and not path.is_file():
            return _no_answer(running, lacking=no_room)
        if running.given_up:
            return _no_answer(running, subject_error=running.given_up)
        if path.is_file():
            outcome = msgspec.json.decode(path.read_bytes(), type=CheckOutcome)
            path.unlink()
            return outcome
        if os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            during = f" during {call[0]}" if call else ""
            return _no_answer(running, subject_error=f"the process was ended by {name}{during}")
        if call:
            return _no_answer(running, subject_error=f"the process exited during {call[0]}")
        if os.WEXITSTATUS(status) != SUITE_FAILED:
            return _no_answer(running, subject_error="the process exited between two calls")
        text = "the check ended without an outcome" + last_line(running.zygote.log)
        return _no_answer(running, suite_error=text)

    def _pass_on_noticed(self, on_noticed: Callable[[str, str], None]) -> None:
        """Tell of the promises that running checks have just seen broken, each check once."""
        for running in self._running.values():
            status = self._status(running)
            if status and not running.noticed and (noticed := status.noticed):
                running.noticed = noticed
                on_noticed(running.task.subject, noticed)

    def _end_hanging(self) -> None:
        """End the checks in which a call on the subject takes too long."""
        for running in self._running.values():
            if running.given_up or not running.pid:
                continue
            call = self._current_call(running)
            if call and self._hangs(running, call[1]):
                limit = self._settings.operation_timeout_s
                running.given_up = f"{call[0]} did not return within {limit:g} s"
            elif time.monotonic() - running.started > self._settings.check_timeout_s:
                running.given_up = f"not done within {self._settings.check_timeout_s:g} s"
            if running.given_up:
                _kill_group(running.pid)

    def _hangs(self, running: _Running, age_s: float) -> bool:
        """Whether a call of a check takes too long. It may run in any process of the zygote."""
        if running.patience is None:
            running.patience = Patience(self._settings.operation_timeout_s)
        return running.patience.is_over(age_s, lambda: session(running.zygote.pid))

    def _current_call(self, running: _Running) -> tuple[str, float] | None:
        status = self._status(running)
        return status.current() if status else None

    def _status(self, running: _Running) -> RunningCall | None:
        if running.status is None:
            path = status_path(running.zygote.directory, running.job)
            with contextlib.suppress(FileNotFoundError, ValueError):
                running.status = RunningCall(path)
        return running.status


def _no_answer(
    running: _Running, *, subject_error: str = "", suite_error: str = "", lacking: str = ""
) -> CheckOutcome:
    return CheckOutcome(
        check=running.task.check.name,
        evidence=CheckEvidence(lacking=lacking),
        skipped=lacking,
        subject_error=subject_error,
        suite_error=suite_error,
        duration_s=time.monotonic() - running.started,
        round=running.task.round,
        replayed=running.task.replay.name if running.task.replay else "",
    )


def _kill_group(pid: int) -> None:
    """End a check and all processes that it started. They share a process group."""
    if pid:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _kill_session(leader: int) -> None:
    """End all processes in the session of a zygote, reported or not."""
    for pid in session(leader):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
