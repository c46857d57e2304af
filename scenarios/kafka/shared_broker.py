"""One broker for many worlds, which saves each of them the start of a broker and of a client.

Each world has an application id and topics of its own: a prefix before all names. In its
recording the prefix is gone, so its events name what the topologies name. The broker writes one
recording for all worlds; each world takes its own part of that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from secrets import token_hex
from threading import Event
from types import TracebackType
from typing import NamedTuple, Self

from streamproof.errors import UsageError
from streamproof.scenarios.kafka.application import Application, Cluster, await_serving
from streamproof.scenarios.kafka.cluster import require_cluster, start_broker
from streamproof.scenarios.kafka.existing_cluster import ExistingCluster, await_deleted
from streamproof.scenarios.kafka.followed_lines import Followed, FollowedLine
from streamproof.scenarios.kafka.nemesis import ConfiguredInstances, RealNemesis
from streamproof.scenarios.kafka.processes import Processes
from streamproof.scenarios.kafka.real_director import RealDirector, write_holds
from streamproof.scenarios.kafka.real_play import judged_play, judgement_of
from streamproof.scenarios.kafka.real_settings import (
    SESSION,
    disks_of,
    has_other_releases,
    rest_of,
    restarts_of,
    settings_of,
    topics_of,
    why_not,
    why_not_shared,
    why_not_watched,
)
from streamproof.scenarios.kafka.recording import SUFFIX, Recorded, read_recording
from streamproof.scenarios.play import Judged
from streamproof.scenarios.scenario import Scenario, Setup
from streamproof.sim.invariants.judging import Judgement
from streamproof.sim.topologies import TOPOLOGIES

__all__ = ["RealRun", "Share", "SharedBroker", "play_on"]

SETTINGS = {
    # A killed instance leaves a transaction open, and nobody waits 10 s until the broker looks.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
    # The topics of earlier worlds go at once.
    "file.delete.delay.ms": "1000",
}
"""The settings of a broker whose worlds are short."""

NEVER_S = 1.0
"""Once an application has rested for so long, an event that a fault waits for never comes."""

REST_S = 30.0
"""An application that is silent for so long does not come to rest."""

MOST_S = 60.0
"""The longest time in which an application has to come to rest, in seconds."""


class RealRun(NamedTuple):
    """A world that was played by real processes.

    Attributes:
        recorded: what was recorded.
        judgement: what came of judging that.
        wrong: what went wrong with its processes, in words.
        undone: the numbers of the actions whose moment did not come.
        has_come_to_rest: whether the application has processed all its input in the end.
        lasted_s: how long it took.
    """

    recorded: Recorded
    judgement: Judgement
    wrong: list[str]
    undone: frozenset[int]
    has_come_to_rest: bool
    lasted_s: float


def play_on(
    existing: str, scenario: Scenario, setup: Setup, release: str, command: str = ""
) -> Judged:
    """Play one variant of a scenario on a cluster that is there already.

    Args:
        existing: the address of the cluster.
        scenario: the scenario.
        setup: the variant.
        release: the release of the instances.
        command: the command that shows this run again.

    Raises:
        UsageError: it cannot be played there, or the cluster is not there; the message says why.
    """
    with SharedBroker(release, existing=existing) as broker:
        run = broker.play(scenario, setup)
    return judged_play(
        scenario,
        setup,
        release=release,
        session_ms=int(settings_of(setup.plan, release, on_existing=True)[SESSION]),
        recorded=run.recorded,
        wrong=run.wrong,
        undone=run.undone,
        command=command,
    )


class SharedBroker:
    """A broker that plays one world after the other, until the block ends.

    Args:
        release: the release of the broker and of all instances.
        place: where directories for processes are made; by default, among the temporary files.
        existing: the address of a cluster that is there already, instead of a broker.

    Raises:
        UsageError: Java or Maven is missing, or the broker does not come up or is not there.
    """

    def __init__(self, release: str, place: Path | None = None, existing: str = "") -> None:
        self._release = release
        self._existing = existing
        # The names of other people's topics and groups, and of other runs, begin otherwise.
        self._prefix = f"streamproof-{token_hex(4)}" if existing else "streamproof"
        self._place = place
        self._processes = Processes(place)
        # Several threads may play worlds.
        self._worlds = count()
        self._interrupted = Event()
        try:
            recording = self._processes.directory / "recording"
            recording.mkdir()
            self._broker = self._cluster(recording)
            (self._recorded,) = recording.glob(f"*{SUFFIX}")
            clients = Application(self._processes, self._broker, "")
            self._served, self._client = clients.serve_worlds()
            if not existing:
                self._archive_classes()
        except BaseException:
            self._processes.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._existing:
                await_deleted(self._served, self._existing)
        finally:
            self._processes.close()

    def _cluster(self, recording: Path) -> Cluster:
        """What all worlds share, with a file of its recording, which may stay empty."""
        if not self._existing:
            return start_broker(
                self._processes, self._release, recording=recording, settings=SETTINGS
            )
        require_cluster(self._existing)
        (recording / f"not-recorded{SUFFIX}").touch()
        return ExistingCluster(self._existing, self._release)

    def interrupt(self) -> None:
        """Give up the worlds that other threads play now; their calls raise UsageError."""
        given_up, self._interrupted = self._interrupted, Event()
        given_up.set()

    def play(self, scenario: Scenario, setup: Setup, keep: Path | None = None) -> RealRun:
        """Play a world.

        Args:
            scenario: the world.
            setup: its variant.
            keep: a directory for its recordings; by default, they are deleted.

        Raises:
            UsageError: it cannot be played for real, or its processes do not come up.
        """
        reason = why_not(scenario, setup, self._release) or why_not_shared(scenario.file.timeline)
        if not reason and has_other_releases(setup.plan):
            reason = "all instances on a broker that worlds share have one release"
        if not reason and self._existing:
            reason = why_not_watched(scenario.file.timeline)
        if reason:
            raise UsageError(
                f"{scenario.name} cannot be played on Kafka {self._release}: {reason}."
            )
        begun, interrupted = time.monotonic(), self._interrupted
        plan, timeline = setup.plan, scenario.file.timeline
        topology = TOPOLOGIES[plan.topology].topology(plan.partitions)
        settings = settings_of(plan, self._release, on_existing=bool(self._existing))
        at = self._recorded.stat().st_size
        prefix, sender = self._serve(topics_of(plan))
        share = Share(self._recorded, prefix, at)
        try:
            with Processes(self._place) as processes:
                recording = processes.directory / "recording"
                recording.mkdir()
                share.begin(recording)
                write_holds(timeline, recording)
                application = Application(processes, self._broker, plan.topology, recording, prefix)
                names = [f"instance-{number}" for number in range(plan.instances)]
                disks = disks_of(timeline, application, processes.directory)
                instances = ConfiguredInstances(
                    application, settings, processes.directory, disks, restarts_of(timeline)
                )
                nemesis = RealNemesis(instances, recording, names, disks)
                director = RealDirector(
                    timeline,
                    nemesis,
                    recording,
                    sender,
                    topology.topics,
                    rest=rest_of(plan, sender / "watched" if self._existing else None),
                    never_s=NEVER_S,
                    rest_s=REST_S,
                    most_s=MOST_S,
                    followed=_SharedFollowed(recording, prefix, share, interrupted),
                )
                director.run()
                # What is written while the instances end belongs to no promise.
                recorded = _read(recording, prefix, keep)
        finally:
            (sender / "over").touch()
        return RealRun(
            recorded,
            judgement_of(recorded),
            director.wrong,
            frozenset(director.undone),
            director.has_come_to_rest,
            time.monotonic() - begun,
        )

    def _archive_classes(self) -> None:
        """See to it that instances start fast."""
        prefix, sender = self._serve(TOPOLOGIES["count"].topology(1).partitions)
        application = Application(self._processes, self._broker, "count", prefix=prefix)
        application.archive_classes()
        (sender / "over").touch()

    def _serve(self, topics: Mapping[str, int]) -> tuple[str, Path]:
        """Let the client create the topics of a world, and send what its directory will have.

        Returns:
            The prefix of all names of the world, and the directory.
        """
        number = next(self._worlds)
        prefix, directory = f"{self._prefix}-world-{number}.", self._served / str(number)
        directory.mkdir()
        lines = [prefix, *(f"{topic}\t{number}" for topic, number in topics.items())]
        unfinished = directory / "unfinished-topics"
        unfinished.write_text("".join(f"{each}\n" for each in lines), "utf-8")
        unfinished.rename(directory / "topics")
        await_serving(directory, self._client)
        return prefix, directory


def _read(recording: Path, prefix: str, keep: Path | None) -> Recorded:
    """The run in a directory of recordings, without the prefix of its names."""
    target = keep or recording
    target.mkdir(parents=True, exist_ok=True)
    for path in list(recording.glob(f"*{SUFFIX}")):
        # Processes may still write into the file, and what they write last may be cut.
        text = path.read_bytes().replace(prefix.encode(), b"")
        unfinished = target / f"{path.name}.new"
        unfinished.write_bytes(text)
        unfinished.rename(target / path.name)
    return read_recording(target)


class Share:
    """The part of one world in the recording of its broker.

    Args:
        recorded: the recording of the broker.
        prefix: what all names of the world begin with.
        at: where the recording ended before the world began.
    """

    def __init__(self, recorded: Path, prefix: str, at: int) -> None:
        self._recorded = recorded
        self._prefix = prefix.encode()
        self._mine: Path | None = None
        self._at = at

    def begin(self, recording: Path) -> None:
        """Write what is told of the broker itself into the recording of the world."""
        self._mine = recording / self._recorded.name
        with self._recorded.open("rb") as file:
            head = file.read(self._at)
        about = (b'"about":"brokers"', b'"about":"unfit"')
        lines = [line for line in head.splitlines(True) if any(each in line for each in about)]
        self._mine.write_bytes(b"".join(lines))

    def take(self) -> None:
        """Write the lines about the world that are new."""
        with self._recorded.open("rb") as file:
            file.seek(self._at)
            text, end, _ = file.read().rpartition(b"\n")
        if not end or self._mine is None:
            return
        self._at += len(text) + len(end)
        mine = [
            line.replace(self._prefix, b"") + b"\n"
            for line in text.split(b"\n")
            if self._prefix in line
        ]
        with self._mine.open("ab") as file:
            file.write(b"".join(mine))


class _SharedFollowed(Followed):
    """Reads what is added to the recordings of a world whose broker others share."""

    def __init__(self, directory: Path, prefix: str, share: Share, interrupted: Event) -> None:
        super().__init__(directory, prefix)
        self._share = share
        self._interrupted = interrupted

    def new(self) -> Iterator[FollowedLine]:
        """The events since the last call; those of one process are in order.

        Raises:
            UsageError: the world is given up.
        """
        if self._interrupted.is_set():
            raise UsageError("The world was given up.")
        self._share.take()
        return super().new()
