"""Scans of one column family: bounds, direction, and no silent end at a damaged block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from rocksdict import Rdict

from streamproof.stores.errors import ProcessorStateError
from streamproof.stores.iterators import Row

__all__ = ["scan_prefix", "scan_range"]


def scan_range(
    data: Rdict, from_key: bytes | None, to_key: bytes | None, *, reverse: bool
) -> Iterator[Row]:
    """A snapshot, taken by this call, of the rows between the bounds, both inclusive.

    The bounds are checked here and not by RocksDB, as ReadOptions of rocksdict mixes them
    up: its ``set_iterate_lower_bound`` sets the upper bound.
    """
    start, stop = (to_key, from_key) if reverse else (from_key, to_key)
    # The iterator of RocksDB, and so the snapshot, must be made now and not at the first row.
    rows = cast(Iterator[Row], data.items(backwards=reverse, from_key=start))
    if stop is None:
        return _to_the_end(data, rows, start, reverse)
    if reverse:
        return _down_to(data, rows, start, stop)
    return _up_to(data, rows, start, stop)


def scan_prefix(data: Rdict, prefix: bytes) -> Iterator[Row]:
    """A snapshot, taken by this call, of the rows whose keys start with ``prefix``, ascending."""
    rows = cast(Iterator[Row], data.items(from_key=prefix))
    return _with_prefix(data, rows, prefix)


def _to_the_end(
    data: Rdict, rows: Iterator[Row], start: bytes | None, reverse: bool
) -> Iterator[Row]:
    row = None
    for row in rows:
        yield row
    del rows
    _require_true_end(data, row, start, reverse)


def _up_to(data: Rdict, rows: Iterator[Row], start: bytes | None, stop: bytes) -> Iterator[Row]:
    row = None
    for row in rows:
        if row[0] > stop:
            return
        yield row
    del rows
    _require_true_end(data, row, start, False)


def _down_to(data: Rdict, rows: Iterator[Row], start: bytes | None, stop: bytes) -> Iterator[Row]:
    row = None
    for row in rows:
        if row[0] < stop:
            return
        yield row
    del rows
    _require_true_end(data, row, start, True)


def _with_prefix(data: Rdict, rows: Iterator[Row], prefix: bytes) -> Iterator[Row]:
    row = None
    for row in rows:
        if not row[0].startswith(prefix):
            return
        yield row
    del rows
    _require_true_end(data, row, prefix, False)


def _require_true_end(data: Rdict, last: Row | None, start: bytes | None, reverse: bool) -> None:
    """Raise ProcessorStateError if the rows ended at a damaged block, and not at their end.

    ``items()`` of rocksdict ends without an error in both cases. A plain iterator tells them apart,
    so that this function repeats the last step with one.

    The traceback of the error keeps all frames alive, and an iterator in one of them would keep the
    lock on the database. So every caller drops its iterator before, and this function drops its own
    before it raises.
    """
    probe = data.iter()
    at = start if last is None else last[0]
    if at is None:
        probe.seek_to_last() if reverse else probe.seek_to_first()
    else:
        probe.seek_for_prev(at) if reverse else probe.seek(at)
    if last is not None and probe.valid():
        probe.prev() if reverse else probe.next()
    try:
        probe.status()
    except Exception as error:
        del probe
        raise ProcessorStateError(
            f"A scan of {data.path()} cannot continue after key {at!r}: {error}. The files are "
            "damaged: wipe the directory and restore from the changelog."
        ) from error
