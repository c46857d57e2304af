"""Twelve key-value stores as an ordinary engineer would design them, on common storages.

All keep their rows in a dictionary while they are open, and write what was put since the last
commit (``self.staged``) at the commit. They differ in how they do that.
"""

from __future__ import annotations

import dbm.dumb
import fcntl
import hashlib
import json
import mmap
import os
import pickle
import shelve
import sqlite3
import struct
import zlib
from pathlib import Path
from weakref import WeakSet

import lmdb
import plyvel

from streamproof import (
    Capabilities,
    InvalidStateStoreError,
    KeyValueStore,
    ProcessorStateError,
    StoreIterator,
    TopicPartition,
    require_key,
)


class _Design(KeyValueStore):
    """Rows in memory; a subclass loads them, and makes the staged ones durable at a commit."""

    capabilities = Capabilities(transactional=True, durability="power")
    name = "design"
    persistent = True
    manages_offsets = True
    locks = True

    def __init__(self):
        self.rows = None
        self.offsets = {}
        self.staged = {}
        self._lock = None
        self._iterators = WeakSet()

    # What a design fills in.

    def load(self):
        """Set ``rows`` and ``offsets`` from the files in ``directory``."""
        raise NotImplementedError

    def save(self, staged, offsets, forgotten):
        """Make staged rows (None: deleted) and all ``offsets`` durable; ``forgotten`` went away."""
        raise NotImplementedError

    def release(self):
        """Close the files."""

    # The contract.

    @property
    def is_open(self):
        return self.rows is not None

    def init(self, context, root):
        if self.rows is not None:
            raise InvalidStateStoreError("The store is already open.")
        self.directory = Path(context.state_dir) / self.name
        self.staged = {}
        try:
            make_directory(self.directory)
            if self.locks:
                self._lock = (self.directory / "lock").open("w")
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.load()
        except Exception as error:
            self.rows = None
            self._unlock()
            raise ProcessorStateError(f"{self.directory} cannot be used: {error!r}") from error
        context.register(root, self.restore)

    def _unlock(self):
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def close(self):
        if self.rows is None:
            return
        for iterator in list(self._iterators):
            iterator.close()
        self.rows, self.staged = None, {}
        try:
            self.release()
        finally:
            self._unlock()

    def _opened(self):
        if self.rows is None:
            raise InvalidStateStoreError("The store is not open.")
        return self.rows

    def restore(self, batch):
        for record in batch:
            self.put(record.key, record.value)

    def commit(self, changelog_offsets):
        self._opened()
        new = {} if not changelog_offsets else dict(self.offsets)
        for partition, offset in changelog_offsets.items():
            if offset is None:
                new.pop(TopicPartition(*partition), None)
            else:
                new[TopicPartition(*partition)] = offset
        forgotten = [each for each in self.offsets if each not in new]
        try:
            self.save(self.staged, new, forgotten)
        except (OSError, sqlite3.Error, lmdb.Error, plyvel.Error) as error:
            raise ProcessorStateError(f"{self.directory} cannot be written: {error}") from error
        self.offsets, self.staged = new, {}

    def committed_offset(self, partition):
        self._opened()
        return self.offsets.get(partition)

    def flush(self):
        self._opened()

    def get(self, key):
        require_key(key)
        return self._opened().get(key)

    def put(self, key, value):
        require_key(key)
        rows = self._opened()
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = bytes(value)
        self.staged[key] = value

    def _iterate(self, keys, reverse=False):
        rows = self._opened()
        found = [(key, rows[key]) for key in sorted(keys, reverse=reverse)]
        return StoreIterator(self.name, iter(found), self._iterators)

    def _between(self, low, high):
        return [
            key
            for key in list(self._opened())
            if (low is None or key >= low) and (high is None or key <= high)
        ]

    def range(self, from_key, to_key):
        return self._iterate(self._between(from_key, to_key))

    def reverse_range(self, from_key, to_key):
        return self._iterate(self._between(from_key, to_key), reverse=True)

    def prefix_scan(self, prefix):
        require_key(prefix)
        return self._iterate([key for key in list(self._opened()) if key.startswith(prefix)])

    def approximate_num_entries(self):
        return len(self._opened())

    def approximate_num_uncommitted_entries(self):
        return len(self.staged)

    def approximate_num_uncommitted_bytes(self):
        return sum(len(key) + len(value or b"") for key, value in self.staged.items())


def sync_directory(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path):
    """Make a directory and its parents, and sync each name."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)


def offsets_text(offsets):
    return json.dumps([[topic, number, offset] for (topic, number), offset in offsets.items()])


def parse_offsets(text):
    return {TopicPartition(topic, number): offset for topic, number, offset in json.loads(text)}


# --- SQLite ----------------------------------------------------------------------------


class _Sqlite(_Design):
    pragmas = ("PRAGMA synchronous = EXTRA",)

    def load(self):
        path = self.directory / "rows.sqlite"
        fresh = not path.exists()
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            for pragma in self.pragmas:
                self.db.execute(pragma)
            self.db.execute("BEGIN IMMEDIATE")
            self.db.execute("CREATE TABLE IF NOT EXISTS rows (k BLOB PRIMARY KEY, v BLOB NOT NULL)")
            self.db.execute(
                "CREATE TABLE IF NOT EXISTS offsets (t TEXT, p INT, o INT, PRIMARY KEY (t, p))"
            )
            self.db.execute("COMMIT")
            self.rows = dict(self.db.execute("SELECT k, v FROM rows"))
            self.offsets = {
                TopicPartition(t, p): o
                for t, p, o in self.db.execute("SELECT t, p, o FROM offsets")
            }
            if fresh:
                sync_directory(self.directory)
                sync_directory(self.directory.parent)
        except BaseException:
            self.db.close()
            raise

    def release(self):
        self.db.close()

    def write_rows(self, staged):
        self.db.executemany(
            "DELETE FROM rows WHERE k = ?", [(k,) for k, v in staged.items() if v is None]
        )
        self.db.executemany(
            "REPLACE INTO rows VALUES (?, ?)", [(k, v) for k, v in staged.items() if v is not None]
        )

    def write_offsets(self, offsets):
        self.db.execute("DELETE FROM offsets")
        self.db.executemany(
            "INSERT INTO offsets VALUES (?, ?, ?)", [(t, p, o) for (t, p), o in offsets.items()]
        )

    def save(self, staged, offsets, forgotten):
        self.db.execute("BEGIN IMMEDIATE")
        try:
            self.write_rows(staged)
            self.write_offsets(offsets)
            self.db.execute("COMMIT")
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise


class SqliteRight(_Sqlite):
    """RIGHT, as far as I can tell: rows and offsets in one SQLite transaction, synchronous=EXTRA."""


class SqliteAutocommit(_Sqlite):
    """SQLite in autocommit mode: each put is written at once, and the commit adds the offsets."""

    def put(self, key, value):
        super().put(key, value)
        try:
            self.write_rows({key: value})
        except sqlite3.Error as error:
            raise ProcessorStateError(f"{self.directory} cannot be written: {error}") from error
        self.staged = {}

    def save(self, staged, offsets, forgotten):
        super().save({}, offsets, forgotten)


class SqliteWalUnsynced(_Sqlite):
    """SQLite in WAL mode with synchronous=OFF "for speed", and commits that claim to survive a loss of power."""

    pragmas = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = OFF")


# --- LMDB ------------------------------------------------------------------------------


class LmdbTwoTransactions(_Design):
    """LMDB with two environments, one for rows and one for offsets, so a commit is two transactions."""

    def load(self):
        opened = []
        try:
            for part in ("rows", "offsets"):
                path = self.directory / part
                path.mkdir(exist_ok=True)
                opened.append(lmdb.open(str(path), map_size=2**32, lock=False))
            self.envs = opened
            # LMDB's keys are short, so a row has the digest of its key, and the key in its value.
            self.rows = {}
            with opened[0].begin() as txn:
                for _, stored in txn.cursor():
                    (length,) = struct.unpack_from(">I", stored)
                    self.rows[stored[4 : 4 + length]] = stored[4 + length :]
            with opened[1].begin() as txn:
                text = txn.get(b"offsets")
            self.offsets = {} if text is None else parse_offsets(text)
        except BaseException:
            for env in opened:
                env.close()
            raise

    def release(self):
        for env in self.envs:
            env.close()

    def save(self, staged, offsets, forgotten):
        with self.envs[0].begin(write=True) as txn:
            for key, value in staged.items():
                digest = hashlib.sha256(key).digest()
                if value is None:
                    txn.delete(digest)
                else:
                    txn.put(digest, struct.pack(">I", len(key)) + key + value)
        with self.envs[1].begin(write=True) as txn:
            txn.put(b"offsets", offsets_text(offsets).encode())


# --- LevelDB ---------------------------------------------------------------------------


class LevelDbUnsynced(_Design):
    """LevelDB: one write batch for rows and offsets, but without sync, and the claim is "power"."""

    def load(self):
        self.db = plyvel.DB(
            str(self.directory / "ldb"), create_if_missing=True, paranoid_checks=True
        )
        self.rows = {key[1:]: value for key, value in self.db.iterator(prefix=b"r")}
        text = self.db.get(b"offsets")
        self.offsets = {} if text is None else parse_offsets(text)

    def release(self):
        self.db.close()

    def save(self, staged, offsets, forgotten):
        with self.db.write_batch(transaction=True, sync=False) as batch:
            for key, value in staged.items():
                if value is None:
                    batch.delete(b"r" + key)
                else:
                    batch.put(b"r" + key, value)
            batch.put(b"offsets", offsets_text(offsets).encode())


# --- append logs -----------------------------------------------------------------------


class JsonLinesTornTail(_Design):
    """An append log of JSON lines that applies rows as it reads them, and appends behind a torn last line."""

    capabilities = Capabilities(transactional=True, durability="process")

    def load(self):
        path = self.directory / "log.jsonl"
        rows, self.offsets = {}, {}
        if path.exists():
            for line in path.read_bytes().splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue  # A torn line.
                if "offsets" in entry:
                    self.offsets = parse_offsets(entry["offsets"])
                elif entry["v"] is None:
                    rows.pop(bytes.fromhex(entry["k"]), None)
                else:
                    rows[bytes.fromhex(entry["k"])] = bytes.fromhex(entry["v"])
        self.log = path.open("ab")
        self.rows = rows

    def release(self):
        self.log.close()

    def save(self, staged, offsets, forgotten):
        for key, value in staged.items():
            line = {"k": key.hex(), "v": None if value is None else value.hex()}
            self.log.write(json.dumps(line).encode() + b"\n")
        self.log.write(json.dumps({"offsets": offsets_text(offsets)}).encode() + b"\n")
        self.log.flush()


class ChecksummedLogTakesZeros(_Design):
    """An append log of synced records with length and CRC, which takes zeros for a record: the CRC of no bytes is 0."""

    HEADER = struct.Struct(">QI")
    shortest = 0

    def load(self):
        path = self.directory / "commits.log"
        fresh = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self.log = os.fdopen(descriptor, "r+b", buffering=0)
        try:
            data = path.read_bytes()
            rows, self.offsets, at = {}, {}, 0
            while at + self.HEADER.size <= len(data):
                length, crc = self.HEADER.unpack_from(data, at)
                body = data[at + self.HEADER.size : at + self.HEADER.size + length]
                if length < self.shortest or len(body) < length or zlib.crc32(body) != crc:
                    break
                staged, self.offsets = pickle.loads(body)
                for key, value in staged.items():
                    if value is None:
                        rows.pop(key, None)
                    else:
                        rows[key] = value
                at += self.HEADER.size + length
            if at < len(data):
                self.log.truncate(at)
                os.fsync(self.log.fileno())
            self.end = at
            if fresh:
                os.fsync(self.log.fileno())
                sync_directory(self.directory)
                sync_directory(self.directory.parent)
            self.rows = rows
        except BaseException:
            self.log.close()
            raise

    def release(self):
        self.log.close()

    def save(self, staged, offsets, forgotten):
        body = pickle.dumps((dict(staged), dict(offsets)))
        data = memoryview(self.HEADER.pack(len(body), zlib.crc32(body)) + body)
        try:
            at = self.end
            while data:
                written = os.pwrite(self.log.fileno(), data, at)
                data, at = data[written:], at + written
            os.fsync(self.log.fileno())
        except BaseException:
            # Nothing of a commit that failed may be taken for a commit later.
            self.log.truncate(self.end)
            raise
        self.end = at


class ChecksummedLogRight(ChecksummedLogTakesZeros):
    """RIGHT: the same log; a torn tail is cut off, and so are zeros."""

    shortest = 1


# --- whole files -----------------------------------------------------------------------


class PickleRenameUnsynced(_Design):
    """A pickle of everything, written to a temporary file and renamed, without any fsync; the claim is "power"."""

    def load(self):
        path = self.directory / "state.pickle"
        self.rows, self.offsets = pickle.loads(path.read_bytes()) if path.exists() else ({}, {})

    def save(self, staged, offsets, forgotten):
        temporary = self.directory / "state.pickle.tmp"
        with temporary.open("wb") as file:
            pickle.dump((self.rows, offsets), file)
        temporary.replace(self.directory / "state.pickle")


class PickleWithoutLock(_Design):
    """A pickle of everything, synced and renamed, but no lock: a second store opens the same directory, and the last commit wins."""

    locks = False

    def load(self):
        path = self.directory / "state.pickle"
        self.rows, self.offsets = pickle.loads(path.read_bytes()) if path.exists() else ({}, {})
        sync_directory(self.directory.parent)

    def save(self, staged, offsets, forgotten):
        temporary = self.directory / "state.pickle.tmp"
        with temporary.open("wb") as file:
            pickle.dump((self.rows, offsets), file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.directory / "state.pickle")
        sync_directory(self.directory)


class FilePerKey(_Design):
    """One file for each key, each synced and renamed, and the offsets in another file afterwards: a commit is many steps."""

    def load(self):
        self.folder = self.directory / "rows"
        self.folder.mkdir(exist_ok=True)
        sync_directory(self.directory)
        sync_directory(self.directory.parent)
        self.rows = {}
        for path in self.folder.iterdir():
            if path.suffix == ".row":
                self.rows.__setitem__(*pickle.loads(path.read_bytes()))
        path = self.directory / "offsets.json"
        self.offsets = parse_offsets(path.read_text()) if path.exists() else {}

    def _replace(self, path, data):
        temporary = path.with_suffix(".tmp")
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def save(self, staged, offsets, forgotten):
        for key, value in staged.items():
            path = self.folder / f"{hashlib.sha256(key).hexdigest()}.row"
            if value is None:
                path.unlink(missing_ok=True)
            else:
                self._replace(path, pickle.dumps((key, value)))
        sync_directory(self.folder)
        self._replace(self.directory / "offsets.json", offsets_text(offsets).encode())
        sync_directory(self.directory)


class ShelveOnDumbDbm(_Design):
    """shelve over dbm.dumb: values go to one file and the index to another at sync, which replaces it in several steps."""

    capabilities = Capabilities(transactional=True, durability="process")

    def load(self):
        self.shelf = shelve.Shelf(dbm.dumb.open(str(self.directory / "shelf"), "c"))
        self.rows = {
            bytes.fromhex(name[1:]): value
            for name, value in self.shelf.items()
            if name.startswith("r")
        }
        self.offsets = self.shelf.get("offsets", {})

    def release(self):
        self.shelf.close()

    def save(self, staged, offsets, forgotten):
        for key, value in staged.items():
            if value is None:
                self.shelf.pop(f"r{key.hex()}", None)
            else:
                self.shelf[f"r{key.hex()}"] = value
        self.shelf["offsets"] = offsets
        self.shelf.sync()


class MmapInPlace(_Design):
    """A memory-mapped file that holds everything and is overwritten in place at each commit."""

    def load(self):
        path = self.directory / "state.map"
        if not path.exists():
            fresh = path.with_suffix(".new")
            with fresh.open("wb") as file:
                file.write(bytes(4096))
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
            sync_directory(self.directory)
        self.file = path.open("r+b")
        try:
            self.map = mmap.mmap(self.file.fileno(), 0)
        except BaseException:
            self.file.close()
            raise
        try:
            (length,) = struct.unpack_from(">Q", self.map)
            self.rows, self.offsets = pickle.loads(self.map[8 : 8 + length]) if length else ({}, {})
        except BaseException:
            self.release()
            raise

    def release(self):
        self.map.close()
        self.file.close()

    def save(self, staged, offsets, forgotten):
        body = pickle.dumps((self.rows, offsets))
        if len(body) + 8 > len(self.map):
            self.map.resize(2 * len(body) + 4096)
        struct.pack_into(">Q", self.map, 0, len(body))
        self.map[8 : 8 + len(body)] = body
        self.map.flush()
