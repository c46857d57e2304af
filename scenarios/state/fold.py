"""The state of a world at any moment of a run, told by its events alone.

Nothing is run again: what an event says is taken in by what there was before it. So a trace that
was read from a file can be looked into as well as a run that has just ended. What no event tells
is not here either: the rows of a record cache, and that a process stands still or is cut off.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from streamproof.scenarios.recorded_run import Played
from streamproof.scenarios.state.model import LogState, Process, Store, Task, Thread, Transaction
from streamproof.sim.decisions.recovery import OFFSET_UNKNOWN
from streamproof.sim.invariants.log_history import GROUP_TARGET, Record
from streamproof.sim.trace import Event
from streamproof.sim.upgraded_formats import NEWER
from streamproof.sim.upgraded_stores import OFFSET_DELTA_THRESHOLD

__all__ = ["GLOBAL", "Moment", "Moments", "moments", "process_of"]

SNAPSHOT_EVERY = 1_000
"""So many events at most are taken in to get to a moment from one that was kept."""

KEEPS_FILE = "keeps-checkpoint-while-running"
"""The defect by which the file with the offset outlives the first write (KAFKA-20685)."""

GLOBAL = "global"
"""The task of a global store, which belongs to none."""


def process_of(actor: str) -> str:
    """The process of an actor: ``instance-0`` of ``instance-0/thread-1``."""
    return actor.partition("/")[0]


class Moment:
    """The state of a world right after one event, as far as the events tell.

    Args:
        defects: the mistakes that the runtime makes.

    Attributes:
        defects: the mistakes that the runtime makes.
        sequence: of the event; -1 before the first.
        time: in virtual milliseconds.
        settings: what ``application.started`` has told.
        processes: by name.
        tasks: by thread and id, those that are open.
        stores: by process and changelog, those that are open, and what is left of others.
        logs: by partition.
        committed: the committed offset of each input.
        transactions: by id of the producer, its last one.
        owners: by id of the producer, the thread whose it is, or was.
    """

    def __init__(self, defects: Iterable[str] = ()) -> None:
        self.defects = tuple(defects)
        self.sequence = -1
        self.time = 0
        self.settings: Mapping[str, Any] = {}
        self.processes: dict[str, Process] = {}
        self.tasks: dict[tuple[str, str], Task] = {}
        self.stores: dict[tuple[str, str], Store] = {}
        self.logs: dict[str, LogState] = {}
        self.committed: dict[str, int] = {}
        self.transactions: dict[int, Transaction] = {}
        self.owners: dict[int, str] = {}

    def copy(self) -> Moment:
        """The same moment, which goes on apart from this one."""
        other = Moment(self.defects)
        other.sequence, other.time, other.settings = self.sequence, self.time, self.settings
        other.processes = {name: each.copy() for name, each in self.processes.items()}
        other.tasks = {
            key: replace(each, processed=dict(each.processed)) for key, each in self.tasks.items()
        }
        other.stores = {key: each.copy() for key, each in self.stores.items()}
        other.logs = {name: each.copy() for name, each in self.logs.items()}
        other.committed = dict(self.committed)
        other.transactions = {key: each.copy() for key, each in self.transactions.items()}
        other.owners = dict(self.owners)
        return other

    def see(self, event: Event) -> None:
        """Take in what has happened."""
        self.sequence, self.time = event.sequence, event.time
        take = _TAKEN_BY.get(event.kind)
        if take is not None:
            take(self, event)

    @property
    def exactly_once(self) -> bool:
        """The guarantee under which the application runs."""
        return bool(self.settings.get("exactly_once", True))

    def process(self, actor: str) -> Process:
        """The process of an actor."""
        return self.processes.setdefault(process_of(actor), Process())

    def thread(self, name: str) -> Thread:
        """A thread, which lives from the first event of it on."""
        return self.process(name).threads.setdefault(name, Thread())

    def log(self, partition: str) -> LogState:
        """The log of a partition; empty before its first record."""
        found = self.logs.get(partition)
        if found is None:
            found = self.logs[partition] = LogState()
        return found

    def store(self, event: Event) -> Store:
        """The store that an event is about."""
        where = process_of(event.actor), event.partition
        found = self.stores.get(where)
        if found is None:
            found = self.stores[where] = Store(event.task)
        return found

    def stores_of(self, process: str, task: str = "") -> Iterator[Store]:
        """The stores of a process, or those of one of its tasks."""
        for (owner, _), store in self.stores.items():
            if owner == process and task in ("", store.task):
                yield store

    def transaction(self, producer: int) -> Transaction:
        """The transaction of a producer that goes on; a new one, if the last is over."""
        found = self.transactions.get(producer)
        if found is None or found.is_over:
            name = "" if found is None else found.name
            found = self.transactions[producer] = Transaction(name, since=self.time)
        return found

    def name_of(self, producer: int) -> str:
        """A producer: its transactional id, or whose it is, as far as it was told."""
        known = self.transactions.get(producer)
        if known is not None and known.name:
            return known.name
        return f"producer {producer} of {self.owners.get(producer, 'the workload')}"


# Processes, threads and tasks.


def _application_started(moment: Moment, event: Event) -> None:
    moment.settings = event.attributes


STANDS_STILL, IS_CUT_OFF, IS_FULL = "stands still", "is cut off", "has a full disk"

_TROUBLES = {
    "disk.emptied": (IS_FULL, False),
    "disk.filled": (IS_FULL, True),
    "instance.stood_still": (STANDS_STILL, True),
    "instance.went_on": (STANDS_STILL, False),
    "network.connected": (IS_CUT_OFF, False),
    "network.cut": (IS_CUT_OFF, True),
}


def _instance_started(moment: Moment, event: Event) -> None:
    more = event.attributes
    # The machine is the same, and so is its network.
    kept = moment.process(event.actor).troubles - {STANDS_STILL}
    moment.processes[event.actor] = Process(
        since=event.time,
        troubles=kept,
        release=more["release"],
        manages_offsets=more["manages_offsets"],
    )


def _instance_troubled(moment: Moment, event: Event) -> None:
    process = moment.process(event.actor)
    trouble, begins = _TROUBLES[event.kind]
    process.troubles = process.troubles | {trouble} if begins else process.troubles - {trouble}


def _instance_paused(moment: Moment, event: Event) -> None:
    moment.process(event.actor).is_paused = event.kind == "instance.paused"


def _instance_ended(moment: Moment, event: Event) -> None:
    process = moment.process(event.actor)
    process.is_up = process.is_paused = False
    process.since, process.threads = event.time, {}
    moment.tasks = {
        key: each for key, each in moment.tasks.items() if process_of(key[0]) != event.actor
    }
    for store in moment.stores_of(event.actor):
        store.lose_memory()
    moment.stores = {
        key: each
        for key, each in moment.stores.items()
        if key[0] != event.actor or each.is_persistent
    }


def _power_lost(moment: Moment, event: Event) -> None:
    for store in moment.stores_of(event.actor):
        if event.attributes["flushes"] and store.flushes:
            store.is_certain = False
        store.flushes.clear()


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


def _task_state(moment: Moment, event: Event) -> None:
    where, after = (event.actor, event.task), event.attributes["after"]
    task = moment.tasks.get(where)
    if after in ("CREATED", "CLOSED"):
        moment.tasks.pop(where, None)
    elif task is None:
        is_active = event.task not in moment.thread(event.actor).standby
        moment.tasks[where] = Task(after, is_active, event.time)
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


def _task_wiped(moment: Moment, event: Event) -> None:
    process = process_of(event.actor)
    for partition in [
        partition
        for (owner, partition), store in moment.stores.items()
        if owner == process and store.task == event.task
    ]:
        del moment.stores[process, partition]


# Stores.


def _store_opened(moment: Moment, event: Event) -> None:
    store, more = moment.store(event), event.attributes
    store.name, store.is_persistent, store.is_open = more["store"], more["persistent"], True
    # It may be known that there is no offset: that is less than -1 (OFFSET_UNKNOWN).
    store.offset = store.committed_offset = store.flushed_offset = max(event.offset, -1)
    store.has_failed = False
    store.has_file = store.is_persistent and not moment.process(event.actor).manages_offsets
    if store.has_file and moment.exactly_once:
        # The file is gone until the store is closed, so that a crash leaves none.
        store.flushed_offset = -1


def _store_found(moment: Moment, event: Event) -> None:
    """Nothing is in memory yet: what is found is what is on the disk."""
    store, rows = moment.store(event), event.attributes["rows"]
    store.staged, store.memory, store.disk = {}, {}, dict(rows)
    store.offset, store.is_certain = event.offset, True


def _store_told(moment: Moment, event: Event) -> None:
    store = moment.store(event)
    store.hold(dict(event.attributes["rows"]))
    store.offset = event.offset


def _store_put(moment: Moment, event: Event) -> None:
    store = moment.store(event)
    if store.has_file and moment.exactly_once and KEEPS_FILE not in moment.defects:
        # From now on no offset vouches for what is there (KAFKA-20685).
        store.flushed_offset = -1
    layer = store.staged if moment.settings.get("transactional") else store.memory
    layer[event.attributes["key"]] = event.attributes["value"]


def _store_restored(moment: Moment, event: Event) -> None:
    store = moment.store(event)
    batch = moment.log(event.partition).batch(
        store.offset,
        event.offset,
        event.attributes["records"],
        exactly_once=moment.exactly_once,
    )
    store.memory |= {record.key: record.value for record in batch}
    store.offset = event.offset


def _global_applied(moment: Moment, event: Event) -> None:
    store = moment.store(event)
    store.task, store.name = GLOBAL, event.attributes["store"]
    store.is_open, store.is_persistent = True, False
    _store_restored(moment, event)


def _store_committed(moment: Moment, event: Event) -> None:
    store = moment.store(event)
    # A file may say that it is known that there is no offset; no file says nothing.
    is_unknown = store.has_file and event.offset < 0
    store.commit(OFFSET_UNKNOWN if is_unknown else event.offset)
    delta = store.committed_offset - store.flushed_offset
    if store.has_file and (moment.exactly_once or not 0 <= delta <= OFFSET_DELTA_THRESHOLD):
        store.write_file(event.time)


def _store_flushed(moment: Moment, event: Event) -> None:
    moment.store(event).flush(event.time)


def _disk_full(moment: Moment, event: Event) -> None:
    """A store that is being closed then is closed without what was in memory."""
    suspended = {
        task
        for (thread, task), each in moment.tasks.items()
        if process_of(thread) == event.actor and each.state == "SUSPENDED"
    }
    name = event.attributes["store"].removesuffix(NEWER)
    for store in moment.stores_of(event.actor):
        if store.task in suspended and store.name == name:
            store.has_failed = True


def _state_found(moment: Moment, event: Event) -> None:
    """It was opened and closed, and so it is synced."""
    for store in moment.stores_of(event.actor, event.task):
        store.flushes.clear()


# Logs and transactions.


def _log_appended(moment: Moment, event: Event) -> None:
    more, log = event.attributes, moment.log(event.partition)
    record = Record(
        event.offset,
        more["key"],
        more["value"],
        more["timestamp"],
        more["producer"],
        more["transactional"],
    )
    log.append(record)
    if record.transactional:
        records = moment.transaction(record.producer).records
        records[event.partition] = records.get(event.partition, 0) + 1


def _log_deleted(moment: Moment, event: Event) -> None:
    moment.log(event.partition).start = event.offset


def _log_compacted(moment: Moment, event: Event) -> None:
    moment.log(event.partition).compact(event.offset)


def _offsets_added(moment: Moment, event: Event) -> None:
    moment.transaction(event.attributes["producer"]).offsets |= event.attributes["offsets"]


def _offsets_committed(moment: Moment, event: Event) -> None:
    moment.committed |= event.attributes["offsets"]


def _transaction_decided(moment: Moment, event: Event) -> None:
    more = event.attributes
    transaction = moment.transaction(more["producer"])
    transaction.name = more["transactional_id"]
    transaction.state = "committing" if more["commit"] else "aborting"
    for log in moment.logs.values():
        log.decide(more["producer"], commit=more["commit"])


def _transaction_timed_out(moment: Moment, event: Event) -> None:
    for transaction in moment.transactions.values():
        if transaction.name == event.attributes["transactional_id"] and not transaction.is_over:
            transaction.state = "aborting"


def _transaction_marker(moment: Moment, event: Event) -> None:
    more = event.attributes
    producer, commit = more["producer"], more["commit"]
    if not event.partition.startswith(GROUP_TARGET):
        moment.log(event.partition).mark(producer, event.offset, commit=commit)
    transaction = moment.transaction(producer)
    transaction.name = more["transactional_id"]
    transaction.marked.append(event.partition)
    state = ("committed", "committing") if commit else ("aborted", "aborting")
    transaction.state = state[0] if more["complete"] else state[1]


_TAKEN_BY: Mapping[str, Callable[[Moment, Event], None]] = {
    "application.started": _application_started,
    "disk.full": _disk_full,
    "disk.power_lost": _power_lost,
    "global.applied": _global_applied,
    "instance.crashed": _instance_ended,
    **dict.fromkeys(_TROUBLES, _instance_troubled),
    "instance.paused": _instance_paused,
    "instance.resumed": _instance_paused,
    "instance.started": _instance_started,
    "instance.stopped": _instance_ended,
    "log.appended": _log_appended,
    "log.compacted": _log_compacted,
    "log.deleted": _log_deleted,
    "offsets.added": _offsets_added,
    "offsets.committed": _offsets_committed,
    "state.cleaned": _task_wiped,
    "state.found": _state_found,
    "store.closing": _store_told,
    "store.committed": _store_committed,
    "store.flushed": _store_flushed,
    "store.found": _store_found,
    "store.opened": _store_opened,
    "store.put": _store_put,
    "store.restored": _store_restored,
    "store.running": _store_told,
    "task.closed": _task_closed,
    "task.processed": _task_processed,
    "task.state": _task_state,
    "task.waiting": _task_waiting,
    "task.wiped": _task_wiped,
    "thread.assigned": _thread_assigned,
    "thread.died": _thread_ended,
    "thread.lost": _thread_lost,
    "thread.producer": _thread_producer,
    "thread.stopped": _thread_ended,
    "transaction.decided": _transaction_decided,
    "transaction.marker": _transaction_marker,
    "transaction.timed_out": _transaction_timed_out,
}
"""What each kind of event changes."""


class Moments:
    """All moments of a run, each of them within reach.

    Args:
        events: of the run, in order.
        defects: the mistakes that the runtime has made.
    """

    def __init__(self, events: Sequence[Event], defects: Iterable[str] = ()) -> None:
        self._events = events
        # Before the first event, and after each thousandth, as far as it was asked for.
        self._kept = [Moment(defects)]

    def at(self, sequence: int) -> Moment:
        """The moment right after an event.

        Args:
            sequence: of the event; before the first one it is the beginning, past the last the end.
        """
        count = bisect_right(self._events, sequence, key=lambda event: event.sequence)
        nearest = count // SNAPSHOT_EVERY
        while len(self._kept) <= nearest:
            self._keep()
        return self._after(nearest, count)

    def _keep(self) -> None:
        """Keep the next moment."""
        count = len(self._kept) * SNAPSHOT_EVERY
        self._kept.append(self._after(len(self._kept) - 1, count))

    def _after(self, kept: int, count: int) -> Moment:
        """The moment after so many events, from one that was kept."""
        moment = self._kept[kept].copy()
        for event in self._events[kept * SNAPSHOT_EVERY : count]:
            moment.see(event)
        return moment


def moments(played: Played) -> Moments:
    """All moments of a run."""
    return Moments(played.events, played.defects)
