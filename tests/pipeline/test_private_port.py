"""A port that was made private: its one connection works, and nobody else gets in."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from streamproof.reports.pipeline import private_port as module
from streamproof.reports.pipeline.private_port import private_port

PATIENCE_S = 0.5


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(30)
        yield listening


def echo(server: socket.socket) -> None:
    """Answer the first connection with what it says, until it has said all."""
    connection, _ = server.accept()
    with connection:
        while told := connection.recv(1 << 16):
            connection.sendall(told)


def port_of(server: socket.socket) -> int:
    port: int = server.getsockname()[1]
    return port


@pytest.fixture
def way_in(server: socket.socket, tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "socket"
    with private_port(port_of(server), path):
        yield str(path)


def test_the_socket_leads_to_the_server(server: socket.socket, way_in: str) -> None:
    Thread(target=echo, args=(server,), daemon=True).start()
    said = bytes(range(256)) * 20_000
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(30)
        caller.connect(way_in)
        writing = Thread(target=lambda: (caller.sendall(said), caller.shutdown(socket.SHUT_WR)))
        writing.start()
        heard = b"".join(iter(lambda: caller.recv(1 << 16), b""))
        writing.join()
    assert heard == said


@pytest.mark.usefixtures("way_in")
@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"])
def test_nobody_else_can_connect(address: str, server: socket.socket) -> None:
    """Not even from the port of the one that may, which is free at other addresses."""
    admitted, (_, port) = server.accept()
    server.settimeout(PATIENCE_S)
    with admitted, socket.socket() as stranger:
        stranger.settimeout(PATIENCE_S)
        stranger.bind((address, 0 if address == "127.0.0.1" else port))
        with pytest.raises(TimeoutError):
            stranger.connect(server.getsockname())
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_second_caller_of_the_socket_is_refused(server: socket.socket, way_in: str) -> None:
    Thread(target=echo, args=(server,), daemon=True).start()
    with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
        first.settimeout(30)
        first.connect(way_in)
        first.sendall(b"first")
        assert first.recv(5) == b"first"
        with pytest.raises(OSError, match="refused"):
            second.connect(way_in)


@pytest.mark.parametrize("calls", [False, True])
def test_the_end_of_the_block_ends_the_connection(
    calls: bool, server: socket.socket, tmp_path: Path
) -> None:
    """The server waits for that; nobody may have called, or the caller may still be there."""
    with socket.socket(socket.AF_UNIX) as caller, private_port(port_of(server), tmp_path / "way"):
        admitted, _ = server.accept()
        if calls:
            caller.connect(str(tmp_path / "way"))
    with admitted:
        admitted.settimeout(30)
        assert admitted.recv(1) == b""


def private(port: int, tmp_path: Path) -> None:
    with private_port(port, tmp_path / "way"):
        pass


def test_who_connected_sooner_is_found(server: socket.socket, tmp_path: Path) -> None:
    port = port_of(server)
    with (
        socket.create_connection(server.getsockname()),
        pytest.raises(OSError, match=f"another process connected to port {port} before"),
    ):
        private(port, tmp_path)


def test_a_connection_of_an_earlier_owner_of_the_port_does_not_count(tmp_path: Path) -> None:
    """It stays listed for a while if its server ended it."""
    with socket.create_server(("127.0.0.1", 0)) as earlier:
        port = port_of(earlier)
        with socket.create_connection(earlier.getsockname()) as client:
            earlier.accept()[0].close()
            assert client.recv(1) == b""
    with socket.create_server(("127.0.0.1", port)) as server, private_port(port, tmp_path / "way"):
        server.accept()[0].close()


def test_a_kernel_that_does_not_filter_is_found(
    server: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_admit_only", lambda *_: None)
    with pytest.raises(OSError, match="this kernel does not filter"):
        private(port_of(server), tmp_path)


def test_a_port_of_another_process_is_left_alone(server: socket.socket, tmp_path: Path) -> None:
    port = port_of(server)
    server.close()
    with pytest.raises(OSError, match=f"this process does not listen at port {port}"):
        private(port, tmp_path)
