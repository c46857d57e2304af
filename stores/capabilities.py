"""What a store declares about itself, so that a suite knows what to hold it to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Capabilities", "Durability", "IteratorView"]

Durability = Literal["flush", "process", "power"]
"""What a returned ``commit`` survives.

``flush``: nothing until a flush or a clean close (RocksDB without its write-ahead log).
``process``: the death of the process. ``power``: the loss of power as well.
"""

IteratorView = Literal["snapshot", "weak"]
"""Whether an open iterator sees later writes: never (``snapshot``), or possibly (``weak``)."""


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
