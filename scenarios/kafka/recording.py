"""Recordings of real processes, merged into one run.

Each recorded process writes a file of lines (``*.events``), of which a kill can cut only the last.
All processes of a machine share its monotonic clock, and each line has that time, so the lines of
several files have one order. A process of an application and a broker record different kinds of
events; a third file is from whoever started and killed them. What nobody recorded is listed with
the run, so that no invariant counts as held that could not be judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from streamproof.errors import UsageError
from streamproof.scenarios.kafka.observable import (
    BEFORE_OFFSETS,
    MERGED,
    OF_BROKERS,
    OF_SIMULATED_PROCESSORS,
    OF_THE_DRIVER,
    UNOBSERVED,
)
from streamproof.sim.application import CLEANUP_DELAY_MS, NO_MAX_AGE_MS, TASK_TIMEOUT_MS
from streamproof.sim.attribute_codec import attribute_decoder
from streamproof.sim.brokers.partition_log import DELETE_RETENTION_MS
from streamproof.sim.decisions.refusals import MAX_MESSAGE_BYTES
from streamproof.sim.event_kinds import KINDS
from streamproof.sim.invariants.judging import Unseen
from streamproof.sim.trace import Event
from streamproof.stores.api import TRANSACTIONAL_STATESTORES_CONFIG

__all__ = [
    "SUFFIX",
    "Recorded",
    "RecordedLine",
    "event_of",
    "is_recording",
    "read_recording",
]

SUFFIX = ".events"

FAILS = "Fail"
"""What the name of each handler contains that leaves no record out; Kafka's default has it."""

HANDLERS = (
    "default.timestamp.extractor",
    "default.deserialization.exception.handler",
    "deserialization.exception.handler",
    "processing.exception.handler",
)
"""The settings with the handlers of records that cannot be processed."""

OF_GROUPS = ("offsets.added", "offsets.committed")
"""The kinds of events about the offsets of one group."""

NANOS = 1_000_000
"""Nanoseconds in a millisecond."""


class Recorded(NamedTuple):
    """A run that was recorded.

    Attributes:
        events: all events, in order.
        unseen: what the recording does not tell.
    """

    events: list[Event]
    unseen: Unseen


class RecordedLine(Struct, kw_only=True):
    """A line of a file. Either it is about the recording itself, or it is an event.

    Attributes:
        at: the monotonic time of the machine, in nanoseconds.
        about: ``application``, ``brokers`` or ``driver``, where such a process begins; ``log`` or
            ``unfit``; empty for an event.
        number: the number of the line in its file, from 0.
        hold: the hold for which the process stands still at this event; empty if it goes on.
        later: whether it stands still only once the step is done that begins with this event.
        of: the number of that event, in the line about the hold.
    """

    at: int
    about: str = ""
    number: int = -1
    hold: str = ""
    later: bool = False
    of: int = -1
    actor: str = ""
    kind: str = ""
    task: str = ""
    partition: str = ""
    offset: int = -1
    attributes: Raw = Raw(b"{}")
    # Of a process.
    kinds: list[str] = []
    release: str = ""
    settings: dict[str, Any] = {}
    epoch_ms: int = 0
    # Of a hook that does not fit.
    hook: str = ""
    reason: str = ""
    # Of a log.
    end: int = 0


@dataclass
class _File:
    """The lines of one process.

    Attributes:
        path: where they are.
        lines: all of them.
        process: the line that describes an application; ``None`` for other processes.
        role: ``application``, ``brokers``, ``driver``, or empty if it began nothing.
    """

    path: Path
    lines: list[RecordedLine]
    process: RecordedLine | None = field(init=False, default=None)
    role: str = field(init=False, default="")

    def __post_init__(self) -> None:
        for each in self.lines:
            if each.about in ("application", "brokers", "driver"):
                self.role = each.about
                self.process = each if each.about == "application" else None
                break

    @property
    def began(self) -> int:
        """When the application of the process began; its JVM may have stood by before that."""
        return self.process.at if self.process is not None else self.lines[0].at

    @property
    def events(self) -> Iterator[RecordedLine]:
        """The events."""
        return (each for each in self.lines if not each.about)


def is_recording(path: Path) -> bool:
    """Whether a path is a directory with recordings."""
    return path.is_dir() and any(path.glob(f"*{SUFFIX}"))


def read_recording(directory: Path) -> Recorded:
    """Merge the recordings of a directory into one run.

    Raises:
        UsageError: a file is damaged, or no application was recorded.
    """
    files = [_File(path, _lines(path)) for path in sorted(directory.glob(f"*{SUFFIX}"))]
    applications = [each for each in files if each.process is not None]
    if not applications:
        raise UsageError(
            f"No application was recorded in {directory}: no process with the recorder started "
            "Kafka Streams. Is it started with the option that `streamproof record` prints?"
        )
    applications.sort(key=lambda each: each.began)
    _name(applications)
    every = [each for file in files for each in file.events]
    crashes = [each for each in every if each.kind == "instance.crashed"]
    every += _inferred_crashes(applications, crashes)
    # Each file is in order, and sorting keeps the order of equal times.
    every.sort(key=lambda each: each.at)
    first = applications[0].process
    if first is None:
        raise AssertionError
    start = every[0].at if every else first.at
    epoch = first.epoch_ms - (first.at - start) // NANOS
    events = [_started(first, every, files)]
    groups = {each.process.settings.get("application.id") for each in applications if each.process}
    for each in every:
        event = event_of(each, len(events), (each.at - start) // NANOS, epoch)
        # The brokers also tell what other clients commit, and that is not the application's.
        if event.kind not in OF_GROUPS or event.attributes["group"] in groups:
            events.append(event)
    return Recorded(events, _unseen(files, applications))


def _has(files: Iterable[_File], role: str) -> bool:
    return any(each.role == role for each in files)


def _lines(path: Path) -> list[RecordedLine]:
    """The lines of a file; the last one may be cut off.

    Raises:
        UsageError: another line is damaged, or the file cannot be read.
    """
    try:
        *whole, _ = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    decoder = msgspec.json.Decoder(RecordedLine)
    found = []
    for number, line in enumerate(whole, 1):
        try:
            found.append(decoder.decode(line))
        except msgspec.DecodeError as error:
            raise UsageError(
                f"{path} is damaged in line {number}: {error}. Record the application again."
            ) from error
    return found


def _name(applications: Sequence[_File]) -> None:
    """Give processes without a name of their own one by their state directory.

    A process that starts again on the same directory is the same instance.
    """
    names: dict[tuple[Any, Any], str] = {}
    for each in applications:
        process = each.process
        if process is None or not process.actor.startswith("process-"):
            continue
        place = process.settings.get("application.id"), process.settings.get("state.dir")
        new = names.setdefault(place, f"instance-{len(names)}")
        old = process.actor
        for line in each.lines:
            head, slash, thread = line.actor.partition("/")
            if head == old:
                line.actor = f"{new}{slash}{thread}"


def _inferred_crashes(
    applications: Sequence[_File], told: Sequence[RecordedLine]
) -> Iterator[RecordedLine]:
    """A crash for each process that ended without a stop, if another one followed in its place.

    Args:
        applications: the processes, in the order of their starts.
        told: the crashes that somebody has recorded already.
    """
    for number, each in enumerate(applications):
        process = each.process
        if process is None or any(line.kind == "instance.stopped" for line in each.events):
            continue
        end = each.lines[-1].at
        later = (
            file.began
            for file in applications[number + 1 :]
            if file.process is not None and file.process.actor == process.actor
        )
        follows = next(later, None)
        if follows is not None and not any(
            line.actor == process.actor and end <= line.at <= follows for line in told
        ):
            yield RecordedLine(at=end, actor=process.actor, kind="instance.crashed")


def event_of(line: RecordedLine, sequence: int, time: int, epoch: int) -> Event:
    """A line as an event; ``epoch`` is the time of the clock at the start of the run."""
    try:
        attributes = attribute_decoder(line.kind, complete=True).decode(line.attributes)
    except msgspec.DecodeError as error:
        raise UsageError(
            f"A recorded event cannot be read ({line.kind} by {line.actor}): {error}. Record the "
            "application again with this streamproof."
        ) from error
    if line.kind == "task.processed":
        attributes["clock"] -= epoch
        for other in attributes["others"].values():
            if len(other) == 3 and other[2] is not None:
                other[2] -= epoch
    return Event(
        sequence,
        time,
        line.actor,
        line.kind,
        line.task,
        line.partition,
        line.offset,
        attributes,
    )


def _started(process: RecordedLine, lines: Iterable[RecordedLine], files: Iterable[_File]) -> Event:
    """The event with the configuration, from what the processes said and did."""
    settings = process.settings
    tasks: set[str] = set()
    changelogs: dict[str, set[str]] = {}
    inputs: set[str] = set()
    for each in lines:
        if each.kind == "thread.assigned":
            given = attribute_decoder(each.kind, complete=True).decode(each.attributes)
            tasks.update(given["active"], given["standby"])
        elif each.kind == "store.opened":
            changelogs.setdefault(each.task, set()).add(each.partition)
        elif each.kind in ("store.found", "store.running"):
            given = attribute_decoder(each.kind, complete=True).decode(each.attributes)
            if given["is_input"]:
                inputs.add(each.partition)
    attributes = {
        "tasks": sorted(tasks),
        "exactly_once": str(settings.get("processing.guarantee")).startswith("exactly_once"),
        "transactional": _stages(settings),
        "max_task_idle_ms": int(settings.get("max.task.idle.ms") or 0),
        "max_uncommitted_bytes": int(settings.get("statestore.uncommitted.max.bytes") or -1),
        "max_uncommitted_records": -1,
        "store_rules": "kafka",
        "statestore_cache_max_bytes": int(settings.get("statestore.cache.max.bytes") or 0),
        "partitions": _partitions(files),
        "changelogs": {task: sorted(names) for task, names in sorted(changelogs.items())},
        "sources": sorted(inputs),
        "num_standby_replicas": int(settings.get("num.standby.replicas") or 0),
        "max_warmup_replicas": int(settings.get("max.warmup.replicas") or 0),
        "acceptable_recovery_lag": int(settings.get("acceptable.recovery.lag") or 0),
        "probing_rebalance_interval_ms": int(settings.get("probing.rebalance.interval.ms") or 0),
        "commit_interval_ms": int(settings.get("commit.interval.ms") or 0),
        "default_query_isolation": "",
        "metrics_recording_level": str(settings.get("metrics.recording.level")),
        "live_format": "assignment",
        "output_max_message_bytes": MAX_MESSAGE_BYTES,
        "task_timeout_ms": int(settings.get("task.timeout.ms") or TASK_TIMEOUT_MS),
        "topic_delete_retention_ms": int(
            settings.get("topic.delete.retention.ms") or DELETE_RETENTION_MS
        ),
        # Kafka Streams reads from the beginning unless it is told otherwise.
        "auto_offset_reset": str(
            settings.get("main.consumer.auto.offset.reset")
            or settings.get("consumer.auto.offset.reset")
            or settings.get("auto.offset.reset")
            or "earliest"
        ),
        # The handlers of a real application are classes; the recorder does not follow them.
        "handlers": {},
        "state_cleanup_delay_ms": int(settings.get("state.cleanup.delay.ms") or CLEANUP_DELAY_MS),
        "state_cleanup_dir_max_age_ms": int(
            settings.get("state.cleanup.dir.max.age.ms") or NO_MAX_AGE_MS
        ),
    }
    name = str(settings.get("application.id"))
    return Event(0, 0, name, "application.started", "", "", -1, attributes)


def _stages(settings: Mapping[str, Any]) -> bool:
    """Whether the stores of an application stage their writes, by its settings."""
    return str(settings.get(TRANSACTIONAL_STATESTORES_CONFIG)).lower() == "true"


def _impossible(files: Sequence[_File], applications: Sequence[_File]) -> set[str]:
    """The kinds of events that cannot have happened, so that it does not matter who watched."""
    found = set()
    settings = [each.process.settings for each in applications if each.process is not None]
    handlers = [str(each.get(name) or FAILS) for each in settings for name in HANDLERS]
    if settings and all(FAILS in each for each in handlers):
        found.add("record.dropped")
    if not any(map(_stages, settings)):
        found.add("thread.staged")
    # Only a log that was deleted from its start takes the position of a reader away.
    is_kept = not any(each.kind == "log.deleted" for file in files for each in file.lines)
    if _has(files, "brokers") and is_kept:
        found.add("input.reset")
    return found


def _partitions(files: Iterable[_File]) -> dict[str, int]:
    """How many partitions each topic of the application has, by the logs of the brokers."""
    found: dict[str, int] = {}
    for file in files:
        for each in file.lines:
            if each.about == "log" and not each.partition.startswith("__"):
                topic, _, number = each.partition.rpartition("-")
                found[topic] = max(found.get(topic, 0), int(number) + 1)
    return found


def _unseen(files: Sequence[_File], applications: Sequence[_File]) -> Unseen:
    """What nobody recorded, with the reasons."""
    kinds = dict(UNOBSERVED)
    seen = set(MERGED)
    every = [set(each.process.kinds) for each in applications if each.process is not None]
    seen |= set.intersection(*every)
    logs = ""
    if not _has(files, "brokers"):
        logs = "no broker was recorded"
        kinds |= dict.fromkeys(OF_BROKERS, logs)
    else:
        seen |= OF_BROKERS
        late = [each for file in files for each in file.lines if each.about == "log" and each.end]
        restarted = {each.partition for file in files for each in file.events if each.partition}
        missed = [each.partition for each in late if each.partition not in restarted]
        if missed:
            logs = f"the log of {missed[0]} had records before it was recorded"
    if _has(files, "driver"):
        seen |= OF_THE_DRIVER
    else:
        reason = "nobody who makes faults was recorded"
        kinds |= dict.fromkeys(OF_THE_DRIVER, reason)
    for file in files:
        for each in file.lines:
            if each.about == "unfit":
                lost = dict.fromkeys(each.kinds, f"it could not be observed ({each.reason})")
                kinds |= lost
                seen -= lost.keys()
    seen |= _impossible(files, applications)
    rest = KINDS.keys() - seen - kinds.keys()
    kinds |= dict.fromkeys(rest, "a process did not record it")
    releases = [each.process.release for each in applications if each.process is not None]
    is_older = any(tuple(map(int, each.split(".")[:2])) < (4, 3) for each in releases if each)
    unbound = {**OF_SIMULATED_PROCESSORS, **(BEFORE_OFFSETS if is_older else {})}
    unseen = {each: kinds[each] for each in sorted(kinds.keys() - seen)}
    return Unseen(unseen, logs, unbound, of_kafka=True)
