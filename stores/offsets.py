"""The encoding of the rows of the ``offsets`` column family, byte for byte that of Kafka 4.3.

The row ``topic-partition`` has a changelog offset, the row ``status`` says whether the store is
open, and the row ``position`` has the input offsets that the committed content reflects.

Source: Kafka, AbstractColumnFamilyAccessor and PositionSerde.
"""

from __future__ import annotations

import struct

from streamproof.stores.api import Position, TopicPartition
from streamproof.stores.errors import ProcessorStateError

__all__ = [
    "POSITION_KEY",
    "STATUS_CLOSED",
    "STATUS_KEY",
    "STATUS_OPEN",
    "decode_long",
    "decode_partition",
    "decode_position",
    "encode_long",
    "encode_partition",
    "encode_position",
]

_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
_PARTITION_OFFSET = struct.Struct(">iq")
_POSITION_VERSION = b"\x00"

STATUS_KEY = b"status"
POSITION_KEY = b"position"
STATUS_OPEN = _LONG.pack(1)
STATUS_CLOSED = _LONG.pack(0)


def encode_partition(partition: TopicPartition) -> bytes:
    """The key of the offset of ``partition``. Its dash keeps it apart from all other keys."""
    return str(TopicPartition(*partition)).encode()


def decode_partition(raw: bytes) -> TopicPartition:
    """The partition that ``encode_partition`` turned into a key."""
    topic, dash, number = raw.decode(errors="replace").rpartition("-")
    if not dash or not number.isdecimal():
        raise ProcessorStateError(
            f"The stored offset has the key {raw!r} instead of 'topic-partition', so the offsets "
            "column family is damaged. Wipe the store's directory and restore from the changelog."
        )
    return TopicPartition(topic, int(number))


def encode_long(value: int) -> bytes:
    """A signed 64-bit number, big-endian."""
    return _LONG.pack(value)


def decode_long(raw: bytes) -> int:
    """The number that ``encode_long`` packed."""
    try:
        return int(_LONG.unpack(raw)[0])
    except struct.error as error:
        raise ProcessorStateError(
            f"A stored offset is {len(raw)} bytes long instead of 8, so the offsets column family "
            "is damaged. Wipe the store's directory and restore from the changelog."
        ) from error


def encode_position(position: Position) -> bytes:
    """A version byte, then topics, each with its partitions and offsets, in sorted order."""
    topics: dict[str, list[tuple[int, int]]] = {}
    for (topic, partition), offset in sorted(position.as_dict().items()):
        topics.setdefault(topic, []).append((partition, offset))
    parts = [_POSITION_VERSION, _INT.pack(len(topics))]
    for topic, offsets in topics.items():
        name = topic.encode()
        parts += [_INT.pack(len(name)), name, _INT.pack(len(offsets))]
        parts += [_PARTITION_OFFSET.pack(*entry) for entry in offsets]
    return b"".join(parts)


def decode_position(raw: bytes) -> Position:
    """The position that ``encode_position`` packed."""
    try:
        return _decode_position(raw)
    except (struct.error, UnicodeDecodeError) as error:
        raise ProcessorStateError(
            f"The stored position cannot be decoded ({error}): the offsets column family is "
            "damaged. Wipe the store's directory and restore from the changelog."
        ) from error


def _decode_position(raw: bytes) -> Position:
    if raw[:1] != _POSITION_VERSION:
        raise ProcessorStateError(
            f"The stored position has the unknown version {raw[:1]!r}, so a newer streamproof "
            "wrote it. Use that one, or wipe the store's directory and restore."
        )
    position = Position()
    at = 1
    (topic_count,) = _INT.unpack_from(raw, at)
    at += _INT.size
    for _ in range(topic_count):
        (length,) = _INT.unpack_from(raw, at)
        at += _INT.size
        topic = raw[at : at + length].decode()
        (partition_count,) = _INT.unpack_from(raw, at + length)
        at += length + _INT.size
        for _ in range(partition_count):
            position.update(topic, *_PARTITION_OFFSET.unpack_from(raw, at))
            at += _PARTITION_OFFSET.size
    return position
