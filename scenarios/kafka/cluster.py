"""A cluster of one or two real brokers on this machine, or a cluster that is there already.

A broker needs a formatted directory, and takes long to load its classes. Both are prepared once
for each release, in the user's cache: each start copies the directory, and maps the archive of
classes into memory.
"""

from __future__ import annotations

import re
import shutil
import socket
import struct
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from streamproof.errors import UsageError
from streamproof.scenarios.kafka.builds import recorder_option
from streamproof.scenarios.kafka.processes import Processes, RealProcess
from streamproof.stores.jvm.cached_builds import built_once
from streamproof.stores.jvm.java_tools import (
    CLASSES,
    java_command,
    require_java,
    shared_classes,
)
from streamproof.stores.jvm.kafka_jars import BROKER, class_path_of, require_release

__all__ = [
    "COORDINATORS",
    "ROLES",
    "TWO_BROKERS",
    "WARNINGS_LOGGED",
    "Broker",
    "coordinator_of",
    "free_ports",
    "require_cluster",
    "start_again",
    "start_broker",
    "start_second",
]

LOOPBACK = "127.0.0.1"

WARNINGS_LOGGED = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
"""The option for a log that tells what went wrong, and nothing else."""

COMING_UP_S = 120.0
"""A broker takes 2 s to come up, and much longer on a busy machine."""

ANSWER_S = 5.0
"""The most that a broker may take to accept a connection and to answer a request, in seconds."""

POLL_S = 0.03
"""The time between two questions to a broker that is coming up, in seconds."""

MAIN = "kafka.Kafka"

IDENTITY = "meta.properties"
"""The file with the ids of a directory and of its cluster (Kafka, MetaPropertiesEnsemble)."""

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    # There is one broker.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # The first group and the first transaction wait until all partitions have loaded.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # Nobody starts an instance a moment too late here.
    "group.initial.rebalance.delay.ms": "0",
    # So that an instance may have a short session: a kill is noticed when the session ends.
    "group.min.session.timeout.ms": "500",
    # The times of records are those of a scenario, which begins at 0: no record is too old.
    "log.retention.ms": "-1",
    # A misspelled topic is a mistake, and not a new topic.
    "auto.create.topics.enable": "false",
}
"""The settings of a broker that tests want: all else is as Kafka has it."""


TWO_BROKERS = {
    # All logs are on both. So the first one has all of them, which is recorded.
    "default.replication.factor": "2",
    # The controller misses a broker that was killed after this time.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
}
"""The settings of the first of two brokers besides those of a single one."""

COORDINATORS: Mapping[str, Sequence[int]] = {
    "__consumer_offsets": (2, 1),
    "__transaction_state": (2, 1),
}
"""The topics of the coordinators, each with the numbers of its brokers. The first of these leads,
and has the coordinator."""

ROLES: Mapping[str, int] = {"groups": 0, "transactions": 1}
"""What is coordinated, each with its number in Kafka's protocol (``FindCoordinator``)."""


class Broker(NamedTuple):
    """A broker that was started here.

    Attributes:
        address: where clients reach it, as ``127.0.0.1:9092``.
        release: its release of Kafka.
        process: the JVM.
        command: what has started it.
        address_of_instances: where instances reach it, if that is not the same.
        controller: the port of the controller of its cluster.
    """

    address: str
    release: str
    process: RealProcess
    command: Sequence[str]
    address_of_instances: str
    controller: int


def start_broker(
    processes: Processes,
    release: str,
    *,
    port: int | None = None,
    settings: Mapping[str, str] | None = None,
    coming_up_s: float = COMING_UP_S,
    recording: Path | None = None,
    proxied: Mapping[str, tuple[int, int]] | None = None,
) -> Broker:
    """Start a broker, and wait until it serves clients.

    Args:
        processes: what it belongs to; it ends with them.
        release: the release of Kafka, as ``4.3.1``.
        port: where it listens; by default, where nobody does.
        settings: settings of the broker besides ours, or instead of ours.
        coming_up_s: how long to wait for it, in seconds.
        recording: the directory where its logs are recorded; by default, they are not.
        proxied: more listeners, ``INSTANCES`` for instances and ``BROKERS`` for the broker itself:
            the port where it listens, and that of a proxy, which it names to its clients.

    Raises:
        UsageError: Java or Maven is missing, the port is in use, or the broker does not come up;
            the message has the last lines of its log.
    """
    require_release(release)
    require_java()
    prepared = _prepared(release)
    options = [recorder_option(recording)] if recording else []
    command = _java(release, prepared, *shared_classes(prepared), *options)
    broker = _started(
        processes, prepared, command, release=release, port=port, settings=settings, proxied=proxied
    )
    _await(broker, coming_up_s)
    return broker


def start_second(processes: Processes, first: Broker) -> Broker:
    """Start another broker in the cluster of one with the settings ``TWO_BROKERS``.

    The first one has the controller. Topics as in ``COORDINATORS`` put the coordinators on the
    second one.

    Args:
        processes: what it belongs to.
        first: the other broker.

    Raises:
        UsageError: it does not come up; the message has the last lines of its log.
    """
    prepared = _prepared(first.release)
    data, properties = processes.directory / "broker-2", processes.directory / "broker-2.properties"
    data.mkdir()
    cluster = re.search(r"(?m)^cluster\.id=.*", _identity(processes.directory / "broker"))
    lines = ["version=1", "node.id=2", f"directory.id={_new_id()}", cluster[0] if cluster else ""]
    (data / IDENTITY).write_text("".join(f"{each}\n" for each in lines), "utf-8")
    port, _ = free_ports()
    own = {"process.roles": "broker", "node.id": "2", "listeners": _joined({"PLAINTEXT": port})}
    _write(properties, data, port, first.controller, {**TWO_BROKERS, **own})
    words = [*_java(first.release, prepared, *shared_classes(prepared)), MAIN, str(properties)]
    process, address = processes.start("broker-2", words), f"{LOOPBACK}:{port}"
    second = Broker(address, first.release, process, words, address, first.controller)
    _await(second, COMING_UP_S, brokers=2)
    return second


def _started(
    processes: Processes,
    prepared: Path,
    command: Sequence[str],
    *,
    release: str,
    port: int | None = None,
    settings: Mapping[str, str] | None = None,
    proxied: Mapping[str, tuple[int, int]] | None = None,
) -> Broker:
    """A broker that is starting with a copy of the formatted directory."""
    port, controller = free_ports(port)
    data, properties = processes.directory / "broker", processes.directory / "broker.properties"
    shutil.copytree(prepared / "data", data)
    _name_cluster(data)
    _write(
        properties,
        data,
        port,
        controller,
        {**_listeners(port, controller, proxied or {}), **(settings or {})},
    )
    words = [*command, MAIN, str(properties)]
    address = f"{LOOPBACK}:{port}"
    instances = f"{LOOPBACK}:{proxied['INSTANCES'][1]}" if proxied else address
    process = processes.start("broker-0", words)
    return Broker(address, release, process, words, instances, controller)


def start_again(processes: Processes, second: Broker) -> Broker:
    """Start a second broker that was killed on its directory and port, without waiting for it."""
    return second._replace(process=processes.start("broker-2-again", second.command))


def _is_ready(address: str, brokers: int = 1) -> bool:
    """Whether a broker serves clients at an address, and knows that so many brokers are ready."""
    try:
        return _brokers_of(address) >= brokers
    except OSError:
        # It does not listen yet.
        return False


def _listeners(
    port: int, controller: int, proxied: Mapping[str, tuple[int, int]]
) -> dict[str, str]:
    """The settings for more listeners than one."""
    if not proxied:
        return {}
    names = ["PLAINTEXT", "CONTROLLER", *proxied]
    listened = {"PLAINTEXT": port, **{name: ports[0] for name, ports in proxied.items()}}
    named = {"PLAINTEXT": port, **{name: ports[1] for name, ports in proxied.items()}}
    return {
        "listeners": _joined({**listened, "CONTROLLER": controller}),
        "advertised.listeners": _joined(named),
        "listener.security.protocol.map": ",".join(f"{each}:PLAINTEXT" for each in names),
        # The coordinator of transactions writes its markers this way.
        "inter.broker.listener.name": "BROKERS",
    }


def _joined(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in ports.items())


def require_cluster(address: str) -> None:
    """Raise UsageError unless a cluster serves clients at an address, as ``127.0.0.1:9092``."""
    if not re.fullmatch(r"\S+:\d{1,5}", address):
        raise UsageError(
            f"{address!r} is no address of a cluster. Give a host and a port, as in "
            f"{LOOPBACK}:9092."
        )
    try:
        if _brokers_of(address):
            return
        reason = "it has no broker that is ready"
    except OSError as error:
        reason = str(error)
    raise UsageError(f"No cluster of Kafka serves clients at {address}: {reason}.")


def _prepared(release: str) -> Path:
    """The directory with what every broker of a release needs."""

    def make(building: Path) -> None:
        class_path_of(release, building, BROKER)
        _format(release, building)
        _archive_classes(release, building)

    depends_on = [require_java(), *BROKER, *map("=".join, SETTINGS.items())]
    return built_once(f"kafka-{release}-broker", depends_on, make)


def _java(release: str, prepared: Path, *options: str) -> list[str]:
    """The beginning of a command up to the main class."""
    jars = class_path_of(release, prepared, BROKER)
    return java_command(jars, WARNINGS_LOGGED, *options)


def _format(release: str, building: Path) -> None:
    """Format a directory. It knows nothing of ports, so each broker can have a copy."""
    properties = building / "format.properties"
    _write(properties, building / "data", 9092, 9093, {})
    words = [*_java(release, building), "kafka.tools.StorageTool", "format"]
    words += ["--cluster-id", _new_id(), "--config", str(properties)]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=COMING_UP_S, cwd=building
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise UsageError(
            f"The directory of a broker of Kafka {release} cannot be formatted: "
            f"{said[-1] if said else 'the tool did not say why'}"
        )


def _archive_classes(release: str, building: Path) -> None:
    """Let a broker write the classes that it has loaded. Without them it starts in 5 s, not 2 s."""
    command = _java(release, building, f"-XX:ArchiveClassesAtExit={building / CLASSES}")
    with Processes() as processes:
        broker = _started(processes, building, command, release=release)
        _await(broker, COMING_UP_S)
        broker.process.stop()


def _write(path: Path, data: Path, port: int, controller: int, settings: Mapping[str, str]) -> None:
    """Write the settings of a broker into a file."""
    own = {
        "log.dirs": str(data),
        "listeners": _joined({"PLAINTEXT": port, "CONTROLLER": controller}),
        "advertised.listeners": _joined({"PLAINTEXT": port}),
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
    }
    lines = [f"{name}={value}\n" for name, value in {**SETTINGS, **own, **settings}.items()]
    path.write_text("".join(lines), "utf-8")


def _new_id() -> str:
    """A new id, as Kafka writes it."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _name_cluster(data: Path) -> None:
    """Give a copied directory a cluster of its own: clients of another world must not fit."""
    text = re.sub(r"(?m)^cluster\.id=.*", f"cluster.id={_new_id()}", _identity(data))
    (data / IDENTITY).write_text(text, "utf-8")


def _identity(data: Path) -> str:
    """What the directory of a broker says about whose it is."""
    return (data / IDENTITY).read_text("utf-8")


def free_ports(wanted: int | None = None) -> tuple[int, int]:
    """Two ports of the loopback address that nobody listens on; the first may be given."""
    with closing(socket.socket()) as first, closing(socket.socket()) as second:
        # A port is free again at once after a broker that had clients.
        first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            first.bind((LOOPBACK, wanted or 0))
        except (OSError, OverflowError) as error:
            raise UsageError(
                f"The broker cannot listen on port {wanted} of {LOOPBACK} ({error}). Give another "
                "port, or none."
            ) from error
        second.bind((LOOPBACK, 0))
        return first.getsockname()[1], second.getsockname()[1]


def _await(broker: Broker, patience_s: float, brokers: int = 1) -> None:
    """Wait until a broker serves clients; UsageError if it ends, or is not ready after so long."""
    deadline = time.monotonic() + patience_s
    while broker.process.is_running and time.monotonic() < deadline:
        if _is_ready(broker.address, brokers):
            return
        time.sleep(POLL_S)
    how = f"is not ready after {patience_s:g} s" if broker.process.is_running else "ended"
    raise UsageError(
        f"The broker of Kafka {broker.release} did not come up: it {how}. {broker.process.told()}"
    )


def _brokers_of(address: str) -> int:
    """How many brokers are ready, as one of them answers.

    It asks for the metadata of no topic (API key 3, version 1, of Kafka's protocol guide). A
    broker that has not joined its cluster yet answers, too, and is not in the answer.
    """
    # The body: an empty array.
    answer = _answer(address, 3, struct.pack(">i", 0))
    return int(struct.unpack_from(">i", answer)[0])


def coordinator_of(address: str, role: str) -> int:
    """The number of the broker that coordinates all that is of a role, as a broker answers.

    This is -1 while there is none. (API key 10, version 1, of Kafka's protocol guide.)

    Args:
        address: the broker that is asked.
        role: one of ``ROLES``.

    Raises:
        OSError: the broker does not answer.
    """
    name = b"any"
    body = struct.pack(">h", len(name)) + name + struct.pack(">b", ROLES[role])
    # How long the client is throttled, an error, and its message.
    answer = _answer(address, 10, body)
    error, length = struct.unpack_from(">hh", answer, 4)
    return -1 if error else int(struct.unpack_from(">i", answer, 8 + max(length, 0))[0])


def _answer(address: str, key: int, body: bytes) -> bytes:
    """The body of the answer of a broker to a request in its version 1.

    Raises:
        OSError: the broker does not answer.
    """
    host, _, port = address.rpartition(":")
    with closing(socket.create_connection((host.strip("[]"), int(port)), ANSWER_S)) as connection:
        # The header: key, version, correlation id, no client id.
        request = struct.pack(">hhih", key, 1, 1, -1) + body
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answer:
            head = answer.read(8)
            size, correlation = struct.unpack(">ii", head) if len(head) == 8 else (0, 1)
            if correlation != 1:
                raise ConnectionError("its answer is not one of Kafka")
            # The correlation id is a part of the size.
            text = answer.read(size - 4) if size > 4 else b""
    if not text or len(text) < size - 4:
        raise ConnectionError("it closed the connection")
    return text
