"""Stores that survive one crash but not the next, or no disk fault; see the table in the package.

Each differs a little from :class:`JournalStore`, which is correct: a snapshot and a journal of the
commits since the snapshot.
"""

from __future__ import annotations

import os
import pickle
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar
from weakref import WeakSet

from streamproof.stores.api import ChangelogRecord, StateStore, StateStoreContext, TopicPartition
from streamproof.stores.capabilities import Capabilities
from streamproof.stores.errors import ProcessorStateError
from streamproof.stores.memory import InMemoryKeyValueStore

MERGE_EVERY = 4
"""The number of commits in the journal at which the store merges it into a new snapshot."""

Rows = dict[bytes, bytes | None]
Offsets = dict[TopicPartition, int]


class JournalStore(InMemoryKeyValueStore):
    """Rows in memory, a snapshot of them on disk, and a journal of the commits after the snapshot.

    A commit is one frame of the journal: its writes and the new offsets. Opening applies the
    journal to the snapshot. Applying a frame twice changes nothing. After every few commits, at
    opening and at close, a new snapshot replaces the old one and the journal.
    """

    capabilities = Capabilities(
        transactional=True,
        iterator_view="weak",
        durability="process",
        upgrades_from=f"{__name__}:older_journal",
    )

    version = 2
    """The version of the format. The file names contain the version."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.directory = Path()
        self.offsets: Offsets = {}
        self.staged: Rows = {}
        self.frames = 0
        self.failed = False

    @property
    def persistent(self) -> bool:
        """True: the content outlives the process."""
        return True

    @property
    def manages_offsets(self) -> bool:
        """True: a frame holds the writes and the offsets that cover them."""
        return True

    @property
    def snapshot(self) -> Path:
        """The file with all rows and offsets up to the last merge."""
        return self.directory / f"snapshot.v{self.version}"

    @property
    def journal(self) -> Path:
        """The file with the commits since the last merge."""
        return self.directory / f"journal.v{self.version}"

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Read the snapshot, apply the journal, and merge the two."""
        self.directory = context.state_dir / "journalled"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.upgrade()
            self.load(self.snapshot)
            self.recover()
        except OSError as error:
            raise self.failure(error) from error
        self._context = context
        context.register(root, self.restore)

    def upgrade(self) -> None:
        """Take over the files of the older version in one step."""
        older = self.directory / "snapshot.v1"
        if self.version == 1 or not older.exists():
            return
        if not self.snapshot.exists():
            replace_file(self.snapshot, older.read_bytes())
        older.unlink()

    def load(self, path: Path) -> None:
        """Apply the frames of a file up to a torn frame."""
        data = path.read_bytes() if path.exists() else b""
        while len(data) >= 8:
            size, checksum = int.from_bytes(data[:4], "big"), int.from_bytes(data[4:8], "big")
            body, data = data[8 : 8 + size], data[8 + size :]
            if not body or len(body) < size or zlib.crc32(body) != checksum:
                return
            rows, self.offsets = pickle.loads(body)  # noqa: S301 - see frame
            for key, value in rows.items():
                self._write(key, value)

    def recover(self) -> None:
        """Apply the journal, and merge it with the snapshot."""
        self.load(self.journal)
        self.merge()

    def merge(self) -> None:
        """Write a new snapshot, and only then remove the journal."""
        if self.journal.exists():
            replace_file(self.snapshot, frame(dict(self._rows), self.offsets))
            self.journal.unlink()
        self.frames = 0

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of ``key``; ``None`` deletes it."""
        super().put(key, value)
        self.staged[key] = value

    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        """Apply changelog records. The next commit makes them durable."""
        for record in batch:
            self.put(record.key, record.value)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        """Append one frame to the journal."""
        self._opened()
        if self.failed:
            raise ProcessorStateError(f"A commit to {self.journal} failed: close and open again.")
        merged = {**self.offsets, **changelog_offsets} if changelog_offsets else {}
        offsets = {each: offset for each, offset in merged.items() if offset is not None}
        try:
            self.append(frame(self.staged, offsets))
        except OSError as error:
            # The end of the journal may be torn, and no frame may follow a torn one.
            self.failed = True
            raise self.failure(error) from error
        self.offsets, self.staged = offsets, {}
        self.frames += 1
        if self.frames >= MERGE_EVERY:
            self.try_to_merge()

    def append(self, data: bytes) -> None:
        """Add to the journal."""
        with self.journal.open("ab", buffering=0) as file:
            file.write(data)

    def try_to_merge(self) -> None:
        """Try to merge. If the merge fails, the journal remains."""
        try:
            self.merge()
        except OSError as error:
            self.failed = True
            raise self.failure(error) from error

    def close(self) -> None:
        """Merge, unless writes are staged or a write has failed, and release the rows."""
        if self.is_open and not self.staged and not self.failed:
            self.try_to_merge()
        super().close()
        self.offsets, self.staged, self.failed = {}, {}, False

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """The offset of the last commit, or ``None``."""
        self._opened()
        return self.offsets.get(partition)

    def failure(self, error: OSError) -> ProcessorStateError:
        """The error to raise when the disk fails."""
        return ProcessorStateError(
            f"The files in {self.directory} cannot be read or written: {error}. "
            "Check that the disk has space, and open the store again."
        )


def frame(rows: Mapping[bytes, bytes | None], offsets: Offsets) -> bytes:
    """Rows and offsets as bytes, preceded by their length and a checksum."""
    body = pickle.dumps((dict(rows), offsets))
    return len(body).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body


def replace_file(path: Path, data: bytes) -> None:
    """Write a temporary file and rename it to ``path``, so the file appears whole or not at all."""
    temporary = path.with_suffix(f"{path.suffix}.tmp")
    with temporary.open("wb", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())
    temporary.replace(path)


def journalled() -> JournalStore:
    """The store without a mistake."""
    return JournalStore("store")


class OlderJournalStore(JournalStore):
    """The same store before its format changed."""

    capabilities = Capabilities(transactional=True, iterator_view="weak")
    version = 1


def older_journal() -> JournalStore:
    """The store that wrote the older format, without a mistake."""
    return OlderJournalStore("store")


class _JournalFirst(JournalStore):
    def recover(self) -> None:
        self.load(self.journal)
        if self.journal.exists():
            self.journal.unlink()
            replace_file(self.snapshot, frame(dict(self._rows), self.offsets))


def journal_deleted_before_it_is_applied() -> JournalStore:
    """Loses the journal if the process dies during recovery."""
    return _JournalFirst("store")


class _MovedAside(JournalStore):
    def recover(self) -> None:
        self.load(self.journal)
        if self.journal.exists():
            aside = self.snapshot.with_suffix(".old")
            if self.snapshot.exists():
                self.snapshot.replace(aside)
            self.merge()
            aside.unlink(missing_ok=True)


def recovery_moves_the_snapshot_aside() -> JournalStore:
    """Recovers from the journal alone if the process died during an earlier recovery."""
    return _MovedAside("store")


class _EndFirst(JournalStore):
    def restore(self, batch: Sequence[ChangelogRecord]) -> None:
        topic = TopicPartition("streamproof-store-changelog", 0)
        if batch:
            self.commit({topic: batch[-1].offset})
        super().restore(batch)


def restore_commits_its_end_first() -> JournalStore:
    """Stores the end of a batch as its offset, then applies the batch."""
    return _EndFirst("store")


class _MergeGap(JournalStore):
    def merge(self) -> None:
        if self.journal.exists():
            self.snapshot.unlink(missing_ok=True)
            super().merge()


def snapshot_deleted_before_the_merge() -> JournalStore:
    """Deletes the old snapshot before it writes the new one, to save space."""
    return _MergeGap("store")


class _OneOfAll(JournalStore):
    all_of_us: ClassVar[WeakSet[JournalStore]] = WeakSet()

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        super().init(context, root)
        self.all_of_us.add(self)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int | None]) -> None:
        super().commit(changelog_offsets)
        for store in self.all_of_us:
            if store is not self and store.is_open:
                store.append(frame({}, {**store.offsets, **self.offsets}))


def offsets_of_all_stores_together() -> JournalStore:
    """Writes the offsets of a commit for every open store, as if all stores shared one file."""
    return _OneOfAll("store")


class _OffsetsAloneInMemory(JournalStore):
    def append(self, data: bytes) -> None:
        if self.staged:
            super().append(data)


def offsets_alone_kept_in_memory() -> JournalStore:
    """Has nothing to write in a commit without writes."""
    return _OffsetsAloneInMemory("store")


class _Retention(JournalStore):
    """Deletes its oldest rows when a snapshot becomes too large, as a log does."""

    most_bytes = 512 * 1024

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.ages: dict[bytes, int] = {}

    def _write(self, key: bytes, value: bytes | None) -> None:
        super()._write(key, value)
        self.ages.pop(key, None)
        if value is not None:
            self.ages[key] = len(key) + len(value)

    def merge(self) -> None:
        while sum(self.ages.values()) > self.most_bytes:
            self._write(next(iter(self.ages)), None)
        super().merge()


def rows_limited_in_bytes() -> JournalStore:
    """Limits the size of its files by deleting the oldest rows."""
    return _Retention("store")


class _LargeValuesBeside(JournalStore):
    """Keeps large values out of its journal."""

    least_bytes = 32 * 1024
    beside = b"in a file"

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        if value is not None and len(value) >= self.least_bytes:
            (self.directory / key.hex()).write_bytes(value)
            self.staged[key] = self.beside

    def _write(self, key: bytes, value: bytes | None) -> None:
        is_beside = value == self.beside
        super()._write(key, (self.directory / key.hex()).read_bytes() if is_beside else value)


def large_values_beside() -> JournalStore:
    """Overwrites a large value in its file before the commit."""
    return _LargeValuesBeside("store")


class _Silent(JournalStore):
    def append(self, data: bytes) -> None:
        try:
            super().append(data)
        except OSError:
            return


def full_disk_ignored() -> JournalStore:
    """Returns from a commit that failed as if it had succeeded."""
    return _Silent("store")


class _Tidy(JournalStore):
    def append(self, data: bytes) -> None:
        try:
            super().append(data)
        except OSError:
            self.journal.unlink(missing_ok=True)
            raise


def journal_deleted_after_an_error() -> JournalStore:
    """Cleans up after a failed commit and deletes the earlier commits too."""
    return _Tidy("store")


class _Misled(JournalStore):
    def append(self, data: bytes) -> None:
        try:
            super().append(data)
        except OSError as error:
            raise TypeError("a bytes-like object is required, not 'NoneType'") from error


def disk_error_as_type_error() -> JournalStore:
    """Raises a TypeError instead of the error of a failed write."""
    return _Misled("store")


class _HalfCopied(JournalStore):
    def upgrade(self) -> None:
        older = self.directory / "snapshot.v1"
        if not older.exists():
            return
        again = self.journal.exists()
        self.load(older)
        if again:
            # The mistake: the store assumes that the earlier attempt copied the data.
            self.journal.unlink()
            older.unlink()
        self.append(frame({}, self.offsets))
        for key, value in list(self._rows.items()):
            self.append(frame({key: value}, self.offsets))
        older.unlink(missing_ok=True)


def second_upgrade_deletes_first() -> JournalStore:
    """Upgrades correctly after one crash, but not after a second crash."""
    return _HalfCopied("store")


class _InParts(JournalStore):
    def append(self, data: bytes) -> None:
        rows = [*self.staged.items()]
        while len(rows) > 1_000:
            part, rows = dict(rows[:1_000]), rows[1_000:]
            super().append(frame(part, self.offsets))
        super().append(data)


class _Spilling(JournalStore):
    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        if sum(len(each or b"") for each in self.staged.values()) > 64 * 1024:
            self.append(frame(self.staged, self.offsets))
            self.staged = {}


def large_commits_in_parts() -> JournalStore:
    """Writes at most a thousand rows in one frame, and so a large commit in several."""
    return _InParts("store")


def staged_rows_spill() -> JournalStore:
    """Writes staged rows to the journal as soon as they fill a buffer."""
    return _Spilling("store")
