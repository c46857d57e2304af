"""How fast a store is upgraded in place, killed several times on the way, and what that costs.

A plain store with one million records is live while the new format is rebuilt beside it from the
changelog. The process that does so dies by SIGKILL at even distances; the next one goes on from
the offset that is on disk, and is fed again what was in a write buffer, 16 MiB at most. Afterwards
the new format is opened, and every value and timestamp is compared. No number here is a promise:
the disk and the processor decide.

Run: ``python -P benchmarks/upgrade.py [--records N] [--kills N] [--directory PATH]``
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

from streamproof.stores.api import (
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    UPGRADE_FROM_CONFIG,
    UPGRADE_MODE_CONFIG,
    ChangelogRecord,
    StateStoreContext,
    TopicPartition,
)
from streamproof.stores.timestamped import RocksDBTimestampedStore

PARTITION = TopicPartition("streamproof-store-changelog", 0)
BATCH = 1000
"""Records that are fed at a time."""

VALUE = b"v" * 90
"""What every value ends with; its first ten bytes tell it from others."""

FIRST_TIMESTAMP = 1_500_000_000_000


def record(offset: int) -> ChangelogRecord:
    """The record at an offset of the changelog; the keys are not in order."""
    key = b"key-%010d" % (offset * 7919 % 10_000_019)
    return ChangelogRecord(key, b"%010d" % offset + VALUE, offset, FIRST_TIMESTAMP + offset)


def batches(start: int, stop: int) -> Iterator[list[ChangelogRecord]]:
    """The changelog between two offsets."""
    for first in range(start, stop, BATCH):
        yield [record(offset) for offset in range(first, min(first + BATCH, stop))]


Opened = tuple[RocksDBTimestampedStore, StateStoreContext]


def opened(directory: Path, *, upgrading: bool) -> Opened:
    """A store of an instance that prepares the upgrade, or that has switched.

    It is transactional: under exactly-once, a kill would make other stores ask for a wipe.
    """
    configs = {PROCESSING_GUARANTEE_CONFIG: EXACTLY_ONCE}
    if upgrading:
        configs |= {UPGRADE_FROM_CONFIG: "1.1.x", UPGRADE_MODE_CONFIG: "in_place"}
    context = StateStoreContext(state_dir=directory, app_configs=configs)
    store = RocksDBTimestampedStore("store", transactional=True)
    store.init(context, store)
    return store, context


def in_child(work: Callable[[], int]) -> int | None:
    """What ``work`` returns in a process of its own; ``None`` if that was killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(writer, b"%d" % work())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if not answer and not os.WIFSIGNALED(status):
        raise SystemExit("The work of a process failed; see above.")
    return int(answer) if answer else None


def fill(directory: Path, records: int) -> int:
    """Make the plain store."""
    store, context = opened(directory, upgrading=True)
    for batch in batches(0, records):
        context.restore_callbacks["store"](batch)
    store.commit({PARTITION: records - 1})
    store.close()
    return records


def rebuilt(directory: Path) -> int:
    """How many records are in the new format on disk."""
    store, _ = opened(directory, upgrading=True)
    offset = store.rebuilt_offset(PARTITION)
    store.close()
    return 0 if offset is None else offset + 1


def rebuild(directory: Path, records: int, die_at: int) -> int:
    """Feed what is missing, and die as soon as ``die_at`` records of the changelog are fed."""
    store, _ = opened(directory, upgrading=True)
    offset = store.rebuilt_offset(PARTITION)
    start = 0 if offset is None else offset + 1
    for batch in batches(start, records):
        store.rebuild(PARTITION, batch)
        if batch[-1].offset + 1 >= die_at:
            os.kill(os.getpid(), signal.SIGKILL)
    assert store.prepared
    store.close()
    return start


def compare(directory: Path, records: int) -> int:
    """Open the new format, and compare every value and timestamp."""
    store, _ = opened(directory, upgrading=False)
    assert store.committed_offset(PARTITION) == records - 1
    assert [path.name for path in (directory / "rocksdb").iterdir()] == ["store-v2"]
    count = 0
    for key, (value, timestamp) in store.all_with_timestamp():
        found = ChangelogRecord(key, value, int(value[:10]), timestamp)
        assert found == record(found.offset)
        count += 1
    assert count == records
    store.close()
    return count


def measure(directory: Path, records: int, kills: int) -> None:
    """Make, rebuild with kills, switch, compare, and print what that took."""
    in_child(lambda: fill(directory, records))
    started = perf_counter()
    again = 0
    for number in range(1, kills + 1):
        die_at = max(1, records * number // (kills + 1) // BATCH) * BATCH
        assert in_child(lambda at=die_at: rebuild(directory, records, at)) is None  # type: ignore[misc]
        again += die_at - (in_child(lambda: rebuilt(directory)) or 0)
    in_child(lambda: rebuild(directory, records, records + 1))
    seconds = perf_counter() - started
    compared = in_child(lambda: compare(directory, records))
    print(f"{'records rebuilt':<34}{records:>12,}")
    print(f"{'kills by SIGKILL':<34}{kills:>12,}")
    print(f"{'records fed a second time':<34}{again:>12,}{again / records:>8.1%}")
    print(f"{'seconds, openings and kills too':<34}{seconds:>12.1f}")
    print(f"{'records a second':<34}{records / seconds:>12,.0f}")
    print(f"{'values and timestamps compared':<34}{compared:>12,}")


def main() -> None:
    """Read the options and measure in a fresh directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="of the changelog")
    parser.add_argument("--kills", type=int, default=10, help="on the way")
    parser.add_argument("--directory", type=Path, help="where the database goes, if not to /tmp")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        measure(Path(directory), options.records, options.kills)


if __name__ == "__main__":
    main()
