"""A place to try a store by hand: open it, restore it, and crash it for real.

The smallest programs that reports print are written against this module, so that
each of them runs as it stands::

    from streamproof.conformance.lab import CHANGELOG, Lab

    lab = Lab("rocksdb")
    store = lab.open()
    store.put(b"key", b"value")
    store.commit({CHANGELOG: 0})
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from streamproof.conformance.as_key_value import SessionRows, WindowRows, rows_of
from streamproof.conformance.crash import triggers
from streamproof.conformance.disk_room import memory_with_room
from streamproof.conformance.interleaving import Pause, Who, meet
from streamproof.conformance.owned_directories import (
    LAB,
    OwnedDirectory,
    delete_abandoned,
    own_directory,
)
from streamproof.conformance.power.syscall_recorder import (
    preload_environment,
    recorder_is_loaded,
    run_recorded,
)
from streamproof.conformance.process_resources import (
    FileWatch,
    children,
    count_handles,
    count_threads,
    families,
    open_files,
)
from streamproof.conformance.results import Guarantee, Spec
from streamproof.conformance.subject import Subject
from streamproof.conformance.violations import brief
from streamproof.conformance.wrong_directory import end_untried, is_in_pytest, load_for_program
from streamproof.errors import StartAnewError, UsageError
from streamproof.search_path import search_directory
from streamproof.stores.api import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    NO_TIMESTAMP,
    PROCESSING_GUARANTEE_CONFIG,
    UPGRADE_FROM_CONFIG,
    UPGRADE_MODE_CONFIG,
    WRITE_BUFFER_BYTES_CONFIG,
    ChangelogRecord,
    IsolationLevel,
    RecordMetadata,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import TaskCorruptedError
from streamproof.stores.host.process import hosts
from streamproof.stores.metrics import Level, Metrics
from streamproof.stores.runtime.builder import StoreBuilder
from streamproof.stores.runtime.restoration import Restoration, StateRestoreListener
from streamproof.stores.synced_directories import sync_directory
from streamproof.stores.syscalls.disk import JOURNALLED, PORTABLE, Piece, disk_of, is_disposable
from streamproof.stores.syscalls.syscall_trace import write_tree
from streamproof.stores.windows import Window, Windowed

__all__ = [
    "CHANGELOG",
    "OTHER_CHANGELOG",
    "ChangelogRecord",
    "IsolationLevel",
    "Lab",
    "TopicPartition",
    "Window",
    "Windowed",
]

CHANGELOG = TopicPartition("streamproof-store-changelog", 0)
"""The changelog partition that programs write to."""

OTHER_CHANGELOG = TopicPartition("streamproof-store-changelog", 1)
"""A second partition, as a global store has."""

LAB_WRITE_BUFFER_BYTES = 64 * 1024
"""Write buffers are kept small, so that they overflow to disk within a short program."""

UPGRADED_VERSION = "2.2"
"""The value of ``upgrade.from``: the last version without timestamped stores was before 2.3."""

DOWNGRADED_VERSION = "4.2"
"""What ``upgrade.from`` says before a downgrade: the last version before KIP-1035."""

CHECKPOINT_OF_ANOTHER = "streamproof-other-changelog 0 7"
"""A line of another store of the task in its file of offsets."""

MOST_OF_AN_ERROR = 1000
"""The most bytes of an exception that a doomed process tells the other one."""

_PRELOAD_PREFIX = "streamproof-shim-"


def _start_anew(*, loaded: bool) -> None:
    if loaded:
        # The store hosts of this program load the libraries, too, so the directory stays until
        # the program ends.
        place = Path(os.environ.get("LD_PRELOAD", "").partition(":")[0]).parent
        if place.name.startswith(_PRELOAD_PREFIX):
            atexit.register(shutil.rmtree, place, ignore_errors=True)
        return
    directory = Path(tempfile.mkdtemp(prefix=_PRELOAD_PREFIX))
    preloaded = preload_environment(directory)
    # This fails if the libraries are in the directory, because the user's cache was not usable.
    with contextlib.suppress(OSError):
        directory.rmdir()
    # A program that was started anew in vain must not be started anew for ever.
    if "LD_PRELOAD" not in preloaded or triggers.WHY_UNSEEN in os.environ:
        why = preloaded[triggers.WHY_UNSEEN]
        end_untried(f"This cannot be tried here, because system calls cannot be seen: {why}.")
    if is_in_pytest():
        raise StartAnewError(
            "System calls are seen only by a process that was started for it. The pytest plugin "
            "of streamproof starts one for this test, unless the plugin is disabled.",
            preloaded,
        )
    os.execve(  # noqa: S606 - the program itself, as it was started
        sys.executable, sys.orig_argv, {**os.environ, **preloaded}
    )


class ToldListener(StateRestoreListener):
    """A restore listener that notes each call, and may raise after that."""

    def __init__(
        self, told: list[tuple[str, int] | tuple[str, int, int]], *, fails: bool = False
    ) -> None:
        self._told = told
        self._fails = fails

    def _note(self, event: tuple[str, int] | tuple[str, int, int]) -> None:
        self._told.append(event)
        if self._fails:
            raise RuntimeError("the listener fails on purpose")

    def on_restore_start(
        self, partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        self._note(("start", starting_offset, ending_offset))

    def on_batch_restored(
        self, partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        self._note(("batch", batch_end_offset, num_restored))

    def on_restore_end(
        self, partition: TopicPartition, store_name: str, total_restored: int
    ) -> None:
        self._note(("end", total_restored))

    def on_restore_suspended(
        self, partition: TopicPartition, store_name: str, total_restored: int
    ) -> None:
        self._note(("suspended", total_restored))


class _InfoMessages(logging.Handler):
    """Appends the messages of the level INFO to a list."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.INFO)
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.INFO:
            self._messages.append(record.getMessage())


class Lab:
    """One store and one task directory, to open, crash and restore the store by hand.

    Every program that a report prints begins with a lab.

    Args:
        subject: the store, as ``streamproof verify`` takes it.
        guarantee: the processing guarantee in the configuration of the store.
        directory: the directory of the task; by default a temporary one, which is deleted when the
            program ends.
        task_id: the id of the task in the context of the store.
    """

    def __init__(
        self,
        subject: str | Subject,
        *,
        guarantee: Guarantee = "exactly-once",
        directory: str | Path | None = None,
        task_id: str = "0_0",
    ) -> None:
        if isinstance(subject, str):
            # A program finds the modules that `streamproof verify` finds in the same directory.
            search_directory()
            subject = load_for_program(subject)
        self.subject = subject
        self.guarantee = guarantee
        self._owned: OwnedDirectory | None = None
        if directory is None:
            # What a store does in the background takes as long here as where the suite judged it.
            place = memory_with_room()
            delete_abandoned(place)
            self._owned = own_directory(LAB, place)
            atexit.register(self.remove)
            # Copies of this directory are beside it, and vanish with it.
            directory = self._owned.path / "task"
            directory.mkdir()
        self.directory = Path(directory)
        self.task_id = task_id
        self.context: StateStoreContext | None = None
        self.metrics: Metrics | None = None
        self.logged: list[ChangelogRecord] = []
        self.told: list[tuple[str, int] | tuple[str, int, int]] = []
        self.messages: list[str] = []
        self._failing = False
        self._watch: FileWatch | None = None
        self._cycles = 0
        self._copies = 0

    @staticmethod
    def count_system_calls() -> None:
        """Make system calls countable: start this program anew, with a shim between it and libc.

        Call this first, in a program that is a file. It returns in the program that was started
        anew, where it does nothing. Where system calls cannot be seen, the program says why, and
        ends with 2.

        Raises:
            NotTriedError: in pytest, system calls cannot be seen here; the test is skipped.
            StartAnewError: in pytest, whose plugin starts a process for the test.
        """
        _start_anew(loaded=triggers.shim_is_loaded())

    @staticmethod
    def record_system_calls() -> None:
        """Make system calls recordable for ``power_loss``, as ``count_system_calls`` does.

        Raises:
            NotTriedError, StartAnewError: in pytest; see :meth:`count_system_calls`.
        """
        _start_anew(loaded=recorder_is_loaded())

    def measure(self, level: Level) -> None:
        """Give the stores that are opened from now on a registry of metrics.

        Its clock stands still, so that rates do not depend on the speed of the machine.
        """
        self.metrics = Metrics(level, lambda: 0.0)

    def other_task(self, task_id: str) -> Lab:
        """A lab for another task of the thread, with the same metrics.

        The task has a directory below, or shares this one if the subject claims that.
        """
        shared = self.subject.capabilities.tasks_share_directory
        directory = self.directory if shared else self.directory / f"task-{task_id}"
        directory.mkdir(parents=True, exist_ok=True)
        lab = Lab(self.subject, guarantee=self.guarantee, directory=directory, task_id=task_id)
        lab.metrics = self.metrics
        return lab

    def copied(self) -> Lab:
        """A lab with a copy of the files, as a kill at this moment would leave them."""
        self._copies += 1
        directory = self.directory.with_name(f"{self.directory.name}-copy-{self._copies}")
        shutil.copytree(self.directory, directory)
        return Lab(
            self.subject, guarantee=self.guarantee, directory=directory, task_id=self.task_id
        )

    def disposable_files(self) -> list[Path]:
        """The files that the subject declares disposable, sorted."""
        patterns = self.subject.capabilities.disposable_files
        found = (each for each in self.directory.rglob("*") if each.is_file())
        return sorted(each for each in found if is_disposable(each.name, patterns))

    def dispose(self, *, empty: bool = False) -> Lab:
        """Delete the disposable files, or empty them; return this lab."""
        for file in self.disposable_files():
            if empty:
                file.write_bytes(b"")
            else:
                file.unlink()
        return self

    def named(self, name: str) -> Lab:
        """A lab for the store of another name in the same directory; the factory takes a name."""
        lab = Lab(
            self.subject.named(name),
            guarantee=self.guarantee,
            directory=self.directory,
            task_id=self.task_id,
        )
        lab.metrics = self.metrics
        return lab

    def beside(self, number: int) -> Lab:
        """A lab for another store of the same task: of its own name, in the same directory.

        If the factory takes no name, the store lies in a directory below.
        """
        if self.subject.shares_directory:
            return self.named("-".join(["s"] * number))
        directory = self.directory / f"store-{number}"
        directory.mkdir(parents=True, exist_ok=True)
        return Lab(
            self.subject, guarantee=self.guarantee, directory=directory, task_id=self.task_id
        )

    def simulate(self, *, spec: Spec = "kips", **world: Any) -> str:
        """Run a simulated world with the subject inside; return the mistake, or an empty text.

        ``world`` is a seed, and the fields of the plan that differ from the usual ones, by name.
        """
        # The simulator takes long to import, and most programs do not need it.
        from streamproof.conformance.store_worlds.world_trial import simulate

        return simulate(self.subject, world, self.directory, guarantee=self.guarantee, spec=spec)

    def rows(self, configs: Mapping[str, Any] | None = None) -> Any:
        """A new store, opened, and seen as a key-value store.

        Each key stands for one window or one session; a key-value store is returned as it is.
        ``configs`` is added to the configuration.
        """
        return rows_of(self.open(configs), self.subject.capabilities)

    def open_after_crash(self) -> Any:
        """A new store, opened as the runtime opens it: wiped first if the store asks for that."""
        try:
            return self.rows()
        except TaskCorruptedError:
            self.wipe()
            return self.rows()

    def open(self, configs: Mapping[str, Any] | None = None) -> Any:
        """Make a new store and open it in the directory of this lab.

        ``configs`` is added to the configuration.
        """
        store = self.subject.factory()
        kafka_guarantee = EXACTLY_ONCE if self.guarantee == "exactly-once" else AT_LEAST_ONCE
        self.context = StateStoreContext(
            state_dir=self.directory,
            task_id=self.task_id,
            app_configs={
                PROCESSING_GUARANTEE_CONFIG: kafka_guarantee,
                WRITE_BUFFER_BYTES_CONFIG: LAB_WRITE_BUFFER_BYTES,
                **(configs or {}),
            },
            metrics=self.metrics,
            changelog=self._log,
        )
        store.init(self.context, store)
        return store

    def open_built(self) -> Any:
        """A new store with the runtime's layers around it, opened in the directory of this lab.

        It is seen as a key-value store.
        """
        built = replace(self.subject, factory=StoreBuilder(self.subject.factory).build)
        lab = Lab(built, guarantee=self.guarantee, directory=self.directory, task_id=self.task_id)
        store = lab.rows()
        self.context = lab.context
        return store

    def open_preparing(self) -> Any:
        """A new store, opened while its upgrade in place is being prepared (KIP-258).

        It is seen as a key-value store.
        """
        return self.rows({UPGRADE_FROM_CONFIG: UPGRADED_VERSION, UPGRADE_MODE_CONFIG: "in_place"})

    def open_before_downgrade(self) -> Any:
        """A new store, opened with ``upgrade.from``: closing it leaves files for the older store.

        It is seen as a key-value store (KIP-1035, "Downgrade").
        """
        return self.rows({UPGRADE_FROM_CONFIG: DOWNGRADED_VERSION})

    def open_older(self) -> Any:
        """A new store of the kind that wrote the older format, opened in the same directory.

        It is seen as a key-value store.

        Raises:
            UsageError: the subject does not declare that store (``upgrades_from``).
        """
        older = self.subject.capabilities.upgrades_from
        if not older:
            raise UsageError(
                f"Subject {self.subject.name!r} has no older format: its capabilities do not say "
                "upgrades_from."
            )
        lab = Lab(older, guarantee=self.guarantee, directory=self.directory)
        store = lab.rows()
        self.context = lab.context
        return store

    def processing(
        self, topic: str, partition: int, offset: int, timestamp: int = NO_TIMESTAMP
    ) -> None:
        """Tell the store that this input record is being processed."""
        if self.context is not None:
            self.context.record_metadata = RecordMetadata(topic, partition, offset)
            self.context.record_timestamp = timestamp

    def idle(self) -> None:
        """Tell the store that no input record is being processed."""
        if self.context is not None:
            self.context.record_metadata = None
            self.context.record_timestamp = NO_TIMESTAMP

    def restore(self, store: Any, records: Iterable[ChangelogRecord]) -> None:
        """Apply changelog records as the runtime does: with the callback that ``init`` registered.

        A store without a callback gets a ``put`` for each record.
        """
        batch = list(records)
        if isinstance(store, SessionRows | WindowRows):
            batch = [store.record(record) for record in batch]
            store = store.store
        callbacks = list(self.context.restore_callbacks.values()) if self.context else []
        if callbacks:
            callbacks[-1](batch)
            return
        for record in batch:
            store.put(record.key, record.value)

    def _log(self, _: str, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Append what a store sends to its changelog to ``logged``."""
        self.logged.append(ChangelogRecord(key, value, len(self.logged), timestamp))

    def restoring(
        self, store: Any, start: int, end: int, *, listener_fails: bool = False
    ) -> Restoration:
        """A restoration of the changelog from ``start`` up to, not including, ``end``.

        Each call of its listener is appended to ``told``; with ``listener_fails`` it then raises.
        """
        listener = ToldListener(self.told, fails=listener_fails)
        return Restoration(
            CHANGELOG,
            store.name,
            lambda records: self.restore(store, records),
            start=start,
            end=end,
            listener=listener,
        )

    def catch_up(self, store: Any, changelog: Iterable[ChangelogRecord]) -> None:
        """Replay the changelog after the committed offset, and commit, as the runtime does."""
        records = list(changelog)
        offset = store.committed_offset(CHANGELOG)
        start = -1 if offset is None else offset
        self.restore(store, [record for record in records if record.offset > start])
        if records:
            store.commit({CHANGELOG: records[-1].offset})

    def resume(
        self, store: Any, changelog: Iterable[ChangelogRecord], batch: int, batches: int
    ) -> None:
        """Restore up to ``batches`` batches after the committed offset, and commit each of them.

        A batch has ``batch`` records. An interrupted restoration leaves the same state.
        """
        offset = store.committed_offset(CHANGELOG)
        start = -1 if offset is None else offset
        left = [record for record in changelog if record.offset > start]
        for at in range(0, min(len(left), batch * batches), batch):
            some = left[at : at + batch]
            self.restore(store, some)
            store.commit({CHANGELOG: some[-1].offset})

    def leave_checkpoint(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Write the file with offsets as versions before KIP-1035 do, beside another store's."""
        lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
        # The task writes the lines of its stores in any order.
        lines.insert(len(lines) // 2, CHECKPOINT_OF_ANOTHER)
        content = "\n".join(["0", str(len(lines)), *lines, ""])
        temporary = self.directory / ".checkpoint.tmp"
        with temporary.open("w") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.directory / ".checkpoint")
        sync_directory(self.directory)

    def wipe(self) -> None:
        """Delete everything in the directory, as the runtime does with a corrupted task."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True, exist_ok=True)

    # Resources of the store; see :mod:`streamproof.conformance.process_resources`.

    def open_and_close(self, times: int) -> None:
        """Open a store, write, read, commit the next offset and close it, one after another."""
        for _ in range(times):
            store = self.rows()
            store.put(b"key", b"%d" % self._cycles)
            store.get(b"key")
            store.commit({CHANGELOG: self._cycles})
            store.close()
            self._cycles += 1

    def open_files(self) -> list[str]:
        """The files in the directory that this process has open, or the hosts of its stores."""
        gc.collect()
        return open_files(self.directory, self._holders())

    def handles(self) -> int:
        """How many descriptors are open here, or in the hosts of stores: files, pipes, sockets."""
        gc.collect()
        return count_handles(self._holders())

    def threads(self) -> int:
        """How many threads this process has, or the hosts of its stores."""
        gc.collect()
        return count_threads(self._holders())

    def processes(self) -> int:
        """How many processes this one has started, or those of the hosts; none that has ended."""
        gc.collect()
        return len(self._holders()) if self.subject.is_remote else len(children())

    def _holders(self) -> Sequence[int | None]:
        """The processes that hold what a store uses: the hosts and their families, or this one."""
        if not self.subject.is_remote:
            return (None,)
        return families(each.pid for each in hosts())

    def directories(self) -> list[str]:
        """The directories below the directory of this lab, with ``/``, sorted."""
        found = (each for each in self.directory.rglob("*") if each.is_dir())
        return sorted(each.relative_to(self.directory).as_posix() for each in found)

    def files_with(self, piece: bytes) -> list[bytes]:
        """The eight bytes before each place at which a file in the directory has ``piece``."""
        before = []
        for file in sorted(each for each in self.directory.rglob("*") if each.is_file()):
            content = file.read_bytes()
            at = content.find(piece)
            while at >= 0:
                before.append(content[max(at - 8, 0) : at])
                at = content.find(piece, at + 1)
        return before

    def watch_log(self) -> None:
        """From here on, append each message of the level INFO to ``messages``."""
        root = logging.getLogger()
        root.setLevel(logging.INFO)
        root.addHandler(_InfoMessages(self.messages))

    def watch_files(self) -> None:
        """From here on, record the files outside the directory that this process writes to."""
        self._watch = FileWatch(self.directory)

    def look_at_files(self) -> None:
        """Record the files that are open for writing at this moment. Call ``watch_files`` first."""
        if self._watch is not None:
            self._watch.look()

    def files_elsewhere(self) -> list[str]:
        """The files written outside the directory since ``watch_files`` that still exist."""
        watch, self._watch = self._watch, None
        return watch.left() if watch is not None else []

    def meet(
        self,
        other: Callable[[], Any],
        own: Callable[[], object],
        *,
        other_line: int = 0,
        own_line: int = 0,
    ) -> Any:
        """Make ``other`` on a thread of its own beside ``own`` on this one, and return its answer.

        ``other`` waits before its ``other_line``-th line of Python until ``own`` is done, or the
        other way round with ``own_line``. If the call that is to be done needs a lock, the waiting
        one goes on after a moment.
        """
        who: Who = "other" if other_line else "own"
        return meet(other, own, Pause(other_line or own_line), who)

    def crash(self, doomed: Callable[[], object]) -> str:
        """Run ``doomed`` in a process of its own, and kill that process with SIGKILL.

        Return the exception that ended ``doomed`` before, in one line; empty without one.

        ``arm`` and ``die`` choose the point of the kill; without them it is the end of ``doomed``.
        An exception also ends the process if a system call was made to fail, or if the store asks
        to be wiped. Call this before this process opens a store: the threads of a store do not
        survive the fork that starts the other process.
        """
        told, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            if self.subject.is_remote:
                triggers.share_fate()
            try:
                doomed()
            except BaseException as error:
                import traceback

                traceback.print_exc()
                triggers.disarm()
                os.write(tell, brief(error).encode("utf-8", "replace")[:MOST_OF_AN_ERROR])
                if not (self._failing or isinstance(error, TaskCorruptedError)):
                    os._exit(1)
            self.die()
        os.close(tell)
        _, status = os.waitpid(pid, 0)
        with os.fdopen(told, "rb") as answer:
            raised = answer.read(MOST_OF_AN_ERROR).decode("utf-8", "replace")
        if not os.WIFSIGNALED(status):
            raise RuntimeError("The doomed program raised before it could be killed; see above.")
        return raised

    def power_loss(
        self,
        doomed: Callable[[], object],
        *,
        after: int | None = None,
        lost: Iterable[int] | None = None,
        torn: Mapping[int, Piece] | None = None,
    ) -> None:
        """Run ``doomed`` in a process of its own, and leave the disk as a loss of power would.

        Call it like ``crash``, in a program that began with :meth:`record_system_calls`.

        Args:
            doomed: the program that runs until the power is cut.
            after: the number of calls that change the directory before the power is cut; by
                default, all calls.
            lost: the numbers of the calls whose effect is lost; by default, all unsynced calls.
            torn: by call, the bytes of a write that survive: from the first number up to, not
                including, the second.

        Synced data is neither lost nor torn. A mended store makes other calls than the one for
        which a report has chosen the numbers.
        """

        def until_refused() -> None:
            # A store that asks to be wiped may not be used any more, so the program ends there.
            with contextlib.suppress(TaskCorruptedError):
                doomed()

        with tempfile.TemporaryDirectory() as place:
            trace, status = run_recorded(until_refused, self.directory, Path(place) / "calls")
        if not os.WIFSIGNALED(status):
            raise RuntimeError("The doomed program raised before the power was lost; see above.")
        end = len(trace.calls) if after is None else after
        file_system = JOURNALLED if lost is None else PORTABLE
        disk = disk_of(trace, file_system, self.subject.capabilities.disposable_files)
        pending = {each.call for each in disk.pending(end)}
        gone = pending if lost is None else disk.closed(end, pending & set(lost))
        parts = {call: piece for call, piece in (torn or {}).items() if call in pending}
        tree = disk.tree(end, gone, parts)
        self.wipe()
        write_tree(tree, self.directory)

    def arm(
        self, *, line: int = 0, syscall: int = 0, error: str = "", lasting: bool = False
    ) -> None:
        """From here on, die before the n-th line of Python, or the n-th write-like system call.

        With an ``error``, such as ``ENOSPC`` for a full disk, that call fails with it instead; with
        ``lasting``, every later call fails as well, until ``disarm``.
        System calls are counted only in a program that began with :meth:`count_system_calls`.
        """
        if line:
            triggers.arm_lines(line)
        if syscall:
            self._failing = bool(error)
            number = getattr(errno, error) if error else 0
            triggers.arm_syscalls(syscall, error=number, lasting=lasting)

    def disarm(self) -> None:
        """From here on, neither die nor let a system call fail."""
        triggers.disarm()

    def die(self) -> NoReturn:
        """Kill this process at once."""
        triggers.die()

    def remove(self) -> None:
        """Delete the directory."""
        with contextlib.suppress(OSError):
            shutil.rmtree(self.directory)
        if self._owned is not None:
            self._owned.delete()
