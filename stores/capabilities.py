"""What a store declares about itself, so that a suite knows what to hold it to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "Capabilities",
    "ClosedIterator",
    "Durability",
    "Expiry",
    "IteratorView",
    "Kind",
    "ScanOrder",
]

Kind = Literal["key-value", "window", "session"]
"""Which interface a store has."""

Durability = Literal["flush", "process", "power"]
"""What a returned ``commit`` survives.

``flush``: nothing until a flush or a clean close (RocksDB without its write-ahead log).
``process``: the death of the process. ``power``: the loss of power as well.
"""

IteratorView = Literal["snapshot", "weak"]
"""Whether an open iterator sees later writes: never (``snapshot``), or possibly (``weak``)."""

ClosedIterator = Literal["raises", "ends"]
"""What an open iterator does once its store is closed; Kafka's windows end, its others raise."""

Expiry = Literal["record", "segment"]
"""What decides that a put comes too late: its own time, or that of its segment.

With ``segment`` a put is dropped if its whole segment is older than the retention; what is kept
although it is itself too old cannot be read. Kafka: in memory by record, RocksDB by segment.
"""

ScanOrder = Literal["time", "segment"]
"""In which order a scan over several keys yields windows or sessions.

``time``: by window start (or session end), then by key. ``segment``: by segment, then by
key, then by time. Kafka: in memory by time, RocksDB by segment.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The promises that a store makes beyond the plain key-value methods.

    A store carries it as the attribute ``capabilities`` (on the store, its class or its
    factory). A claim is tested, and an over-claim is a failure; what is not
    claimed is reported as *unsupported*, never as passed.

    Attributes:
        persistent: the content outlives the process (KIP-1035, ``StateStore#persistent``).
        manages_offsets: changelog offsets given to ``commit`` are stored with the data
            and come back from ``committed_offset`` (KIP-1035, ``StateStore#managesOffsets``).
        transactional: writes are staged until ``commit``; after a crash the content is
            exactly that of one commit (KIP-892).
        explicit_transactions: ``new_transaction()`` gives independent transactions (KIP-892).
        read_only_views: ``read_only(isolation_level)`` gives views for interactive queries.
        several_partitions: ``commit`` may name several changelog partitions, as the runtime
            does for a global store.
        scan: ``all()`` iterates over every entry.
        ranges: ``range()`` is there, and scans are in unsigned byte order of the key.
        reverse: ``reverse_range()`` and ``reverse_all()`` are there.
        prefix_scan: ``prefix_scan()`` is there.
        entry_count: ``approximate_num_entries()`` is there.
        durability: what a returned ``commit`` survives.
        iterator_view: whether an open iterator may see later writes.
        closed_iterator: what an open iterator does once its store is closed.
        kind: which interface the store has.
        timestamped: the store keeps the timestamp of each record, and has the methods of KIP-258
            that end in ``with_timestamp``.
        position: ``position`` follows the input records, and is committed with the offsets
            (KIP-796, KIP-1035).
        metrics: the store registers its metrics with ``context.metrics`` (KIP-1035).
        change_logging: the store sends its writes to ``context.changelog``.
        retention_ms: how long windows and sessions are kept, in milliseconds.
        window_size_ms: the size of the windows, in milliseconds.
        segment_interval_ms: the length of a segment of time, in milliseconds; 0 without segments.
        expiry: what decides that a put comes too late.
        scan_order: the order of a scan over several keys of windows or sessions.
        retain_duplicates: every put into a window is kept, rather than the last one.
        upgrades_from: the subject that writes the older format of this store's files, as a
            command line names it; empty if there is none.
        in_place_upgrade: an upgrade can be prepared: with ``upgrade.from`` and ``upgrade.mode``
            ``in_place``, the older format is live, and ``rebuild(partition, records)`` fills the
            new one beside it; ``rebuilt_offset`` and ``prepared`` say how far it is (KIP-258).
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
