"""Requests that pass a proxy are lost, held up, or cut off, and all others are answered."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest

from streamproof.errors import UsageError
from streamproof.scenarios.kafka.cluster_faults import start_proxy
from streamproof.scenarios.kafka.processes import Processes
from streamproof.scenarios.kafka.wire import Request, markers_in, refusal_in, request_of

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


def test_bytes_that_are_no_request() -> None:
    with pytest.raises(ValueError, match="no header"):
        request_of(b"GET")
