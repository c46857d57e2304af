"""A proxy between instances and a broker, which loses, holds up and shortens single messages.

It is a process of its own: ``python -m streamproof.scenarios.kafka.proxy RECORDING TARGET...``
listens once for each target, a port of the loopback address, and writes its own ports into the file
``proxy`` of the recording. Who has sent a request follows from the client id, which begins with the
name of the instance.

A connection carries its answers in the order of the requests. So after a request that is lost, no
later one of the same connection is answered either: the client waits until its time is up, and
connects again, as after a loss in a real network.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from streamproof.scenarios.kafka.armed_faults import DISTURBED, EMPTY_FETCH, NETWORK, ArmedFault
from streamproof.scenarios.kafka.recording import SUFFIX
from streamproof.scenarios.kafka.wire import (
    WRITE_MARKERS,
    FetchedLog,
    Request,
    logs_in,
    markers_in,
    refusal_in,
    request_of,
    without,
)
from streamproof.sim.fault_sites import NO_ANSWER

__all__ = ["Proxy"]

ADDRESS = "127.0.0.1"

POLL_S = 0.002
"""The time between two looks for commands, in seconds."""

SIZE = 4
"""The bytes of the size of a message."""

BROKERS = "brokers"
"""Who sends requests that no instance sends."""


@dataclass
class Sent:
    """A request that was read.

    Attributes:
        request: what it is.
        frame: its bytes.
        host: who has sent it.
        fault: what becomes of it.
        is_late: whether it was held up for longer than its sender waited.
    """

    request: Request
    frame: bytes
    host: str
    fault: ArmedFault | None = None
    is_late: bool = False


@dataclass
class Proxy:
    """What all connections share.

    Attributes:
        recording: where it records what happens, and takes commands.
    """

    recording: Path
    _faults: list[ArmedFault] = field(default_factory=list)
    _cut: set[str] = field(default_factory=set)
    _connections: set[Connection] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._file = self.recording / f"{NETWORK}{SUFFIX}"
        self._write({"about": "driver"})

    async def serve(self, targets: list[int]) -> None:
        """Listen once for each target, and carry out commands, for ever."""
        ports = []
        for target in targets:
            server = await asyncio.start_server(self._acceptor(target), ADDRESS, 0)
            ports.append(server.sockets[0].getsockname()[1])
        _publish(self.recording / "proxy", " ".join(map(str, ports)))
        wanted = self.recording / f"tell-{NETWORK}"
        while True:
            if wanted.exists():
                words = wanted.read_text("utf-8")
                wanted.unlink()
                self._carry_out(*words.split(" ", 1))
                _publish(self.recording / f"told-{NETWORK}", "")
            _show(self.recording / DISTURBED, any(each.is_disturbed for each in self._connections))
            await asyncio.sleep(POLL_S)

    def _acceptor(self, target: int) -> Callable[..., Awaitable[None]]:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                upstream = await asyncio.open_connection(ADDRESS, target)
            except OSError:
                # The broker is down. The client tries again.
                writer.close()
                return
            connection = Connection(self, (reader, writer), upstream)
            self._connections.add(connection)
            try:
                await connection.run()
            finally:
                self._connections.discard(connection)

        return accept

    def _carry_out(self, command: str, argument: str) -> None:
        match command:
            case "cut":
                self._cut.add(argument)
                self.tell("network.cut", argument)
            case "heal":
                self._cut.discard(argument)
                self.tell("network.connected", argument)
                for each in [each for each in self._connections if each.host == argument]:
                    each.end_if_silent()
            case "fault":
                self.arm(msgspec.json.decode(argument, type=ArmedFault))

    def arm(self, fault: ArmedFault) -> None:
        """Let a fault wait for its requests or answers."""
        self._faults.append(fault)

    def is_cut(self, host: str) -> bool:
        """Whether an instance is cut off from the brokers."""
        return host in self._cut

    def fault_of(self, sent: Sent) -> ArmedFault | None:
        """The fault that a request meets."""
        passes = 1
        if sent.request.key == WRITE_MARKERS:
            passes = markers_in(sent.request, sent.frame)
        for each in self._faults:
            is_of_markers = each.site == "broker.marker_delayed"
            if (
                each.left <= 0
                or each.site == EMPTY_FETCH
                or is_of_markers != (sent.request.key == WRITE_MARKERS)
            ):
                continue
            is_meant = is_of_markers or (each.what or sent.request.what) == sent.request.what != ""
            if not is_meant or each.whom not in ("", sent.host):
                continue
            if self._fires(each, passes):
                return each
        return None

    def shortened(self, request: Request, answer: bytes) -> bytes:
        """An answer without what a fault takes away from it."""
        for fault in self._faults:
            if fault.site == EMPTY_FETCH and fault.left > 0:
                answer = self._shortened(fault, logs_in(request, answer), answer)
        return answer

    def _shortened(self, fault: ArmedFault, logs: list[FetchedLog], answer: bytes) -> bytes:
        """An answer without what one fault takes away.

        A reader that gets nothing asks again at once. So the records of a log are kept from the
        reader until an answer has those of another log, which the reader goes on with.
        """
        mine = [each for each in logs if fault.whom in ("", each.name)]
        if fault.amount == NO_ANSWER:
            is_hit = bool(mine) and self._fires(fault)
            return without(answer, mine, ends=True) if is_hit else answer
        others = any(each.has_records for each in logs if each not in mine)
        mine = [each for each in mine if each.has_records]
        is_hit = not fault.skip
        if mine and (others or not fault.whom):
            is_hit = self._fires(fault)
        return without(answer, mine, ends=False) if is_hit else answer

    def _fires(self, fault: ArmedFault, passes: int = 1) -> bool:
        """Whether a fault happens at one of some passes."""
        if fault.skip >= passes:
            fault.skip -= passes
            return False
        fault.skip = 0
        fault.left -= 1
        (self.recording / f"fired-{fault.number}").touch()
        return True

    def tell(self, kind: str, actor: str, **attributes: Any) -> None:
        """Record an event."""
        self._write({"actor": actor, "kind": kind, "attributes": attributes})

    def _write(self, line: dict[str, Any]) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps({'at': time.monotonic_ns(), **line})}\n")


class Connection:
    """One connection of a client, and the one to the broker that belongs to it.

    Args:
        proxy: the proxy.
        client: reads from the client and writes to it.
        broker: reads from the broker and writes to it.

    Attributes:
        host: who has made it; empty before its first request.
    """

    def __init__(
        self,
        proxy: Proxy,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        broker: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.host = ""
        self._proxy = proxy
        self._from_client, self._to_client = client
        self._from_broker, self._to_broker = broker
        self._requests: asyncio.Queue[Sent | None] = asyncio.Queue()
        self._waiting: deque[Sent] = deque()
        self._nobody_waits = asyncio.Event()
        self._nobody_waits.set()
        # Whether the client has closed it, and whether nothing passes any more.
        self._is_given_up = False
        self._is_silent = False
        self._is_held = False

    @property
    def is_disturbed(self) -> bool:
        """Whether nothing passes although its client waits, or a request is held up."""
        return (self._is_silent and not self._is_given_up) or self._is_held

    async def run(self) -> None:
        """Carry requests and answers until both sides have closed."""
        reading = asyncio.create_task(self._read())
        answering = asyncio.create_task(self._answer())
        try:
            await self._ask()
            # The broker still answers what has come late.
            await self._nobody_waits.wait()
        except (OSError, ValueError):
            # The broker is gone, or this is not Kafka's protocol.
            pass
        finally:
            for each in (reading, answering):
                each.cancel()
            self._to_broker.close()
            self._to_client.close()

    def end_if_silent(self) -> None:
        """Close a connection on which nothing passes, so that its client makes another one."""
        if self._is_silent:
            self._to_client.close()
            self._to_broker.close()

    async def _read(self) -> None:
        async for frame in _frames(self._from_client):
            request = request_of(frame)
            self.host = _host_of(request)
            await self._requests.put(Sent(request, frame, self.host))
        self._is_given_up = True
        await self._requests.put(None)

    async def _ask(self) -> None:
        while (sent := await self._requests.get()) is not None:
            self._is_silent |= self._proxy.is_cut(sent.host)
            if self._is_silent:
                continue
            sent.fault = self._proxy.fault_of(sent)
            await self._meet(sent, sent.fault)
            if not self._is_silent:
                self._waiting.append(sent)
                self._nobody_waits.clear()
                self._to_broker.write(_framed(sent.frame))
                await self._to_broker.drain()

    async def _meet(self, sent: Sent, fault: ArmedFault | None) -> None:
        """Let a request meet its fault before it is carried out."""
        what = sent.request.what
        if fault is None:
            return
        if fault.site == "network.request_lost":
            self._proxy.tell(fault.site, sent.host, what=what)
            self._is_silent = True
        elif fault.ms:
            if fault.site == "network.late":
                self._proxy.tell("network.request_held", sent.host, what=what, held_ms=fault.ms)
            self._is_held = True
            await asyncio.sleep(fault.ms / 1000)
            self._is_held = False
            sent.is_late = fault.site == "network.late" and self._is_given_up

    async def _answer(self) -> None:
        async for frame in _frames(self._from_broker):
            sent = self._waiting[0]
            if sent.is_late:
                refusal = refusal_in(sent.request, frame)
                attributes = {"sender": sent.host, "what": sent.request.what, "refusal": refusal}
                self._proxy.tell("network.request_late", BROKERS, **attributes)
            if sent.fault is not None and sent.fault.site == "network.reply_lost":
                self._proxy.tell(sent.fault.site, sent.host, what=sent.request.what)
                self._is_silent = True
            self._waiting.popleft()
            if not self._waiting:
                self._nobody_waits.set()
            if not (self._is_silent or self._proxy.is_cut(sent.host) or self._is_given_up):
                left = self._proxy.shortened(sent.request, frame)
                self._to_client.write(_framed(left))
                await self._to_client.drain()
        # The broker has closed the connection.
        self._to_client.close()
        self._nobody_waits.set()


def _host_of(request: Request) -> str:
    """The instance that has sent a request: clients of Kafka Streams add words to its name."""
    words = request.client.split("-")
    return "-".join(words[:2]) if words[0] == "instance" else BROKERS


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The messages that come, without their sizes, until the connection is closed."""
    with suppress(asyncio.IncompleteReadError, OSError):
        while True:
            size = int.from_bytes(await reader.readexactly(SIZE), "big")
            yield await reader.readexactly(size)


def _framed(message: bytes) -> bytes:
    return len(message).to_bytes(SIZE, "big") + message


def _show(path: Path, is_so: bool) -> None:
    """Make a file that tells that something is so, or delete it."""
    if is_so:
        path.touch()
    else:
        path.unlink(missing_ok=True)


def _publish(path: Path, text: str) -> None:
    """Write a file that nobody sees half."""
    unfinished = path.with_name(f"new-{path.name}")
    unfinished.write_text(text, "utf-8")
    unfinished.rename(path)


if __name__ == "__main__":
    asyncio.run(Proxy(Path(sys.argv[1])).serve([int(each) for each in sys.argv[2:]]))
