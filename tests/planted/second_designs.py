"""Thirteen designs as projects have them: nine with a mistake that such designs really have.

All keep their rows in memory while they are open, as ``_Log`` does, and differ in their files.
"""

from __future__ import annotations

import hashlib
import json
import logging
import mmap
import os
import pickle
import queue
import sqlite3
import struct
import threading
import zlib

from sortedcontainers import SortedDict
from volume_and_timing import (
    _Log,
    apply,
    framed,
    frames,
    replace,
    sync_directory,
    write_at,
    write_whole,
)

from streamproof import Capabilities, ProcessorStateError, TopicPartition

logger = logging.getLogger("planted")

PAGE = 4096
LARGE_BYTES = 32 * 1024


def _after(staged, rows):
    """The rows once ``staged`` is applied."""
    new = dict(rows)
    apply(new, staged)
    return new


def _listed(offsets):
    return [[topic, number, offset] for (topic, number), offset in offsets.items()]


def _mapped(listed):
    return {TopicPartition(topic, number): offset for topic, number, offset in listed}


# --- SQLite in WAL mode ----------------------------------------------------------------


class SqliteWalRight(_Log):
    """RIGHT, as far as I can tell: SQLite in WAL mode, each commit synced, rows and offsets in one database."""

    capabilities = Capabilities(transactional=True, durability="power", disposable_files="*-shm")
    offsets_table = "offsets"
    db = None

    def load(self):
        path = self.directory / "rows.sqlite"
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            self.prepare()
            rows = SortedDict(self.db.execute("SELECT k, v FROM rows"))
            found = self.db.execute(self.named("SELECT t, p, o FROM {offsets}")).fetchall()
        except sqlite3.Error as error:
            raise OSError(str(error)) from error
        sync_directory(self.directory)
        self.rows, self.offsets = rows, _mapped(found)

    def prepare(self):
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = FULL")
        self.db.execute("CREATE TABLE IF NOT EXISTS rows (k BLOB PRIMARY KEY, v BLOB NOT NULL)")
        table = "CREATE TABLE IF NOT EXISTS {offsets} (t TEXT, p INT, o INT, PRIMARY KEY (t, p))"
        self.db.execute(self.named(table))

    def named(self, sql):
        return sql.format(offsets=self.offsets_table)

    def release(self):
        if self.db is not None:
            db, self.db = self.db, None
            db.close()

    def save(self, staged, offsets):
        gone = [(key,) for key, value in staged.items() if value is None]
        kept = [(key, value) for key, value in staged.items() if value is not None]
        try:
            self.db.execute("BEGIN IMMEDIATE")
            self.db.executemany("DELETE FROM rows WHERE k = ?", gone)
            self.db.executemany("REPLACE INTO rows VALUES (?, ?)", kept)
            self.db.execute(self.named("DELETE FROM {offsets}"))
            insert = self.named("INSERT INTO {offsets} VALUES (?, ?, ?)")
            self.db.executemany(insert, _listed(offsets))
            self.db.execute("COMMIT")
        except sqlite3.Error as error:
            raise OSError(str(error)) from error


class SqliteWalAttached(SqliteWalRight):
    """SQLite in WAL mode with the offsets in an attached database: a transaction over two WAL files is not atomic."""

    offsets_table = "beside.offsets"

    def prepare(self):
        self.db.execute("ATTACH ? AS beside", (str(self.directory / "offsets.sqlite"),))
        self.db.execute("PRAGMA beside.journal_mode = WAL")
        super().prepare()


# --- copy on write ---------------------------------------------------------------------


class CopyOnWriteSyncedOnce(_Log):
    """A copy-on-write file with two meta pages, as LMDB has; new nodes and the meta page that names them are written before one sync."""

    META = struct.Struct(">QQI")

    def load(self):
        data = self.open_log()
        if len(data) < 2 * PAGE:
            data = bytes(2 * PAGE)
            write_at(self.log, data, 0)
            os.fsync(self.log)
        metas = [meta for at in (0, PAGE) if (meta := self.meta_at(data, at)) is not None]
        self.number, self.root = max(metas, default=(0, 0))
        rows, self.offsets, self.depth = {}, {}, 0
        chain, at = [], self.root
        while at:
            (staged, offsets, at), _ = next(frames(data[at:]))
            chain.append((staged, offsets))
        for staged, self.offsets in reversed(chain):
            apply(rows, staged)
        self.depth = len(chain)
        self.end = max(len(data), 2 * PAGE)
        self.rows = SortedDict(rows)

    def meta_at(self, data, at):
        number, root, crc = self.META.unpack_from(data, at)
        known = zlib.crc32(data[at : at + self.META.size - 4]) == crc and number > 0
        return (number, root) if known else None

    def save(self, staged, offsets):
        whole = self.depth >= 64
        node = (_after(staged, self.rows), offsets, 0) if whole else (staged, offsets, self.root)
        body = framed(node)
        write_at(self.log, body, self.end)
        meta = struct.pack(">QQ", self.number + 1, self.end)
        meta += struct.pack(">I", zlib.crc32(meta))
        write_at(self.log, meta, (self.number + 1) % 2 * PAGE)
        os.fsync(self.log)
        self.number, self.root = self.number + 1, self.end
        self.end += len(body)
        self.depth = 1 if whole else self.depth + 1


# --- logs that are rewritten -----------------------------------------------------------


class HintOutlivesMerge(_Log):
    """An append log with a hint file of its content up to a place, as Bitcask has; a merge renames a new log before it replaces the hint."""

    def load(self):
        hint = self.directory / "hint"
        rows, self.offsets, at = {}, {}, 0
        if hint.exists():
            found = next(frames(hint.read_bytes()), None)
            if found is not None:
                rows, self.offsets, at = found[0]
        data = self.open_log()
        end = at = min(at, len(data))
        for (staged, self.offsets), place in frames(memoryview(data)[at:]):
            apply(rows, staged)
            end = at + place
        self.cut_log(end, len(data))
        self.rows = SortedDict(rows)

    def write_hint(self, rows, offsets):
        replace(self.directory / "hint", framed((dict(rows), dict(offsets), self.end)))

    def close(self):
        with self.mutex:
            rows = self.rows
            try:
                if rows is not None and not self.broken:
                    self.write_hint(rows, self.offsets)
            except OSError as error:
                raise ProcessorStateError(f"{self.directory}: {error}") from error
            finally:
                super().close()

    def save(self, staged, offsets):
        super().save(staged, offsets)
        if self.end > LARGE_BYTES:
            rows = _after(staged, self.rows)
            live = sum(len(key) + len(value) for key, value in rows.items())
            if self.end > 2 * live:
                self.merge(rows, offsets)

    def merge(self, rows, offsets):
        body = framed((dict(rows), dict(offsets)))
        os.close(self.log)
        self.log = None
        replace(self.directory / "commits.log", body)
        self.log = os.open(self.directory / "commits.log", os.O_RDWR)
        self.end = len(body)
        self.write_hint(rows, offsets)


class RewriteLosesBuffer(_Log):
    """An append-only file that is rewritten during three commits, as Redis does; what was committed meanwhile is appended after the rename."""

    def load(self):
        self.buffer, self.rewritten = [], None
        super().load()
        self.base = self.end

    def save(self, staged, offsets):
        super().save(staged, offsets)
        if self.rewritten is not None:
            self.buffer.append(framed((dict(staged), dict(offsets))))
            if len(self.buffer) == 2:
                self.finish()
        elif self.end > LARGE_BYTES and self.end > 2 * self.base:
            whole = framed((_after(staged, self.rows), dict(offsets)))
            self.rewritten = write_whole(self.directory / "commits.log", whole)

    def finish(self):
        new = self.rewritten.stat().st_size
        os.close(self.log)
        self.log = None
        self.rewritten.replace(self.directory / "commits.log")
        sync_directory(self.directory)
        self.log = os.open(self.directory / "commits.log", os.O_RDWR)
        self.end = self.base = new
        for body in self.buffer:
            self.append(body)
        self.buffer, self.rewritten = [], None


class EventSegmentsRight(_Log):
    """RIGHT, as far as I can tell: events in segments; each begins with a snapshot, and older ones are deleted once it is on the disk."""

    def segments(self):
        return sorted(self.directory.glob("events-*.log"))

    def load(self):
        self.begun = 0
        for leftover in self.directory.glob("*.tmp"):
            leftover.unlink()
        found = self.segments()
        if not found:
            self.begin_segment(0, {}, {})
        else:
            self.number = int(found[-1].stem.removeprefix("events-"))
            self.log = os.open(found[-1], os.O_RDWR)
        data = self.segments()[-1].read_bytes()
        rows, self.offsets, end = {}, {}, 0
        for (staged, self.offsets), end in frames(data):  # noqa: B007
            apply(rows, staged)
        if not end:
            raise ValueError("the newest segment has no snapshot")
        self.cut_log(end, len(data))
        self.rows = SortedDict(rows)
        self.delete_older()

    def begin_segment(self, number, rows, offsets):
        path = self.directory / f"events-{number:012}.log"
        body = framed((dict(rows), dict(offsets)))
        replace(path, body)
        self.release()
        self.log = os.open(path, os.O_RDWR)
        self.number, self.end, self.begun = number, len(body), len(body)

    def delete_older(self):
        for path in self.segments()[:-1]:
            path.unlink()
        sync_directory(self.directory)

    def save(self, staged, offsets):
        super().save(staged, offsets)
        if self.end - self.begun > LARGE_BYTES:
            self.begin_segment(self.number + 1, _after(staged, self.rows), offsets)
            self.delete_older()


class DeltaAndBaseRight(_Log):
    """RIGHT, as far as I can tell: a base file and a delta log with its number; a file that is replaced names the number."""

    def load(self):
        current = self.directory / "CURRENT"
        if not current.exists():
            self.begin(0, {}, {})
        self.number = int(current.read_text())
        base = self.path("base").read_bytes()
        (rows, self.offsets), _ = next(frames(base))
        self.log = os.open(self.path("delta"), os.O_RDWR)
        data = self.path("delta").read_bytes()
        end = 0
        for (staged, self.offsets), end in frames(data):  # noqa: B007
            apply(rows, staged)
        self.cut_log(end, len(data))
        self.rows = SortedDict(rows)
        self.clean()

    def path(self, kind):
        return self.directory / f"{kind}-{self.number}"

    def begin(self, number, rows, offsets):
        self.number = number
        replace(self.path("base"), framed((dict(rows), dict(offsets))))
        replace(self.path("delta"), b"")
        replace(self.directory / "CURRENT", str(number).encode())

    def clean(self):
        kept = {"CURRENT", "lock", self.path("base").name, self.path("delta").name}
        for path in self.directory.iterdir():
            if path.name not in kept:
                path.unlink()

    def save(self, staged, offsets):
        super().save(staged, offsets)
        if self.end > LARGE_BYTES:
            self.begin(self.number + 1, _after(staged, self.rows), offsets)
            self.release()
            self.log, self.end = os.open(self.path("delta"), os.O_RDWR), 0
            self.clean()


# --- LSM -------------------------------------------------------------------------------


class LsmDropsTombstones(_Log):
    """Sorted runs and a log, by hand; a merge of the two newest runs drops deletes, although an older run still has the rows."""

    RUN_BYTES = 4 * 1024
    MOST_RUNS = 4

    def load(self):
        manifest = self.directory / "MANIFEST"
        state = json.loads(manifest.read_text()) if manifest.exists() else [[], 0, []]
        self.runs, self.next, listed = state
        rows, self.offsets = {}, _mapped(listed)
        for run in self.runs:
            (found, _), _ = next(frames((self.directory / run).read_bytes()))
            apply(rows, found)
        self.memtable = {}
        data, end = self.open_log(), 0
        for (number, staged, offsets), place in frames(data):
            end = place
            if number >= self.next:
                apply(rows, staged)
                self.memtable.update(staged)
                self.offsets = offsets
        self.cut_log(end, len(data))
        self.rows = SortedDict(rows)

    def save(self, staged, offsets):
        self.append(framed((self.next, dict(staged), dict(offsets))))
        self.memtable.update(staged)
        if self.end > self.RUN_BYTES:
            self.write_run(offsets)

    def write_run(self, offsets):
        runs = [*self.runs, self.new_file(self.memtable)]
        dead = []
        while len(runs) > self.MOST_RUNS:
            dead += runs[-2:]
            merged = {}
            for run in runs[-2:]:
                (found, _), _ = next(frames((self.directory / run).read_bytes()))
                merged.update(found)
            live = {key: value for key, value in merged.items() if value is not None}
            runs = [*runs[:-2], self.new_file(live)]
        self.runs, self.memtable = runs, {}
        self.next += 1
        state = json.dumps([runs, self.next, _listed(offsets)])
        replace(self.directory / "MANIFEST", state.encode())
        os.ftruncate(self.log, 0)
        os.fsync(self.log)
        self.end = 0
        for run in dead:
            (self.directory / run).unlink()

    def new_file(self, rows):
        self.next += 1
        name = f"run-{self.next}"
        replace(self.directory / name, framed((dict(sorted(rows.items())), None)))
        return name


# --- files of pages, maps --------------------------------------------------------------


class JournalDeletedTooEarly(_Log):
    """A file of pages with a rollback journal, as SQLite has; the journal is deleted before the pages are synced."""

    def load(self):
        self.journal = self.directory / "pages.journal"
        data = self.open_log()
        if self.journal.exists():
            self.roll_back(next(frames(self.journal.read_bytes()), None))
            data = (self.directory / "commits.log").read_bytes()
        self.pages = data
        self.rows, self.offsets = SortedDict(), {}
        if data:
            (length,) = struct.unpack_from(">Q", data)
            rows, self.offsets = pickle.loads(data[8 : 8 + length])
            self.rows = SortedDict(rows)

    def roll_back(self, found):
        if found is not None:
            (size, pages), _ = found
            for number, page in pages.items():
                write_at(self.log, page, number * PAGE)
            os.ftruncate(self.log, size)
            os.fsync(self.log)
        self.journal.unlink()
        sync_directory(self.directory)

    def save(self, staged, offsets):
        body = pickle.dumps((_after(staged, self.rows), dict(offsets)))
        new = struct.pack(">Q", len(body)) + body
        new += bytes(-len(new) % PAGE)
        new += self.pages[len(new) :]  # The file does not shrink.
        changed = [
            number
            for number in range(len(new) // PAGE)
            if new[number * PAGE : (number + 1) * PAGE]
            != self.pages[number * PAGE : (number + 1) * PAGE]
        ]
        before = {n: self.pages[n * PAGE : (n + 1) * PAGE] for n in changed}
        replace(self.journal, framed((len(self.pages), before)))
        for number in changed:
            write_at(self.log, new[number * PAGE : (number + 1) * PAGE], number * PAGE)
        self.journal.unlink()
        os.fsync(self.log)
        sync_directory(self.directory)
        self.pages = new


class MappedSlotsRight(_Log):
    """RIGHT, as far as I can tell: a mapped file with two slots; a commit goes to the older one, with its number and a checksum."""

    HEAD = struct.Struct(">QQI")

    def load(self):
        path = self.directory / "slots.map"
        if not path.exists():
            replace(path, bytes(4 * PAGE))
        self.open_map(path)
        found = [each for slot in (0, 1) if (each := self.slot(slot)) is not None]
        self.number, body = max(found, default=(0, pickle.dumps(({}, {}))))
        rows, self.offsets = pickle.loads(body)
        self.rows = SortedDict(rows)

    map = None

    def open_map(self, path):
        with path.open("r+b") as file:
            self.map = mmap.mmap(file.fileno(), 0)
        self.size = len(self.map) // 2

    def slot(self, which):
        at = which * self.size
        number, length, crc = self.HEAD.unpack_from(self.map, at)
        body = self.map[at + self.HEAD.size : at + self.HEAD.size + length]
        known = number > 0 and length <= self.size - self.HEAD.size
        return (number, body) if known and self.crc(number, body) == crc else None

    @staticmethod
    def crc(number, body):
        return zlib.crc32(body, zlib.crc32(struct.pack(">QQ", number, len(body))))

    def release(self):
        if self.map is not None:
            self.map.close()
            self.map = None

    def save(self, staged, offsets):
        body = pickle.dumps((_after(staged, self.rows), dict(offsets)))
        number = self.number + 1
        slot = self.HEAD.pack(number, len(body), self.crc(number, body)) + body
        if len(slot) > self.size:
            self.grow(slot)
        else:
            at = number % 2 * self.size
            self.map[at : at + len(slot)] = slot
            self.map.flush()
        self.number = number

    def grow(self, slot):
        """A larger file that has this commit alone replaces the file."""
        size = -(-2 * len(slot) // PAGE) * PAGE
        self.release()
        path = self.directory / "slots.map"
        which = (self.number + 1) % 2
        parts = [bytes(size), bytes(size)]
        parts[which] = slot + bytes(size - len(slot))
        replace(path, b"".join(parts))
        self.open_map(path)


# --- many files ------------------------------------------------------------------------


class FilesPrunedTooEarly(_Log):
    """One file for each key and version, and a manifest that names them; the files of older versions are deleted before the manifest is replaced."""

    def load(self):
        manifest = self.directory / "manifest.json"
        state = json.loads(manifest.read_text()) if manifest.exists() else [0, [], []]
        self.number, names, listed = state
        self.names = {bytes.fromhex(key): name for key, name in names}
        rows = {key: (self.directory / name).read_bytes() for key, name in self.names.items()}
        self.rows, self.offsets = SortedDict(rows), _mapped(listed)

    def save(self, staged, offsets):
        number, names, dead = self.number + 1, dict(self.names), []
        for key, value in staged.items():
            if key in names:
                dead.append(names.pop(key))
            if value is not None:
                names[key] = f"{hashlib.sha256(key).hexdigest()[:40]}.{number}"
                write_whole(self.directory / names[key], value).replace(self.directory / names[key])
        for name in dead:
            (self.directory / name).unlink(missing_ok=True)
        sync_directory(self.directory)
        listed = [[key.hex(), name] for key, name in names.items()]
        state = json.dumps([number, listed, _listed(offsets)])
        replace(self.directory / "manifest.json", state.encode())
        self.number, self.names = number, names


class ShardsAgreeOnNothing(_Log):
    """Eight files by the hash of the key, each replaced as a whole with the offsets; an opening takes the offsets of the newest."""

    SHARDS = 8

    def load(self):
        self.shards, self.number, self.offsets = [], 0, {}
        for shard in range(self.SHARDS):
            path = self.path(shard)
            rows = {}
            if path.exists():
                (number, rows, offsets), _ = next(frames(path.read_bytes()))
                if number > self.number:
                    self.number, self.offsets = number, offsets
            self.shards.append(rows)
        self.rows = SortedDict({k: v for rows in self.shards for k, v in rows.items()})

    def path(self, shard):
        return self.directory / f"shard-{shard}"

    def save(self, staged, offsets):
        touched = {0}
        for key, value in staged.items():
            shard = zlib.crc32(key) % self.SHARDS
            touched.add(shard)
            apply(self.shards[shard], {key: value})
        self.number += 1
        for shard in sorted(touched):
            replace(self.path(shard), framed((self.number, self.shards[shard], dict(offsets))))


# --- threads ---------------------------------------------------------------------------


class WriteBehindSkipsFailed(_Log):
    """A thread writes commits behind the caller; a commit that could not be written is logged and skipped, and later ones are written."""

    capabilities = Capabilities(transactional=True, durability="flush")

    def load(self):
        super().load()
        self.waiting = queue.Queue()
        self.thread = threading.Thread(target=self.write_behind, daemon=True)
        self.thread.start()

    thread = None

    def write_behind(self):
        while (body := self.waiting.get()) is not None:
            try:
                self.append(body)
            except OSError as error:
                logger.warning("A commit could not be written: %s", error)
            finally:
                self.waiting.task_done()

    def save(self, staged, offsets):
        self.waiting.put(framed((dict(staged), dict(offsets))))

    def flush(self):
        self.opened()
        self.waiting.join()

    def release(self):
        thread, self.thread = self.thread, None
        if thread is not None:
            self.waiting.put(None)
            thread.join()
        super().release()
