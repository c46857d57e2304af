"""Stores whose mistakes show only at volume, or only if the process dies at the right moment.

Every store is a factory. Its author read the contract and no check. The names of right stores end
in ``_right``; each stands beside the wrong stores that are the same but for one mistake.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import json
import mmap
import os
import pickle
import platform
import shutil
import struct
import tempfile
import threading
import zlib
from itertools import starmap
from pathlib import Path
from weakref import WeakSet

from sortedcontainers import SortedDict

from streamproof import (
    Capabilities,
    InvalidStateStoreError,
    IsolationLevel,
    KeyValueStore,
    ProcessorStateError,
    StoreIterator,
    TopicPartition,
    require_key,
)
from streamproof.stores.iterators import is_inverted, prefix_end
from streamproof.stores.transactions import AbstractTransaction

HEADER = struct.Struct(">QI")


def framed(thing):
    body = pickle.dumps(thing)
    return HEADER.pack(len(body), zlib.crc32(body)) + body


def frames(data):
    """The things in ``data``, each with the place where it ends, up to the first torn one."""
    at = 0
    while at + HEADER.size <= len(data):
        length, crc = HEADER.unpack_from(data, at)
        body = bytes(data[at + HEADER.size : at + HEADER.size + length])
        if not length or len(body) < length or zlib.crc32(body) != crc:
            return
        at += HEADER.size + length
        yield pickle.loads(body), at


def write_at(descriptor, data, at):
    data = memoryview(data)
    while data:
        written = os.pwrite(descriptor, data, at)
        data, at = data[written:], at + written


def sync_directory(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path):
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)


def write_whole(path, data):
    """Write a file beside ``path``, synced; the caller renames it."""
    written = path.with_name(path.name + ".tmp")
    with written.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return written


def replace(path, data):
    write_whole(path, data).replace(path)
    sync_directory(path.parent)


def merged(rows, staged, low, high, *, reverse=False, closed=True):
    """Staged rows over committed ones, between two bounds."""
    keys = set(rows.irange(low, high, (True, closed)))
    for key, value in staged.items():
        if (low is None or key >= low) and (high is None or key < high or (closed and key == high)):
            (keys.discard if value is None else keys.add)(key)
    return [
        (key, staged[key] if key in staged else rows[key]) for key in sorted(keys, reverse=reverse)
    ]


def apply(rows, staged):
    for key, value in staged.items():
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value


class _Reads:
    """The scans of a store, of a transaction or of a view, on top of ``rows_between``."""

    def rows_between(self, low, high, *, reverse=False, closed=True):
        raise NotImplementedError

    def iterate(self, rows):
        raise NotImplementedError

    def _range(self, low, high, *, reverse):
        if is_inverted(low, high):
            return self.iterate([])
        return self.iterate(self.rows_between(low, high, reverse=reverse))

    def range(self, from_key, to_key):
        return self._range(from_key, to_key, reverse=False)

    def reverse_range(self, from_key, to_key):
        return self._range(from_key, to_key, reverse=True)

    def all(self):
        return self._range(None, None, reverse=False)

    def reverse_all(self):
        return self._range(None, None, reverse=True)

    def prefix_scan(self, prefix):
        require_key(prefix)
        return self.iterate(self.rows_between(prefix, prefix_end(prefix), closed=False))


class _Log(_Reads, KeyValueStore):
    """Rows in memory, writes staged until a commit, and one synced frame of a log for each commit."""

    capabilities = Capabilities(transactional=True, durability="power")
    name = "planted"
    persistent = True
    manages_offsets = True

    def __init__(self, mistake=""):
        self.mistake = mistake
        self.rows = None
        self.offsets = {}
        self.staged = {}
        self.broken = False
        self.mutex = threading.RLock()
        self._lock = None
        self._iterators = WeakSet()

    # The files.

    def load(self):
        """Set ``rows`` and ``offsets`` from the files in ``directory``."""
        rows, offsets, end = SortedDict(), {}, 0
        data = self.open_log()
        for (staged, offsets), end in frames(data):  # noqa: B007
            apply(rows, staged)
        self.cut_log(end, len(data))
        self.rows, self.offsets = rows, offsets

    def open_log(self):
        path = self.directory / "commits.log"
        fresh = not path.exists()
        self.log = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if fresh:
            os.fsync(self.log)
            sync_directory(self.directory)
        return path.read_bytes()

    def cut_log(self, end, size):
        if end < size:
            os.ftruncate(self.log, end)
            os.fsync(self.log)
        self.end = end

    def append(self, data):
        try:
            write_at(self.log, data, self.end)
            os.fsync(self.log)
        except BaseException:
            os.ftruncate(self.log, self.end)
            raise
        self.end += len(data)

    def save(self, staged, offsets):
        """Make staged rows (None: deleted) and all ``offsets`` durable."""
        self.append(framed((dict(staged), dict(offsets))))

    def release(self):
        """Close the files."""
        if self.log is not None:
            log, self.log = self.log, None
            os.close(log)

    log = None

    # The contract.

    @property
    def is_open(self):
        return self.rows is not None

    def init(self, context, root):
        if self.rows is not None:
            raise InvalidStateStoreError("The store is already open.")
        self.context = context
        self.state_dir = Path(context.state_dir)
        self.directory = self.state_dir / self.name
        self.staged, self.broken = {}, False
        try:
            make_directory(self.directory)
            self._lock = (self.directory / "lock").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.load()
        except Exception as error:
            self.rows = None
            self.release()
            self._unlock()
            raise ProcessorStateError(f"{self.directory} cannot be used: {error!r}") from error
        context.register(root, self.restore)

    def _unlock(self):
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def close(self):
        with self.mutex:
            if self.rows is None:
                return
            for iterator in list(self._iterators):
                iterator.close()
            self.rows, self.staged = None, {}
            try:
                self.release()
            except OSError as error:
                raise ProcessorStateError(f"{self.directory}: {error}") from error
            finally:
                self._unlock()

    def opened(self):
        if self.rows is None:
            raise InvalidStateStoreError("The store is not open.")
        if self.broken:
            raise ProcessorStateError("A write has failed; close the store, and open it again.")

    def restore(self, batch):
        for record in batch:
            self.put(record.key, record.value)

    def next_offsets(self, changelog_offsets):
        new = {} if not changelog_offsets else dict(self.offsets)
        for partition, offset in changelog_offsets.items():
            if offset is None:
                new.pop(TopicPartition(*partition), None)
            else:
                new[TopicPartition(*partition)] = offset
        return new

    def write(self, staged, changelog_offsets):
        new = self.next_offsets(changelog_offsets)
        try:
            self.save(staged, new)
        except OSError as error:
            self.broken = True
            raise ProcessorStateError(f"{self.directory} cannot be written: {error}") from error
        apply(self.rows, staged)
        self.offsets = new

    def commit(self, changelog_offsets):
        with self.mutex:
            self.opened()
            self.write(self.staged, changelog_offsets)
            self.staged = {}

    def committed_offset(self, partition):
        self.opened()
        return self.offsets.get(partition)

    def flush(self):
        self.opened()

    def get(self, key):
        require_key(key)
        with self.mutex:
            self.opened()
            return self.staged[key] if key in self.staged else self.rows.get(key)

    def put(self, key, value):
        require_key(key)
        with self.mutex:
            self.opened()
            self.staged[key] = value if value is None else bytes(value)

    def rows_between(self, low, high, *, reverse=False, closed=True):
        with self.mutex:
            self.opened()
            return merged(self.rows, self.staged, low, high, reverse=reverse, closed=closed)

    def iterate(self, rows):
        self.opened()
        return StoreIterator(self.name, iter(rows), self._iterators)

    def approximate_num_entries(self):
        self.opened()
        return len(self.rows)

    def approximate_num_uncommitted_entries(self):
        return len(self.staged)

    def approximate_num_uncommitted_bytes(self):
        return sum(len(key) + len(value or b"") for key, value in self.staged.items())


# --- hundreds of rows ------------------------------------------------------------------


class _Paged(_Log):
    """Scans read pages of 200 rows from a copy that is made when the scan is opened."""

    PAGE = 200

    def rows_between(self, low, high, *, reverse=False, closed=True):
        with self.mutex:
            self.opened()
            live = self.mistake in {"refreshed", "shifted"}
            rows, staged = self.rows, self.staged
            if not live:
                rows, staged = SortedDict(rows), dict(staged)
            bounds = {"low": low, "high": high, "closed": closed}
            first = merged(rows, staged, **bounds, reverse=reverse)[: self.PAGE]
        return self._pages(rows, staged, first, bounds, reverse=reverse)

    def _pages(self, rows, staged, page, bounds, *, reverse):
        low, high, closed = bounds["low"], bounds["high"], bounds["closed"]
        read = 0
        while page:
            yield from page
            if len(page) < self.PAGE:
                return
            read += len(page)
            last = page[-1][0]
            with self.mutex:
                self.opened()
                if self.mistake == "refreshed":
                    staged = self.staged
                if self.mistake == "unmerged":
                    staged = {}
                if self.mistake == "shifted":
                    staged = self.staged
                    everything = merged(rows, staged, low, high, reverse=reverse, closed=closed)
                    page = everything[read : read + self.PAGE]
                    continue
                if reverse:
                    high, closed = last, False
                    low = None if self.mistake == "unbounded" else low
                else:
                    low = last + b"\0"
                    if self.mistake == "unbounded":
                        high = None
                page = merged(rows, staged, low, high, reverse=reverse, closed=closed)[: self.PAGE]


def pages_right():
    """RIGHT: scans in pages of a copy."""
    return _Paged()


def pages_refreshed():
    """Iterators claim to be snapshots, but read each page after the first from the live rows."""
    return _Paged("refreshed")


def pages_shifted():
    """Weak iterators count the rows that they have read, so that a delete shifts the next page and loses a row."""
    store = _Paged("shifted")
    store.capabilities = Capabilities(transactional=True, durability="power", iterator_view="weak")
    return store


def pages_unmerged():
    """Staged rows are merged into the first page of a scan alone."""
    return _Paged("unmerged")


def pages_unbounded():
    """The query for the second page of a range or prefix has no bound on the far side."""
    return _Paged("unbounded")


class _View(_Reads):
    """A view for queries: ``look`` returns committed or all rows, and what is staged over them."""

    def __init__(self, store, look):
        self.store = store
        self.look = look

    def get(self, key):
        require_key(key)
        with self.store.mutex:
            self.store.opened()
            rows, staged = self.look()
            return staged[key] if key in staged else rows.get(key)

    def rows_between(self, low, high, *, reverse=False, closed=True):
        with self.store.mutex:
            self.store.opened()
            return merged(*self.look(), low, high, reverse=reverse, closed=closed)

    def iterate(self, rows):
        return self.store.iterate(rows)

    def approximate_num_entries(self):
        return self.store.approximate_num_entries()


class _Spilling(_Log):
    """A staging buffer of 300 rows or 48 KiB spills into the rows; ``before`` has what they had."""

    capabilities = Capabilities(transactional=True, read_only_views=True, durability="power")

    def load(self):
        self.before, self.spilled = {}, {}
        super().load()

    def put(self, key, value):
        with self.mutex:
            super().put(key, value)
            if len(self.staged) > 300 or super().approximate_num_uncommitted_bytes() > 48 * 1024:
                for each in self.staged:
                    self.before.setdefault(each, self.rows.get(each))
                apply(self.rows, self.staged)
                self.spilled.update(self.staged)
                self.staged = {}

    def restore(self, batch):
        """Restored rows are committed rows, so committed views show them before the commit."""
        with self.mutex:
            for record in batch:
                require_key(record.key)
                apply(self.rows, {record.key: record.value})
                self.spilled[record.key] = record.value

    def commit(self, changelog_offsets):
        with self.mutex:
            self.opened()
            self.write({**self.spilled, **self.staged}, changelog_offsets)
            self.before, self.spilled, self.staged = {}, {}, {}

    def read_only(self, isolation_level):
        self.opened()
        if isolation_level is IsolationLevel.READ_UNCOMMITTED:
            return _View(self, lambda: (self.rows, self.staged))
        return _View(self, lambda: (self.rows, {} if self.mistake else self.before))

    def approximate_num_uncommitted_entries(self):
        return len(self.spilled | self.staged)

    def approximate_num_uncommitted_bytes(self):
        every = self.spilled | self.staged
        return sum(len(key) + len(value or b"") for key, value in every.items())


def spill_right():
    """RIGHT: READ_COMMITTED views look past spilled rows at what the rows had before."""
    return _Spilling()


def spill_seen():
    """READ_COMMITTED views show staged rows that have spilled out of the buffer."""
    return _Spilling("seen")


class _Bounded(_Log):
    """Restores and puts in chunks of 1,000."""

    def load(self):
        self.tombstones = {}
        super().load()

    def _chunks(self, things):
        full = len(things) // 1000
        yield things[:1000]
        for number in range(1, full):
            yield things[number * 1000 : (number + 1) * 1000]
        if full and not self.mistake:
            yield things[full * 1000 :]

    def restore(self, batch):
        batch = list(batch)
        for chunk in self._chunks(batch) if self.mistake in {"", "restore"} else [batch]:
            super().restore(chunk)

    def put_all(self, entries):
        entries = list(entries)
        for key, _ in entries:
            require_key(key)
        self.opened()
        for chunk in self._chunks(entries) if self.mistake in {"", "put_all"} else [entries]:
            for key, value in chunk:
                self.put(key, value)

    def put(self, key, value):
        with self.mutex:
            super().put(key, value)
            self.tombstones.pop(key, None)
            if value is None:
                self.tombstones[key] = None
                if self.mistake == "tombstones" and len(self.tombstones) > 256:
                    oldest = next(iter(self.tombstones))
                    del self.tombstones[oldest], self.staged[oldest]

    def commit(self, changelog_offsets):
        super().commit(changelog_offsets)
        self.tombstones = {}


def bounded_right():
    """RIGHT: restores and puts in chunks, and keeps every staged delete."""
    return _Bounded()


def deletes_forgotten():
    """Of more than 256 staged deletes the oldest is forgotten, so that its row comes back."""
    return _Bounded("tombstones")


def restore_cut():
    """A restore batch of more than 1,000 records loses the part behind its last full thousand."""
    return _Bounded("restore")


def put_all_cut():
    """put_all of more than 1,000 entries loses the part behind the last full thousand."""
    return _Bounded("put_all")


class _Batched(_Log):
    """A commit writes batches of 500 rows; the last one has the offsets, and ends the commit."""

    def load(self):
        rows, offsets, end, waiting = SortedDict(), {}, 0, []
        data = self.open_log()
        for (part, found), at in frames(data):
            waiting.append(part)
            if self.mistake or found is not None:
                for each in waiting:
                    apply(rows, each)
                waiting, end = [], at
                offsets = offsets if found is None else found
        self.cut_log(end, len(data))
        self.rows, self.offsets = rows, offsets

    def save(self, staged, offsets):
        items = list(staged.items())
        begin = self.end
        try:
            while len(items) > 500:
                self.append(framed((dict(items[:500]), None)))
                items = items[500:]
            self.append(framed((dict(items), dict(offsets))))
        except BaseException:
            self.end = begin
            os.ftruncate(self.log, begin)
            raise


def batches_right():
    """RIGHT: a commit counts once its last batch is there."""
    return _Batched()


def batches_count_alone():
    """Each batch of a commit counts once it is there, and the offsets come with the last one."""
    return _Batched("alone")


class _OverflowTransaction(_Reads, AbstractTransaction, KeyValueStore):
    """Stages 200 rows in a buffer, and the rest in an overflow that its store keeps."""

    manages_offsets = True

    def __init__(self, store):
        super().__init__(store, store.context.isolation_level)
        self.buffer = {}

    @property
    def staged(self):
        return {**self._store.overflow.get(self, {}), **self.buffer}

    def committed_offset(self, partition):
        return self._store.committed_offset(partition)

    def commit_transaction(self, changelog_offsets):
        with self._store.mutex:
            self._store.write(self.staged, changelog_offsets)
            self._store.overflow.pop(self, None)
            self.buffer = {}

    def close_transaction(self):
        with self._store.mutex:
            self.buffer = {}
            if not self._store.mistake:
                self._store.overflow.pop(self, None)

    def flush(self):
        self.validate_is_open()

    def get(self, key):
        require_key(key)
        with self._store.mutex:
            self.validate_is_open()
            for rows in (self.buffer, self._store.overflow.get(self, {})):
                if key in rows:
                    return rows[key]
            return self._store.rows.get(key)

    def put(self, key, value):
        require_key(key)
        with self._store.mutex:
            self.validate_is_open()
            self.buffer[key] = value if value is None else bytes(value)
            if len(self.buffer) > 200:
                self._store.overflow.setdefault(self, {}).update(self.buffer)
                self.buffer = {}

    def rows_between(self, low, high, *, reverse=False, closed=True):
        with self._store.mutex:
            self.validate_is_open()
            return merged(self._store.rows, self.staged, low, high, reverse=reverse, closed=closed)

    def iterate(self, rows):
        self.validate_is_open()
        return self._store.iterate(rows)

    def approximate_num_entries(self):
        self.validate_is_open()
        return self._store.approximate_num_entries()

    def approximate_num_uncommitted_entries(self):
        return len(self.staged)

    def approximate_num_uncommitted_bytes(self):
        return sum(len(key) + len(value or b"") for key, value in self.staged.items())


class _Overflowing(_Log):
    """Explicit transactions, whose rows beyond a buffer are kept by the store."""

    capabilities = Capabilities(
        transactional=True, explicit_transactions=True, read_only_views=True, durability="power"
    )

    def load(self):
        self.overflow, self.transactions, self.restored = {}, {}, {}
        super().load()

    def restore(self, batch):
        """Every reader sees restored records; the next commit makes them last."""
        with self.mutex:
            self.opened()
            records = {record.key: record.value for record in batch}
            apply(self.rows, records)
            self.restored.update(records)

    def write(self, staged, changelog_offsets):
        super().write({**self.restored, **staged}, changelog_offsets)
        self.restored = {}

    def new_transaction(self):
        with self.mutex:
            self.opened()
            transaction = _OverflowTransaction(self)
            self.transactions[transaction] = None
            transaction.add_close_callback(lambda: self.transactions.pop(transaction, None))
            return transaction

    def commit(self, changelog_offsets):
        with self.mutex:
            self.opened()
            staged = dict(self.staged)
            for rows in self.overflow.values():
                staged.update(rows)
            for transaction in self.transactions:
                staged.update(transaction.staged)
            self.write(staged, changelog_offsets)
            self.staged, self.overflow = {}, {}
            self._close_transactions()

    def _close_transactions(self):
        for transaction in list(self.transactions):
            transaction.close()

    def close(self):
        with self.mutex:
            if self.rows is not None:
                self._close_transactions()
            super().close()

    def read_only(self, isolation_level):
        self.opened()
        if isolation_level is IsolationLevel.READ_UNCOMMITTED:
            return _View(self, lambda: (self.rows, self.staged))
        return _View(self, lambda: (self.rows, {}))

    def approximate_num_uncommitted_entries(self):
        own = super().approximate_num_uncommitted_entries()
        return own + sum(len(each.staged) for each in self.transactions)

    def approximate_num_uncommitted_bytes(self):
        own = super().approximate_num_uncommitted_bytes()
        return own + sum(each.approximate_num_uncommitted_bytes() for each in self.transactions)


def overflow_right():
    """RIGHT: a rollback drops the buffer of its transaction and the overflow."""
    return _Overflowing()


def overflow_left():
    """A rollback drops the buffer, and leaves the overflow for the next commit of the store."""
    return _Overflowing("left")


# --- the moment of the crash -----------------------------------------------------------


class _Journalled(_Log):
    """One file that is overwritten in place, with a journal that repairs it."""

    def load(self):
        self.journal = self.directory / "journal"
        if self.mistake:
            digest = hashlib.sha256(str(self.directory).encode()).hexdigest()[:16]
            self.journal = Path(tempfile.gettempdir()) / f"planted-{digest}.journal"
        path = self.directory / "state.pickle"
        fresh = not path.exists()
        self.log = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if fresh:
            os.fsync(self.log)
            sync_directory(self.directory)
        if self.journal.exists():
            self._overwrite(self.journal.read_bytes())
        found = [each for each, _ in frames(path.read_bytes())]
        rows, self.offsets = found[0] if found else ({}, {})
        if not found and os.fstat(self.log).st_size:
            raise ProcessorStateError(f"{path} is torn.")
        self.rows = SortedDict(rows)

    def _overwrite(self, data):
        write_at(self.log, data, 0)
        os.ftruncate(self.log, len(data))
        os.fsync(self.log)
        self.journal.unlink()
        sync_directory(self.journal.parent)

    def save(self, staged, offsets):
        rows = dict(self.rows)
        apply(rows, staged)
        data = framed((rows, dict(offsets)))
        replace(self.journal, data)
        self._overwrite(data)


def journal_right():
    """RIGHT: the journal is in the directory of the store."""
    return _Journalled()


def journal_in_temporary_directory():
    """The journal that repairs the file after a crash is in the temporary directory."""
    return _Journalled("temporary")


class _OffsetsBeside(_Log):
    """A log of numbered rows, and a file that has the offsets and the number that counts."""

    def load(self):
        place = self.directory
        if self.mistake:
            place = self.state_dir.parent / f"{self.state_dir.name}-offsets"
            make_directory(place)
        self.beside = place / "offsets.pickle"
        self.number, self.offsets = 0, {}
        if self.beside.exists():
            self.number, self.offsets = pickle.loads(self.beside.read_bytes())
        rows, end = SortedDict(), 0
        data = self.open_log()
        for (number, staged), at in frames(data):
            if number > self.number:
                break
            apply(rows, staged)
            end = at
        self.cut_log(end, len(data))
        self.rows = rows

    def save(self, staged, offsets):
        self.append(framed((self.number + 1, dict(staged))))
        replace(self.beside, pickle.dumps((self.number + 1, dict(offsets))))
        self.number += 1


def offsets_beside_right():
    """RIGHT: the file of offsets is in the directory of the store."""
    return _OffsetsBeside()


def offsets_in_sibling_directory():
    """The file of offsets is in a directory beside that of the task, and outlives it."""
    return _OffsetsBeside("sibling")


class _Mapped(_Log):
    """A log in a mapped file, which grows by doubling."""

    def load(self):
        path = self.directory / "commits.map"
        if not path.exists():
            replace(path, bytes(64 * 1024))
        self.log = os.open(path, os.O_RDWR)
        self.map = mmap.mmap(self.log, 0)
        rows, offsets, end = SortedDict(), {}, 0
        for (staged, offsets), end in frames(memoryview(self.map).toreadonly()):  # noqa: B007
            apply(rows, staged)
        self.rows, self.offsets, self.end = rows, offsets, end

    map = None

    def release(self):
        if self.map is not None:
            self.map.close()
            self.map = None
        super().release()

    def save(self, staged, offsets):
        data = framed((dict(staged), dict(offsets)))
        size = len(self.map)
        while self.end + len(data) > size:
            size *= 2
        if size > len(self.map):
            os.ftruncate(self.log, size)
            os.fsync(self.log)
            self.map.close()
            self.map = mmap.mmap(self.log, 0)
        self.map[self.end : self.end + len(data)] = data
        if not self.mistake:
            self.map.flush()
        self.end += len(data)


def mapped_right():
    """RIGHT: a commit syncs the map."""
    return _Mapped()


def mapped_unsynced():
    """A commit writes into the map and does not sync it; the claim is "power"."""
    return _Mapped("unsynced")


class _Generations(_Log):
    """A file of rows for each generation, and a file that names the generation and has offsets."""

    def load(self):
        current = self.directory / "current.json"
        self.number, self.offsets, rows = 0, {}, {}
        if current.exists():
            self.number, offsets = json.loads(current.read_text())
            self.offsets = {TopicPartition(t, p): o for t, p, o in offsets}
        path = self._path(self.number)
        if self.number and not path.exists():
            path = self._path(self.number - 1)
        if path.exists():
            rows = pickle.loads(path.read_bytes())
        self.rows = SortedDict(rows)

    def _path(self, number):
        return self.directory / f"rows-{number}.pickle"

    def save(self, staged, offsets):
        rows = dict(self.rows)
        apply(rows, staged)
        number = self.number + 1
        named = json.dumps([number, [[t, p, o] for (t, p), o in offsets.items()]])
        path, current = self._path(number), self.directory / "current.json"
        renames = [
            (write_whole(path, pickle.dumps(rows)), path),
            (write_whole(current, named.encode()), current),
        ]
        for written, into in reversed(renames) if self.mistake else renames:
            written.replace(into)
            sync_directory(self.directory)
        self.number = number
        self._path(number - 1).unlink(missing_ok=True)


def generations_right():
    """RIGHT: the rows of a generation are there before it is named."""
    return _Generations()


def generations_renamed_in_wrong_order():
    """A generation is named before its rows are there; then those of the one before are taken."""
    return _Generations("reversed")


class _WholeFile(_Log):
    """One file, written anew at each commit."""

    capabilities = Capabilities(transactional=True, durability="process")

    def load(self):
        self.path = self.directory / "state.pickle"
        data = self.path.read_bytes() if self.path.exists() else b""
        found = [each for each, _ in frames(data)]
        rows, self.offsets = found[0] if found else ({}, {})
        self.rows = SortedDict(rows)

    def save(self, staged, offsets):
        rows = dict(self.rows)
        apply(rows, staged)
        written = write_whole(self.path, framed((rows, dict(offsets))))
        if self.mistake == "copied":
            shutil.copyfile(written, self.path)
        else:
            written.replace(self.path)


def whole_file_right():
    """RIGHT: a new file replaces the old one by a rename."""
    return _WholeFile()


def whole_file_copied_over():
    """A new file is copied over the old one, which is truncated first; a torn file counts as none."""
    return _WholeFile("copied")


class _Marked(_Log):
    """Puts go to the log at once; a marker says that a tail without a commit must be dropped."""

    def load(self):
        self.marker = self.directory / "in-use"
        self.committed = None
        rows, self.offsets, end, tail = SortedDict(), {}, 0, {}
        data = self.open_log()
        for (staged, offsets), at in frames(data):
            tail.update(staged)
            if offsets is not None or not self.marker.exists():
                apply(rows, tail)
                end, tail = at, {}
                self.offsets = self.offsets if offsets is None else offsets
        self.cut_log(end, len(data))
        self.committed = end
        self.rows = rows
        if not self.mistake:
            self._mark()

    def _mark(self):
        if not self.marker.exists():
            self.marker.touch()
            sync_directory(self.directory)

    def put(self, key, value):
        require_key(key)
        with self.mutex:
            self.opened()
            data = framed(({key: value if value is None else bytes(value)}, None))
            try:
                write_at(self.log, data, self.end)
            except OSError as error:
                self.broken = True
                raise ProcessorStateError(f"The log cannot be written: {error}") from error
            self.end += len(data)
            super().put(key, value)

    def save(self, staged, offsets):
        self._mark()
        self.append(framed(({}, dict(offsets))))
        self.committed = self.end

    def release(self):
        if self.committed is not None:
            try:
                os.ftruncate(self.log, self.committed)
                os.fsync(self.log)
                self.marker.unlink(missing_ok=True)
                sync_directory(self.directory)
            finally:
                self.committed = None
                super().release()
        else:
            super().release()

    committed = None


def marker_right():
    """RIGHT: the marker is there before the first put."""
    return _Marked()


def marker_made_at_commit():
    """The marker is made at the first commit, so that puts before it are trusted after a crash."""
    return _Marked("late")


class _Delayed(_Log):
    """A thread writes commits, ten milliseconds later; a flush waits for it."""

    capabilities = Capabilities(transactional=True, durability="flush")

    def load(self):
        super().load()
        self.queue, self.unwritten, self.error, self.ends = [], 0, None, False
        self.turn = threading.Condition()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    thread = None

    def _run(self):
        while True:
            with self.turn:
                self.turn.wait_for(lambda: self.queue or self.ends)
                if not self.queue:
                    return
                taken, self.queue = self.queue, []
                self.turn.notify_all()
                if not self.ends:
                    self.turn.wait_for(lambda: self.ends, timeout=0.01)
            try:
                if self.error is None:
                    self.append(b"".join(taken))
            except OSError as error:
                self.error = error
            with self.turn:
                self.unwritten -= len(taken)
                self.turn.notify_all()

    def save(self, staged, offsets):
        with self.turn:
            if self.error is not None:
                raise self.error
            self.queue.append(framed((dict(staged), dict(offsets))))
            self.unwritten += 1
            self.turn.notify_all()

    def flush(self):
        self.opened()
        with self.turn:
            if self.mistake:
                self.turn.wait_for(lambda: not self.queue)
            else:
                self.turn.wait_for(lambda: not self.unwritten)
        if self.error is not None:
            raise ProcessorStateError(f"The log cannot be written: {self.error}")

    def release(self):
        thread, self.thread = self.thread, None
        if thread is not None:
            with self.turn:
                self.ends = True
                self.turn.notify_all()
            thread.join()
        super().release()
        if thread is not None and self.error is not None:
            raise self.error


def delayed_right():
    """RIGHT: a flush waits until the thread has written."""
    return _Delayed()


def delayed_flush_does_not_wait():
    """A flush waits until the thread has taken the commits, and not until it has written them."""
    return _Delayed("taken")


LIBC = ctypes.CDLL(None, use_errno=True)
PWRITE, FSYNC = {"aarch64": (67, 82)}.get(platform.machine(), (18, 74))


def raw(*calls):
    """Make system calls as a library in C without libc does, with no line of Python in between."""
    if any(map((-1).__eq__, list(starmap(LIBC.syscall, calls)))):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class _Raw(_Log):
    """A log that is written by raw system calls."""

    capabilities = Capabilities(transactional=True, durability="process")

    def load(self):
        super().load()
        path = self.directory / "offsets.log"
        self.offsets_log = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self.offsets_end = 0
        if self.mistake:
            for self.offsets, self.offsets_end in frames(path.read_bytes()):
                pass

    offsets_log = None

    def release(self):
        if self.offsets_log is not None:
            os.close(self.offsets_log)
            self.offsets_log = None
        super().release()

    def save(self, staged, offsets):
        rows, named = framed((dict(staged), dict(offsets))), framed(dict(offsets))
        write_rows = self._write(self.log, rows, self.end)
        sync_rows = (FSYNC, ctypes.c_int(self.log))
        if self.mistake:
            write_offsets = self._write(self.offsets_log, named, self.offsets_end)
            raw(write_offsets, (FSYNC, ctypes.c_int(self.offsets_log)), write_rows, sync_rows)
            self.offsets_end += len(named)
        else:
            raw(write_rows, sync_rows)
        self.end += len(rows)

    @staticmethod
    def _write(descriptor, data, at):
        return (
            PWRITE,
            ctypes.c_int(descriptor),
            ctypes.c_char_p(data),
            ctypes.c_size_t(len(data)),
            ctypes.c_long(at),
        )


def raw_right():
    """RIGHT: rows and offsets are one raw write."""
    return _Raw()


def raw_offsets_first():
    """Two raw writes: the offsets to one file, and then the rows to another."""
    return _Raw("offsets first")
