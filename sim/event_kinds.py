"""The kinds of events that there are, and what each tells: the vocabulary of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypedDict

__all__ = ["ACTORS", "KINDS", "Kind"]

Actor = Literal[
    "application", "brokers", "process", "thread", "updater", "global", "workload", "nemesis"
]

ACTORS: dict[Actor, tuple[str, str]] = {
    "application": ("`count`", "the application, by its `application.id`"),
    "brokers": ("`brokers`", "all brokers together"),
    "process": ("`instance-0`", "a process"),
    "thread": ("`instance-0/thread-1`", "a stream thread of a process"),
    "updater": ("`instance-0/updater-1`", "the state updater of a thread"),
    "global": ("`instance-0/global`", "the thread of a process that keeps global stores"),
    "workload": ("`workload`", "whoever sends what comes in"),
    "nemesis": ("`nemesis`", "whoever makes things go wrong"),
}
"""Who does what happens: what the actor of an event looks like, and who that is."""

Attributes = Mapping[str, tuple[Any, str]]
"""By name, the type of an attribute as it is in Python, and what it means."""


class Kind(NamedTuple):
    """A kind of events.

    Attributes:
        meaning: what has happened.
        actor: who has done it.
        about: which of ``task``, ``partition`` and ``offset`` it tells; with a question mark, that
            may be empty, or -1.
        attributes: what else it tells, all of it each time.
    """

    meaning: str
    actor: Actor
    about: str = ""
    attributes: Attributes = MappingProxyType({})


class Member(TypedDict):
    """What a member of the group says of itself, and what it is assigned."""

    process: str
    owned: list[str]
    sums: dict[str, int]
    used: int
    supported: int
    formats: list[int]
    active: list[str]
    standby: list[str]


class Client(TypedDict):
    """The tasks that the leader wants a process to have, once copies have warmed up."""

    active: list[str]
    standby: list[str]
    warmup: list[str]


_OFFSETS = (dict[str, int], "by partition of an input, the next offset to process")
_PRODUCER = (int, "the id of the producer; -1 if it has none")
_RECORDS = (int, "how many records")
_NO_RECORDS = (int, "always 0")
_ID = (str, "the transactional id")
_WHAT = (str, "which request")
_REASON = (str, "the error, in a word")
_ROLE = (str, "`transactions` or `groups`")
_VERSION = (int, "the metadata version (KIP-268)")

_CONTENTS: Attributes = {
    "rows": (list[list[bytes]], "all rows in the order of their keys: pairs of key and value"),
    "is_input": (bool, "whether the changelog is an input of the task"),
    "position": (dict[str, int], "by partition of an input, the position (KIP-796)"),
}

KINDS: dict[str, Kind] = {
    "application.started": Kind(
        "The configuration of the run, and the tasks that there are.",
        "application",
        attributes={
            "tasks": (list[str], "the ids of all tasks"),
            "exactly_once": (bool, "the guarantee"),
            "transactional": (bool, "whether stores stage their writes (KIP-892)"),
            "max_task_idle_ms": (int, "`max.task.idle.ms`"),
            "max_uncommitted_bytes": (int, "`statestore.uncommitted.max.bytes`"),
            "statestore_cache_max_bytes": (int, "`statestore.cache.max.bytes`"),
            "partitions": (dict[str, int], "how many partitions each topic has"),
            "changelogs": (dict[str, list[str]], "by stateful task, its changelog partitions"),
            "num_standby_replicas": (int, "`num.standby.replicas`"),
            "max_warmup_replicas": (int, "`max.warmup.replicas`"),
            "acceptable_recovery_lag": (int, "`acceptable.recovery.lag`"),
            "probing_rebalance_interval_ms": (int, "`probing.rebalance.interval.ms`"),
        },
    ),
    "coordinator.away": Kind(
        "A coordinator moves to another broker, and refuses requests until then.",
        "brokers",
        attributes={"what": _ROLE},
    ),
    "coordinator.back": Kind("The coordinator is there again.", "brokers", "", {"what": _ROLE}),
    "disk.emptied": Kind("A disk has space again.", "process"),
    "disk.filled": Kind("A disk is full from now on.", "process"),
    "disk.full": Kind(
        "A write was refused, because the disk is full.",
        "process",
        attributes={"store": (str, "the store that was written")},
    ),
    "disk.power_lost": Kind(
        "What was flushed and not synced may be gone.",
        "process",
        attributes={"flushes": (int, "how many flushes are gone")},
    ),
    "global.applied": Kind(
        "A process has applied records to its copy of a global store.",
        "global",
        "partition offset",
        {"store": (str, "the store"), "records": _RECORDS},
    ),
    "global.restored": Kind("A process has its copy of the global stores.", "global"),
    "group.assigned": Kind(
        "The leader has shared out the tasks of a generation.",
        "thread",
        attributes={
            "generation": (int, "the generation of the group"),
            "version": _VERSION,
            "members": (dict[str, Member], "what each member says, and what it is assigned"),
            "clients": (dict[str, Client], "what each process is to have in the end"),
            "probing": (bool, "whether another rebalance is due, as copies warm up (KIP-441)"),
            "ends": (dict[str, int], "by stateful task, the sum of the ends of its changelogs"),
            "stateless": (list[str], "the tasks without stores"),
        },
    ),
    "group.left_out": Kind("A member finds that the group goes on without it.", "process"),
    "group.member_left_out": Kind(
        "The coordinator leaves out who was silent for too long.",
        "brokers",
        attributes={"group": (str, "the group"), "member": (str, "the id of the member")},
    ),
    "group.probed": Kind(
        "The leader asks the members to come again with another metadata version.",
        "thread",
        attributes={"version": _VERSION},
    ),
    "input.paused": Kind(
        "A partition is not fetched any more, because its buffer is full.", "thread", "partition"
    ),
    "instance.crashed": Kind("A process was killed: its memory is gone.", "process"),
    "instance.paused": Kind("The tasks of a process are paused; it stays in the group.", "process"),
    "instance.resumed": Kind("The tasks of a process go on.", "process"),
    "instance.started": Kind(
        "A process starts on the disk of an instance.",
        "process",
        attributes={
            "drift_ppm": (int, "how fast its clock is, in millionths"),
            "release": (str, "the version of Kafka Streams"),
            "manages_offsets": (bool, "whether stores have their offsets themselves (KIP-1035)"),
            "upgrade_from": (str, "`upgrade.from`; empty if it is not set"),
            "formats": (list[int], "formats of stores that it has: 1, and 2 with timestamps"),
        },
    ),
    "instance.stood_still": Kind(
        "A process stands still, as in a long garbage collection.", "process"
    ),
    "instance.stopped": Kind(
        "A process has committed, closed everything, and ended.",
        "process",
        attributes={"leaks": (list[str], "what is locked or open still")},
    ),
    "instance.went_on": Kind(
        "A process that stood still goes on, and knows nothing of that.", "process"
    ),
    "log.appended": Kind(
        "A record was appended to a partition.",
        "brokers",
        "partition offset",
        {
            "key": (bytes, "the key"),
            "value": (bytes | None, "the value; null is a tombstone"),
            "timestamp": (int, "of the record, in milliseconds"),
            "producer": _PRODUCER,
            "transactional": (bool, "whether it belongs to a transaction"),
        },
    ),
    "log.compacted": Kind(
        "A log was compacted up to an offset.",
        "brokers",
        "partition offset",
        {"removed": (int, "how many records were removed")},
    ),
    "log.deleted": Kind(
        "Records before an offset were deleted.",
        "brokers",
        "partition offset",
        {"reason": (str, "`request` or `retention`")},
    ),
    "network.connected": Kind("An instance is connected to the brokers again.", "process"),
    "network.cut": Kind("An instance is separated from the brokers.", "process"),
    "network.reply_lost": Kind(
        "A request was carried out, and its reply was lost.", "process", "", {"what": _WHAT}
    ),
    "network.request_lost": Kind(
        "A request was lost before it was carried out.", "process", "", {"what": _WHAT}
    ),
    "offsets.added": Kind(
        "Offsets of inputs became part of a transaction.",
        "brokers",
        attributes={"group": (str, "the group"), "producer": _PRODUCER, "offsets": _OFFSETS},
    ),
    "offsets.committed": Kind(
        "Offsets of inputs count from now on.",
        "brokers",
        attributes={"group": (str, "the group"), "offsets": _OFFSETS},
    ),
    "restore.batch": Kind(
        "A restoration has applied a batch.",
        "updater",
        "task partition offset",
        {"records": _RECORDS, "remaining": (int, "how many offsets it lacks still")},
    ),
    "restore.end": Kind(
        "A restoration has come to its end.",
        "updater",
        "task partition",
        {"records": _NO_RECORDS, "total": (int, "how many records it has applied in all")},
    ),
    "restore.start": Kind(
        "A restoration begins.",
        "updater",
        "task partition",
        {
            "records": _NO_RECORDS,
            "start": (int, "the offset that it begins with"),
            "end": (int, "the offset that it ends before"),
        },
    ),
    "restore.suspended": Kind(
        "A restoration was given up, for now.",
        "updater",
        "task partition",
        {"records": _NO_RECORDS, "total": (int, "how many records it has applied in all")},
    ),
    "state.cleaned": Kind(
        "The directory of a task was deleted, as nobody has used it for long.",
        "process",
        "task",
        {"delay_ms": (int, "`state.cleanup.delay.ms`")},
    ),
    "state.found": Kind(
        "A store was found at the start of a process.",
        "process",
        "task",
        {"total": (int, "the sum of its next offsets; -1 if they are not known")},
    ),
    "state.opened": Kind(
        "The stores of a task are opened at the start of a process.", "process", "task"
    ),
    "store.closing": Kind(
        "A store is closed cleanly, with these rows.",
        "thread",
        "task partition offset?",
        _CONTENTS,
    ),
    "store.committed": Kind(
        "A store has committed; its offset vouches for what is in it.",
        "thread",
        "task partition offset?",
    ),
    "store.flushed": Kind(
        "A store has brought to the disk what it had in memory.", "thread", "task partition"
    ),
    "store.found": Kind(
        "A store was opened, and has these rows.", "thread", "task partition offset?", _CONTENTS
    ),
    "store.opened": Kind(
        "A store is opened, with the offset that it has.",
        "thread",
        "task partition offset?",
        {
            "store": (str, "the store"),
            "wipe": (bool, "whether everything of its task has to be deleted first"),
            "persistent": (bool, "whether it outlives the process"),
        },
    ),
    "store.put": Kind(
        "A processor has written into a store.",
        "thread",
        "task partition",
        {"key": (bytes, "the key"), "value": (bytes | None, "the value; null deletes the row")},
    ),
    "store.rebuilt": Kind(
        "A store of the newer format was built beside the one that is served.",
        "process",
        "task partition offset",
        {"prepared": (bool, "whether it has everything by now")},
    ),
    "store.restored": Kind(
        "Records of the changelog were applied to a store.",
        "thread",
        "task partition offset",
        {"records": _RECORDS},
    ),
    "store.running": Kind(
        "A task begins to run with these rows in a store.",
        "thread",
        "task partition offset?",
        _CONTENTS,
    ),
    "task.closed": Kind(
        "A task was closed, in a certain way.",
        "thread",
        "task",
        {"closing": (str, "`CLEAN`, `DIRTY` or `CORRUPTED`")},
    ),
    "task.corrupted": Kind(
        "A task has to begin anew: what it has cannot be relied on.", "thread", "task"
    ),
    "task.enforced": Kind(
        "A task goes on without the records of an empty input.",
        "thread",
        "task",
        {"inputs": (tuple[str, ...], "the partitions that are empty")},
    ),
    "task.processed": Kind(
        "A task has processed a record.",
        "thread",
        "task partition offset",
        {
            "timestamp": (int, "of the record, in milliseconds"),
            "others": (
                dict[str, list[int | None]],
                "by other input, the timestamp of its next record; or null, lag and deadline",
            ),
            "clock": (int, "the time by the clock of the process, in milliseconds"),
        },
    ),
    "task.punctuated": Kind(
        "A punctuator was called.",
        "thread",
        "task",
        {
            "clock": (str, "`STREAM_TIME` or `WALL_CLOCK_TIME`"),
            "timestamp": (int, "the time that it was given, in milliseconds"),
        },
    ),
    "task.state": Kind(
        "A task goes over into another state.",
        "thread",
        "task",
        {
            "before": (str, "the state before: `CREATED`, `RESTORING`, `RUNNING`, `SUSPENDED`"),
            "after": (str, "the state from now on: one of these, or `CLOSED`"),
        },
    ),
    "task.waiting": Kind(
        "A task waits for records of an empty input.",
        "thread",
        "task",
        {"waiting": (dict[str, str], "by partition, what it waits for")},
    ),
    "task.wiped": Kind("Everything of a task was deleted from the disk.", "thread", "task"),
    "thread.answered": Kind(
        "The leader has told a thread which metadata version all understand.",
        "thread",
        attributes={
            "version": _VERSION,
            "commonly_supported": (int, "the newest version that all support"),
        },
    ),
    "thread.assigned": Kind(
        "A thread is told its tasks.",
        "thread",
        attributes={
            "generation": (int, "the generation of the group"),
            "active": (list[str], "its active tasks"),
            "standby": (list[str], "its standby tasks"),
        },
    ),
    "thread.committed": Kind(
        "The commit of a thread has counted; its stores commit next.",
        "thread",
        attributes={"tasks": (list[str], "the tasks that it was for"), "offsets": _OFFSETS},
    ),
    "thread.died": Kind(
        "A thread ends because of an error, and is replaced.", "thread", "", {"reason": _REASON}
    ),
    "thread.lost": Kind(
        "A thread gives up all tasks, as another may have them.",
        "thread",
        attributes={"reason": _REASON},
    ),
    "thread.producer": Kind("A thread has a new producer.", "thread", "", {"producer": _PRODUCER}),
    "thread.staged": Kind(
        "A thread has staged more than it may before it commits.",
        "thread",
        attributes={"bytes": (int, "how much, in bytes")},
    ),
    "thread.stopped": Kind("A thread has ended as it was asked to.", "thread"),
    "thread.subscribed": Kind(
        "A thread joins the group, and says what it has.",
        "thread",
        attributes={
            "owned": (list[str], "the active tasks that it has, or was assigned"),
            "sums": (
                dict[str, int],
                "by task, the sum of its next offsets; -2 if it runs, -3 if it is not known",
            ),
            "used": (int, "the metadata version that it uses (KIP-268)"),
            "supported": (int, "the newest metadata version that it supports"),
        },
    ),
    "thread.timed_out": Kind(
        "A thread got no answer in time.", "thread", "", {"reason": (str, "what it says of it")}
    ),
    "transaction.decided": Kind(
        "A transaction was committed or aborted; markers follow.",
        "brokers",
        attributes={
            "transactional_id": _ID,
            "producer": _PRODUCER,
            "commit": (bool, "whether it was committed"),
        },
    ),
    "transaction.id_expired": Kind(
        "A transactional id was forgotten, as nobody has used it for long.",
        "brokers",
        attributes={"transactional_id": _ID},
    ),
    "transaction.marker": Kind(
        "A partition, or a group, shows how a transaction ended.",
        "brokers",
        "partition offset?",
        {
            "producer": _PRODUCER,
            "transactional_id": _ID,
            "commit": (bool, "whether it was committed"),
            "complete": (bool, "whether this is the last marker of the transaction"),
        },
    ),
    "transaction.timed_out": Kind(
        "A transaction was aborted because it took too long.",
        "brokers",
        attributes={"transactional_id": _ID},
    ),
    "update.batch": Kind(
        "A standby has applied a batch.",
        "updater",
        "task partition offset",
        {"records": _RECORDS, "is_input": (bool, "whether the changelog is an input of the task")},
    ),
    "update.start": Kind(
        "A standby begins to follow a changelog.",
        "updater",
        "task partition",
        {"records": _NO_RECORDS, "start": (int, "the offset that it begins with")},
    ),
    "update.suspended": Kind(
        "A standby does not follow a changelog any more.",
        "updater",
        "task partition offset?",
        {"records": _NO_RECORDS, "reason": (str, "`migrated` or `promoted`")},
    ),
    "updater.died": Kind("A state updater has died.", "updater", "", {"reason": _REASON}),
    "updater.metrics": Kind(
        "The metrics of a state updater.",
        "updater",
        attributes={
            "gauges": (dict[str, float], "by the name of a metric, its value"),
            "remaining": (dict[str, int], "by active task, how many offsets it lacks still"),
        },
    ),
    "workload.ended": Kind(
        "Everything was sent to a topic.",
        "workload",
        attributes={"topic": (str, "the topic"), "records": _RECORDS},
    ),
    "world.healed": Kind("Nothing goes wrong from now on.", "nemesis"),
}
"""All of them, by name."""
