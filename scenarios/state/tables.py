"""One moment of a run in tables: threads, tasks, stores, logs and transactions.

The tables fit into 80 columns; longer cells are wrapped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from streamproof.errors import UsageError
from streamproof.scenarios.state.diff import counted, offset_of
from streamproof.sim.event_kinds.wording import plain
from streamproof.sim.run_state import FoldedStore, Moment

__all__ = ["log_of", "logs", "offsets", "store_of", "task_of", "transactions", "who"]

MAX_ROWS = 20
"""The most rows of a store that are shown."""

LAST_RECORDS = 10
"""The default number of records of a log that are shown."""


def _table(*columns: str, numbers: Sequence[str] = ()) -> Table:
    """An empty table; the columns of numbers are on the right."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for each in columns:
        table.add_column(each, justify="right" if each in numbers else "left", overflow="fold")
    return table


def _add(table: Table, *cells: str) -> None:
    """Add a row; its cells are plain text, and never markup."""
    table.add_row(*map(Text, cells))


def _seconds(time_ms: int) -> str:
    return f"{time_ms / 1000:.3f} s"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def who(moment: Moment) -> RenderableType:
    """The processes and their threads."""
    table = _table("who", "is", "since", "generation", "has", "follows", numbers=["generation"])
    for name, process in sorted(moment.processes.items()):
        state = "up" if process.is_up else "down"
        if process.is_paused:
            state = "up, holds its work"
        state = ", ".join([state, *sorted(process.troubles)])
        _add(table, name, state, _seconds(process.since), "", "", "")
        for thread, each in sorted(process.threads.items()):
            _add(
                table,
                f"  {thread.removeprefix(name + '/')}",
                f"producer {offset_of(each.producer)}",
                "",
                offset_of(each.generation),
                _listed(each.active),
                _listed(each.standby),
            )
    return table if moment.processes else Text("There is no process yet.")


def _found(moment: Moment, name: str) -> list[tuple[tuple[str, str], FoldedStore]]:
    """The stores with this task, name or changelog, on every process."""
    return [
        (where, store)
        for where, store in sorted(moment.stores.items())
        if name in (store.task, store.name, where[1])
    ]


def _require(found: object, what: str, name: str, known: Collection[str]) -> None:
    if not found:
        there = f"there are: {_listed(known)}" if known else "there is none at this moment"
        raise UsageError(f"There is no {what} {name!r} here; {there}.")


def task_of(moment: Moment, name: str) -> RenderableType:
    """A task in each thread that has it open, and its stores.

    Raises:
        UsageError: there is no such task at this moment.
    """
    tasks = [(thread, task) for (thread, id_), task in sorted(moment.tasks.items()) if id_ == name]
    stores = [each for each in _found(moment, name) if each[1].task == name]
    known = {each for _, each in moment.tasks} | {each.task for each in moment.stores.values()}
    _require(tasks or stores, "task", name, known)
    lines: list[RenderableType] = []
    for thread, task in tasks:
        role = "" if task.is_active else ", as a standby"
        lines.append(Text(f"{thread}: {task.state}{role} since {_seconds(task.since)}"))
        for partition, offset in sorted(task.processed.items()):
            committed = moment.committed.get(partition)
            end = moment.log(partition).end
            lines.append(
                Text(
                    f"  {partition}: processed up to {offset - 1}, "
                    f"committed {'nothing' if committed is None else committed}, end {end}"
                )
            )
        for partition, why in task.waiting.items():
            lines.append(Text(f"  waits for {partition}: {why}"))
    if not tasks:
        lines.append(Text(f"Task {name} is open nowhere."))
    table = _table("store", "on", "is", "rows", "offset", "committed", "on disk", numbers=_NUMBERS)
    for (process, partition), store in stores:
        _add(
            table,
            store.name or partition,
            process,
            "open" if store.is_open else "closed",
            str(len(store.rows)),
            offset_of(store.offset),
            offset_of(store.committed_offset),
            offset_of(store.flushed_offset),
        )
    return Group(*lines, table) if stores else Group(*lines)


_NUMBERS = ("rows", "offset", "committed", "on disk")


def store_of(moment: Moment, name: str) -> RenderableType:
    """The stores with this task or name, on every process, with their rows and layers.

    Raises:
        UsageError: there is no such store at this moment.
    """
    found = _found(moment, name)
    known = {each.task for each in moment.stores.values()}
    known |= {each.name for each in moment.stores.values() if each.name}
    _require(found, "store", name, known)
    parts: list[RenderableType] = []
    for (process, partition), store in found:
        parts += [*_head_of(moment, process, partition, store), _rows_of(moment, store, partition)]
    return Group(*parts)


def _head_of(
    moment: Moment, process: str, partition: str, store: FoldedStore
) -> list[RenderableType]:
    state = "open" if store.is_open else "closed"
    kept = "" if store.is_persistent else ", in memory only"
    rows = counted(len(store.rows), "row")
    reached = ", ".join(
        f"{what} {offset_of(offset)}"
        for what, offset in (
            ("offset", store.offset),
            ("committed", store.committed_offset),
            ("on the disk", store.flushed_offset),
        )
    )
    lines = [
        f"{store.name or partition} of {store.task} on {process}: {state}{kept}, {rows}",
        f"  its changelog {partition} ends at {moment.log(partition).end}",
        f"  {reached}",
    ]
    unsynced = len(store.recent_flushes(moment.time))
    if unsynced:
        lines.append(f"  a loss of power may take {counted(unsynced, 'flush', 'flushes')}")
    if not store.is_certain:
        lines.append("  the power has failed: the remaining rows show when it is opened again")
    return [Text(each) for each in lines]


def _rows_of(moment: Moment, store: FoldedStore, partition: str) -> RenderableType:
    """Each row with the layer that it is read from, and its changelog where that differs."""
    log = moment.log(partition)
    logged = {each.key: each.value for each in log.records if log.status(each) == "committed"}
    table = _table("key", "value", "is", "beneath", "committed in its changelog")
    rows = store.rows
    shown = sorted(store.disk.keys() | store.memory.keys() | store.staged.keys() | logged.keys())
    shown = [key for key in shown if key in rows or logged.get(key) is not None]
    for key in shown[:MAX_ROWS]:
        value, where, beneath = _layers_of(store, key)
        differs = logged.get(key) != rows.get(key)
        _add(table, plain(key), value, where, beneath, plain(logged.get(key)) if differs else "")
    if not shown:
        return Text("  it is empty")
    if len(shown) > MAX_ROWS:
        return Group(table, Text(f"  and {counted(len(shown) - MAX_ROWS, 'more row')}"))
    return table


def logs(moment: Moment) -> RenderableType:
    """All logs, with their ends."""
    table = _table("log", "start", "end", "last stable offset", "open transactions", numbers=_ENDS)
    for name, log in sorted(moment.logs.items()):
        _add(
            table,
            name,
            str(log.start),
            str(log.end),
            str(log.last_stable_offset),
            str(len(log.open)),
        )
    return table if moment.logs else Text("There is no record yet.")


def _layers_of(store: FoldedStore, key: bytes) -> tuple[str, str, str]:
    """The value that a reader finds for a key, its layer, and the values in the layers below."""
    layers = [
        (plain(rows[key]), name)
        for name, rows in (
            ("staged", store.staged),
            ("in memory", store.memory),
            ("on the disk", store.disk),
        )
        if key in rows
    ]
    beneath = ", ".join(f"{value} {name}" for value, name in layers[1:])
    return (*layers[0], beneath) if layers else ("nothing", "", "")


_ENDS = ("start", "end", "last stable offset", "open transactions")


def log_of(moment: Moment, name: str, count: int = LAST_RECORDS) -> RenderableType:
    """A log, and its last records.

    Args:
        moment: the moment.
        name: the partition.
        count: the most records to show.

    Raises:
        UsageError: there is no record in such a partition at this moment.
    """
    _require(name in moment.logs, "log", name, moment.logs)
    log = moment.logs[name]
    lines = [
        Text(
            f"{name}: start {log.start}, end {log.end}, last stable offset {log.last_stable_offset}"
        )
    ]
    for producer, first in sorted(log.open.items()):
        lines.append(Text(f"  {moment.name_of(producer)}: open from {first} on"))
    table = _table("offset", "key", "value", "time", "by", "is", numbers=["offset", "time"])
    for record in log.records[max(len(log.records) - count, 0) :]:
        status = log.status(record)
        if record.offset < log.start:
            status = "deleted"
        elif record.offset in log.compacted:
            status = "compacted away"
        _add(
            table,
            str(record.offset),
            plain(record.key),
            plain(record.value),
            str(record.timestamp),
            "" if record.producer < 0 else moment.name_of(record.producer),
            status,
        )
    return Group(*lines, table)


def offsets(moment: Moment) -> RenderableType:
    """The committed offset of each input, and the offset that a transaction will commit."""
    table = _table("input", "committed", "end", "behind", "in a transaction", numbers=_BEHIND)
    pending = {
        partition: f"{offset} by {moment.name_of(producer)}, {each.state}"
        for producer, each in sorted(moment.transactions.items())
        for partition, offset in each.offsets.items()
        if not each.is_over
    }
    for name in sorted(moment.committed.keys() | pending.keys()):
        committed, end = moment.committed.get(name, 0), moment.log(name).end
        _add(table, name, str(committed), str(end), str(end - committed), pending.get(name, ""))
    return table if table.row_count else Text("No offset of an input is committed yet.")


_BEHIND = ("committed", "end", "behind")


def transactions(moment: Moment) -> RenderableType:
    """The last transaction of each producer."""
    table = _table(
        "transaction", "is", "since", "records", "offsets", "markers", numbers=["records"]
    )
    for producer, each in sorted(moment.transactions.items()):
        missing = {name for name in each.records if name not in each.marked}
        _add(
            table,
            moment.name_of(producer),
            each.state,
            _seconds(each.since),
            str(sum(each.records.values())),
            ", ".join(f"{name}: {offset}" for name, offset in sorted(each.offsets.items())),
            "" if each.state == "open" else "all" if not missing else f"not in {_listed(missing)}",
        )
    return table if moment.transactions else Text("There was no transaction yet.")
