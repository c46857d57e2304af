"""Stores that mix partitions, or stores of one task; see the table in the package."""

from __future__ import annotations

from collections.abc import Mapping

from streamproof.stores.api import Position, TopicPartition
from streamproof.stores.rocksdb import RocksDBStore

NAME = "store"

Offsets = Mapping[TopicPartition, int | None]


# Partitions.


class offsets_are_replaced_by_prefix(RocksDBStore):
    """Removes the old offset of a partition with all rows that begin with its name."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self._seen: set[TopicPartition] = set()

    def commit(self, changelog_offsets: Offsets) -> None:
        names = tuple(map(str, changelog_offsets))
        gone = {each for each in self._seen if str(each).startswith(names)}
        self._seen.update(changelog_offsets)
        super().commit(dict.fromkeys(gone) | dict(changelog_offsets))


class dots_are_underscores(RocksDBStore):
    """Names the row of an offset like a metric, in which dots are underscores."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def commit(self, changelog_offsets: Offsets) -> None:
        super().commit({_flat(each): offset for each, offset in changelog_offsets.items()})

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return super().committed_offset(_flat(partition))


def _flat(partition: TopicPartition) -> TopicPartition:
    return partition._replace(topic=partition.topic.replace(".", "_"))


class positions_of_four_bytes(RocksDBStore):
    """Stores the offsets of a position in four bytes."""

    def __init__(self) -> None:
        super().__init__(NAME)

    def commit(self, changelog_offsets: Offsets) -> None:
        offsets = self._position.as_dict()
        self._position = Position({each: offset % 2**32 for each, offset in offsets.items()})
        super().commit(changelog_offsets)


class positions_by_joined_names(RocksDBStore):
    """Keeps the position of a record under its topic and number without a separator."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self._joined: dict[str, TopicPartition] = {}

    def _record_position(self) -> None:
        context = self._context
        if context is not None and context.record_metadata is not None:
            topic, partition, offset = context.record_metadata
            own = TopicPartition(topic, partition)
            first = self._joined.setdefault(f"{topic}{partition}", own)
            self._position.update(*first, offset)
