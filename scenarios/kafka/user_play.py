"""Runs an application of a user's own on a real broker, with faults at chosen moments.

The recorder comes into the application through ``JAVA_TOOL_OPTIONS``, which every JVM reads. So the
application is started by its own command, and knows nothing of the recorder.
"""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from streamproof.errors import UsageError
from streamproof.patience import Patience
from streamproof.scenarios.kafka.application import Clients, RealRecord
from streamproof.scenarios.kafka.application_file import (
    BOOTSTRAP,
    INSTANCE,
    PAGE,
    STATE,
    ApplicationFile,
)
from streamproof.scenarios.kafka.builds import recorder_option
from streamproof.scenarios.kafka.cluster import Broker, start_broker
from streamproof.scenarios.kafka.followed_lines import Rest
from streamproof.scenarios.kafka.nemesis import Health, RealNemesis
from streamproof.scenarios.kafka.processes import SHOWN_LINES, Processes, RealProcess
from streamproof.scenarios.kafka.real_director import RealDirector, write_holds
from streamproof.scenarios.kafka.recording import SUFFIX, Recorded, read_recording
from streamproof.scenarios.scenario import AnyAction, Record, Send
from streamproof.sim.trace import Event

__all__ = [
    "CHANGELOG",
    "ApplicationRest",
    "NotRunningError",
    "Played",
    "build",
    "instance_names",
    "play_application",
]

CHANGELOG = "-changelog"
"""How the name of a changelog ends."""

REPARTITION = "-repartition"
"""How the name of a topic ends that the application reads again."""

OPTIONS = "JAVA_TOOL_OPTIONS"
"""The variable with options for every JVM."""

FAST_START = ("-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
"""Options that save half of the time of a short run; those of a command outweigh them."""

STATES = (b'"state":"RUNNING"', b'"state":"ERROR"')
"""What the recorder writes of the states of Kafka Streams that matter here."""

BUILD_S = 600.0
"""A first build downloads what it needs, in seconds."""

WAVES = 8
"""The input is sent in so many parts, so that faults come between them."""

WAVE_MS = 300
"""The time between two parts, in milliseconds."""

QUIET_S = 1.5
"""Nothing is written to any log for so long before an application rests, in seconds."""

MOST_RESTS = 5
"""An application that does something may take so many times as long as one that is silent."""

NEVER_S = 2.0
"""A moment that has not come once the application has rested for so long never comes."""


class NotRunningError(UsageError):
    """An instance cannot be started, or does not begin to run: the application is to blame.

    Any other error of a run, such as a broker that does not start, is one of the environment.
    """


class Played(NamedTuple):
    """A run of an application.

    Attributes:
        recorded: what the recorder saw.
        logs: the committed records of the outputs and changelogs, by partition.
        wrong: what went wrong with its processes, in words.
        undone: the numbers of the actions whose moment did not come.
        has_come_to_rest: whether it has processed all its input in the end.
        behind: the input that it has not processed, in words.
        errors: the last errors that its processes wrote, each with the name of the instance.
    """

    recorded: Recorded
    logs: Mapping[str, Sequence[RealRecord]]
    wrong: Sequence[str]
    undone: frozenset[int]
    has_come_to_rest: bool
    behind: str
    errors: Sequence[str]


def instance_names(file: ApplicationFile) -> list[str]:
    """The names of the instances of an application."""
    return [f"instance-{number}" for number in range(file.application.instances)]


def build(file: ApplicationFile) -> None:
    """Run the command that builds an application, if there is one.

    Raises:
        UsageError: it fails; the message has what it wrote last.
    """
    command = file.application.build
    if not command:
        return
    try:
        done = subprocess.run(
            command,
            cwd=file.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=BUILD_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{file.path.name}: the build does not end well: {error}.") from error
    if done.returncode:
        last = "\n".join(f"  {each}" for each in done.stdout.splitlines()[-SHOWN_LINES:])
        raise UsageError(
            f"{file.path.name}: the build fails with exit code {done.returncode}. It wrote last:\n"
            f"{last}"
        )


def play_application(
    file: ApplicationFile,
    records: Sequence[tuple[str, Record]],
    faults: Sequence[AnyAction],
    place: Path,
) -> Played:
    """Run an application once: start it, send its input, let faults happen, and read its logs.

    Args:
        file: the application.
        records: its input, with the topic of each record.
        faults: what is to go wrong; the first actions of the timeline.
        place: a directory for the files of the processes.

    Raises:
        NotRunningError: the application does not begin to run; the message has the last lines of
            its log.
        UsageError: Java or Maven is missing, or the broker does not start.
    """
    timeline = [*faults, *_sends(records)]
    with Processes(place) as processes:
        recording = processes.directory / "recording"
        recording.mkdir()
        write_holds(timeline, recording)
        broker = start_broker(processes, file.application.kafka, recording=recording)
        clients = Clients(processes, broker)
        sender = clients.serve_senders(file.topics)
        instances = _Instances(processes, broker, file, recording)
        nemesis = RealNemesis(instances, recording, instance_names(file))
        rest = ApplicationRest(file)
        director = RealDirector(
            timeline,
            nemesis,
            recording,
            sender,
            file.topics,
            rest=rest,
            never_s=NEVER_S,
            rest_s=file.application.rests_s,
            most_s=MOST_RESTS * file.application.rests_s,
        )
        director.run()
        recorded = read_recording(recording)
        _require_claim(file, recorded)
        topics = [each.topic for each in file.outputs]
        logs = clients.read([*topics, *_changelogs(recorded)])
        errors = instances.errors()
    undone = frozenset(each for each in director.undone if each < len(faults))
    rested, behind = director.has_come_to_rest, rest.behind()
    return Played(recorded, logs, director.wrong, undone, rested, behind, errors)


def _sends(records: Sequence[tuple[str, Record]]) -> Iterable[Send]:
    """The input in parts, each of which is sent at its time."""
    size = max(1, math.ceil(len(records) / WAVES))
    for number, first in enumerate(range(0, len(records), size)):
        part = records[first : first + size]
        for topic in dict.fromkeys(topic for topic, _ in part):
            mine = [record for name, record in part if name == topic]
            yield Send(at=number * WAVE_MS, topic=topic, records=mine)


def _changelogs(recorded: Recorded) -> list[str]:
    """The changelogs of an application."""
    started = recorded.events[0]
    topics = started.attributes["partitions"]
    return [
        each for each in topics if each.startswith(f"{started.actor}-") and each.endswith(CHANGELOG)
    ]


def _require_claim(file: ApplicationFile, recorded: Recorded) -> None:
    """Raise UsageError if the application runs under another guarantee than it claims."""
    if recorded.events[0].attributes["exactly_once"] == file.exactly_once:
        return
    set_to = "at_least_once" if file.exactly_once else "exactly_once_v2"
    raise UsageError(
        f"{file.path.name} claims {file.application.guarantee}, but the application sets "
        f"processing.guarantee to {set_to}. Change one of them."
    )


class _Instances:
    """The instances of an application of a user's own.

    Args:
        processes: what they belong to.
        broker: their broker.
        file: the application.
        recording: the directory for their recordings.
    """

    # An instance that takes too long is an error.
    starting_s = math.inf
    # Nobody but the application knows how to start it and what it does then.
    is_ready = True

    def __init__(
        self, processes: Processes, broker: Broker, file: ApplicationFile, recording: Path
    ) -> None:
        self._processes = processes
        self._broker = broker
        self._file = file
        self._recording = recording
        self._started: list[tuple[str, RealProcess]] = []
        # By process id: since when it must begin to run, and how long that may take; how much of
        # its recording is read; how it is.
        self._begun: dict[int, tuple[float, Patience]] = {}
        self._read: dict[int, int] = {}
        self._health: dict[int, Health] = {}

    def begin(self, name: str) -> RealProcess:
        """Start an instance, without waiting for it.

        Raises:
            NotRunningError: its command cannot be started.
        """
        application = self._file.application
        state = self._processes.directory / f"{name}-state"
        state.mkdir(exist_ok=True)
        places = {BOOTSTRAP: self._broker.address, STATE: str(state), INSTANCE: name}

        def filled(text: str) -> str:
            for place, value in places.items():
                text = text.replace(place, value)
            return text

        environment = {each: filled(value) for each, value in application.environment.items()}
        before = environment.get(OPTIONS, os.environ.get(OPTIONS, ""))
        ours = [*FAST_START, recorder_option(self._recording, name)]
        environment[OPTIONS] = " ".join([before, *ours]).strip()
        try:
            process = self._processes.start(
                f"{name}-start-{len(self._started) + 1}",
                [filled(each) for each in application.command],
                where=self._file.directory,
                environment=environment,
            )
        except OSError as error:
            raise NotRunningError(
                f"{self._file.path.name}: the command {application.command[0]!r} cannot be "
                f"started: {error.strerror}."
            ) from error
        self._started.append((name, process))
        self._begun[process.pid] = (time.monotonic(), Patience(application.starts_s))
        return process

    def health(self, name: str, process: RealProcess) -> Health:
        """How a process of an instance is, by what the recorder saw of Kafka Streams.

        Raises:
            NotRunningError: it does not begin to run in time.
        """
        health = self._health.get(process.pid, "starting")
        for path in self._recording.glob(f"{process.pid}-*{SUFFIX}"):
            with path.open("rb") as file:
                file.seek(self._read.get(process.pid, 0))
                lines, end, _ = file.read().rpartition(b"\n")
            self._read[process.pid] = self._read.get(process.pid, 0) + len(lines) + len(end)
            running, error = (lines.rfind(each) for each in STATES)
            if max(running, error) >= 0:
                health = "up" if running > error else "failed"
        self._health[process.pid] = health
        begun, patience = self._begun[process.pid]
        age_s = time.monotonic() - begun
        if health == "starting" and patience.is_over(age_s, lambda: [process.pid]):
            raise NotRunningError(self._why_late(name, process))
        return health

    def errors(self) -> list[str]:
        """The last errors that the processes of the instances wrote, each with its instance."""
        return [f"{name}: {each}" for name, process in self._started for each in process.errors()]

    def _why_late(self, name: str, process: RealProcess) -> str:
        begun = any(self._recording.glob(f"{process.pid}-*{SUFFIX}"))
        hint = ""
        if not begun:
            hint = (
                " The process that the command starts is no JVM: let a script start Java by exec, "
                f"as {PAGE} says."
            )
        return (
            f"{name} does not reach the state RUNNING in "
            f"{self._file.application.starts_s:g} s.{hint} {process.told()}"
        )


class ApplicationRest(Rest):
    """Whether an application of a user's own has processed and committed all its input.

    Args:
        file: the application.
    """

    def __init__(self, file: ApplicationFile) -> None:
        super().__init__({})
        self._inputs = {each.topic for each in file.inputs if not each.global_table}
        # By group and partition, the committed offset.
        self._groups: dict[tuple[str, str], int] = {}
        # A task that was revoked is nobody's until the next rebalance, and still has to run.
        self._known: set[str] = set()
        self._written = time.monotonic()

    def see(self, event: Event) -> None:
        """Take an event in."""
        if event.kind == "log.appended":
            self._written = time.monotonic()
        if event.kind == "offsets.committed":
            group = event.attributes["group"]
            for partition, offset in event.attributes["offsets"].items():
                self._groups[group, partition] = offset
            return
        if event.kind == "thread.assigned":
            self._known.update(event.attributes["active"], event.attributes["standby"])
        super().see(event)

    def is_reached(self, up: Iterable[str]) -> bool:
        """Whether all tasks run in these processes, nothing is left to commit, and all is quiet."""
        running = {task for task, process in self._running.items() if process in set(up)}
        return (
            len(set(self._generations.values())) == 1
            and bool(self._known)
            and self._known <= running
            and not self.behind()
            and time.monotonic() > self._written + QUIET_S
        )

    def behind(self) -> str:
        """The input that is not committed, in words; empty if all is.

        A consumer of the application itself has to come to the end, too, once it has committed.
        """
        read = dict(self._groups)
        for partition in self._records.keys() - {each for _, each in read}:
            topic = partition.rpartition("-")[0]
            if topic in self._inputs or topic.endswith(REPARTITION):
                read["nobody", partition] = 0
        for (group, partition), committed in sorted(read.items()):
            end = self._records.get(partition, 0)
            if committed < end:
                return f"{partition} is committed by {group} up to offset {committed} of {end}"
        return ""
