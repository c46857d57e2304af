"""Kinds of events of tasks: states, processing, waiting, and the directories on the disk."""

from __future__ import annotations

from streamproof.sim.event_kinds.kind import Absent, Attribute, EventKind, Footprint, Look
from streamproof.sim.event_kinds.shared_parts import OWNER, TASK
from streamproof.sim.run_state import FoldedTask, Moment, process_of
from streamproof.sim.trace import Event

__all__ = ["TASK_KINDS"]

_CLOSINGS = {
    "CLEAN": " cleanly",
    "DIRTY": ": what was not committed is dropped",
    "CORRUPTED": ": its offsets are forgotten",
}


def _lower(state: object) -> str:
    return str(state).lower()


def _said_closing(closing: object) -> str:
    return _CLOSINGS.get(str(closing), "")


def _role(is_active: object) -> str:
    return "an active task" if is_active else "a standby"


def _by_the_state_after(event: Event, look: Look) -> Look:
    after = event.attributes.get("after")
    if after in {"SUSPENDED", "CLOSED"}:
        look = look._replace(glyph="<")
    # The event before or after it shows the same.
    return look._replace(weight=0) if after in {"CREATED", "RESTORING", "CLOSED"} else look


def _minor_at_the_first_start(event: Event, look: Look) -> Look:
    # An input without a committed offset is nothing to wonder at.
    is_first = event.attributes.get("position") == -1
    return look._replace(glyph=".", weight=0) if is_first else look


def _task_state(moment: Moment, event: Event) -> None:
    where, after = (event.actor, event.task), event.attributes["after"]
    task = moment.tasks.get(where)
    if after in ("CREATED", "CLOSED"):
        moment.tasks.pop(where, None)
    elif task is None:
        is_active = event.task not in moment.thread(event.actor).standby
        moment.tasks[where] = FoldedTask(after, is_active, event.time)
    else:
        task.state, task.since, task.waiting = after, event.time, {}


def _task_processed(moment: Moment, event: Event) -> None:
    task = moment.tasks.get((event.actor, event.task))
    if task is not None:
        task.processed[event.partition] = event.offset + 1
        task.waiting = {}


def _task_waiting(moment: Moment, event: Event) -> None:
    task = moment.tasks.get((event.actor, event.task))
    if task is not None:
        task.waiting = event.attributes["waiting"]


def _task_closed(moment: Moment, event: Event) -> None:
    process, closing = process_of(event.actor), event.attributes["closing"]
    for store in moment.stores_of(process, event.task):
        if closing == "CORRUPTED":
            store.forget()
        store.close(event.time, leaves_file=not moment.exactly_once)
    moment.stores = {
        key: each for key, each in moment.stores.items() if each.is_open or each.is_persistent
    }


def _task_recycled(moment: Moment, event: Event) -> None:
    task = moment.tasks.get((event.actor, event.task))
    if task is not None:
        task.is_active, task.processed = event.attributes["is_active"], {}


def _task_wiped(moment: Moment, event: Event) -> None:
    process = process_of(event.actor)
    for partition in [
        partition
        for (owner, partition), store in moment.stores.items()
        if owner == process and store.task == event.task
    ]:
        del moment.stores[process, partition]


def _state_found(moment: Moment, event: Event) -> None:
    """The store was opened and closed, so its data is synced."""
    for store in moment.stores_of(event.actor, event.task):
        store.flushes.clear()


TASK_KINDS = (
    EventKind(
        name="input.paused",
        meaning="A partition is no longer fetched, because its buffer is full.",
        actor="thread",
        about="partition",
        look=Look(
            "instance", "log", "~", "waiting", 1, "{partition} is paused: its buffer is full"
        ),
        footprint=Footprint(writes=("paused {partition}",)),
        effect=Absent("no buffers of inputs are kept"),
    ),
    EventKind(
        name="input.reset",
        meaning="A thread reads an input from another offset, because its position is gone.",
        actor="thread",
        about="task partition offset",
        attributes={
            "position": Attribute(int, "the position that is gone; -1 if none was committed")
        },
        look=Look(
            "instance", "log", "F", "faults", 2, "{partition} is read from {offset} from now on"
        ),
        adapted=_minor_at_the_first_start,
        footprint=Footprint(
            writes=("reset {partition}",), reads=("deleted {partition}", "committed {partition}")
        ),
        effect=Absent("`task.processed` tells what is read"),
    ),
    EventKind(
        name="record.dropped",
        meaning="A task has left out a record that it cannot process.",
        actor="thread",
        about="task partition offset",
        attributes={
            "reason": Attribute(str, "`timestamp`, `deserialization` or `processing`"),
        },
        look=Look(
            "task", "log", "F", "tasks", 2, "{task} leaves {partition} @{offset} out: {reason}"
        ),
        footprint=Footprint(
            writes=("processed {partition} {offset}", "input {partition} {offset}"),
            reads=("record {partition} {offset}", TASK),
        ),
        effect=_task_processed,
    ),
    EventKind(
        name="output.refused",
        meaning="An output record of a task is too large for its topic.",
        actor="thread",
        about="task partition",
        attributes={
            "key": Attribute(bytes, "its key"),
            "size": Attribute(int, "the bytes of its key and value"),
        },
        look=Look("task", "log", "!", "faults", 3, "{partition} takes no record of {size} bytes"),
        footprint=Footprint(writes=("refused output {partition}",), reads=(TASK,)),
        effect=Absent("no log has the record"),
    ),
    EventKind(
        name="state.cleaned",
        meaning="The directory of a task was deleted because it was unused for too long: for "
        "`state.cleanup.delay.ms`, or at the start for `state.cleanup.dir.max.age.ms`.",
        actor="process",
        about="task",
        look=Look(
            "disk",
            "instance",
            "W",
            "faults",
            3,
            "the unused directory of {task} is cleaned up",
        ),
        footprint=Footprint(writes=("files {process} {task}",)),
        effect=_task_wiped,
    ),
    EventKind(
        name="state.found",
        meaning="A store was found at the start of a process.",
        actor="process",
        about="task",
        attributes={
            "total": Attribute(int, "the sum of its next offsets; -1 if they are not known")
        },
        look=Look(
            "disk", "", "o", "stores", 1, "at the start {task} has offsets that add up to {total}"
        ),
        footprint=Footprint(
            writes=("looked {process} {task}", "looked {process}"), reads=("process {process}",)
        ),
        effect=_state_found,
    ),
    EventKind(
        name="state.opened",
        meaning="The stores of a task are opened at the start of a process.",
        actor="process",
        about="task",
        look=Look("disk", "instance", "o", "stores", 0, "looks into the directory of {task}"),
        footprint=Footprint(
            writes=("looked {process} {task}", "looked {process}"), reads=("process {process}",)
        ),
        effect=Absent("`state.found` tells what the stores of the task have"),
    ),
    EventKind(
        name="task.closed",
        meaning="A task was closed.",
        actor="thread",
        about="task",
        attributes={"closing": Attribute(str, "`CLEAN`, `DIRTY` or `CORRUPTED`", _said_closing)},
        look=Look("task", "instance", "<", "tasks", 2, "{task} is closed{closing}"),
        footprint=Footprint(
            writes=(TASK, "files {process} {task}"), reads=(TASK, "thread {actor}")
        ),
        effect=_task_closed,
    ),
    EventKind(
        name="task.corrupted",
        meaning="A task has to start over, because its stores cannot be relied on.",
        actor="thread",
        about="task",
        attributes={
            "reason": Attribute(str, "why it starts over"),
        },
        look=Look("task", "", "F", "faults", 3, "{task} starts over: {reason}"),
        footprint=Footprint(writes=(TASK,), reads=("trouble {process}",)),
        effect=Absent("`task.closed` tells what becomes of the stores"),
    ),
    EventKind(
        name="task.timed_out",
        meaning="A request for a task got no answer in time.",
        actor="thread",
        about="task",
        attributes={
            "waited_ms": Attribute(
                int, "the time since the first such request without progress since (KIP-572)"
            ),
        },
        look=Look("task", "", "?", "faults", 2, "{task} has waited for {waited_ms} ms"),
        footprint=Footprint(writes=("waiting {task}",), reads=("trouble {process}",)),
        effect=Absent("`thread.died` tells what a wait that is too long leads to"),
    ),
    EventKind(
        name="task.enforced",
        meaning="A task goes on without the records of an empty input.",
        actor="thread",
        about="task",
        attributes={"inputs": Attribute(tuple[str, ...], "the partitions that are empty")},
        look=Look("task", "", "~", "waiting", 2, "{task} goes on without records of {inputs}"),
        footprint=Footprint(writes=("waiting {task}",)),
        effect=Absent("`task.processed` tells that the task goes on"),
    ),
    EventKind(
        name="task.processed",
        meaning="A task has processed a record.",
        actor="thread",
        about="task partition offset",
        attributes={
            "timestamp": Attribute(int, "of the record, in milliseconds"),
            "others": Attribute(
                dict[str, list[int | None]],
                "by other input, the timestamp of its next record; or null, lag and deadline",
            ),
            "clock": Attribute(int, "the time by the clock of the process, in milliseconds"),
        },
        look=Look("task", "log", "*", "tasks", 1, "{task} processes {partition} @{offset}"),
        footprint=Footprint(
            writes=(
                "taking {actor}",
                "taking {actor} {task}",
                "taking {partition}",
                "input {partition} {offset}",
                "processed {partition} {offset}",
            ),
            reads=("record {partition} {offset}", TASK),
        ),
        effect=_task_processed,
    ),
    EventKind(
        name="task.punctuated",
        meaning="A punctuator was called.",
        actor="thread",
        about="task",
        attributes={
            "clock": Attribute(str, "`stream time` or `wall-clock time`"),
            "timestamp": Attribute(int, "the time that was passed to it, in milliseconds"),
            "interval_ms": Attribute(int, "the interval that it was scheduled with"),
        },
        look=Look("task", "", "*", "tasks", 1, "{task} punctuates by {clock}"),
        footprint=Footprint(writes=("taking {actor}", "taking {actor} {task}"), reads=(TASK,)),
        effect=Absent("`store.put` and `log.appended` tell what the punctuator writes"),
    ),
    EventKind(
        name="task.recycled",
        meaning="A task changes its role, with its stores open.",
        actor="thread",
        about="task",
        attributes={
            "is_active": Attribute(bool, "whether it is active from now on, and no standby", _role)
        },
        look=Look("task", "instance", ">", "tasks", 2, "{task} is {is_active} from now on"),
        footprint=Footprint(writes=(TASK,), reads=(TASK, "thread {actor}")),
        effect=_task_recycled,
    ),
    EventKind(
        name="task.state",
        meaning="A task changes its state.",
        actor="thread",
        about="task",
        attributes={
            "before": Attribute(
                str, "the state before: `CREATED`, `RESTORING`, `RUNNING`, `SUSPENDED`", _lower
            ),
            "after": Attribute(str, "the state from now on: one of these, or `CLOSED`", _lower),
        },
        look=Look("task", "instance", ">", "tasks", 1, "{task}: {before} → {after}"),
        adapted=_by_the_state_after,
        footprint=Footprint(writes=(TASK, "state {task}"), reads=(OWNER,)),
        effect=_task_state,
    ),
    EventKind(
        name="task.waiting",
        meaning="A task waits for records of an empty input.",
        actor="thread",
        about="task",
        attributes={"waiting": Attribute(dict[str, str], "by partition, the reason for waiting")},
        look=Look("task", "", "~", "waiting", 1, "{task} waits: {waiting}"),
        footprint=Footprint(writes=("waiting {task}",)),
        effect=_task_waiting,
    ),
    EventKind(
        name="task.wiping",
        meaning="The stores of a task are closed, and are about to be deleted from the disk.",
        actor="thread",
        about="task",
        look=Look("disk", "instance", ".", "faults", 3, "the stores of {task} are to be wiped"),
        footprint=Footprint(writes=("files {process} {task}",), reads=(TASK,)),
        effect=Absent("the files are there until `task.wiped`"),
    ),
    EventKind(
        name="task.wiped",
        meaning="All stores of a task were deleted from the disk.",
        actor="thread",
        about="task",
        look=Look("disk", "instance", "W", "faults", 3, "the stores of {task} are wiped"),
        footprint=Footprint(writes=("files {process} {task}",), reads=(TASK,)),
        effect=_task_wiped,
    ),
)
