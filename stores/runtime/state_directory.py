"""The directories of an application's tasks: who uses them, and how far their stores are.

.. code-block:: text

    <root>/                 <state.dir>/<application.id>
    <root>/.lock            locked by the one process that uses the directory
    <root>/0_0/             a task: <subtopology>_<partition>
    <root>/.removed-0_0/    a task that is being removed

The sums answer how far a task is behind its changelogs, for an assignment: for tasks that run
here, that are closed, and that were never assigned here but have left files.

Source: KIP-1035, "Consumer Rebalance Metadata"; Kafka, StateDirectory and ClientState.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import IO, Any, Final, Self

from streamproof.stores.api import StateStore, StateStoreContext, TopicPartition
from streamproof.stores.checkpoint import TASK_CHECKPOINT, changelog_partition
from streamproof.stores.errors import ProcessorStateError, TaskCorruptedError

__all__ = [
    "LATEST_OFFSET",
    "UNKNOWN_OFFSET_SUM",
    "StateDirectory",
    "StoreFactory",
    "offset_sum",
    "persistent_offsets",
]

LATEST_OFFSET: Final = -2
"""Instead of a sum: the task is active and running here, so that nothing is behind."""

UNKNOWN_OFFSET_SUM: Final = -3
"""Instead of a sum: it is not known."""

StoreFactory = Callable[[], StateStore]
"""Makes a store that is not open yet."""

_LARGEST_SUM: Final = 2**63 - 1
_LOCK_FILE: Final = ".lock"
_TASK: Final = re.compile(r"\d+_\d+")
_REMOVED_PREFIX: Final = ".removed-"
_START: Final = "start-up scan"

_logger = logging.getLogger("streamproof.stores")


class StateDirectory:
    """The task directories below ``root``; used in a ``with`` statement, or opened and closed.

    The methods may be called from any thread. Times are milliseconds of whatever clock the caller
    has: none is read here.

    Args:
        root: the directory of the application; it is created if it is not there.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self._lock_file: IO[bytes] | None = None
        self._guard = RLock()
        self._owners: dict[str, str] = {}
        self._sums: dict[str, int] = {}

    # --- the application --------------------------------------------------------------

    def open(self) -> None:
        """Lock the directory against other processes, and other instances of this class.

        Raises:
            ProcessorStateError: another one has it, or it cannot be created.
        """
        path = self.root / _LOCK_FILE
        file = None
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            file = path.open("ab")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if file is not None:
                file.close()
            taken = isinstance(error, BlockingIOError)
            raise ProcessorStateError(
                f"{path} cannot be locked: "
                + (
                    "another process uses the directory. Give each process a state directory of "
                    "its own, or stop the other one."
                    if taken
                    else f"{error}. Check that the directory can be written."
                )
            ) from error
        self._lock_file = file

    def close(self) -> None:
        """Release the lock; closing twice is harmless."""
        file, self._lock_file = self._lock_file, None
        if file is not None:
            file.close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- tasks ------------------------------------------------------------------------

    def task_directory(self, task_id: str) -> Path:
        """Where the files of a task are, whether they are there or not."""
        return self.root / task_id

    def task_ids(self) -> list[str]:
        """The tasks that have files of stores here, in the order of their numbers."""
        with self._guard:
            return [task_id for task_id in self._found() if self._has_state(task_id)]

    def _has_state(self, task_id: str) -> bool:
        # Files of offsets are worth nothing without stores.
        return any(
            not each.name.startswith(TASK_CHECKPOINT)
            for each in self.task_directory(task_id).iterdir()
        )

    def _found(self) -> list[str]:
        """The tasks that have a directory."""
        found = [each.name for each in self._entries() if _TASK.fullmatch(each.name)]
        return sorted(found, key=_numbers)

    def _entries(self) -> list[Path]:
        return [each for each in self.root.iterdir() if each.is_dir()] if self.root.is_dir() else []

    def lock(self, task_id: str, owner: str) -> bool:
        """Take the task for ``owner``, a thread for example; ``False`` if another one has it.

        Taking it again is harmless, and one ``unlock`` gives it back.
        """
        with self._guard:
            return self._owners.setdefault(task_id, owner) == owner

    def unlock(self, task_id: str, owner: str, now_ms: int) -> None:
        """Give the task back; nothing happens if ``owner`` does not have it.

        The directory is noted as used until now, since a store that keeps its offsets itself
        writes nothing into it (KAFKA-20805).
        """
        with self._guard:
            if self._owners.get(task_id) != owner:
                return
            with suppress(FileNotFoundError):
                os.utime(self.task_directory(task_id), ns=(now_ms * 10**6, now_ms * 10**6))
            del self._owners[task_id]

    def owner(self, task_id: str) -> str | None:
        """Who has the task, or ``None``."""
        with self._guard:
            return self._owners.get(task_id)

    def clean(self, older_than_ms: int, now_ms: int) -> list[str]:
        """Remove the directories that nobody has locked and that were not used for longer.

        Args:
            older_than_ms: how long a directory is kept after its last use, in milliseconds
                (``state.cleanup.delay.ms``, 600,000 by default).
            now_ms: the time, in milliseconds.

        Returns:
            The tasks whose directories were removed. What cannot be removed is logged.
        """
        self._finish_removals()
        before_ms = now_ms - older_than_ms
        return [task_id for task_id in self._found() if self._remove_if_old(task_id, before_ms)]

    def remove(self, task_id: str) -> None:
        """Remove the directory of a task, as for one that is corrupted, and forget its sum.

        Raises:
            ProcessorStateError: it cannot be removed.
        """
        directory = self.task_directory(task_id)
        with self._guard:
            self._sums.pop(task_id, None)
            try:
                # Half of a directory must not be taken for the whole after a crash.
                aside = self.root / f"{_REMOVED_PREFIX}{task_id}"
                if aside.exists():
                    shutil.rmtree(aside)
                if directory.exists():
                    directory.rename(aside)
                    shutil.rmtree(aside)
            except OSError as error:
                raise ProcessorStateError(
                    f"The directory {directory} of task {task_id} cannot be removed: {error}. "
                    "Check its rights, and remove it by hand."
                ) from error

    def _finish_removals(self) -> None:
        for each in self._entries():
            if each.name.startswith(_REMOVED_PREFIX):
                shutil.rmtree(each, ignore_errors=True)

    def _remove_if_old(self, task_id: str, before_ms: int) -> bool:
        with self._guard:
            if task_id in self._owners:
                return False
            try:
                used_ms = self.task_directory(task_id).stat().st_mtime_ns // 10**6
                if used_ms >= before_ms:
                    return False
                self.remove(task_id)
            except FileNotFoundError:
                return False
            except ProcessorStateError as error:
                _logger.warning("%s", error)
                return False
        _logger.info("Removed the directory of task %s, which was not used any more.", task_id)
        return True

    # --- offsets ----------------------------------------------------------------------

    def scan(
        self,
        stores: Mapping[str, Iterable[StoreFactory]],
        *,
        application_id: str,
        app_configs: Mapping[str, Any],
        now_ms: int,
    ) -> None:
        """Open the stores of every task that has files here, note their offsets, close them.

        To be called at the start, before any task is assigned. Stores that are not persistent
        are not opened. A task that is corrupted has no sum: it is left for its first
        assignment to deal with.

        Args:
            stores: for each task, what makes its stores that are logged.
            application_id: the id of the application, for the names of the changelogs.
            app_configs: the configuration that the stores are told.
            now_ms: the time, in milliseconds.

        Raises:
            ProcessorStateError: a store cannot be opened or closed; the task is named.

        Source: KIP-1035, "Consumer Rebalance Metadata"; Kafka 4.3,
        StateDirectory#initializeStartupStores.
        """
        for task_id in self.task_ids():
            if task_id not in stores or not self.lock(task_id, _START):
                continue
            context = StateStoreContext(
                state_dir=self.task_directory(task_id),
                application_id=application_id,
                task_id=task_id,
                app_configs=app_configs,
            )
            try:
                self.update(task_id, _scan_task(context, stores[task_id]))
            except TaskCorruptedError as error:
                _logger.warning("Task %s is left for its first assignment. %s", task_id, error)
            finally:
                self.unlock(task_id, _START, now_ms)

    def update(self, task_id: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Note how far the closed, restoring or standby stores of a task are.

        Args:
            task_id: the task.
            offsets: the committed offsets of the changelogs of its persistent stores, as
                ``persistent_offsets`` finds them.
        """
        with self._guard:
            self._sums[task_id] = offset_sum(offsets)

    def mark_running(self, task_id: str) -> None:
        """Note that a task is active here and restored, until the next ``update``."""
        with self._guard:
            self._sums[task_id] = LATEST_OFFSET

    def task_offset_sums(self) -> dict[str, int]:
        """For each task with persistent stores the sum of its offsets, or a sentinel."""
        with self._guard:
            return dict(self._sums)

    def task_lag(self, task_id: str, end_offsets: Mapping[TopicPartition, int] | None) -> int:
        """How many records a task is behind its changelogs, were it to run here.

        Args:
            task_id: the task; one that is not known here is at the start of its changelogs.
            end_offsets: the offsets that the next records of its changelogs will get;
                ``None`` if they could not be found out.

        Returns:
            The lag; LATEST_OFFSET for a running active task; UNKNOWN_OFFSET_SUM if the ends
            are not known. A task that is ahead of the ends, which is suspicious, gets all of
            the records.

        Source: Kafka, ClientState#computeTaskLags.
        """
        with self._guard:
            reached = self._sums.get(task_id, 0)
        if reached < 0:
            return reached
        if end_offsets is None:
            return UNKNOWN_OFFSET_SUM
        end = min(sum(end_offsets.values()), _LARGEST_SUM)
        return end if end < reached else end - reached


def offset_sum(offsets: Mapping[TopicPartition, int | None]) -> int:
    """How many records the offsets stand for, at most 2**63 - 1.

    An offset is that of the last record, so that one more record than that was there. ``None``
    and negative sentinels (-4, not known) count nothing.
    """
    known = (offset for offset in offsets.values() if offset is not None and offset >= 0)
    return min(sum(offset + 1 for offset in known), _LARGEST_SUM)


def persistent_offsets(
    stores: Iterable[StateStore], context: StateStoreContext
) -> dict[TopicPartition, int | None]:
    """The committed offsets of the changelogs of those stores that are persistent.

    What is in memory is gone with its task, and must not count after that (KAFKA-20893).
    """
    found: dict[TopicPartition, int | None] = {}
    for store in stores:
        changelog = changelog_partition(context, store.name)
        if store.persistent and changelog is not None:
            found[changelog] = store.committed_offset(changelog)
    return found


def _scan_task(
    context: StateStoreContext, factories: Iterable[StoreFactory]
) -> dict[TopicPartition, int | None]:
    """Open the persistent stores of a task, ask for their offsets, and close all of them."""
    try:
        with ExitStack() as opened:
            stores = []
            for factory in factories:
                store = factory()
                if store.persistent:
                    store.init(context, store)
                    opened.callback(store.close)
                    stores.append(store)
            return persistent_offsets(stores, context)
    except TaskCorruptedError:
        raise
    except Exception as error:
        raise ProcessorStateError(
            f"The stores of task {context.task_id} in {context.state_dir} cannot be opened and "
            f"closed at the start: {error}"
        ) from error


def _numbers(task_id: str) -> tuple[int, ...]:
    return tuple(map(int, task_id.split("_")))
