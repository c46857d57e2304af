"""How much the stores cost over raw rocksdict, as ratios measured in one run.

Run it from anywhere: ``python benchmarks/store_speed.py``. Every measurement is repeated in
several rounds, raw and store alternating, each in a fresh database; a ratio is the median
of the ratios of the rounds, so that a slow moment of the machine hits both sides alike.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import NamedTuple, TypeVar

from rocksdict import Rdict, WriteOptions

from streamproof.stores.api import (
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    KeyValueStore,
    StateStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.rocksdb_database import Database
from streamproof.stores.timestamped import default_store as timestamped_store
from streamproof.stores.transactional import TransactionalKeyValueStore, TransactionalRocksDBStore
from streamproof.stores.windowed.rocksdb_sessions import RocksDBSessionStore
from streamproof.stores.windowed.rocksdb_windows import RocksDBWindowStore
from streamproof.stores.windows import Window, Windowed

ROUNDS = 9
ROWS = 20_000
COMMIT_ROWS = 1_000
ENTRIES = [(b"key-%011d" % (n * 7919 % ROWS), b"v" * 100) for n in range(ROWS)]
PARTITION = TopicPartition("changelog", 0)
RETENTION_MS = 3_600_000
KEYS_OF_WINDOWS = 100
"""How many keys the windows belong to: each has many windows, over all segments."""

Store = TypeVar("Store", bound=StateStore)


def _time_of(number: int) -> int:
    """The start of the window, or of the session, that an entry is in."""
    return number * RETENTION_MS // ROWS


WINDOW_ENTRIES = [
    (b"key-%011d" % (n * 7919 % KEYS_OF_WINDOWS), b"v" * 100, _time_of(n)) for n in range(ROWS)
]
SESSION_ENTRIES = [
    (Windowed(key, Window(start, start + 10)), value) for key, value, start in WINDOW_ENTRIES
]


class Line(NamedTuple):
    """One line of the table: the target as a bound on the time relative to raw."""

    what: str
    most: float
    raw: Callable[[Path], float]
    store: Callable[[Path], float]


@contextmanager
def _raw(directory: Path) -> Iterator[Rdict]:
    """A raw database with the options of the store."""
    database = Database(directory, with_offsets=True, write_buffer_bytes=None)
    options = WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign,assignment]
    database.data.set_write_options(options)
    try:
        yield database.data
    finally:
        database.close()


@contextmanager
def _opened(store: Store, directory: Path) -> Iterator[Store]:
    context = StateStoreContext(
        state_dir=directory, app_configs={PROCESSING_GUARANTEE_CONFIG: EXACTLY_ONCE}
    )
    store.init(context, store)
    try:
        yield store
    finally:
        store.close()


def _plain() -> KeyValueStore:
    return RocksDBStore("store")


def _transactional() -> KeyValueStore:
    return TransactionalKeyValueStore(TransactionalRocksDBStore("store"))


def _seconds_of(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def _put_all(put: Callable[[bytes, bytes], object], entries: list[tuple[bytes, bytes]]) -> None:
    for key, value in entries:
        put(key, value)


def _get_all(get: Callable[[bytes], object]) -> None:
    for key, _ in ENTRIES:
        get(key)


def _raw_put(directory: Path) -> float:
    with _raw(directory) as data:
        return _seconds_of(lambda: _put_all(data.put, ENTRIES))


def _store_put(directory: Path) -> float:
    with _opened(_plain(), directory) as store:
        return _seconds_of(lambda: _put_all(store.put, ENTRIES))


def _staged_put(directory: Path) -> float:
    with _opened(_transactional(), directory) as store:
        return _seconds_of(lambda: _put_all(store.put, ENTRIES))


def _put_with_commits(directory: Path) -> float:
    def work() -> None:
        for start in range(0, ROWS, COMMIT_ROWS):
            _put_all(store.put, ENTRIES[start : start + COMMIT_ROWS])
            store.commit({PARTITION: start})

    with _opened(_transactional(), directory) as store:
        return _seconds_of(work)


def _raw_get(directory: Path) -> float:
    with _raw(directory) as data:
        _put_all(data.put, ENTRIES)
        return _seconds_of(lambda: _get_all(data.get))


def _store_get(directory: Path) -> float:
    with _opened(_plain(), directory) as store:
        _put_all(store.put, ENTRIES)
        return _seconds_of(lambda: _get_all(store.get))


def _raw_scan(directory: Path) -> float:
    with _raw(directory) as data:
        _put_all(data.put, ENTRIES)
        # A deque of length zero exhausts an iterator in C, so that only the scan is measured.
        return _seconds_of(lambda: deque(data.items(), maxlen=0))


def _store_scan(directory: Path) -> float:
    with _opened(_plain(), directory) as store:
        _put_all(store.put, ENTRIES)
        return _seconds_of(lambda: deque(store.all(), maxlen=0))


def _raw_puts(directory: Path) -> float:
    with _raw(directory) as data:
        return _seconds_of(lambda: _put_all(data.put, ENTRIES[:COMMIT_ROWS]))


def _commit(directory: Path) -> float:
    with _opened(_transactional(), directory) as store:
        _put_all(store.put, ENTRIES[:COMMIT_ROWS])
        return _seconds_of(lambda: store.commit({PARTITION: COMMIT_ROWS}))


def _range(directory: Path, store: KeyValueStore) -> float:
    with _opened(store, directory):
        _put_all(store.put, ENTRIES)

        def work() -> None:
            for start in range(0, ROWS, 100):
                rows = store.range(b"key-%011d" % start, b"key-%011d" % (start + 99))
                deque(rows, maxlen=0)
                rows.close()

        return _seconds_of(work)


def _raw_range(directory: Path) -> float:
    with _raw(directory) as data:
        _put_all(data.put, ENTRIES)

        def work() -> None:
            for start in range(0, ROWS, 100):
                stop = b"key-%011d" % (start + 99)
                for row in data.items(from_key=b"key-%011d" % start):
                    if row[0] >= stop:
                        break

        return _seconds_of(work)


def _timestamped_put(directory: Path) -> float:
    with _opened(timestamped_store(), directory) as store:
        return _seconds_of(lambda: _put_all(store.put, ENTRIES))


def _timestamped_get(directory: Path) -> float:
    with _opened(timestamped_store(), directory) as store:
        _put_all(store.put, ENTRIES)
        return _seconds_of(lambda: _get_all(store.get))


def _windows() -> RocksDBWindowStore:
    return RocksDBWindowStore("store", retention_ms=RETENTION_MS, window_size_ms=10)


def _put_windows(store: RocksDBWindowStore) -> None:
    for key, value, start in WINDOW_ENTRIES:
        store.put(key, value, start)


def _window_put(directory: Path) -> float:
    with _opened(_windows(), directory) as store:
        return _seconds_of(lambda: _put_windows(store))


def _window_fetch(directory: Path) -> float:
    def work() -> None:
        for key, _, start in WINDOW_ENTRIES:
            store.fetch(key, start)

    with _opened(_windows(), directory) as store:
        _put_windows(store)
        return _seconds_of(work)


def _window_scan(directory: Path) -> float:
    with _opened(_windows(), directory) as store:
        _put_windows(store)
        return _seconds_of(lambda: deque(store.all(), maxlen=0))


def _window_commit(directory: Path) -> float:
    with _opened(_windows(), directory) as store:
        for key, value, start in WINDOW_ENTRIES[:COMMIT_ROWS]:
            store.put(key, value, start)
        return _seconds_of(lambda: store.commit({PARTITION: COMMIT_ROWS}))


def _sessions() -> RocksDBSessionStore:
    return RocksDBSessionStore("store", retention_ms=RETENTION_MS)


def _put_sessions(store: RocksDBSessionStore) -> None:
    for session, aggregate in SESSION_ENTRIES:
        store.put(session, aggregate)


def _session_put(directory: Path) -> float:
    with _opened(_sessions(), directory) as store:
        return _seconds_of(lambda: _put_sessions(store))


def _session_fetch(directory: Path) -> float:
    def work() -> None:
        for session, _ in SESSION_ENTRIES:
            store.fetch_session(session.key, *session.window)

    with _opened(_sessions(), directory) as store:
        _put_sessions(store)
        return _seconds_of(work)


LINES = (
    Line("put", 1 / 0.5, _raw_put, _store_put),
    Line("transactional put, staging only", 2.5, _raw_put, _staged_put),
    Line("transactional put, commit every 1000", 2.5, _raw_put, _put_with_commits),
    Line("get", 1 / 0.5, _raw_get, _store_get),
    Line("full scan", 1 / 0.4, _raw_scan, _store_scan),
    Line("range of 100", 1 / 0.4, _raw_range, lambda directory: _range(directory, _plain())),
    Line("commit of 1000 vs 1000 raw puts", 1.0, _raw_puts, _commit),
    Line("timestamped put", 1 / 0.4, _raw_put, _timestamped_put),
    Line("timestamped get", 1 / 0.4, _raw_get, _timestamped_get),
    Line("window put", 1 / 0.25, _raw_put, _window_put),
    Line("window fetch", 1 / 0.25, _raw_get, _window_fetch),
    Line("window scan", 1 / 0.25, _raw_scan, _window_scan),
    Line("window commit vs 1000 raw puts", 1.0, _raw_puts, _window_commit),
    Line("session put", 1 / 0.25, _raw_put, _session_put),
    Line("session fetch", 1 / 0.25, _raw_get, _session_fetch),
)


def ratio_of(line: Line, parent: Path) -> float:
    """The time of the store over the time of raw rocksdict, as a median."""

    def fresh(measure: Callable[[Path], float]) -> float:
        directory = Path(tempfile.mkdtemp(dir=parent))
        try:
            return measure(directory)
        finally:
            shutil.rmtree(directory)

    return statistics.median(fresh(line.store) / fresh(line.raw) for _ in range(ROUNDS))


def main() -> None:
    """Print the table: time of the store over time of raw rocksdict, and the bound."""
    memory = Path("/dev/shm")  # noqa: S108  # Fresh directories are made in it.
    parent = memory if memory.is_dir() else Path(tempfile.gettempdir())
    print(f"{'time relative to raw rocksdict':<38}{'at most':>9}{'measured':>10}")
    for line in LINES:
        ratio = ratio_of(line, parent)
        verdict = "" if ratio <= line.most else "   above the target"
        print(f"{line.what:<38}{line.most:>9.2f}{ratio:>10.2f}{verdict}")


if __name__ == "__main__":
    main()
