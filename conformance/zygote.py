"""Warm processes: one forks a zygote for each subject, and a zygote forks a child for each check.

A zygote has imported the suite and the subject, but has opened no store and started no thread. So a
fork of a zygote is a clean process: a check starts in milliseconds, cannot disturb another check,
and can itself fork children that are killed. Importing the suite takes much longer than importing
most subjects, so one process, the *nursery*, imports the suite and forks all zygotes.

The nursery reads packets from its standard input. The first is a :class:`Preparation`. Each other
packet is an :class:`Opening`, with the standard streams of a zygote, and the nursery answers with
the process id of the new zygote. A zygote first describes its subject. Then it reads one JSON
request a line from its standard input, and answers on its standard output:

.. code-block:: text

    <- {"ready": <subject info>}   or   {"refused": "why"}
    -> {"id": 7, "check": "kv.put_then_get"}
    <- {"id": 7, "pid": 4711}      when it has started
    <- {"id": 7, "status": 0}      when it has ended; the outcome is in task-7.json
    ->                             an empty line: end all that was started, and end

If the standard input ends without an empty line, the supervisor is gone, and the zygote cleans up.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import os
import select
import shutil
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from streamproof.conformance.catalogue import Binds
from streamproof.conformance.heap_holes import fill_holes
from streamproof.conformance.owned_directories import LOCK
from streamproof.conformance.process_resources import children, members
from streamproof.conformance.results import Profile, SubjectInfo
from streamproof.conformance.saved_failures import Replay
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import binds_of
from streamproof.errors import StreamproofError
from streamproof.stores.host.lending import Lender, hand_over

__all__ = [
    "MOST_BYTES",
    "SUITE_FAILED",
    "Job",
    "Opening",
    "Preparation",
    "Reply",
    "main",
    "outcome_path",
    "status_path",
]

_PR_SET_CHILD_SUBREAPER = 36
"""The option of ``prctl`` that makes orphans below this process its children."""

SUITE_FAILED = 70
"""The exit code of a check in which the suite itself failed."""

MOST_BYTES = 64 * 1024
"""The largest size of a packet, in bytes."""

GARBAGE = 20_000
"""The number of new objects after which a check looks for garbage; Python's default is 700."""


class Preparation(Struct, kw_only=True):
    """Where packages are installed, and what the requirements of the first subjects bind."""

    binds: list[Binds]
    sys_path: list[str]


class Opening(Struct, kw_only=True):
    """The subject that a zygote loads, and its directory."""

    subject: str
    settings: Settings
    directory: str
    sys_path: list[str]


class Job(Struct):
    """A request to run one check.

    Attributes:
        round: the number of the round; see ``Settings.round``.
        replay: a failure to replay, instead of a search.
        profile: a profile that replaces that of the settings.
        postpones: whether failures of campaigns stay as large as they are found.
    """

    id: int
    check: str
    round: int = 0
    replay: Replay | None = None
    profile: Profile | None = None
    postpones: bool = False


class Reply(Struct, kw_only=True, omit_defaults=True):
    """An answer. The field that is set shows its kind."""

    id: int = -1
    ready: SubjectInfo | None = None
    refused: str = ""
    pid: int = 0
    status: int | None = None


def outcome_path(directory: Path, job: int) -> Path:
    """The file in which the child for a job leaves its outcome."""
    return directory / f"task-{job}.json"


def status_path(directory: Path, job: int) -> Path:
    """The file in which the child for a job reports its running call."""
    return directory / f"task-{job}.status"


def main() -> None:
    """Fork zygotes until the standard input ends, then wait for them to end."""
    # Imported code is never garbage, so looking for garbage would only slow the imports down.
    gc.disable()
    with socket.socket(fileno=os.dup(0)) as supervisor:
        if packet := supervisor.recv(MOST_BYTES):
            first = msgspec.json.decode(packet, type=Preparation)
            _import_suite(first.sys_path, first.binds)
        while True:
            packet, streams, *_ = socket.recv_fds(supervisor, MOST_BYTES, 3)
            if not packet:
                break
            opening = msgspec.json.decode(packet, type=Opening)
            # Nothing is left to import, unless a later subject is of another kind.
            _import_suite(opening.sys_path, [binds_of(opening.subject)])
            pid = os.fork()
            if pid == 0:
                # The supervisor takes the end of this stream as the end of the nursery, so no
                # zygote may keep it open.
                supervisor.close()
                os.setsid()
                for target, stream in enumerate(streams):
                    os.dup2(stream, target)
                    os.close(stream)
                _serve(opening)
                # What the subject has registered still runs. Then Python would destroy all that was
                # imported, and so copy it first.
                atexit._run_exitfuncs()  # noqa: SLF001 - there is no public name
                os._exit(0)
            for stream in streams:
                os.close(stream)
            supervisor.send(str(pid).encode())
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    # The supervisor waits for this process. To destroy all that was imported would take a while.
    os._exit(0)


def _import_suite(sys_path: list[str], kinds: list[Binds]) -> None:
    """Import the suite, with the checks of these kinds, once for all zygotes."""
    # Only the packets say where packages are installed, so the import has to wait for them.
    sys.path[:] = sys_path
    from streamproof.conformance.catalogue import load_catalogue
    from streamproof.conformance.check_loader import load_checks

    # Each fork needs this module, and would import it by itself.
    from streamproof.conformance.check_runner import run_check  # noqa: F401

    for binds in kinds:
        load_checks(binds)
    # Each check asks the catalogue, and would read its files by itself.
    load_catalogue()
    _skip_constants()
    # Children share the memory of all present objects. The garbage collector would write to these
    # objects and so copy them, unless they are frozen.
    gc.freeze()


def _skip_constants() -> None:
    """Keep Hypothesis from looking for constants in the modules imported so far.

    What a check draws must not depend on how the suite is installed, or which of its modules other
    checks have loaded. Hypothesis passes over installed packages by itself, but an editable
    installation looks like the user's own code. There is no public name for this; without the
    private one, Hypothesis draws some constants of the suite, and each fork looks for them.
    """
    from hypothesis.internal.conjecture import providers

    seen: set[int] = getattr(providers, "_seen_modules", set())
    seen.update(map(id, sys.modules.values()))


def _mine_constants() -> None:
    """Let Hypothesis look for constants in the modules of the subject, once for all forks.

    Hypothesis looks when it draws its first constant, and each fork would do so again.
    """
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis.strategies import integers, lists

    # One draw in twenty is a constant. No check draws from this range, so nothing is fixed for it.
    many = lists(integers(0, 2**40 + 1), min_size=200, max_size=200)
    once = settings(
        max_examples=2,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    once(given(many)(lambda _: None))()


def _serve(opening: Opening) -> None:
    """Run checks of one subject until the standard input ends."""
    requests, replies = _take_over_streams()
    sys.path[:] = opening.sys_path
    directory = Path(opening.directory)

    def reply(message: Reply) -> None:
        # If the supervisor is gone, its requests end, and the loop below notices.
        with contextlib.suppress(BrokenPipeError):
            replies.write(msgspec.json.encode(message) + b"\n")
            replies.flush()

    from streamproof.conformance.check_loader import checks_for
    from streamproof.conformance.subject import load_subject

    try:
        subject = load_subject(opening.subject)
    except StreamproofError as error:
        reply(Reply(refused=str(error)))
        return
    checks = checks_for(opening.subject)
    _mine_constants()
    _prepare_forks()
    reply(Reply(ready=subject.info()))

    _adopt_orphans()
    lender = Lender()
    running: dict[int, tuple[int, int]] = {}
    while True:
        watched: list[BinaryIO | int] = [requests, *running]
        readable, _, _ = select.select(watched, [], [])
        for ended in [pidfd for pidfd in running if pidfd in readable]:
            job, pid = running.pop(ended)
            _, status = os.waitpid(pid, 0)
            os.close(ended)
            lender.returned(pid)
            _end_group(pid, lender.hosts())
            _reap_orphans({pid for _, pid in running.values()})
            reply(Reply(id=job, status=status))
        if requests in readable:
            line = requests.readline()
            if not line.strip():
                _end_all([pid for _, pid in running.values()])
                if not line:
                    _remove(directory)
                return
            request = msgspec.json.decode(line, type=Job)
            check = checks[request.check]
            _import_for(check)
            pid = lender.fork()
            if pid == 0:
                # The supervisor takes the end of the replies as the end of the zygote, so no child
                # may keep them open.
                requests.close()
                replies.close()
                _child(check, subject, opening, request, lender.channel)
            with contextlib.suppress(OSError):
                # The child does the same. So the group exists in time, whichever comes first.
                os.setpgid(pid, pid)
            running[os.pidfd_open(pid)] = (request.id, pid)
            reply(Reply(id=request.id, pid=pid))


def _import_for(check: Any) -> None:
    """Import what a check needs and most checks do without, once for all forks."""
    loaded = len(sys.modules)
    check.prepare()
    if len(sys.modules) > loaded:
        _skip_constants()
        _prepare_forks()


def _prepare_forks() -> None:
    """Let forks copy as few pages as can be."""
    gc.collect()
    fill_holes()
    gc.freeze()
    # Checks make few cycles, and a collection writes to all young objects.
    gc.set_threshold(GARBAGE)
    gc.enable()


def _end_group(group: int, spared: set[int]) -> None:
    """End what a check has started, but not the hosts that the next check may use."""
    found = set(members(group)) if spared else set()
    if not found & spared:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    for pid in found - spared:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _end_all(pids: list[int]) -> None:
    """End all running checks and their orphans."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
    _end_orphans()


def _remove(directory: Path) -> None:
    """Remove the directories of a supervisor that is gone."""
    shutil.rmtree(directory, ignore_errors=True)
    if not any(directory.parent.glob("subject-*")):
        # The last zygote removes the directory and the lock of the supervisor.
        shutil.rmtree(directory.parent, ignore_errors=True)
        Path(f"{directory.parent}{LOCK}").unlink(missing_ok=True)


def _adopt_orphans() -> None:
    """Become the parent of orphans, such as processes that a subject leaves behind.

    This is the only way to find a process that has a session of its own.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap_orphans(living: set[int]) -> None:
    """Reap the adopted processes that have ended, except the processes of running checks."""
    ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
    with contextlib.suppress(ChildProcessError):
        # A check that has ended is reaped when its own descriptor tells, and the rest after it.
        while (orphan := os.waitid(os.P_ALL, 0, ended)) and orphan.si_pid not in living:
            os.waitpid(orphan.si_pid, 0)


def _end_orphans() -> None:
    """End all children, and the orphans that become children meanwhile."""
    while pids := children():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _take_over_streams() -> tuple[BinaryIO, BinaryIO]:
    """Take the streams for the protocol; prints of the subject go to the standard error."""
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    replies = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    return requests, replies


def _child(
    check: Any, subject: Any, opening: Opening, request: Job, channel: socket.socket
) -> None:
    """Run one check, hand idle hosts over through a channel, then exit the process."""
    code = SUITE_FAILED
    job, replay = request.id, request.replay
    settings, directory = opening.settings, Path(opening.directory)
    changes: dict[str, Any] = {
        "round": request.round or settings.round,
        "profile": request.profile or settings.profile,
    }
    if replay is not None:
        changes = {"profile": replay.profile, "seed": replay.seed, "round": replay.round}
    settings = msgspec.structs.replace(settings, **changes)
    try:
        # In a group of its own, a hanging check can be ended with all processes that it started.
        os.setpgid(0, 0)
        from streamproof.conformance.check_run import CheckRun
        from streamproof.conformance.check_runner import run_check
        from streamproof.conformance.running_call import RunningCall

        work = directory / f"task-{job}"
        work.mkdir()
        status = RunningCall(status_path(directory, job), create=True)
        run = CheckRun(check, subject, settings, work, status, replay=replay)
        run.postpones = request.postpones
        outcome = run_check(run)
        target = outcome_path(directory, job)
        temporary = target.with_suffix(".tmp")
        temporary.write_bytes(msgspec.json.encode(outcome))
        temporary.rename(target)
        hand_over(channel)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        # Skip all clean-up: a hanging thread of a database must not keep the process alive.
        os._exit(code)


if __name__ == "__main__":
    main()
