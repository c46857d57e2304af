"""Stores that fail inside tasks, which restart, restore and hand over; see the package."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from streamproof.conformance.mutants.crash_mutants import JournalStore, frame
from streamproof.stores.api import (
    ChangelogRecord,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.errors import InvalidArgumentError, ProcessorStateError, TaskCorruptedError
from streamproof.stores.memory import InMemoryKeyValueStore

NAME = "store"


class _Filtered(InMemoryKeyValueStore):
    """Consults a filter before each read. The filter knows the keys put since its creation."""

    _known: frozenset[bytes] = frozenset()

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        self._known |= {key}

    def get(self, key: bytes) -> bytes | None:
        found = super().get(key)
        return found if key in self._known else None


class get_misses_restored_rows(_Filtered):
    """Does not add restored keys to its filter of known keys."""

    def __init__(self) -> None:
        super().__init__(NAME)


class restoring_stops_at_a_tombstone(InMemoryKeyValueStore):
    """Treats a record without a value as the end of the batch."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        context.register(root, self._apply)

    def _apply(self, batch: Sequence[ChangelogRecord]) -> None:
        for record in batch:
            self._write(record.key, record.value)
            if record.value is None:
                return


class _InTasks(JournalStore):
    def __init__(self) -> None:
        super().__init__(NAME)


class staged_rows_reach_the_journal(_InTasks):
    """Writes each row to the journal at once, so that commits have less work."""

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        self.append(frame({key: value}, self.offsets))


class commit_keeps_deleted_rows(_InTasks):
    """Applies staged puts to the rows of the last commit, and skips deletes."""

    def __init__(self) -> None:
        super().__init__()
        self._deleted: dict[bytes, bytes] = {}

    def put(self, key: bytes, value: bytes | None) -> None:
        before = self.get(key)
        super().put(key, value)
        self._deleted.pop(key, None)
        if before is not None and value is None:
            self._deleted[key] = before

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        super().commit(changelog_offsets)
        for key, before in self._deleted.items():
            self._write(key, before)
        self._deleted.clear()


class get_misses_rows_of_the_last_process(_Filtered, _InTasks):
    """Does not add existing keys to its filter when it opens."""


class _Marked(_InTasks):
    """Keeps a mark on disk while it is open."""

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        mark = context.state_dir / "in-use"
        if mark.exists():
            self.found_mark()
        super().init(context, root)
        mark.touch()

    def found_mark(self) -> None:
        """React to a mark: the last close was not clean."""

    def close(self) -> None:
        super().close()
        (self.directory.parent / "in-use").unlink(missing_ok=True)


class wiped_after_every_crash(_Marked):
    """Asks to be wiped after a crash, although it knows its last commit."""

    def found_mark(self) -> None:
        raise TaskCorruptedError(f"The store in {self.directory} was not closed: wipe it.")


class lock_outlives_the_process(_Marked):
    """Mistakes the mark of a dead process for that of a living one."""

    def found_mark(self) -> None:
        raise ProcessorStateError(f"The store in {self.directory} is in use: close it first.")


class unknown_offset_refused(_InTasks):
    """Accepts offsets from 0 on, but not the value for an unknown offset."""

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        if any(offset is not None and offset < 0 for offset in changelog_offsets.values()):
            raise InvalidArgumentError(f"Offsets begin at 0: {changelog_offsets}.")
        super().commit(changelog_offsets)


class restored_in_any_order(InMemoryKeyValueStore):
    """Restores the records of a batch in random order, as several threads would."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        context.register(root, self._apply)

    def _apply(self, batch: Sequence[ChangelogRecord]) -> None:
        for record in random.sample(batch, len(batch)):
            self._write(record.key, record.value)


class restored_rows_lost_at_close(_InTasks):
    """Saves put entries on close, but forgets restored entries."""

    has_changed = False

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        self.has_changed = True

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        for record in batch:
            self._write(record.key, record.value)

    def try_to_merge(self) -> None:
        if self.has_changed:
            super().try_to_merge()
