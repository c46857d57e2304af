"""What transactions cost: time against plain writes by batch size, and memory by staged byte.

Run it from anywhere: ``python benchmarks/transaction_curve.py``. Both sides write the same records
and commit as often; a ratio is the median over several rounds, plain and transactional
alternating, each in a fresh directory. KIP-892 expects no loss.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from streamproof.stores.api import (
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    KeyValueStore,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.rocksdb import RocksDBStore
from streamproof.stores.transactional import default_store as transactional_store

ROUNDS = 7
RECORDS = 20_000
BATCHES = (1, 10, 100, 1_000, 10_000)
VALUE_BYTES = (10, 100, 1_000)
STAGED = 20_000
PARTITION = TopicPartition("changelog", 0)


def _write(store: KeyValueStore, directory: Path, batch: int) -> float:
    """Seconds to write all records with a commit after each batch."""
    configs = {PROCESSING_GUARANTEE_CONFIG: EXACTLY_ONCE}
    store.init(StateStoreContext(state_dir=directory, app_configs=configs), store)
    records = [(b"key-%011d" % (n * 7919 % RECORDS), b"v" * 100) for n in range(RECORDS)]
    start = perf_counter()
    for number, (key, value) in enumerate(records, start=1):
        store.put(key, value)
        if number % batch == 0:
            store.commit({PARTITION: number})
    seconds = perf_counter() - start
    store.close()
    return seconds


def _fresh(measure: Callable[[Path], float]) -> float:
    memory = Path("/dev/shm")  # noqa: S108  # A fresh directory is made in it.
    directory = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        return measure(directory)
    finally:
        shutil.rmtree(directory)


def _ratio(batch: int) -> float:
    return statistics.median(
        _fresh(lambda directory: _write(transactional_store(), directory, batch))
        / _fresh(lambda directory: _write(RocksDBStore("store"), directory, batch))
        for _ in range(ROUNDS)
    )


def _memory(value_bytes: int, directory: Path) -> float:
    """Bytes of memory for each staged byte of keys and values."""
    store = transactional_store()
    configs = {PROCESSING_GUARANTEE_CONFIG: EXACTLY_ONCE}
    store.init(StateStoreContext(state_dir=directory, app_configs=configs), store)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(STAGED):
        # A new object for each value, as a deserializer makes it.
        store.put(b"key-%011d" % number, bytes(value_bytes))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    staged = store.approximate_num_uncommitted_bytes()
    store.close()
    return (after - before) / staged


def main() -> None:
    """Print the curve and the memory."""
    print(f"{'records a commit':<24}{'transactional over plain, time':>32}")
    for batch in BATCHES:
        print(f"{batch:<24}{_ratio(batch):>32.2f}")
    print()
    print(f"{'bytes of a value':<24}{'memory by staged byte':>32}")
    for value_bytes in VALUE_BYTES:
        ratio = _fresh(lambda directory, size=value_bytes: _memory(size, directory))  # type: ignore[misc]
        print(f"{value_bytes:<24}{ratio:>32.2f}")


if __name__ == "__main__":
    main()
