"""Seams: the functions of the simulated runtime that a patch may replace, by stable names.

A scenario for a new ticket brings its own mistake: a function in a Python file beside it. The
function gets what it replaces as its first argument, so it can wrap it as well. A seam keeps its
name and its arguments between releases; everything else about the objects may change.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import isgeneratorfunction
from typing import Any, NamedTuple

from streamproof.sim.clients.consumer import Consumer
from streamproof.sim.clients.membership import Membership
from streamproof.sim.clients.producer import Producer
from streamproof.sim.state_directory import StateDirectory
from streamproof.sim.stream_thread import StreamThread
from streamproof.sim.tasks.record_queues import PartitionGroup
from streamproof.sim.tasks.restoration_progress import Announcer
from streamproof.sim.tasks.state_updater import StateUpdater
from streamproof.sim.tasks.stream_task import StreamTask
from streamproof.sim.tasks.task_committer import Committer

__all__ = ["SEAMS", "Seam", "opened"]


class Seam(NamedTuple):
    """A function of the runtime that may be replaced.

    Attributes:
        owner: the class that has the function.
        function: its name in the class.
        arguments: the arguments in the documentation; the object comes first.
        what: what the function does, in one sentence.
    """

    owner: type[Any]
    function: str
    arguments: str
    what: str

    @property
    def has_steps(self) -> bool:
        """Whether the function is a generator: it takes virtual time, or waits for brokers."""
        return isgeneratorfunction(getattr(self.owner, self.function))


SEAMS: dict[str, Seam] = {
    "committer.commit": Seam(
        Committer,
        "commit",
        "committer, tasks, closing",
        "Commits the tasks of a thread: caches, producer, input offsets, stores.",
    ),
    "consumer.ask_for_end": Seam(
        Consumer,
        "_ask_for_end",
        "consumer, partition, state",
        "Asks the brokers for the end of a partition whose lag is not known.",
    ),
    "consumer.current_lag": Seam(
        Consumer,
        "current_lag",
        "consumer, partition",
        "Returns the records behind the position, or None if the end is not known.",
    ),
    "consumer.seek": Seam(
        Consumer, "seek", "consumer, partition, offset", "Goes on from another offset."
    ),
    "directory.lock": Seam(
        StateDirectory,
        "lock",
        "directory, task_id, thread",
        "Locks the directory of a task; returns whether the thread has the lock.",
    ),
    "directory.unlock": Seam(
        StateDirectory, "unlock", "directory, task_id, thread", "Gives the lock back."
    ),
    "directory.wipe": Seam(
        StateDirectory, "wipe", "directory, task_id", "Deletes the stores of a task."
    ),
    "membership.rejoin": Seam(
        Membership, "rejoin", "membership", "Asks the group for another rebalance."
    ),
    "producer.flush": Seam(
        Producer, "flush", "producer", "Waits until the brokers have confirmed all records."
    ),
    "producer.send": Seam(
        Producer,
        "send",
        "producer, partition, key, value, timestamp",
        "Queues a record to be sent.",
    ),
    "queues.has_space": Seam(
        PartitionGroup,
        "has_space",
        "queues, partition",
        "Returns whether a paused input may be fetched again.",
    ),
    "queues.next_record": Seam(
        PartitionGroup,
        "next_record",
        "queues",
        "Takes the next record of a task: the partition and the record, or None.",
    ),
    "restoration.applied": Seam(
        Announcer,
        "applied",
        "announcer, updating, partition, offset, count, log_end",
        "Tells listeners and metrics of a batch that was applied.",
    ),
    "task.close": Seam(StreamTask, "close", "task, closing", "Closes the stores of a task."),
    "task.commit_store": Seam(
        StreamTask, "commit_store", "task, name", "Commits the offset of one store to it."
    ),
    "task.committable_offsets": Seam(
        StreamTask,
        "committable_offsets",
        "task, positions",
        "Returns the offsets of the inputs to commit, by partition.",
    ),
    "task.flush_caches": Seam(
        StreamTask, "flush_caches", "task", "Writes the record caches to the stores."
    ),
    "task.process": Seam(
        StreamTask, "process", "task, now", "Processes the next record; returns whether it did."
    ),
    "task.punctuate": Seam(
        StreamTask,
        "punctuate",
        "task, now",
        "Calls the punctuators that are due; returns whether any was.",
    ),
    "task.suspend": Seam(StreamTask, "suspend", "task", "Stops the processing of a task."),
    "thread.begin": Seam(
        StreamThread, "_begin", "thread, task", "Lets a restored task run from its offsets."
    ),
    "thread.give_up": Seam(
        StreamThread,
        "_give_up",
        "thread, task, closing",
        "Suspends and closes a task, and unlocks its directory.",
    ),
    "thread.handle_lost": Seam(
        StreamThread,
        "_handle_lost",
        "thread, error",
        "Closes the tasks that other members own by now.",
    ),
    "thread.pause": Seam(StreamThread, "pause", "thread", "Holds the work of a thread (KIP-834)."),
    "thread.resume": Seam(StreamThread, "resume", "thread", "Goes on after a pause (KIP-834)."),
    "thread.take_assignment": Seam(
        StreamThread,
        "_take",
        "thread, assignment",
        "Gives up the tasks of other members, and prepares the new ones.",
    ),
    "updater.add": Seam(
        StateUpdater,
        "add",
        "updater, task, *, is_active",
        "Takes a task over, to restore it or to keep it up to date.",
    ),
    "updater.pause": Seam(StateUpdater, "pause", "updater, task_id", "Lets a task wait."),
    "updater.remove": Seam(
        StateUpdater, "remove", "updater, task_id, reason", "Gives a task up in any state."
    ),
    "updater.resume": Seam(
        StateUpdater, "resume", "updater, task_id", "Goes on with a paused task."
    ),
}
"""All seams, by name."""


@contextmanager
def opened(seam: str, replacement: Any) -> Iterator[None]:
    """Replace the function of a seam inside the block.

    Args:
        seam: the name of the seam.
        replacement: called instead, with the same arguments.
    """
    owner, function = SEAMS[seam].owner, SEAMS[seam].function
    before = getattr(owner, function)
    setattr(owner, function, replacement)
    try:
        yield
    finally:
        setattr(owner, function, before)
