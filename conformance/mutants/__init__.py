"""Deliberately wrong stores: each must be caught by the requirement that it is bound to.

A mutant is a small difference to a correct store, modelled on a mistake that people make, many
of them bugs that Kafka had. They show that the checks can fail.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamproof.conformance.results import Spec

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True)
class Mutant:
    """A wrong store.

    Attributes:
        name: the factory in one of the modules of this package.
        mistake: what is wrong with it.
        requirement: what must catch it.
        spec: the specification in which that requirement stands.
        module: the module of this package.
        right: built-in stores without the mistake, which must keep the requirement.
    """

    name: str
    mistake: str
    requirement: str
    spec: Spec = "kips"
    module: str = "stores"
    right: tuple[str, ...] = ("rocksdb", "rocksdb-transactional")

    @property
    def subject(self) -> str:
        """What names the mutant on the command line."""
        return f"{__name__}.{self.module}:{self.name}"


MUTANTS = (
    Mutant(
        "offsets_flushed_before_data",
        "flush writes the offsets column family to disk before the data",
        "CRASH-003",
    ),
    Mutant(
        "data_flushed_alone",
        "flush writes the data column family to disk, and leaves the offsets in memory",
        "CRASH-004",
    ),
    Mutant(
        "closed_one_by_one",
        "close flushes one column family after the other, as rocksdict does by itself",
        "CRASH-011",
    ),
    Mutant("tombstones_dropped_on_commit", "commit applies staged puts but no deletes", "KV-004"),
    Mutant("range_end_exclusive", "the upper bound of a range is exclusive", "RANGE-003"),
    Mutant("live_iterator", "an open iterator sees later writes", "RANGE-011"),
    Mutant(
        "stale_offset_after_empty_commit",
        "commit({}) leaves the committed offsets as they are",
        "OFFSET-005",
        "kafka-4.4",
    ),
    Mutant("transaction_leaks_on_close", "close leaves open transactions open", "TXN-009"),
    Mutant("put_all_bypasses_transaction", "put_all writes past the transaction", "TXN-008"),
    Mutant("committed_reader_sees_staged", "READ_COMMITTED reads the transaction", "ISO-001"),
    Mutant("commit_row_by_row", "commit applies its rows one at a time", "ISO-007"),
    Mutant("largest_offset_wins", "commit ignores an offset below the last one", "OFFSET-008"),
    Mutant(
        "checkpoint_wins",
        "the offset in a .checkpoint replaces the store's own at every opening",
        "OFFSET-014",
    ),
    Mutant("restore_skips_tombstones", "restoring ignores records without a value", "RESTORE-002"),
    Mutant("empty_value_deletes", "an empty value is taken for a tombstone", "KV-008"),
    Mutant("prefix_end_overflows", "a prefix ending in 0xFF is incremented wrongly", "RANGE-009"),
    Mutant(
        "offsets_among_data", "offsets are kept among the data, and scans show them", "RANGE-014"
    ),
    Mutant("unclean_stop_unnoticed", "no status tells an unclean stop", "CRASH-009"),
)
"""All mutants."""
