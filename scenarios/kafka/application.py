"""Instances of a real application, and the clients that send its input and read its logs.

The applications are the topologies of the simulator, written in Java against Kafka's public API.
Each instance and each client is a JVM among the processes of the world.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from base64 import b64decode, b64encode, urlsafe_b64decode
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from streamproof.errors import UsageError
from streamproof.scenarios.kafka.builds import NATIVE, built_application, recorder_option
from streamproof.scenarios.kafka.cluster import WARNINGS_LOGGED, Broker
from streamproof.scenarios.kafka.existing_cluster import ExistingCluster
from streamproof.scenarios.kafka.processes import Processes, RealProcess
from streamproof.stores.jvm.host_build import NO_SEARCH
from streamproof.stores.jvm.java_tools import CLASSES, java_command, shared_classes
from streamproof.stores.jvm.kafka_jars import APPLICATION, class_path_of

__all__ = [
    "IN_MEMORY",
    "READY",
    "RUNNING_S",
    "RUNS",
    "STATIC_MEMBERS",
    "Application",
    "Clients",
    "RealRecord",
    "await_serving",
    "ids_of_topics",
    "line_of",
]

RUNNING_S = 60.0
"""An instance takes 4 s until it runs, and much longer on a busy machine."""

PROCESS_FILE = "kafka-streams-process-metadata"
"""The file of a state directory with the id of its process (Kafka, StateDirectory)."""

RUNS = "state RUNNING"
"""The line that an instance writes once it runs."""

READY = "ready"
"""The line that an instance writes which waits for a file before it begins."""

CLIENT_S = 60.0
"""The most that a client may take, in seconds. It gives up itself before that."""

POLL_S = 0.03
"""The time between two looks at an instance that is starting, in seconds."""

SMALL = "-Xmx256m"
"""Several JVMs run at a time, and none has much to keep."""

SETTINGS = {
    # A killed instance is missed after this time. The broker allows so little for this.
    "session.timeout.ms": "1500",
    "heartbeat.interval.ms": "300",
    "num.stream.threads": "1",
}
"""The settings of an instance that tests want: all else is as Kafka has it."""

IN_MEMORY = "streamproof.in.memory"
"""The setting of our applications that keeps their stores in memory; Kafka does not know it."""

STATIC_MEMBERS = "streamproof.static.members"
"""The setting that makes instances static members (KIP-345), each with its name as its id."""


class RealRecord(NamedTuple):
    """A record of a real log.

    Attributes:
        offset: where it is.
        key: its key.
        value: its value; ``None`` is a tombstone.
        timestamp: in milliseconds.
    """

    offset: int
    key: bytes
    value: bytes | None
    timestamp: int


Cluster = Broker | ExistingCluster
"""What clients and instances connect to."""


class Clients:
    """Clients that make topics of a broker, send records, and read logs.

    Args:
        processes: what their JVMs belong to.
        broker: the broker.
        release: the release of the clients; by default, that of the broker.

    Raises:
        UsageError: the JDK or Maven is missing.
    """

    def __init__(self, processes: Processes, broker: Cluster, release: str = "") -> None:
        self._processes = processes
        self._broker = broker
        release = release or broker.release
        built = built_application(release)
        jars = [built / "application.jar", *class_path_of(release, built, APPLICATION)]
        native = f"-Djava.library.path={built / NATIVE}"
        self._java = java_command(jars, WARNINGS_LOGGED, SMALL, native)
        self._classes = built / CLASSES
        self._clients = 0

    def serve_senders(
        self,
        topics: Mapping[str, int],
        placed: Mapping[str, Sequence[int]] = MappingProxyType({}),
    ) -> Path:
        """Start a client that creates topics and then sends what it is given.

        Args:
            topics: the topics, each with a number of partitions.
            placed: topics with one partition, each with the numbers of its brokers, the leader
                first.

        Returns:
            The directory for what is to be sent; ``Sender.java`` says what its files have.

        Raises:
            UsageError: the client does not come up.
        """
        directory = self._processes.directory / "sender"
        wanted = [f"{topic}\t{number}" for topic, number in topics.items()]
        wanted += [f"{each}\t1\t{','.join(map(str, on))}" for each, on in placed.items()]
        process = self._serve("serve", directory, *wanted)
        await_serving(directory, process)
        return directory

    def serve_worlds(self) -> tuple[Path, RealProcess]:
        """Start a client that does the same for one world after the other.

        Returns:
            The directory for the directories of the worlds, which ``Worlds.java`` describes; and
            the process of the client.

        Raises:
            UsageError: the client does not come up.
        """
        directory = self._processes.directory / "worlds"
        watched = ["watched"] if isinstance(self._broker, ExistingCluster) else []
        process = self._serve("serve-worlds", directory, *watched)
        await_serving(directory, process)
        return directory, process

    def _serve(self, command: str, directory: Path, *arguments: str) -> RealProcess:
        directory.mkdir()
        words = [*self._java, "streamproof.application.Clients", self._broker.address]
        return self._processes.start("sender", [*words, command, str(directory), *arguments])

    def create(self, topics: Mapping[str, int]) -> None:
        """Create topics, each with a number of partitions."""
        self._run_client("create", [f"{topic}\t{number}" for topic, number in topics.items()])

    def send(self, topic: str, partition: int, records: Iterable[RealRecord]) -> None:
        """Send records to a partition; their offsets do not count."""
        self._run_client("send", [line_of(topic, partition, each) for each in records])

    def read(self, topics: Sequence[str], *, committed: bool = True) -> dict[str, list[RealRecord]]:
        """The records of each partition of some topics now, in order.

        Args:
            topics: their names.
            committed: whether records of open and aborted transactions are left out.
        """
        isolation = "read_committed" if committed else "read_uncommitted"
        found: dict[str, list[RealRecord]] = {}
        for line in self._run_client("read", [], isolation, *topics):
            partition, offset, timestamp, key, value = line.split("\t")
            record = RealRecord(int(offset), _decoded(key) or b"", _decoded(value), int(timestamp))
            found.setdefault(partition, []).append(record)
        return found

    def _run_client(self, command: str, lines: Sequence[str], *arguments: str) -> list[str]:
        """Run a client with a file of lines; the lines that the file has afterwards."""
        self._clients += 1
        name = f"client-{self._clients}-{command}"
        file = self._processes.directory / name
        file.write_text("".join(f"{each}\n" for each in lines), "utf-8")
        words = [*self._java, "streamproof.application.Clients", self._broker.address]
        process = self._processes.start(name, [*words, command, str(file), *arguments])
        if process.wait(CLIENT_S) != 0:
            said = process.told()
            process.kill()
            raise UsageError(f"A client of the cluster failed ({command}). {said}")
        return file.read_text("utf-8").splitlines()


class Application(Clients):
    """An application on one broker, with the clients that it needs.

    Args:
        processes: what its JVMs belong to.
        broker: the broker.
        topology: the name of the topology, which is also the application id.
        recording: the directory where its instances are recorded; by default, they are not.
        prefix: what its id and the names of all its topics begin with.
        release: the release of its instances and clients; by default, that of the broker.

    Raises:
        UsageError: the JDK or Maven is missing.
    """

    def __init__(
        self,
        processes: Processes,
        broker: Cluster,
        topology: str,
        recording: Path | None = None,
        prefix: str = "",
        *,
        release: str = "",
    ) -> None:
        super().__init__(processes, broker, release)
        self._topology = topology
        self._recording = recording
        self._prefix = prefix
        # All releases of the application count their processes together.
        self._starts = count(1)

    def of(self, release: str) -> Application:
        """The same application, whose instances have another release."""
        other = Application(
            self._processes,
            self._broker,
            self._topology,
            self._recording,
            self._prefix,
            release=release,
        )
        other._starts = self._starts
        return other

    def start(self, name: str, settings: Mapping[str, str]) -> RealProcess:
        """Start an instance, and wait until it runs.

        Args:
            name: the instance, as ``instance-0``; its state directory outlives its processes.
            settings: settings of Kafka Streams besides ours, or instead of ours.

        Raises:
            UsageError: it never runs; the message has the last lines of its log.
        """
        process = self.begin(name, settings)
        self._await_running(name, process)
        return process

    def _await_running(self, name: str, process: RealProcess) -> None:
        deadline = time.monotonic() + RUNNING_S
        while process.is_running and time.monotonic() < deadline:
            lines = process.log.splitlines()
            if RUNS in lines:
                return
            if "state ERROR" in lines:
                break
            time.sleep(POLL_S)
        said = process.told()
        process.kill()
        raise UsageError(f"{name} of the application {self._topology} never runs. {said}")

    def begin(
        self,
        name: str,
        settings: Mapping[str, str],
        given: Sequence[str] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
        go: Path | None = None,
    ) -> RealProcess:
        """Start an instance; it runs once its log has a line ``RUNS``.

        Args:
            name: the instance, as ``instance-0``; its state directory outlives its processes.
            settings: settings of Kafka Streams besides ours, or instead of ours.
            given: options of the JVM instead of the archive of classes.
            environment: variables besides those of this process.
            go: a file that the instance waits for, once its log has a line ``READY``, before it
                goes near its state directory or the brokers; by default, it does not wait.
        """
        directory = self._processes.directory
        own = {
            "application.id": f"{self._prefix}{self._topology}",
            # The proxy knows by it who has sent a request.
            "client.id": name,
            "bootstrap.servers": self._broker.address_of_instances,
            "state.dir": str(self.state_of(name)),
        }
        if STATIC_MEMBERS in settings:
            own["group.instance.id"] = name
        start = f"{name}-start-{next(self._starts)}"
        properties = directory / f"{start}.properties"
        lines = [f"{key}={value}\n" for key, value in {**SETTINGS, **own, **settings}.items()]
        properties.write_text("".join(lines), "utf-8")
        options = [recorder_option(self._recording, name)] if self._recording else []
        options += given or shared_classes(self._classes.parent)
        options += [f"-Dstreamproof.topics={self._prefix}"] if self._prefix else []
        options += [f"-D{IN_MEMORY}=true"] if IN_MEMORY in settings else []
        words = [self._java[0], *options, *self._java[1:], "streamproof.application.Application"]
        return self._processes.start(
            start,
            [*words, self._topology, str(properties), *([str(go)] if go else [])],
            environment={**NO_SEARCH, **environment},
        )

    def state_of(self, name: str) -> Path:
        """The state directory of an instance.

        The id of its process is in it, one that sorts like its name: the group breaks ties by these
        ids.
        """
        state = self._processes.directory / f"{name}-state"
        file = state / f"{self._prefix}{self._topology}" / PROCESS_FILE
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            identity = UUID(bytes=name.encode()[-16:].rjust(16, b"\0"))
            file.write_text(json.dumps({"processId": str(identity)}), "utf-8")
        return state

    def archive_classes(self) -> None:
        """Let an instance write the classes that it has loaded, so that later ones start faster.

        Its topics have to be there. Without the archive, an instance starts all the same.
        """
        if self._classes.exists():
            return
        made = self._processes.directory / CLASSES
        process = self.begin("archive", {}, [f"-XX:ArchiveClassesAtExit={made}"])
        self._await_running("archive", process)
        process.stop()
        if made.is_file():
            # Others may read the archive meanwhile.
            unfinished = self._classes.with_name(f"{CLASSES}-{os.getpid()}")
            shutil.copy(made, unfinished)
            unfinished.rename(self._classes)


def ids_of_topics(sender: Path) -> dict[str, bytes]:
    """The ids of the topics that the client that sends records has created.

    Args:
        sender: its directory.
    """
    words = [each.split("\t") for each in (sender / "ids").read_text("utf-8").splitlines()]
    return {topic: urlsafe_b64decode(f"{given}==") for topic, given in words}


def await_serving(directory: Path, process: RealProcess) -> None:
    """Wait until a client sends what a directory has.

    Args:
        directory: the directory.
        process: the client.

    Raises:
        UsageError: the client fails, or takes too long.
    """
    deadline = time.monotonic() + CLIENT_S
    while not (directory / "serving").exists():
        if not process.is_running or time.monotonic() > deadline:
            raise UsageError(f"The client that sends records fails. {process.told()}")
        time.sleep(POLL_S)


def line_of(topic: str, partition: int, record: RealRecord) -> str:
    """A record as a client takes it."""
    words = [topic, partition, record.timestamp, _encoded(record.key), _encoded(record.value)]
    return "\t".join(map(str, words))


def _encoded(value: bytes | None) -> str:
    return "-" if value is None else b64encode(value).decode()


def _decoded(text: str) -> bytes | None:
    return None if text == "-" else b64decode(text)
