"""Kinds of events of stream threads, and of their state updaters."""

from __future__ import annotations

from streamproof.sim.event_kinds.kind import Absent, Attribute, EventKind, Footprint, Look
from streamproof.sim.event_kinds.shared_parts import (
    OFFSETS,
    OWNER,
    PRODUCER,
    REASON,
    VERSION,
)
from streamproof.sim.event_kinds.wording import plain
from streamproof.sim.run_state import Moment
from streamproof.sim.trace import Event

__all__ = ["THREAD_KINDS"]


def _said_standby(tasks: object) -> str:
    return f", and {plain(tasks)} as standby" if tasks else ""


def _said_reason_of_loss(reason: object) -> str:
    return "" if reason in {None, "NoneType"} else f": {plain(reason)}"


def _thread_producer(moment: Moment, event: Event) -> None:
    producer = event.attributes["producer"]
    moment.thread(event.actor).producer = producer
    moment.owners[producer] = event.actor


def _thread_assigned(moment: Moment, event: Event) -> None:
    thread, more = moment.thread(event.actor), event.attributes
    thread.generation = more["generation"]
    thread.active, thread.standby = tuple(more["active"]), tuple(more["standby"])


def _thread_lost(moment: Moment, event: Event) -> None:
    thread = moment.thread(event.actor)
    thread.active = thread.standby = ()


def _thread_ended(moment: Moment, event: Event) -> None:
    moment.process(event.actor).threads.pop(event.actor, None)


THREAD_KINDS = (
    EventKind(
        name="thread.answered",
        meaning="A thread learns from the leader which metadata version all members support.",
        actor="thread",
        attributes={
            "version": VERSION,
            "commonly_supported": Attribute(int, "the newest version that all members support"),
            "generation": Attribute(int, "the generation of the group"),
            "empty": Attribute(bool, "whether the answer has versions and no assignment"),
        },
        look=Look(
            "instance", "groups", ".", "group", 0, "{actor} gets an assignment in version {version}"
        ),
        footprint=Footprint(writes=("answered {actor}",), reads=("shares",)),
        effect=Absent("no metadata versions are kept"),
    ),
    EventKind(
        name="thread.assigned",
        meaning="A thread gets its tasks.",
        actor="thread",
        attributes={
            "generation": Attribute(int, "the generation of the group"),
            "active": Attribute(list[str], "its active tasks"),
            "standby": Attribute(list[str], "its standby tasks", _said_standby),
        },
        look=Look("instance", "groups", ">", "group", 2, "{actor} gets {active}{standby}"),
        footprint=Footprint(
            writes=("assigned {actor}", OWNER, "owned {task}"), reads=("generation {generation}",)
        ),
        effect=_thread_assigned,
    ),
    EventKind(
        name="thread.committed",
        meaning="A thread has committed its offsets; its stores commit next.",
        actor="thread",
        attributes={"tasks": Attribute(list[str], "the tasks of the commit"), "offsets": OFFSETS},
        look=Look("instance", "", "C", "transactions", 2, "{actor} has committed {offsets}"),
        footprint=Footprint(writes=("commit {actor}",), reads=("decided {actor}",)),
        effect=Absent("`offsets.committed` and `store.committed` tell what is committed"),
    ),
    EventKind(
        name="thread.died",
        meaning="A thread dies of an error, and is replaced.",
        actor="thread",
        attributes={"reason": REASON},
        look=Look("instance", "", "!", "faults", 3, "{actor} dies of {reason}"),
        footprint=Footprint(writes=("thread {actor}", "members"), reads=("trouble {process}",)),
        effect=_thread_ended,
    ),
    EventKind(
        name="thread.lost",
        meaning="A thread gives up all its tasks, because another thread may have them.",
        actor="thread",
        attributes={"reason": REASON._replace(said=_said_reason_of_loss)},
        look=Look("instance", "", "F", "group", 3, "{actor} has lost its tasks{reason}"),
        footprint=Footprint(writes=("thread {actor}", "members"), reads=("left {process}",)),
        effect=_thread_lost,
    ),
    EventKind(
        name="thread.producer",
        meaning="A thread has a new producer, or its producer begins anew after an abort.",
        actor="thread",
        attributes={"producer": PRODUCER},
        look=Look(
            "instance", "transactions", ".", "transactions", 1, "{actor} has producer {producer}"
        ),
        footprint=Footprint(
            writes=("thread {actor}",), reads=("thread {actor}", "begun {process}")
        ),
        effect=_thread_producer,
    ),
    EventKind(
        name="thread.staged",
        meaning="A thread has staged more than the limit, and has to commit.",
        actor="thread",
        attributes={
            "records": Attribute(int, "how many records"),
            "bytes": Attribute(int, "how many bytes"),
        },
        look=Look(
            "instance",
            "",
            "=",
            "stores",
            1,
            "its stores have staged {records} records, {bytes} bytes",
        ),
        footprint=Footprint(writes=("staged {actor}",)),
        effect=Absent("`store.put` has told what is staged"),
    ),
    EventKind(
        name="thread.metrics",
        meaning="Somebody reads the metrics of a thread's tasks and of their stores.",
        actor="thread",
        attributes={
            "stores": Attribute(
                dict[str, dict[str, dict[str, float | None]]],
                "by task, store and the name of a metric, its value; null without recordings",
            ),
            "tasks": Attribute(list[str], "the tasks that measure their records"),
        },
        look=Look("instance", "", ".", "other", 0, "metrics of the stores"),
        footprint=Footprint(writes=("metrics {actor}",)),
        effect=Absent("metrics change nothing"),
    ),
    EventKind(
        name="thread.stopped",
        meaning="A thread has stopped on request.",
        actor="thread",
        look=Look("instance", "", "v", "starts", 2, "{actor} is stopped"),
        footprint=Footprint(writes=("thread {actor}", "members")),
        effect=_thread_ended,
    ),
    EventKind(
        name="thread.subscribed",
        meaning="A thread joins the group, and reports its tasks and offsets.",
        actor="thread",
        attributes={
            "owned": Attribute(list[str], "its active tasks, open or only assigned"),
            "sums": Attribute(
                dict[str, int],
                "by task, the sum of its next offsets; -2 if it runs, -3 if it is unknown",
            ),
            "used": Attribute(int, "the metadata version that it uses (KIP-268)"),
            "supported": Attribute(int, "the newest metadata version that it supports"),
            "formats": Attribute(
                dict[str, list[int]] | None,
                "by store, the formats that it reports (KIP-258); null if it reports none",
            ),
        },
        look=Look("groups", "instance", "j", "group", 1, "{actor} joins, and owns {owned}"),
        footprint=Footprint(writes=("subscribed {actor}",), reads=("answered {actor}",)),
        effect=Absent("`thread.assigned` tells what the thread has got"),
    ),
    EventKind(
        name="thread.polled_late",
        meaning="A thread polls after more than `max.poll.interval.ms` without a poll.",
        actor="thread",
        attributes={
            "passed_ms": Attribute(int, "the time since its last poll, by the clock of the host"),
            "is_member": Attribute(bool, "whether it is still a member of the group"),
        },
        look=Look("instance", "", "~", "group", 2, "{actor} polls after {passed_ms} ms"),
        footprint=Footprint(reads=("thread {actor}",)),
        effect=Absent("`group.left_out` tells what the group makes of it"),
    ),
    EventKind(
        name="thread.timed_out",
        meaning="A thread got no answer in time.",
        actor="thread",
        attributes={"reason": Attribute(str, "the error message")},
        look=Look("instance", "", "?", "faults", 3, "{actor} gives up: {reason}"),
        footprint=Footprint(writes=("thread {actor}",), reads=("trouble {process}",)),
        effect=Absent("`thread.died` and `thread.lost` tell what the thread gives up"),
    ),
    EventKind(
        name="updater.died",
        meaning="A state updater has died.",
        actor="updater",
        attributes={"reason": REASON},
        look=Look("instance", "", "!", "faults", 3, "{actor} dies: {reason}"),
        footprint=Footprint(writes=("trouble {process}",)),
        effect=Absent("no state updaters are kept"),
    ),
    EventKind(
        name="updater.failed",
        meaning="A state updater cannot go on with a task, and leaves the task to its thread.",
        actor="updater",
        about="task",
        attributes={"reason": REASON},
        look=Look("instance", "", "!", "faults", 2, "{actor} gives {task} up: {reason}"),
        footprint=Footprint(writes=("trouble {process}",)),
        effect=Absent("`task.closed` tells how the task ends"),
    ),
    EventKind(
        name="updater.metrics",
        meaning="Somebody reads the metrics of a state updater and its tasks.",
        actor="updater",
        attributes={
            "gauges": Attribute(dict[str, float], "by the name of a metric, its value"),
            "tasks": Attribute(
                dict[str, dict[str, float | None]], "by task and the name of a metric, its value"
            ),
            "remaining": Attribute(
                dict[str, int],
                "by active task, how many records or offsets are still to be restored",
            ),
        },
        look=Look("instance", "", ".", "other", 0, "metrics: {remaining} remain"),
        footprint=Footprint(writes=("metrics {process}",)),
        effect=Absent("metrics change nothing"),
    ),
    EventKind(
        name="updater.started",
        meaning="A state updater begins, and waits for tasks.",
        actor="updater",
        attributes={"mode": Attribute(str, "its rules: `proposal`, or `kafka` as shipped")},
        look=Look("instance", "", "^", "starts", 0, "{actor} begins"),
        footprint=Footprint(writes=("metrics {process}",)),
        effect=Absent("no state updaters are kept"),
    ),
    EventKind(
        name="updater.turned",
        meaning="A state updater turns to another part of its work, or to the same again.",
        actor="updater",
        attributes={
            "to": Attribute(str, "`restoring`, `updating`, `checkpointing` or `idle`"),
        },
        look=Look("instance", "", ".", "other", 0, "{actor} is {to}"),
        footprint=Footprint(writes=("metrics {process}",)),
        effect=Absent("`store.restored` and `store.committed` tell what is done"),
    ),
)
