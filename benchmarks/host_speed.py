"""How fast a store behind the store host protocol is, beside the same store in this process.

Run it from anywhere: ``python benchmarks/host_speed.py``. The store is the one in memory, so that
nearly all of the time is that of the protocol. Each figure is the median of several rounds, in
operations a second; a remote store must reach ``LEAST``, or the exit code is 1.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from streamproof.stores.api import KeyValueStore, StateStoreContext
from streamproof.stores.host.client import HostFactory
from streamproof.stores.memory import InMemoryKeyValueStore

LEAST = 5_000
"""Operations a second, of those that are one request each."""

ROUNDS = 5
ROWS = 5_000
ENTRIES = [(b"key-%06d" % number, b"v" * 100) for number in range(ROWS)]
HOST = f"{sys.executable} -P -m streamproof.host in-memory"


def puts(store: KeyValueStore) -> None:
    """One request for each row."""
    for key, value in ENTRIES:
        store.put(key, value)


def gets(store: KeyValueStore) -> None:
    """One request for each row."""
    for key, _ in ENTRIES:
        store.get(key)


def batches(store: KeyValueStore) -> None:
    """One request for a hundred rows."""
    for at in range(0, ROWS, 100):
        store.put_all(ENTRIES[at : at + 100])


def scans(store: KeyValueStore) -> None:
    """One request for each page."""
    with store.all() as rows:
        for _ in rows:
            pass


OPERATIONS = (puts, gets, batches, scans)
SINGLE = (puts, gets)


def rate(operation: Callable[[KeyValueStore], None], store: KeyValueStore) -> float:
    """Rows a second, in the median of some rounds."""
    found = []
    for _ in range(ROUNDS):
        started = perf_counter()
        operation(store)
        found.append(ROWS / (perf_counter() - started))
    return statistics.median(found)


def opened(store: KeyValueStore, directory: str) -> KeyValueStore:
    """A store, ready to be used."""
    store.init(StateStoreContext(state_dir=Path(directory)), store)
    return store


def main() -> int:
    """Measure, print a table, and say whether it is fast enough."""
    slow = 0
    print(f"{'rows a second':14}{'in process':>14}{'in a host':>14}")
    with tempfile.TemporaryDirectory() as directory:
        started = perf_counter()
        far = opened(HostFactory(HOST)(), directory)
        start_s = (perf_counter() - started) / 2
        near = opened(InMemoryKeyValueStore("store"), directory)
        for operation in OPERATIONS:
            rates = rate(operation, near), rate(operation, far)
            print(f"{operation.__name__:14}{rates[0]:14,.0f}{rates[1]:14,.0f}")
            slow += operation in SINGLE and rates[1] < LEAST
        far.close()
    print(f"A host starts in {start_s:.2f} s.")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
