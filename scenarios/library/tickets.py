"""Mistakes that scenarios of this library bring with them, each named by the ticket that has it.

Each function takes the place of a function of the simulated runtime, which it gets first. The
scenario names the function and its seam.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streamproof.sim.broker_errors import BrokerError

__all__ = [
    "commit_no_unknown_offset",
    "commit_what_was_written",
    "commit_without_offsets",
    "flush_past_an_error",
    "flush_without_waiting",
    "forget_the_others",
    "forget_the_restored",
    "forget_the_revived",
    "leave_standbys_open",
    "resume_only_at_the_limit",
    "resume_without_a_word",
    "tell_the_total",
]


def commit_no_unknown_offset(original: Callable[..., Any], task: Any, name: str) -> None:
    """A store without an offset is closed without a word about that (KAFKA-19712)."""
    if task.stores[name].offset is not None:
        original(task, name)


def commit_without_offsets(
    original: Callable[..., Any], thread: Any, task: Any, closing: Any
) -> Iterator[Any]:
    """A task that moves ends the transaction of the thread, without offsets (KAFKA-18943)."""
    if thread.producer.in_transaction:
        yield from thread.producer.commit()
    yield from original(thread, task, closing)


def resume_only_at_the_limit(original: Callable[..., Any], queues: Any, partition: str) -> bool:
    """An input is resumed only if its buffer has exactly as many records as allowed (KAFKA-17299).

    If two records are taken between two looks at the buffer, the number is skipped.
    """
    one_less = queues.buffered(partition) + 1
    return bool(original(queues, partition)) and one_less > queues.limit


def resume_without_a_word(original: Callable[..., Any], updater: Any, task_id: str) -> None:
    """A paused task may go on, but nobody wakes the state updater that sleeps (KAFKA-14299)."""
    wake, updater.wake = updater.wake, lambda: None
    original(updater, task_id)
    updater.wake = wake


def flush_without_waiting(original: Callable[..., Any], producer: Any) -> Iterator[Any]:
    """A flush waits for no record that is sent again (KAFKA-19479)."""
    del original, producer
    yield from ()


def forget_the_others(original: Callable[..., Any], thread: Any, task: Any) -> Iterator[Any]:
    """If one restored task times out, the thread forgets the others (KAFKA-19994)."""
    yield from original(thread, task)
    restored = thread.updater.restored
    if task in restored:
        restored[:] = [task]


def tell_the_total(original: Callable[..., Any], announcer: Any, updating: Any, *more: Any) -> None:
    """The listener hears the total instead of the batch (KAFKA-18962)."""
    partition, offset, _, log_end = more
    total = updating.changelogs[partition].total
    original(announcer, updating, partition, offset, total, log_end)


_written: dict[str, int] = {}
"""By changelog, the last offset that a task had before it was closed for an error."""


def commit_what_was_written(original: Callable[..., Any], task: Any, closing: Any) -> None:
    """A clean close during a restoration commits the last written offset (KAFKA-16017)."""
    for holder in task.stores.values():
        if closing.name != "CLEAN":
            _written[holder.changelog] = holder.offset
        elif holder.changelog in _written:
            holder.offset = max(holder.offset or 0, _written[holder.changelog] or 0)
    original(task, closing)


def leave_standbys_open(
    original: Callable[..., Any], thread: Any, task: Any, closing: Any
) -> Iterator[Any]:
    """A thread that stops closes its active tasks alone (KAFKA-19960)."""
    if thread.is_active(task.id):
        yield from original(thread, task, closing)


_begun: dict[str, int] = {}
"""By task, how often it was about to run."""


def forget_the_restored(original: Callable[..., Any], thread: Any, task: Any) -> Iterator[Any]:
    """A task that comes back after a loss is closed once it is restored (KAFKA-15690)."""
    _begun[task.id] = _begun.get(task.id, 0) + 1
    if _begun[task.id] == 2:
        thread.updater.restored.remove(task)
    else:
        yield from original(thread, task)


def forget_the_revived(original: Callable[..., Any], updater: Any, task: Any, **role: Any) -> None:
    """A task that was corrupted is not handed to the state updater again (KAFKA-10199)."""
    _given[task.id] = _given.get(task.id, 0) + 1
    if _given[task.id] == 1:
        original(updater, task, **role)


_given: dict[str, int] = {}
"""By task, how often the state updater was to have it."""


def flush_past_an_error(original: Callable[..., Any], producer: Any) -> Iterator[Any]:
    """A record of one task that was given up is no error for the others (KAFKA-16903)."""
    try:
        yield from original(producer)
    except BrokerError:
        producer.error = None
