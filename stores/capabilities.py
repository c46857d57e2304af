"""What a store declares about itself, so that the suite knows which promises to test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "LATE",
    "Capabilities",
    "ClosedIterator",
    "Durability",
    "Expiry",
    "IteratorView",
    "Kind",
    "ScanOrder",
    "answers_queries",
]

Kind = Literal["key-value", "window", "session"]
"""The interface that a store implements."""

Durability = Literal["close", "flush", "process", "power"]
"""What the data of a ``commit`` that has returned survives.

``close``: nothing until the next clean close, as in Kafka's stores from 4.3 on, where ``flush``
does nothing. ``flush``: nothing until the next flush or clean close, as in RocksDB without its
write-ahead log.
``process``: the death of the process. ``power``: a loss of power as well.
"""

LATE: tuple[Durability, ...] = ("close", "flush")
"""The levels at which a commit that has returned may still be lost with the process."""

IteratorView = Literal["snapshot", "weak"]
"""Whether an open iterator sees later writes: never (``snapshot``), or perhaps (``weak``)."""

ClosedIterator = Literal["raises", "ends"]
"""What an open iterator does once its store is closed.

In Kafka the iterators of window stores end, and all others raise.
"""

Expiry = Literal["record", "segment"]
"""What decides that a put comes too late: its own time (``record``), or that of its segment.

With ``segment``, a put is dropped only if its whole segment is older than the retention. A record
that has expired in a segment that has not is kept, but cannot be read. Kafka's stores in memory
decide by record, and those on RocksDB by segment.
"""

ScanOrder = Literal["time", "segment"]
"""The order in which a scan over several keys yields windows or sessions.

``time``: by window start (or session end), then by key. ``segment``: by segment, then by key, then
by time. Kafka's stores in memory yield by time, and those on RocksDB by segment.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The promises that a store makes beyond the plain key-value methods.

    The store, its class or its factory has them as the attribute ``capabilities``. The suite tests
    each claim, and a claim that does not hold is a failure. A capability that is not claimed is
    reported as *unsupported*, never as passed.

    Attributes:
        persistent: the content outlives the process (KIP-1035, ``StateStore#persistent``).
        manages_offsets: the store keeps the changelog offsets of a ``commit`` with the data, and
            returns them from ``committed_offset`` (KIP-1035, ``StateStore#managesOffsets``).
        imports_offsets: opening the store takes over the offset that a version before KIP-1035 left
            in the file ``.checkpoint`` of the task. Without this claim the runtime hands the
            offset over, in a commit before the first write.
        forgets_offsets: ``commit`` with an empty map, or with ``None`` as an offset, forgets
            committed offsets. Without this claim such a commit may raise
            ``UnsupportedOperationError``; the runtime deletes the directory of the task instead.
        transactional: writes are staged until ``commit``. After a crash the content is exactly
            that of one commit (KIP-892).
        explicit_transactions: ``new_transaction()`` returns independent transactions (KIP-892).
        read_only_views: ``read_only(isolation_level)`` returns views for interactive queries.
        several_partitions: ``commit`` may name several changelog partitions, as the runtime does
            for a global store.
        scan: ``all()`` iterates over every entry. A window store also has ``fetch_all()``; a
            session store has ``find_sessions_between()`` instead of both.
        ranges: the store has ``range()``, and scans in unsigned byte order of the keys. A window
            store has ``fetch_range()`` instead, and a session store ``fetch_range()`` and
            ``find_sessions_range()``.
        reverse: the store has ``reverse_range()`` and ``reverse_all()``. A window or session store
            has ``backward_fetch_between()``, ``backward_fetch()`` and ``backward_find_sessions()``,
            as far as its kind has them; ``backward_all()`` and ``backward_fetch_all()`` need
            ``scan`` as well, ``backward_fetch_range()`` and ``backward_find_sessions_range()``
            need ``ranges`` as well.
        prefix_scan: the store has ``prefix_scan()``; no claim of a window or session store.
        entry_count: the store has ``approximate_num_entries()``; no claim of a window or session
            store.
        durability: the failures that committed data survives once ``commit`` has returned.
        iterator_view: whether an open iterator may see later writes.
        closed_iterator: the behaviour of an open iterator once its store is closed.
        kind: which interface the store implements.
        timestamped: the store keeps the timestamp of each record, and has the methods of KIP-258
            whose names end in ``with_timestamp``.
        position: ``position`` follows the input records, and is committed with the offsets
            (KIP-796, KIP-1035).
        metrics: the store registers its metrics with ``context.metrics`` (KIP-1035).
        change_logging: the store sends its writes to ``context.changelog``.
        retention_ms: how long the store keeps windows and sessions, in milliseconds.
        window_size_ms: the size of the windows, in milliseconds.
        segment_interval_ms: the length of a segment of time, in milliseconds; 0 without segments.
        expiry: the rule that decides that a put comes too late.
        scan_order: the order of a scan over several keys of windows or sessions.
        retain_duplicates: the store keeps every put into a window, not only the last one.
        upgrades_from: the subject that writes the older format of this store's files, by its name
            on the command line; empty if the format has no older one.
        in_place_upgrade: the store can prepare an upgrade while it is in use (KIP-258). With
            ``upgrade.from`` and ``upgrade.mode=in_place`` the older format stays live, and
            ``rebuild(partition, records)`` fills the new format beside it; ``rebuilt_offset`` and
            ``prepared`` tell how far the new format is.
        disposable_files: patterns of the names of files on which no promise depends, such as locks
            and logs for people, with spaces in between: ``"LOG LOG.old *.lock"``. They may be lost
            or emptied whenever the store is not open.
        tasks_share_directory: stores of several tasks may lie in one directory, which tell their
            files or rows apart by the task. Kafka has a directory for each task.
        downgrade: with ``upgrade.from`` alone, ``close`` leaves files that the older store goes on
            with: all records, the committed offsets, and the position (KIP-1035).
    """

    persistent: bool = True
    manages_offsets: bool = True
    transactional: bool = False
    explicit_transactions: bool = False
    read_only_views: bool = False
    several_partitions: bool = True
    scan: bool = True
    ranges: bool = True
    reverse: bool = True
    prefix_scan: bool = True
    entry_count: bool = True
    durability: Durability = "process"
    iterator_view: IteratorView = "snapshot"
    closed_iterator: ClosedIterator = "raises"
    kind: Kind = "key-value"
    timestamped: bool = False
    position: bool = False
    metrics: bool = False
    change_logging: bool = False
    retention_ms: int = 0
    window_size_ms: int = 0
    segment_interval_ms: int = 0
    expiry: Expiry = "segment"
    scan_order: ScanOrder = "segment"
    retain_duplicates: bool = False
    upgrades_from: str = ""
    in_place_upgrade: bool = False
    downgrade: bool = False
    imports_offsets: bool = False
    forgets_offsets: bool = True
    disposable_files: str = ""
    tasks_share_directory: bool = False


def answers_queries(capabilities: Capabilities) -> bool:
    """Whether queries can read a store while its task runs.

    Only a view shows a store that stages its writes as it was at the last commit.
    """
    return capabilities.read_only_views or not capabilities.transactional
