"""Stores that stand every kill, and not the loss of power; see the table in the package.

All but the last are small differences to :class:`DurableStore`, which is correct.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from streamproof.conformance.mutants.crash_mutants import JournalStore, frame
from streamproof.conformance.mutants.store_mutants import unclean_stop_unnoticed
from streamproof.stores.api import ChangelogRecord, StateStore, StateStoreContext, TopicPartition
from streamproof.stores.synced_directories import make_directory, sync_directory

END = bytes(4) + b"\xff" * 4
"""The head of a frame that is none."""


class DurableStore(JournalStore):
    """A journal and a snapshot of which everything is synced before a commit returns."""

    capabilities = replace(
        JournalStore.capabilities, durability="power", upgrades_from=f"{__name__}:older_durable"
    )

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Make the directory, so that it lasts, and open."""
        self.make(context.state_dir / "journalled")
        super().init(context, root)

    def make(self, directory: Path) -> None:
        """Make the directory of the store."""
        make_directory(directory)

    def upgrade(self) -> None:
        """Take over what the older version left, in one step."""
        older = self.directory / "snapshot.v1"
        if self.version == 1 or not older.exists():
            return
        if not self.snapshot.exists():
            self.replace(self.snapshot, older.read_bytes())
        older.unlink()
        sync_directory(self.directory)

    def merge(self) -> None:
        """Write a new snapshot, and only then remove the journal."""
        if self.journal.exists():
            self.replace(self.snapshot, frame(dict(self._rows), self.offsets))
            self.journal.unlink()
            sync_directory(self.directory)
        self.frames = 0

    def replace(self, path: Path, data: bytes, *, synced: bool = True) -> None:
        """Put another content into the place of a file, as a whole and to last."""
        temporary = path.with_suffix(f"{path.suffix}.tmp")
        with temporary.open("wb", buffering=0) as file:
            file.write(data)
            if synced:
                os.fsync(file.fileno())
        temporary.replace(path)
        sync_directory(self.directory)

    def append(self, data: bytes) -> None:
        """Add to the journal, and sync it and, where it is new, its name."""
        self.add(self.journal, data)

    def add(self, path: Path, data: bytes, *, synced: bool = True) -> None:
        """Add to a file, and sync it and, where it is new, its name."""
        new = not path.exists()
        with path.open("ab", buffering=0) as file:
            file.write(data)
            if synced:
                os.fsync(file.fileno())
        if new:
            sync_directory(self.directory)


def durable() -> DurableStore:
    """The store without a mistake."""
    return DurableStore("store")


class OlderDurableStore(DurableStore):
    """The same store before its format changed."""

    capabilities = replace(DurableStore.capabilities, upgrades_from="")
    version = 1


def older_durable() -> DurableStore:
    """The store that wrote the older format, without a mistake."""
    return OlderDurableStore("store")


class WholeFileStore(DurableStore):
    """A store that writes everything anew at each commit, which is correct, too."""

    def append(self, data: bytes) -> None:
        _, offsets = pickle.loads(data[8:])  # noqa: S301 - see frame
        self.replace(self.snapshot, frame(dict(self._rows), offsets))


def whole_file() -> DurableStore:
    """Another store without a mistake."""
    return WholeFileStore("store")


class _UnsyncedRename(DurableStore):
    def replace(self, path: Path, data: bytes, *, synced: bool = True) -> None:
        super().replace(path, data, synced=False)


def renamed_before_it_is_synced() -> DurableStore:
    """Renames a new snapshot that has no content on the disk yet."""
    return _UnsyncedRename("store")


class _UnsyncedDirectory(WholeFileStore):
    def replace(self, path: Path, data: bytes, *, synced: bool = True) -> None:
        temporary = path.with_suffix(f"{path.suffix}.tmp")
        with temporary.open("wb", buffering=0) as file:
            file.write(data)
            os.fsync(file.fileno())
        temporary.replace(path)


def directory_never_synced() -> DurableStore:
    """Syncs a file, renames it, and takes the rename to last."""
    return _UnsyncedDirectory("store")


class _UnsyncedParent(DurableStore):
    def make(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)


def directory_made_without_a_sync() -> DurableStore:
    """Syncs all that is in its directory, and not the name of the directory itself."""
    return _UnsyncedParent("store")


class _UnsyncedLog(DurableStore):
    def add(self, path: Path, data: bytes, *, synced: bool = True) -> None:
        super().add(path, data, synced=False)


def journal_never_synced() -> DurableStore:
    """Declares that commits survive the loss of power, and syncs none of them."""
    return _UnsyncedLog("store")


class _FlushStore(_UnsyncedLog):
    capabilities = replace(DurableStore.capabilities, durability="flush", upgrades_from="")

    def flush(self) -> None:
        self._opened()


def flush_that_syncs_nothing() -> DurableStore:
    """Hands everything to the kernel, and calls that a flush."""
    return _FlushStore("store")


class _SplitStore(DurableStore):
    """Keeps the offsets in a file of their own, and no snapshot."""

    capabilities = replace(DurableStore.capabilities, upgrades_from="")

    @property
    def marks(self) -> Path:
        return self.directory / "marks"

    def load(self, path: Path) -> None:
        super().load(path)
        if path == self.journal:
            self.offsets = {}
            super().load(self.marks)

    def merge(self) -> None:
        self.frames = 0

    def append(self, data: bytes) -> None:
        rows, offsets = pickle.loads(data[8:])  # noqa: S301 - see frame
        self.write(frame(rows, {}), frame({}, offsets))

    def write(self, rows: bytes, offsets: bytes) -> None:
        self.add(self.journal, rows)
        self.add(self.marks, offsets)


class _OffsetsSynced(_SplitStore):
    def write(self, rows: bytes, offsets: bytes) -> None:
        self.add(self.journal, rows, synced=False)
        self.add(self.marks, offsets)


def offsets_synced_and_data_not() -> DurableStore:
    """Syncs the offsets of a commit, and leaves the data to the kernel."""
    return _OffsetsSynced("store")


class _SyncedTogether(_SplitStore):
    def write(self, rows: bytes, offsets: bytes) -> None:
        self.add(self.journal, rows, synced=False)
        self.add(self.marks, offsets, synced=False)
        for path in (self.journal, self.marks):
            with path.open("rb") as file:
                os.fsync(file.fileno())


def data_and_offsets_synced_at_the_end() -> DurableStore:
    """Writes the data and then the offsets, and syncs both after that: the order is not kept."""
    return _SyncedTogether("store")


class _OffsetsApart(DurableStore):
    def append(self, data: bytes) -> None:
        rows, offsets = pickle.loads(data[8:])  # noqa: S301 - see frame
        merged = dict(self.offsets)
        for partition, offset in offsets.items():
            merged[partition] = offset
            self.add(self.journal, frame(rows, merged))


def partitions_committed_one_by_one() -> DurableStore:
    """Syncs the offset of one partition after that of the other."""
    return _OffsetsApart("store")


class _Trusting(DurableStore):
    def load(self, path: Path) -> None:
        data = path.read_bytes() if path.exists() else b""
        while len(data) >= 8:
            size = int.from_bytes(data[:4], "big")
            body, data = data[8 : 8 + size], data[8 + size :]
            if len(body) < size:
                return
            rows, self.offsets = pickle.loads(body)  # noqa: S301 - see frame
            for key, value in rows.items():
                self._write(key, value)


def torn_frame_accepted() -> DurableStore:
    """Looks at the length of a frame, and not at its checksum."""
    return _Trusting("store")


class _Recycled(DurableStore):
    """Writes over the old journal, and ends it where it is not overwritten yet."""

    end = 0

    def merge(self) -> None:
        if self.journal.exists():
            temporary = self.snapshot.with_suffix(".tmp")
            with temporary.open("wb", buffering=0) as file:
                file.write(frame(dict(self._rows), self.offsets))
                os.fsync(file.fileno())
            temporary.replace(self.snapshot)
        self.end = self.frames = 0

    def add(self, path: Path, data: bytes, *, synced: bool = True) -> None:
        new = not path.exists()
        with path.open("wb" if new else "r+b", buffering=0) as file:
            file.seek(self.end)
            file.write(data + END)
            os.fsync(file.fileno())
        if new:
            sync_directory(self.directory)
        self.end += len(data)


def journal_written_over_too_early() -> DurableStore:
    """Begins a journal anew before the new snapshot has its name on the disk."""
    return _Recycled("store")


class _CarelessClose(DurableStore):
    closing = False

    def close(self) -> None:
        self.closing = True
        super().close()
        self.closing = False

    def replace(self, path: Path, data: bytes, *, synced: bool = True) -> None:
        super().replace(path, data, synced=not self.closing)


def close_syncs_nothing() -> DurableStore:
    """Leaves the last snapshot to the kernel: the store is closed, after all."""
    return _CarelessClose("store")


class _CarelessUpgrade(DurableStore):
    def upgrade(self) -> None:
        older = self.directory / "snapshot.v1"
        if older.exists():
            self.replace(self.snapshot, older.read_bytes(), synced=False)
            older.unlink()


def upgrade_syncs_nothing() -> DurableStore:
    """Deletes the older files while the new ones are not on the disk yet."""
    return _CarelessUpgrade("store")


class _CarelessRecovery(DurableStore):
    recovering = False

    def recover(self) -> None:
        self.recovering = True
        super().recover()
        self.recovering = False

    def replace(self, path: Path, data: bytes, *, synced: bool = True) -> None:
        super().replace(path, data, synced=not self.recovering)


def recovery_syncs_nothing() -> DurableStore:
    """Recovers from one loss of power, and not from a second one after that."""
    return _CarelessRecovery("store")


class _CarelessRestore(DurableStore):
    restoring = False

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        super().restore(batch)
        self.restoring = True

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        super().commit(changelog_offsets)
        self.restoring = False

    def add(self, path: Path, data: bytes, *, synced: bool = True) -> None:
        super().add(path, data, synced=not self.restoring)


def restored_records_never_synced() -> DurableStore:
    """Takes a restoration for something that can be done again, and keeps its offset."""
    return _CarelessRestore("store")


class _BehindTheTear(DurableStore):
    def recover(self) -> None:
        self.load(self.journal)

    def merge(self) -> None:
        self.frames = 0


def journal_goes_on_behind_a_tear() -> DurableStore:
    """Adds to a journal with a torn frame, behind which nothing will be read."""
    return _BehindTheTear("store")


def loss_of_power_unnoticed() -> StateStore:
    """No status tells that the store was not closed."""
    return unclean_stop_unnoticed()
