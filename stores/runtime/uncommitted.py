"""How much may await a commit before the runtime commits early.

Source: KIP-892, "RocksDB Transactions"; Kafka 4.4, KafkaStreams#maxUncommittedBytesPerThread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from streamproof.stores.api import StateStore
from streamproof.stores.errors import InvalidArgumentError

__all__ = [
    "UNCOMMITTED_MAX_BYTES",
    "UNCOMMITTED_MAX_BYTES_CONFIG",
    "UNCOMMITTED_MAX_RECORDS",
    "UNCOMMITTED_MAX_RECORDS_CONFIG",
    "UncommittedLimits",
]

UNCOMMITTED_MAX_BYTES_CONFIG = "statestore.uncommitted.max.bytes"
"""The key in ``app_configs`` for the largest number of uncommitted bytes."""

UNCOMMITTED_MAX_RECORDS_CONFIG = "statestore.uncommitted.max.records"
"""The key in ``app_configs`` for the largest number of uncommitted records; proposed only."""

UNCOMMITTED_MAX_BYTES = 64 * 1024 * 1024
"""64 MiB: the default as shipped in Kafka 4.4. The proposal here names no default."""

UNCOMMITTED_MAX_RECORDS = -1
"""Off: records were proposed in KIP-892, and are not counted in what was shipped."""


@dataclass(frozen=True, slots=True)
class UncommittedLimits:
    """How much may await a commit, all stores together; 0 or less turns a limit off.

    The proposal bounds each thread. As shipped, the limit is that of the whole instance, and its
    threads share it equally (``per_thread``).

    Attributes:
        max_bytes: the largest number of bytes; 64 MiB by default.
        max_records: the largest number of records; off (-1) by default.

    Source: KIP-892; Kafka 4.4, StreamsConfig.
    """

    max_bytes: int = UNCOMMITTED_MAX_BYTES
    max_records: int = UNCOMMITTED_MAX_RECORDS

    @classmethod
    def from_configs(cls, configs: Mapping[str, Any]) -> Self:
        """The limits that ``app_configs`` set, with the defaults for those that it does not."""
        return cls(
            int(configs.get(UNCOMMITTED_MAX_BYTES_CONFIG, UNCOMMITTED_MAX_BYTES)),
            int(configs.get(UNCOMMITTED_MAX_RECORDS_CONFIG, UNCOMMITTED_MAX_RECORDS)),
        )

    def per_thread(self, threads: int) -> UncommittedLimits:
        """What each of ``threads`` gets; a global thread counts as one.

        A share is at least 1: a limit that is too small to be split must not be off.

        Raises:
            InvalidArgumentError: there is no thread.
        """
        if threads < 1:
            raise InvalidArgumentError(f"A limit cannot be split among {threads} threads.")
        return UncommittedLimits(_share(self.max_bytes, threads), _share(self.max_records, threads))

    def exceeded_by(self, stores: Iterable[StateStore]) -> bool:
        """Whether the stores together exceed a limit, so that their task has to commit.

        A store that does not know how much is uncommitted (-1) does not count, and one without
        transactions has nothing uncommitted.
        """
        counted = list(stores)
        return _exceeds(
            self.max_bytes, (each.approximate_num_uncommitted_bytes for each in counted)
        ) or _exceeds(
            self.max_records, (each.approximate_num_uncommitted_entries for each in counted)
        )


def _share(limit: int, threads: int) -> int:
    return limit if limit <= 0 else max(limit // threads, 1)


def _exceeds(limit: int, numbers: Iterable[Callable[[], int]]) -> bool:
    return limit > 0 and sum(max(number(), 0) for number in numbers) > limit
