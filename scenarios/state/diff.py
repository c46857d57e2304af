"""The changes between two moments of a run, in words: one line for each change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from streamproof.sim.event_kinds.wording import plain
from streamproof.sim.run_state import (
    FoldedLog,
    FoldedProcess,
    FoldedStore,
    FoldedTask,
    FoldedThread,
    FoldedTransaction,
    Moment,
)

__all__ = ["StateChange", "changes", "counted", "offset_of"]

MAX_ROWS = 5
"""The most changed rows of a store that are named."""


class StateChange(NamedTuple):
    """One change in the state.

    Attributes:
        what: the process, thread, task, store, log, input or transaction that has changed.
        how: the change, as a sentence without its subject and its end.
    """

    what: str
    how: str


def changes(before: Moment, after: Moment) -> Iterator[StateChange]:
    """The changes between two moments, from the processes to the logs.

    Args:
        before: the earlier moment.
        after: the later moment.
    """
    yield from _processes(before.processes, after.processes)
    yield from _tasks(before.tasks, after.tasks)
    yield from _stores(before.stores, after.stores)
    yield from _logs(before.logs, after.logs)
    for name in sorted(after.committed):
        old, new = before.committed.get(name), after.committed[name]
        if old != new:
            yield StateChange(name, _to("committed", "nothing" if old is None else old, new))
    for producer, new_transaction in sorted(after.transactions.items()):
        what = after.name_of(producer)
        for how in _transaction(before.transactions.get(producer), new_transaction):
            yield StateChange(what, how)


def counted(number: int, what: str, plural: str = "") -> str:
    """A number of things: ``1 row``, ``2 rows``."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}"


def offset_of(offset: int) -> str:
    """An offset; -1 is ``none``."""
    return "none" if offset < 0 else str(offset)


def _to(what: str, old: object, new: object) -> str:
    return f"{what} {old} → {new}"


def _process(old: FoldedProcess, new: FoldedProcess) -> Iterator[str]:
    if new.is_up and (not old.is_up or new.since != old.since):
        yield f"runs, with release {new.release or '?'}"
    if old.is_up and not new.is_up:
        yield "is down: its threads and what was in its memory are gone"
    if new.is_up and new.is_paused != old.is_paused:
        yield "holds its work" if new.is_paused else "goes on"
    yield from sorted(new.troubles - old.troubles)
    yield from (f"{trouble} no more" for trouble in sorted(old.troubles - new.troubles))


def _processes(
    before: Mapping[str, FoldedProcess], after: Mapping[str, FoldedProcess]
) -> Iterator[StateChange]:
    for name, new in sorted(after.items()):
        old = before.get(name, FoldedProcess(is_up=False))
        for how in _process(old, new):
            yield StateChange(name, how)
        if not new.is_up:
            continue
        for thread in sorted(old.threads.keys() - new.threads.keys()):
            yield StateChange(thread, "is gone")
        for thread, state in sorted(new.threads.items()):
            for how in _thread(old.threads.get(thread, FoldedThread()), state):
                yield StateChange(thread, how)


def _thread(old: FoldedThread, new: FoldedThread) -> Iterator[str]:
    if old.generation != new.generation:
        yield _to("generation", offset_of(old.generation), new.generation)
    if old.active != new.active:
        yield _to("has", ", ".join(old.active) or "no task", ", ".join(new.active) or "no task")
    if old.standby != new.standby:
        standby = (", ".join(each) or "no task" for each in (old.standby, new.standby))
        yield _to("follows", *standby)
    if old.producer != new.producer:
        yield _to("producer", offset_of(old.producer), new.producer)


_Tasks = Mapping[tuple[str, str], FoldedTask]


def _tasks(before: _Tasks, after: _Tasks) -> Iterator[StateChange]:
    for thread, name in sorted(before.keys() | after.keys()):
        old, new = before.get((thread, name)), after.get((thread, name))
        what = f"task {name} in {thread}"
        if new is None:
            yield StateChange(what, "is closed")
        elif old is None:
            yield StateChange(what, f"is {new.state}{'' if new.is_active else ', as a standby'}")
        else:
            for how in _task(old, new):
                yield StateChange(what, how)


def _task(old: FoldedTask, new: FoldedTask) -> Iterator[str]:
    if old.state != new.state:
        yield _to("is", old.state, new.state)
    for partition, offset in new.processed.items():
        if old.processed.get(partition) != offset:
            yield f"has processed {partition} up to {offset - 1}"
    if old.waiting != new.waiting:
        waiting = ", ".join(f"{name} ({why})" for name, why in new.waiting.items())
        yield f"waits for {waiting}" if waiting else "waits no more"


_Stores = Mapping[tuple[str, str], FoldedStore]


def _stores(before: _Stores, after: _Stores) -> Iterator[StateChange]:
    for process, partition in sorted(before.keys() | after.keys()):
        old, new = before.get((process, partition)), after.get((process, partition))
        known = new or old
        what = f"{known.name if known and known.name else partition} on {process}"
        if new is None:
            gone = counted(len(old.rows) if old else 0, "row")
            yield StateChange(what, f"is gone, with {gone}")
            continue
        for how in _store(old or FoldedStore(new.task), new):
            yield StateChange(what, how)


def _store(old: FoldedStore, new: FoldedStore) -> Iterator[str]:
    if old.is_open != new.is_open:
        yield "is open" if new.is_open else "is closed"
    yield from _rows(old.rows, new.rows)
    for what, was, now in (
        ("staged writes", len(old.staged), len(new.staged)),
        ("writes in memory only", len(old.memory), len(new.memory)),
        ("rows on the disk", len(old.disk), len(new.disk)),
    ):
        if was != now:
            yield _to(what, was, now)
    for what, was, now in (
        ("offset", old.offset, new.offset),
        ("committed offset", old.committed_offset, new.committed_offset),
        ("offset on the disk", old.flushed_offset, new.flushed_offset),
    ):
        if offset_of(was) != offset_of(now):
            yield _to(what, offset_of(was), offset_of(now))
    if old.is_certain and not new.is_certain:
        yield "has lost flushes: the remaining rows show when it is opened again"


def _rows(old: Mapping[bytes, bytes], new: Mapping[bytes, bytes]) -> Iterator[str]:
    changed = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    for key in changed[:MAX_ROWS]:
        yield _to(f"row {plain(key)}:", plain(old.get(key)), plain(new.get(key)))
    if len(changed) > MAX_ROWS:
        yield f"and {counted(len(changed) - MAX_ROWS, 'more row')}"


def _logs(before: Mapping[str, FoldedLog], after: Mapping[str, FoldedLog]) -> Iterator[StateChange]:
    for partition, new in sorted(after.items()):
        for how in _log(before.get(partition) or FoldedLog(), new):
            yield StateChange(partition, how)


def _log(old: FoldedLog, new: FoldedLog) -> Iterator[str]:
    for what, was, now in (
        ("start", old.start, new.start),
        ("end", old.end, new.end),
        ("last stable offset", old.last_stable_offset, new.last_stable_offset),
    ):
        if was != now:
            yield _to(what, was, now)
    for what, added in (
        ("aborted", len(new.aborted) - len(old.aborted)),
        ("compacted away", len(new.compacted) - len(old.compacted)),
    ):
        if added:
            yield f"{counted(added, 'record')} {'is' if added == 1 else 'are'} {what}"


def _transaction(old: FoldedTransaction | None, new: FoldedTransaction) -> Iterator[str]:
    began = old is None or (old.is_over and new.since != old.since)
    if old is None or began:
        old = FoldedTransaction(state="none")
    if old.state != new.state:
        yield _to("is", old.state, new.state)
    records = sum(old.records.values()), sum(new.records.values())
    if records[0] != records[1]:
        yield _to("records in it", *records)
    for partition, offset in new.offsets.items():
        if old.offsets.get(partition) != offset:
            yield f"offset {offset} of {partition} is to be committed with it"
    missing = [each for each in new.records if each not in new.marked]
    if len(old.marked) != len(new.marked) and missing:
        yield f"markers are still missing in {', '.join(missing)}"
