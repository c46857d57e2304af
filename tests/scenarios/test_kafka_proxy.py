"""Requests that pass a proxy are lost, held up, or cut off, and all others are answered."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from streamproof.errors import UsageError
from streamproof.scenarios.kafka.armed_faults import ArmedFault
from streamproof.scenarios.kafka.cluster_faults import start_proxy
from streamproof.scenarios.kafka.processes import Processes
from streamproof.scenarios.kafka.proxy import Proxy
from streamproof.scenarios.kafka.wire import (
    FETCH,
    Request,
    logs_in,
    markers_in,
    refusal_in,
    request_of,
    without,
)
from streamproof.sim.fault_sites import NO_ANSWER

HEARTBEAT, END_TRANSACTION, WRITE_MARKERS = 12, 26, 27
FENCED = 90

TOLD_S = 60.0
"""The most that anything here may take, in seconds: on a busy machine each step takes long."""

SILENT_S = 0.3
"""Nothing comes for so long on a connection that is silent, in seconds."""


def request(key: int, correlation: int, client: str = "instance-0-StreamThread-1") -> bytes:
    name = client.encode()
    return struct.pack(">hhih", key, 3, correlation, len(name)) + name


def answered(frame: bytes) -> bytes:
    """The answer of a broker that fences every producer."""
    return request_of(frame).correlation.to_bytes(4, "big") + struct.pack(">bih", 0, 0, FENCED)


class Broker:
    """Answers each request, and keeps those that have come."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.seen: list[int] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Refuse connections from now on."""
        with suppress(OSError):
            # Without it, the thread that accepts keeps the port open.
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with closing(connection), connection.makefile("rb") as reader:
            while size := reader.read(4):
                frame = reader.read(int.from_bytes(size, "big"))
                self.seen.append(request_of(frame).key)
                send(connection, answered(frame))


def send(connection: socket.socket, message: bytes) -> None:
    connection.sendall(len(message).to_bytes(4, "big") + message)


class World:
    """A proxy before such a broker."""

    def __init__(self, processes: Processes) -> None:
        self.recording = processes.directory / "recording"
        self.recording.mkdir()
        self.broker = Broker()
        self.port = start_proxy(processes, self.recording, [self.broker.port])[0]

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.settimeout(TOLD_S)
        return connection

    def tell(self, words: str) -> None:
        (self.recording / "new").write_text(words)
        (self.recording / "new").rename(self.recording / "tell-network")
        wait_until((self.recording / "told-network").exists)
        (self.recording / "told-network").unlink()

    def arm(self, **fault: Any) -> None:
        self.tell(f"fault {json.dumps({'number': 7, 'site': '', **fault})}")

    def is_disturbed(self) -> bool:
        return (self.recording / "disturbed").exists()

    def answers(self, connection: socket.socket, key: int) -> bool:
        """Whether a request that the proxy has met is answered."""
        send(connection, request(key, 1))
        wait_until(self.is_disturbed)
        connection.settimeout(SILENT_S)
        try:
            return bool(connection.recv(4096))
        except TimeoutError:
            return False
        finally:
            connection.settimeout(TOLD_S)

    def events(self) -> list[tuple[str, dict[str, Any]]]:
        lines = (self.recording / "network.events").read_text().splitlines()
        found = [json.loads(each) for each in lines]
        return [(each["kind"], each["attributes"]) for each in found if "kind" in each]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TOLD_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def world() -> Iterator[World]:
    with Processes() as processes:
        world = World(processes)
        with closing(world.broker):
            yield world


def ask(connection: socket.socket, key: int, correlation: int) -> int:
    """The number of the answer."""
    send(connection, request(key, correlation))
    return int.from_bytes(connection.recv(4096)[4:8], "big")


def test_requests_pass(world: World) -> None:
    with closing(world.connect()) as connection:
        assert [ask(connection, HEARTBEAT, number) for number in (5, 6)] == [5, 6]

    assert world.events() == []


def test_a_lost_request_is_not_carried_out_and_its_connection_is_silent(world: World) -> None:
    world.arm(site="network.request_lost", what="end transaction")
    with closing(world.connect()) as connection:
        assert ask(connection, HEARTBEAT, 1) == 1
        assert not world.answers(connection, END_TRANSACTION)
        assert not world.answers(connection, HEARTBEAT)
    with closing(world.connect()) as connection:
        assert ask(connection, END_TRANSACTION, 4) == 4
    wait_until(lambda: not world.is_disturbed())

    assert world.events() == [("network.request_lost", {"what": "end transaction"})]
    assert world.broker.seen == [HEARTBEAT, END_TRANSACTION]
    assert (world.recording / "fired-7").exists()


def test_a_lost_reply_was_carried_out(world: World) -> None:
    world.arm(site="network.reply_lost", what="end transaction")
    with closing(world.connect()) as connection:
        assert not world.answers(connection, END_TRANSACTION)

    assert world.events() == [("network.reply_lost", {"what": "end transaction"})]
    assert world.broker.seen == [END_TRANSACTION]


def test_only_the_instance_and_the_pass_that_are_meant_fail(world: World) -> None:
    world.arm(site="network.request_lost", whom="instance-0", what="heartbeat", skip=1)
    with closing(world.connect()) as connection:
        send(connection, request(HEARTBEAT, 1, "instance-1-StreamThread-1"))
        assert connection.recv(4096)[4:8] == (1).to_bytes(4, "big")
    with closing(world.connect()) as connection:
        assert ask(connection, HEARTBEAT, 2) == 2
        assert not world.answers(connection, HEARTBEAT)


def test_a_held_request_arrives_after_its_sender_has_gone(world: World) -> None:
    world.arm(site="network.late", what="end transaction", ms=600)
    with closing(world.connect()) as connection:
        send(connection, request(END_TRANSACTION, 1))
        time.sleep(0.2)
    wait_until(lambda: len(world.events()) > 1)

    assert world.events() == [
        ("network.request_held", {"what": "end transaction", "held_ms": 600}),
        (
            "network.request_late",
            {"sender": "instance-0", "what": "end transaction", "refusal": "ProducerFencedError"},
        ),
    ]


def test_an_instance_that_is_cut_off_is_connected_again(world: World) -> None:
    with closing(world.connect()) as connection:
        assert ask(connection, HEARTBEAT, 1) == 1
        world.tell("cut instance-0")
        assert not world.answers(connection, HEARTBEAT)
        world.tell("heal instance-0")
        assert connection.recv(1) == b""
    with closing(world.connect()) as connection:
        assert ask(connection, HEARTBEAT, 3) == 3

    assert world.events() == [("network.cut", {}), ("network.connected", {})]
    assert world.broker.seen == [HEARTBEAT, HEARTBEAT]


def test_a_broker_that_is_away_closes_the_connection(world: World) -> None:
    world.broker.close()
    with closing(world.connect()) as connection:
        assert connection.recv(1) == b""


def test_a_proxy_that_ends_tells_why() -> None:
    with Processes() as processes, pytest.raises(UsageError, match=r"(?s)come up.*ValueError"):
        start_proxy(processes, processes.directory, ["no port"])  # type: ignore[list-item]


def test_markers_are_counted_by_partition() -> None:
    """Two topics with three partitions in all, as a coordinator of version 1 writes them."""
    topics = b"\x02" + b"\x04out" + b"\x02" + bytes(4) + b"\x00"
    topics = b"\x03" + topics[1:] + b"\x03in" + b"\x03" + bytes(8) + b"\x00"
    marker = bytes(8 + 2 + 1) + topics + bytes(4) + b"\x00"
    frame = struct.pack(">hhih", WRITE_MARKERS, 1, 0, -1) + b"\x00" + b"\x02" + marker + b"\x00"

    assert markers_in(request_of(frame), frame) == 3


@pytest.mark.parametrize(
    ("key", "version", "body", "refusal"),
    [
        (END_TRANSACTION, 4, struct.pack(">ih", 0, 0), ""),
        (END_TRANSACTION, 4, struct.pack(">ih", 0, 48), "InvalidTxnStateError"),
        (0, 11, b"\x02\x04out\x02" + struct.pack(">ih", 0, FENCED), "ProducerFencedError"),
        (0, 13, b"\x02" + bytes(16) + b"\x02" + struct.pack(">ih", 0, 7), "error 7"),
        (HEARTBEAT, 4, struct.pack(">ih", 0, 7), ""),
    ],
)
def test_refusals(key: int, version: int, body: bytes, refusal: str) -> None:
    answer = bytes(4) + b"\x00" + body

    assert refusal_in(Request(key, version, 0, "", 0), answer) == refusal


ORDERS, PRICES = b"o" * 16, b"p" * 16

TABLE = f"{PRICES.hex()}-0"

FETCHES = Request(FETCH, 17, 0, "", 0)


def fetched(orders: bytes, prices: bytes, end: int = 9) -> bytes:
    """An answer with two logs of one topic and one of another, which has an aborted transaction."""

    def log(number: int, records: bytes, aborted: bytes) -> bytes:
        head = struct.pack(">ihqqq", number, 0, end, end, 0)
        size = len(records) + 1
        length = bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])
        return head + aborted + struct.pack(">i", -1) + length + records + b"\x00"

    topics = [
        ORDERS + b"\x03" + log(0, orders, b"\x00") + log(1, b"", b"\x01"),
        PRICES + b"\x02" + log(0, prices, b"\x02" + bytes(16) + b"\x00"),
    ]
    head = bytes(4) + b"\x00" + bytes(4 + 2 + 4) + b"\x03"
    # The end of a topic has a tagged field, as of version 16.
    return head + b"".join(each + b"\x01\x07\x01x" for each in topics) + b"\x00"


@pytest.mark.parametrize("length", [1, 126, 127, 300])
def test_the_logs_of_an_answer(length: int) -> None:
    answer = fetched(b"r" * length, b"")

    names = [f"{ORDERS.hex()}-0", f"{ORDERS.hex()}-1", TABLE]
    assert [(each.name, each.has_records) for each in logs_in(FETCHES, answer)] == [
        (names[0], True),
        (names[1], False),
        (names[2], False),
    ]
    first, second, third = logs_in(FETCHES, answer)
    assert without(answer, [first], ends=False) == fetched(b"", b"")
    assert without(answer, [second, third], ends=False) == answer
    assert without(answer, [first, second, third], ends=True) == fetched(b"", b"", end=-1)


def test_other_answers_have_no_logs() -> None:
    answer = fetched(b"order", b"price")

    assert logs_in(FETCHES._replace(key=HEARTBEAT), answer) == []
    assert logs_in(FETCHES._replace(version=12), answer) == []


@pytest.mark.parametrize(
    ("fault", "answers", "left"),
    [
        # Alone, the records would be asked for again at once: the second answer counts.
        (
            {"whom": TABLE},
            [(b"", b"p"), (b"o", b"p"), (b"", b"p")],
            [(b"", b""), (b"o", b""), (b"", b"p")],
        ),
        # An answer without records is none that lacks them.
        (
            {"whom": TABLE, "left": 2},
            [(b"o", b""), (b"o", b"p"), (b"o", b"p"), (b"o", b"p")],
            [(b"o", b""), (b"o", b""), (b"o", b""), (b"o", b"p")],
        ),
        # The first is left as it is.
        (
            {"whom": TABLE, "skip": 1},
            [(b"o", b"p"), (b"o", b"p"), (b"o", b"p")],
            [(b"o", b"p"), (b"o", b""), (b"o", b"p")],
        ),
        # Any log: all of an answer.
        ({}, [(b"", b""), (b"o", b"p"), (b"o", b"p")], [(b"", b""), (b"", b""), (b"o", b"p")]),
    ],
)
def test_records_are_kept_from_a_reader(
    tmp_path: Path,
    fault: dict[str, Any],
    answers: list[tuple[bytes, bytes]],
    left: list[tuple[bytes, bytes]],
) -> None:
    proxy = Proxy(tmp_path)
    proxy.arm(ArmedFault(7, "broker.empty_fetch", **fault))
    found = [proxy.shortened(FETCHES, fetched(*each)) for each in answers]

    assert found == [fetched(*each) for each in left]
    assert (tmp_path / "fired-7").exists()


def test_the_end_of_a_log_is_kept_from_a_reader(tmp_path: Path) -> None:
    """In each answer, whether it has records or not; the other logs are as they are."""
    proxy = Proxy(tmp_path)
    proxy.arm(ArmedFault(7, "broker.empty_fetch", TABLE, left=2, amount=NO_ANSWER))
    answers = [proxy.shortened(FETCHES, fetched(b"o", each)) for each in (b"", b"p", b"p")]

    ends = struct.pack(">qq", 9, 9)
    hidden = fetched(b"o", b"").rpartition(ends)
    assert answers == [struct.pack(">qq", -1, -1).join(hidden[::2])] * 2 + [fetched(b"o", b"p")]


def test_bytes_that_are_no_request() -> None:
    with pytest.raises(ValueError, match="no header"):
        request_of(b"GET")
