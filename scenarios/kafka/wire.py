"""As much of Kafka's protocol as a proxy needs: what a request is, and what an answer has.

Source: the protocol guide of Kafka, and the definitions of its messages (``*Request.json``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

__all__ = [
    "FETCH",
    "WRITE_MARKERS",
    "FetchedLog",
    "Request",
    "logs_in",
    "markers_in",
    "refusal_in",
    "request_of",
    "without",
]

NAMES = {
    0: "produce",
    1: "fetch",
    2: "list offsets",
    8: "commit offsets",
    9: "fetch offsets",
    11: "join group",
    12: "heartbeat",
    13: "leave group",
    14: "sync group",
    21: "delete records",
    22: "init producer",
    24: "add partitions",
    26: "end transaction",
    # Before version 2 of transactions, another request names the group first (25).
    28: "add offsets",
}
"""The requests of the application, by API key, as the simulator names them."""

PRODUCE, FETCH, END_TRANSACTION, WRITE_MARKERS = 0, 1, 26, 27

FLEXIBLE = {PRODUCE: 9, FETCH: 12, END_TRANSACTION: 3, WRITE_MARKERS: 1}
"""The first version of a message whose lengths have a variable size and which has tagged fields."""

ERRORS = {
    22: "IllegalGenerationError",
    47: "ProducerFencedError",
    48: "InvalidTxnStateError",
    90: "ProducerFencedError",
}
"""The refusals of brokers, by error code, as the simulator names them."""

TOPIC_IDS = 13
"""The version of ``Produce`` and ``Fetch`` from which on a topic has an id and no name."""

UNKNOWN_END = struct.pack(">qq", -1, -1)
"""A high watermark and a last stable offset that are not known."""


class Request(NamedTuple):
    """A request on its way to a broker.

    Attributes:
        key: which kind of request it is, its API key.
        version: the version of its message.
        correlation: its number; the answer has the same one.
        client: the id of the client that has sent it.
        body: where its body begins.
    """

    key: int
    version: int
    correlation: int
    client: str
    body: int

    @property
    def what(self) -> str:
        """Its name; empty for requests that nobody speaks of."""
        return NAMES.get(self.key, "")


def request_of(frame: bytes) -> Request:
    """The header of a request, given without its size.

    Raises:
        ValueError: the bytes are no request of Kafka.
    """
    try:
        key, version, correlation, length = struct.unpack_from(">hhih", frame)
    except struct.error as error:
        raise ValueError("no header of a request") from error
    body = 10 + max(length, 0)
    client = frame[10:body].decode("utf-8", "replace")
    # An empty section of tagged fields.
    body += version >= FLEXIBLE.get(key, version + 1)
    return Request(key, version, correlation, client, body)


def markers_in(request: Request, frame: bytes) -> int:
    """How many partitions a request of a coordinator writes markers to."""
    reader = _Reader(frame, request.body)
    found = 0
    for _ in range(reader.length()):
        # The producer, its epoch, and whether it commits.
        reader.skip(8 + 2 + 1)
        for _ in range(reader.length()):
            reader.skip(reader.length())
            partitions = reader.length()
            reader.skip(4 * partitions)
            reader.tags()
            found += partitions
        # The epoch of the coordinator and, from version 2 on, the version of the transaction.
        reader.skip(4 + (request.version >= 2))
        reader.tags()
    return found


def refusal_in(request: Request, answer: bytes) -> str:
    """Why the brokers refuse a request that ends a transaction or has records; empty if not.

    Other requests, and versions from before Kafka 3, are not looked into.
    """
    if request.version < FLEXIBLE.get(request.key, request.version + 1):
        return ""
    reader = _Reader(answer, 4)
    reader.tags()
    if request.key == END_TRANSACTION:
        # How long the client is throttled.
        reader.skip(4)
    elif request.key == PRODUCE:
        reader.length()
        reader.skip(16 if request.version >= TOPIC_IDS else reader.length())
        reader.length()
        # The number of the first partition.
        reader.skip(4)
    code = reader.int16()
    return ERRORS.get(code, f"error {code}") if code else ""


class FetchedLog(NamedTuple):
    """What an answer to a fetch has of a log.

    Attributes:
        name: the id of the topic in hexadecimal digits, a hyphen, and the number of the partition.
        has_records: whether there are records.
        ends: where its high watermark and its last stable offset are.
        records: where its records begin, with their size.
        after: where what follows them begins.
    """

    name: str
    has_records: bool
    ends: int
    records: int
    after: int


def logs_in(request: Request, answer: bytes) -> list[FetchedLog]:
    """What an answer has of each log, if it is one to a fetch; before topics had ids, nothing.

    Args:
        request: the request.
        answer: the answer to it, without its size.
    """
    if request.key != FETCH or request.version < TOPIC_IDS:
        return []
    found: list[FetchedLog] = []
    reader = _Reader(answer, 4)
    reader.tags()
    # How long the client is throttled, an error, and the session.
    reader.skip(4 + 2 + 4)
    for _ in range(reader.length()):
        topic = reader.bytes(16).hex()
        found += [_log(reader, topic) for _ in range(reader.length())]
        reader.tags()
    return found


def _log(reader: _Reader, topic: str) -> FetchedLog:
    number = int.from_bytes(reader.bytes(4), "big")
    # An error.
    reader.skip(2)
    ends = reader.at
    # The high watermark, the last stable offset, and the start of the log.
    reader.skip(8 + 8 + 8)
    for _ in range(reader.length()):
        # An aborted transaction.
        reader.skip(8 + 8)
        reader.tags()
    # The replica that the broker would rather have asked.
    reader.skip(4)
    records = reader.at
    size = reader.length()
    reader.skip(size)
    after = reader.at
    reader.tags()
    return FetchedLog(f"{topic}-{number}", size > 0, ends, records, after)


def without(answer: bytes, logs: Iterable[FetchedLog], *, ends: bool) -> bytes:
    """An answer to a fetch without the records of some logs.

    Args:
        answer: the answer, without its size.
        logs: these logs, in the order of the answer.
        ends: whether their ends are left out, too.
    """
    left, done = bytearray(), 0
    for each in logs:
        if ends:
            left += answer[done : each.ends] + UNKNOWN_END
            done = each.ends + len(UNKNOWN_END)
        # Bytes of length 0.
        left += answer[done : each.records] + b"\x01"
        done = each.after
    return bytes(left + answer[done:])


class _Reader:
    """Reads fields of a message from a place on.

    Attributes:
        at: the place of the next field.
    """

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at

    def skip(self, count: int) -> None:
        self.at += count

    def bytes(self, count: int) -> bytes:
        self.skip(count)
        return self._data[self.at - count : self.at]

    def int16(self) -> int:
        self.skip(2)
        return int(struct.unpack_from(">h", self._data, self.at - 2)[0])

    def length(self) -> int:
        """The length of a text or of a list, which is written with one added."""
        return max(self._varint() - 1, 0)

    def tags(self) -> None:
        """Leave out tagged fields."""
        for _ in range(self._varint()):
            self._varint()
            self.skip(self._varint())

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
