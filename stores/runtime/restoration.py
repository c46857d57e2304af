"""The restoration of a store from one changelog partition, and the listeners that follow it.

Source: KIP-869; Kafka, StoreChangelogReader and StateRestoreListener.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal

from streamproof.stores.api import ChangelogRecord, RestoreCallback, TopicPartition
from streamproof.stores.errors import InvalidStateStoreError, StoreError
from streamproof.stores.runtime.layers import call_all

__all__ = [
    "Restoration",
    "RestorationState",
    "StandbyUpdateListener",
    "StateRestoreListener",
    "SuspendReason",
]

_logger = logging.getLogger("streamproof.stores")

RestorationState = Literal["ready", "restoring", "completed", "suspended"]
"""The state of a restoration. A suspended one can begin again, a completed one cannot."""

SuspendReason = Literal["migrated", "promoted"]
"""Why the updates of a standby end: it goes elsewhere, or becomes the active task here."""


class StateRestoreListener:
    """Follows restorations. Every method does nothing unless a subclass overrides it.

    A start is followed by any number of batches, and then by exactly one end or one suspension. A
    suspended restoration that is resumed begins with another start.

    Source: KIP-869, StateRestoreListener.
    """

    def on_restore_start(
        self, partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        """A restoration begins, even if the store lacks nothing.

        Args:
            partition: the changelog partition.
            store_name: the store.
            starting_offset: the first offset to restore.
            ending_offset: the offset after the last one to restore.
        """

    def on_batch_restored(
        self, partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        """A batch of at least one record was restored.

        Args:
            partition: the changelog partition.
            store_name: the store.
            batch_end_offset: the offset of the last record of the batch.
            num_restored: how many records the batch had.
        """

    def on_restore_end(
        self, partition: TopicPartition, store_name: str, total_restored: int
    ) -> None:
        """The restoration is complete: ``total_restored`` records were restored since the start."""

    def on_restore_suspended(
        self, partition: TopicPartition, store_name: str, total_restored: int
    ) -> None:
        """The restoration ended early, ``total_restored`` records after its start."""


class StandbyUpdateListener:
    """Follows the updates of standbys. Every method does nothing unless a subclass overrides it.

    A start is followed by any number of batches, and then by exactly one suspension.

    Source: KIP-988, StandbyUpdateListener.
    """

    def on_update_start(
        self, partition: TopicPartition, store_name: str, starting_offset: int
    ) -> None:
        """The updates begin, with the first record at ``starting_offset`` or after it."""

    def on_batch_loaded(  # noqa: PLR0917 - as the KIP has it
        self,
        partition: TopicPartition,
        store_name: str,
        task_id: str,
        batch_end_offset: int,
        batch_size: int,
        current_end_offset: int | None,
    ) -> None:
        """A batch of at least one record was applied.

        Args:
            partition: the changelog partition.
            store_name: the store.
            task_id: the standby.
            batch_end_offset: the offset of the last record of the batch.
            batch_size: how many records the batch had.
            current_end_offset: the end of the changelog; ``None`` if it is not known.
        """

    def on_update_suspended(
        self,
        partition: TopicPartition,
        store_name: str,
        store_offset: int,
        current_end_offset: int,
        reason: SuspendReason,
    ) -> None:
        """The updates have ended.

        Args:
            partition: the changelog partition.
            store_name: the store.
            store_offset: the offset of the last record that was applied; -1 if none was.
            current_end_offset: the end of the changelog; -1 if it is not known.
            reason: why they ended.
        """


class Restoration:
    """Restores one store from one partition of its changelog.

    Call ``begin`` once, and ``restore`` for each batch until the restoration is completed. In
    between it can be suspended, and begun again. A restoration commits nothing: the runtime decides
    when to commit.

    An error of the store suspends the restoration: the listener gets a suspension, and the caller
    gets the error. The batch that failed counts as not restored, and must be passed again after
    the next ``begin``. An error of the listener is raised as a StoreError. The restored records
    are valid then, and the restoration goes on as if the listener had returned.

    Args:
        partition: the changelog partition.
        store_name: the store, for the listener and for messages.
        callback: the callback that the store registered with ``context.register``.
        start: the first offset to restore: one more than the committed offset, or 0.
        end: the offset after the last one to restore: the end of the log when it was looked up.
        listener: follows the restoration.

    Source: KIP-869; Kafka, StoreChangelogReader.
    """

    def __init__(
        self,
        partition: TopicPartition,
        store_name: str,
        callback: RestoreCallback,
        *,
        start: int,
        end: int,
        listener: StateRestoreListener | None = None,
    ) -> None:
        self._partition = partition
        self._store_name = store_name
        self._callback = callback
        self._listener = listener or StateRestoreListener()
        self._position = start
        self._end = end
        self._total = 0
        self._state: RestorationState = "ready"

    @property
    def state(self) -> RestorationState:
        """The state of this restoration."""
        return self._state

    @property
    def position(self) -> int:
        """The next offset. Every record before it is restored, or does not exist."""
        return self._position

    @property
    def remaining(self) -> int:
        """How many offsets are left, gaps included; 0 once it is completed."""
        return max(self._end - self._position, 0)

    @property
    def total_restored(self) -> int:
        """How many records were restored since the last beginning."""
        return self._total

    def begin(self, *, end: int | None = None) -> None:
        """Begin, for the first time or after a suspension. If nothing is left, also complete.

        Args:
            end: the new end, if the log has grown since the suspension.

        Raises:
            InvalidStateStoreError: the restoration has begun already, or is completed.
            StoreError: the listener raised.
        """
        if self._state not in {"ready", "suspended"}:
            raise InvalidStateStoreError(
                f"The restoration of store {self._store_name!r} from {self._partition} is "
                f"{self._state}; begin only a restoration that is ready or suspended."
            )
        if end is not None:
            self._end = end
        self._total = 0
        self._state = "restoring"
        self._go_on("on_restore_start", self._position, self._end)

    def restore(self, records: Sequence[ChangelogRecord], *, position: int | None = None) -> int:
        """Restore a batch, as a poll of the changelog returned it; return how many records it had.

        A record without a key is skipped with a warning. Records from the end on are not applied,
        and neither are records before the position, which are restored already.

        Args:
            records: the records, by offset.
            position: the offset that the next poll begins with. The position says more than the
                records do, because transaction markers and compacted records leave gaps.

        Raises:
            InvalidStateStoreError: the restoration has not begun, or it has ended.
            StoreError: the listener raised, or the store did.
        """
        if self._state != "restoring":
            raise InvalidStateStoreError(
                f"The restoration of store {self._store_name!r} from {self._partition} is "
                f"{self._state} and takes no records; call begin() first."
            )
        reached = self._reached(records, position)
        batch = [each for each in records if self._position <= each.offset < self._end]
        keyed = [record for record in batch if self._has_key(record)]
        if keyed:
            self._apply(keyed)
        self._position = max(self._position, reached)
        self._total += len(keyed)
        if keyed:
            self._go_on("on_batch_restored", keyed[-1].offset, len(keyed))
        else:
            self._complete_if_done()
        return len(keyed)

    def suspend(self) -> None:
        """End the restoration early, for example because the task leaves.

        A restoration that has not begun, or has ended, does not change.

        Raises:
            StoreError: the listener raised.
        """
        if self._state == "restoring":
            self._state = "suspended"
            self._tell("on_restore_suspended", self._total)

    def _reached(self, records: Sequence[ChangelogRecord], position: int | None) -> int:
        """The next offset once these records are restored."""
        last = records[-1].offset + 1 if records else self._position
        return min(last if position is None else max(last, position), self._end)

    def _has_key(self, record: ChangelogRecord) -> bool:
        # The type rules out a key of None; a changelog that another program wrote to may have one.
        key: bytes | None = record.key
        if key is None:
            _logger.warning(
                "Skipping the record at offset %d of %s, which is to restore store %r: it has no "
                "key. Only the store should write to its changelog.",
                record.offset,
                self._partition,
                self._store_name,
            )
        return key is not None

    def _apply(self, records: Sequence[ChangelogRecord]) -> None:
        try:
            self._callback(records)
        except Exception as error:
            try:
                self.suspend()
            except StoreError as listener_error:
                # The error of the store matters more; the listener's error is added as a note.
                error.add_note(f"After that: {listener_error}")
            raise

    def _go_on(self, method: str, *details: int) -> None:
        """Call the listener, and complete if nothing is left, even if the listener raises."""
        call_all((lambda: self._tell(method, *details), self._complete_if_done))

    def _complete_if_done(self) -> None:
        if self._position >= self._end:
            self._state = "completed"
            self._tell("on_restore_end", self._total)

    def _tell(self, method: str, *details: int) -> None:
        try:
            getattr(self._listener, method)(self._partition, self._store_name, *details)
        except Exception as error:
            raise StoreError(
                f"The restore listener {type(self._listener).__name__} raised {error!r} in "
                f"{method}, for store {self._store_name!r} and {self._partition}. Correct the "
                "listener; the restored records are valid."
            ) from error
