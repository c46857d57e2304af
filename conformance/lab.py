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
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from streamproof.conformance.crash import triggers
from streamproof.conformance.results import Guarantee
from streamproof.conformance.rows import SessionRows, WindowRows, rows_of
from streamproof.conformance.subject import Subject, load_subject
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
from streamproof.stores.errors import UsageError
from streamproof.stores.metrics import Level, Metrics
from streamproof.stores.runtime.restoration import Restoration, StateRestoreListener
from streamproof.stores.windows import Window, Windowed

__all__ = [
    "CHANGELOG",
    "OTHER",
    "ChangelogRecord",
    "IsolationLevel",
    "Lab",
    "TopicPartition",
    "Window",
    "Windowed",
    "count_system_calls",
]

CHANGELOG = TopicPartition("streamproof-store-changelog", 0)
"""The changelog partition that programs write to."""

OTHER = TopicPartition("streamproof-store-changelog", 1)
"""A second partition, as a global store has."""

LAB_WRITE_BUFFER_BYTES = 64 * 1024
"""Write buffers are kept small, so that they overflow to disk within a short program."""

UPGRADED_VERSION = "2.2"
"""What ``upgrade.from`` says: the last version without timestamped stores was before 2.3."""

_SHIM_PREFIX = "streamproof-shim-"


def count_system_calls() -> None:
    """Make system calls countable: start this program anew, with a shim between it and libc.

    To be called first, by a program that is a file. It returns in the program that was started
    anew, and does nothing there.

    Raises:
        UsageError: there is no C compiler to build the shim with.
    """
    if triggers.shim_is_loaded():
        # It is mapped by now, so that its file is not needed any more.
        place = Path(os.environ.get("LD_PRELOAD", "")).parent
        if place.name.startswith(_SHIM_PREFIX):
            shutil.rmtree(place, ignore_errors=True)
        return
    directory = Path(tempfile.mkdtemp(prefix=_SHIM_PREFIX))
    shim = triggers.build_shim(directory)
    if shim is None:
        raise UsageError("Counting system calls needs a C compiler: install cc, gcc or clang.")
    os.execve(  # noqa: S606 - the program itself, as it was started
        sys.executable, sys.orig_argv, {**os.environ, "LD_PRELOAD": str(shim)}
    )


class ToldListener(StateRestoreListener):
    """A restore listener that notes what it is told, and may raise after that."""

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


class Lab:
    """One subject and one task directory, in which the subject is opened again and again.

    Args:
        subject: a subject, or what names one on the command line.
        guarantee: the processing guarantee that the store is told.
        directory: the directory of the task; if it is not given, a temporary one, which is
            deleted when the program ends.
        task_id: the id of the task that the store is told.
    """

    def __init__(
        self,
        subject: str | Subject,
        *,
        guarantee: Guarantee = "exactly-once",
        directory: str | Path | None = None,
        task_id: str = "0_0",
    ) -> None:
        self.subject = load_subject(subject) if isinstance(subject, str) else subject
        self.guarantee = guarantee
        if directory is None:
            directory = tempfile.mkdtemp(prefix="streamproof-lab-")
            atexit.register(self.remove)
        self.directory = Path(directory)
        self.task_id = task_id
        self.context: StateStoreContext | None = None
        self.metrics: Metrics | None = None
        self.logged: list[ChangelogRecord] = []
        self.told: list[tuple[str, int] | tuple[str, int, int]] = []

    def measure(self, level: Level) -> None:
        """Give the stores that are opened from now on a registry of metrics.

        Its clock stands still, so that a rate is a number and not a matter of speed.
        """
        self.metrics = Metrics(level, lambda: 0.0)

    def other_task(self, task_id: str) -> Lab:
        """The same subject as another task of the thread: a directory below, the same metrics."""
        directory = self.directory / f"task-{task_id}"
        directory.mkdir(parents=True, exist_ok=True)
        lab = Lab(self.subject, guarantee=self.guarantee, directory=directory, task_id=task_id)
        lab.metrics = self.metrics
        return lab

    def rows(self) -> Any:
        """A new store, opened, and seen as a key-value store.

        Each key stands for one window or one session; a key-value store is returned as it is.
        """
        return rows_of(self.open(), self.subject.capabilities)

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

    def open_preparing(self) -> Any:
        """A new store, opened while its upgrade in place is being prepared (KIP-258).

        It is seen as a key-value store.
        """
        configs = {UPGRADE_FROM_CONFIG: UPGRADED_VERSION, UPGRADE_MODE_CONFIG: "in_place"}
        return rows_of(self.open(configs), self.subject.capabilities)

    def open_older(self) -> Any:
        """A new store of the kind that wrote the older format, opened in the same directory.

        It is seen as a key-value store.

        Raises:
            UsageError: the subject does not say which store that is (``upgrades_from``).
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
        """Let the store think that this input record is being processed."""
        if self.context is not None:
            self.context.record_metadata = RecordMetadata(topic, partition, offset)
            self.context.record_timestamp = timestamp

    def idle(self) -> None:
        """Let the store think that no input record is being processed."""
        if self.context is not None:
            self.context.record_metadata = None
            self.context.record_timestamp = NO_TIMESTAMP

    def restore(self, store: Any, records: Iterable[ChangelogRecord]) -> None:
        """Apply changelog records as the runtime does: by the callback that ``init`` registered.

        A store that registered none gets a ``put`` for each record.
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

        What its listener is told is appended to ``told``; with ``listener_fails`` it then raises.
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
        """Replay what comes after the committed offset, and commit, as the runtime does."""
        records = list(changelog)
        offset = store.committed_offset(CHANGELOG)
        start = -1 if offset is None else offset
        self.restore(store, [record for record in records if record.offset > start])
        if records:
            store.commit({CHANGELOG: records[-1].offset})

    def wipe(self) -> None:
        """Delete everything in the directory, as the runtime does with a corrupted task."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True, exist_ok=True)

    def crash(self, doomed: Callable[[], object]) -> None:
        """Run ``doomed`` in a process of its own, and kill that process with SIGKILL.

        It dies where ``arm`` or ``die`` said, and at the end of ``doomed`` otherwise.
        Call it before anything was opened in this process: a store's threads do not survive
        the fork that starts the process.
        """
        pid = os.fork()
        if pid == 0:
            try:
                doomed()
            except BaseException:
                import traceback

                traceback.print_exc()
                os._exit(1)
            self.die()
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            raise RuntimeError("The doomed program raised before it could be killed; see above.")

    def arm(self, *, line: int = 0, syscall: int = 0) -> None:
        """From here on, die before the n-th line of Python, or the n-th write-like system call.

        System calls are counted only in a program that began with :func:`count_system_calls`.
        """
        if line:
            triggers.arm_lines(line)
        if syscall:
            triggers.arm_syscalls(syscall)

    def die(self) -> NoReturn:
        """Kill this process at once."""
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")

    def remove(self) -> None:
        """Delete the directory."""
        with contextlib.suppress(OSError):
            shutil.rmtree(self.directory)
