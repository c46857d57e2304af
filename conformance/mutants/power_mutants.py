"""Stores that survive every kill but not the loss of power; see the table in the package.

All but the last differ a little from :class:`DurableStore`, which is correct.
"""

from __future__ import annotations

import os
import pickle
from ast import literal_eval
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from streamproof.conformance.mutants.crash_mutants import JournalStore, frame
from streamproof.conformance.mutants.store_mutants import unclean_stop_unnoticed
from streamproof.stores.api import ChangelogRecord, StateStore, StateStoreContext, TopicPartition
from streamproof.stores.synced_directories import make_directory, sync_directory

END = bytes(4) + b"\xff" * 4
"""The head that marks the end of the frames."""


class DurableStore(JournalStore):
    """A journal and a snapshot. A commit syncs both before it returns."""

    capabilities = replace(
        JournalStore.capabilities, durability="power", upgrades_from=f"{__name__}:older_durable"
    )

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Make the directory durably, and open the store."""
        self.make(context.state_dir / "journalled")
        super().init(context, root)

    def make(self, directory: Path) -> None:
        """Make the directory of the store."""
        make_directory(directory)

    def upgrade(self) -> None:
        """Take over the files of the older version in one step."""
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
        """Replace the content of a file atomically and durably."""
        temporary = path.with_suffix(f"{path.suffix}.tmp")
        with temporary.open("wb", buffering=0) as file:
            file.write(data)
            if synced:
                os.fsync(file.fileno())
        temporary.replace(path)
        sync_directory(self.directory)

    def append(self, data: bytes) -> None:
        """Append to the journal and sync it. Also sync the name of a new journal."""
        self.add(self.journal, data)

    def add(self, path: Path, data: bytes, *, synced: bool = True) -> None:
        """Append to a file and sync it. Also sync the name of a new file."""
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
    """A store that rewrites all its content at each commit, which is also correct."""

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
    """Renames a new snapshot before its content is on the disk."""
    return _UnsyncedRename("store")


class _UnsyncedDirectory(WholeFileStore):
    def replace(self, path: Path, data: bytes, *, synced: bool = True) -> None:
        temporary = path.with_suffix(f"{path.suffix}.tmp")
        with temporary.open("wb", buffering=0) as file:
            file.write(data)
            os.fsync(file.fileno())
        temporary.replace(path)


def directory_never_synced() -> DurableStore:
    """Syncs and renames a file, but does not sync the directory."""
    return _UnsyncedDirectory("store")


class _UnsyncedParent(DurableStore):
    def make(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)


def directory_made_without_a_sync() -> DurableStore:
    """Syncs everything in its directory, but not the name of the directory itself."""
    return _UnsyncedParent("store")


class _UnsyncedLog(DurableStore):
    def add(self, path: Path, data: bytes, *, synced: bool = True) -> None:
        super().add(path, data, synced=False)


def journal_never_synced() -> DurableStore:
    """Declares that commits survive the loss of power, but syncs none of them."""
    return _UnsyncedLog("store")


class _FlushStore(_UnsyncedLog):
    capabilities = replace(DurableStore.capabilities, durability="flush", upgrades_from="")

    def flush(self) -> None:
        self._opened()


def flush_that_syncs_nothing() -> DurableStore:
    """Writes everything to the kernel's cache and calls that a flush."""
    return _FlushStore("store")


class _SplitStore(DurableStore):
    """Keeps the offsets in a separate file, and has no snapshot."""

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
    """Syncs the offsets of a commit but not its data."""
    return _OffsetsSynced("store")


class _SyncedTogether(_SplitStore):
    def write(self, rows: bytes, offsets: bytes) -> None:
        self.add(self.journal, rows, synced=False)
        self.add(self.marks, offsets, synced=False)
        for path in (self.journal, self.marks):
            with path.open("rb") as file:
                os.fsync(file.fileno())


def data_and_offsets_synced_at_the_end() -> DurableStore:
    """Writes the data, then the offsets, and syncs both only at the end, in no fixed order."""
    return _SyncedTogether("store")


class _OffsetsApart(DurableStore):
    def append(self, data: bytes) -> None:
        rows, offsets = pickle.loads(data[8:])  # noqa: S301 - see frame
        merged = dict(self.offsets)
        for partition, offset in offsets.items():
            merged[partition] = offset
            self.add(self.journal, frame(rows, merged))


def partitions_committed_one_by_one() -> DurableStore:
    """Syncs the offsets of the partitions one after the other."""
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
    """Checks the length of a frame but not its checksum."""
    return _Trusting("store")


class _Recycled(DurableStore):
    """Overwrites the old journal and marks the end of the new frames."""

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
    """Restarts the journal before the name of the new snapshot is on the disk."""
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
    """Does not sync the last snapshot on close."""
    return _CarelessClose("store")


class _CarelessUpgrade(DurableStore):
    def upgrade(self) -> None:
        older = self.directory / "snapshot.v1"
        if older.exists():
            self.replace(self.snapshot, older.read_bytes(), synced=False)
            older.unlink()


def upgrade_syncs_nothing() -> DurableStore:
    """Deletes the older files before the new ones are on the disk."""
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
    """Recovers from one loss of power but not from a second one."""
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
    """Does not sync restored records, as they can be restored again, but keeps their offset."""
    return _CarelessRestore("store")


class _BehindTheTear(DurableStore):
    def recover(self) -> None:
        self.load(self.journal)

    def merge(self) -> None:
        self.frames = 0


def journal_goes_on_behind_a_tear() -> DurableStore:
    """Appends to a journal after a torn frame, where recovery never reads."""
    return _BehindTheTear("store")


class _OffsetsAloneUnsynced(DurableStore):
    def add(self, path: Path, data: bytes, *, synced: bool = True) -> None:
        rows, _ = pickle.loads(data[8:])  # noqa: S301 - see frame
        super().add(path, data, synced=bool(rows))


def offsets_alone_never_synced() -> DurableStore:
    """Syncs a commit only if it has writes."""
    return _OffsetsAloneUnsynced("store")


class ImportingStore(DurableStore):
    """A store that takes over the offsets of an older version in one frame, and then removes them.

    The names of its changelog are in a file of the task, which other stores have lines in, too.
    """

    capabilities = replace(DurableStore.capabilities, upgrades_from="", imports_offsets=True)

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the store, and take over the offsets."""
        super().init(context, root)
        self.checkpoint = context.state_dir / ".checkpoint"
        topic = context.changelog_topic(self.name)
        lines = self.checkpoint.read_text().splitlines()[2:] if self.checkpoint.exists() else []
        mine = [line.split() for line in lines if line.split()[0] == topic]
        if mine:
            offsets = {TopicPartition(topic, int(each[1])): int(each[2]) for each in mine}
            self.take_over(
                {**offsets, **self.offsets}, [each for each in lines if each.split() not in mine]
            )

    def take_over(self, offsets: Mapping[TopicPartition, int], others: list[str]) -> None:
        """Keep the offsets, and leave only the lines of other stores."""
        self.commit(offsets)
        self.forget(others)

    def forget(self, others: list[str]) -> None:
        """Leave only the lines of other stores."""
        content = "\n".join(["0", str(len(others)), *others, ""])
        self.replace(self.checkpoint, content.encode())


def importing() -> DurableStore:
    """A store without a mistake."""
    return ImportingStore("store")


class _ForgetsFirst(ImportingStore):
    def take_over(self, offsets: Mapping[TopicPartition, int], others: list[str]) -> None:
        self.forget(others)
        self.commit(offsets)


def offsets_forgotten_before_the_import() -> DurableStore:
    """Removes the older offsets from their file before it has them."""
    return _ForgetsFirst("store")


class _OneByOne(ImportingStore):
    def take_over(self, offsets: Mapping[TopicPartition, int], others: list[str]) -> None:
        if not self.offsets:
            for partition, offset in offsets.items():
                self.commit({partition: offset})
        self.forget(others)


def offsets_imported_one_by_one() -> DurableStore:
    """Keeps the offsets one after the other, and imports nothing into a store that has some."""
    return _OneByOne("store")


class _UnsyncedImport(ImportingStore):
    importing = False

    def take_over(self, offsets: Mapping[TopicPartition, int], others: list[str]) -> None:
        self.importing = True
        super().take_over(offsets, others)
        self.importing = False

    def add(self, path: Path, data: bytes, *, synced: bool = True) -> None:
        super().add(path, data, synced=synced and not self.importing)


def import_never_synced() -> DurableStore:
    """Removes the older offsets durably, and leaves the sync of the newer ones to the kernel."""
    return _UnsyncedImport("store")


class LoggedStore(DurableStore):
    """A store that writes a line for people about each commit, and syncs no line."""

    capabilities = replace(DurableStore.capabilities, upgrades_from="", disposable_files="LOG")

    @property
    def log(self) -> Path:
        return self.directory / "LOG"

    def append(self, data: bytes) -> None:
        super().append(data)
        _, offsets = pickle.loads(data[8:])  # noqa: S301 - see frame
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"{[[*partition, offset] for partition, offset in offsets.items()]}\n")


def logged() -> DurableStore:
    """A store without a mistake, with a file on which nothing depends."""
    return LoggedStore("store")


class _OffsetsInTheLog(LoggedStore):
    def recover(self) -> None:
        super().recover()
        lines = self.log.read_text("utf-8").splitlines() if self.log.exists() else []
        self.offsets = {
            TopicPartition(topic, partition): offset
            for topic, partition, offset in (literal_eval(lines[-1]) if lines else [])
        }


def offsets_in_a_disposable_file() -> DurableStore:
    """Reads its offsets from the file of which it says that nothing depends on it."""
    return _OffsetsInTheLog("store")


class _EmptyLogOfANewStore(LoggedStore):
    def upgrade(self) -> None:
        if self.log.exists() and not self.log.stat().st_size:
            self.journal.unlink(missing_ok=True)
            self.snapshot.unlink(missing_ok=True)


def empty_log_of_a_new_store() -> DurableStore:
    """Takes a store whose log is empty for one whose making was interrupted, and begins anew."""
    return _EmptyLogOfANewStore("store")


def loss_of_power_unnoticed() -> StateStore:
    """Does not record that the store was not closed."""
    return unclean_stop_unnoticed()
