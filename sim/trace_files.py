"""Trace files: the events of runs in columns, as Parquet.

The attributes of an event are JSON, with bytes in base64. ``KINDS`` gives the type of each
attribute, so that a reader restores exactly the value that was written. docs/events.md is generated
from the same table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from streamproof.errors import UsageError
from streamproof.sim.arrow import pa, pq
from streamproof.sim.attribute_codec import attribute_decoder, attribute_encoder
from streamproof.sim.invariants.judging import EVERYTHING_SEEN, Unseen
from streamproof.sim.trace import Event

__all__ = [
    "BATCH",
    "SCHEMA",
    "SCHEMA_VERSION",
    "TraceFile",
    "batch_of",
    "events_of",
    "read_trace",
    "require_trace",
    "unseen_of",
]

BATCH = 16_384
"""The number of events that are collected in memory before they are written."""

REPEATED = ["run", "actor", "kind", "task", "partition"]
"""The columns with few distinct values; only these are stored as dictionaries."""

SCHEMA_VERSION = 1
"""The version of the schema; raised when a reader of another version would misread an event."""

VERSION_KEY = b"streamproof.events"
"""The key of the version in the metadata of a file's schema; a file without it has version 1."""

UNSEEN_KEY = b"streamproof.unseen"
"""The key of what a trace does not tell, as JSON; a file without it tells everything."""

SCHEMA = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("actor", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("task", pa.string(), nullable=False),
        pa.field("partition", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("attributes", pa.string(), nullable=False),
    ]
)
"""The columns of a trace; ``attributes`` is a JSON object."""


class TraceFile:
    """Writes the events of a run to a Parquet file; a context manager that is called with events.

    Events are written in batches, so the memory that this takes does not grow with the run.

    Args:
        path: the file; an existing file is replaced.
        run: the name of the run.
        unseen: what the events do not tell.
    """

    def __init__(self, path: Path, run: str, unseen: Unseen = EVERYTHING_SEEN) -> None:
        self._run = run
        self._events: list[Event] = []
        metadata: dict[bytes, bytes | str] = {VERSION_KEY: str(SCHEMA_VERSION)}
        if unseen != EVERYTHING_SEEN:
            metadata[UNSEEN_KEY] = msgspec.json.encode(
                unseen._replace(unbound=dict(unseen.unbound))
            )
        schema = SCHEMA.with_metadata(metadata)
        self._writer = pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=REPEATED)

    def __call__(self, event: Event) -> None:
        """Keep an event."""
        self._events.append(event)
        if len(self._events) >= BATCH:
            self._write()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write the remaining events, and the footer of the file."""
        self._write()
        self._writer.close()

    def _write(self) -> None:
        events, self._events = self._events, []
        self._writer.write_batch(batch_of(self._run, events))


def batch_of(run: str, events: Sequence[Event]) -> pa.RecordBatch:
    """Events as rows under the schema.

    Args:
        run: the name of the run.
        events: the events of the run.
    """
    columns: dict[str, Any] = {"run": pa.repeat(run, len(events))}
    for name in SCHEMA.names[1:-1]:
        columns[name] = list(map(attrgetter(name), events))
    columns["attributes"] = [attribute_encoder.encode(event.attributes) for event in events]
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def events_of(rows: pa.RecordBatch | pa.Table, *, complete: bool = True) -> Iterator[Event]:
    """The events in rows under the schema, in the order of the rows.

    Attributes that ``KINDS`` does not list for a kind are left out. For an unknown kind, all
    attributes come back as plain JSON values.

    Args:
        rows: rows under the schema; other columns are ignored.
        complete: whether each event must have all attributes of its kind.

    Raises:
        UsageError: a value is missing, or has the wrong type for its kind.
    """
    runs, *columns, texts = (_values(rows, name) for name in SCHEMA.names)
    sequences, kinds = columns[0], columns[3]
    decoders = {kind: attribute_decoder(kind, complete=complete) for kind in set(kinds)}

    def attributes() -> Iterator[dict[str, Any]]:
        for run, sequence, kind, text in zip(runs, sequences, kinds, texts, strict=True):
            try:
                yield decoders[kind].decode(text)
            except msgspec.DecodeError as error:
                raise UsageError(
                    f"Event {sequence} of run {run!r} ({kind}) cannot be read: {error}. "
                    "docs/events.md lists the attributes of each kind."
                ) from error

    yield from map(Event, *columns, attributes())


def _values(rows: pa.RecordBatch | pa.Table, name: str) -> list[Any]:
    values: list[Any] = rows.column(name).to_pylist()
    if rows.column(name).null_count:
        row = values.index(None)
        run, sequence = (rows.column(each)[row].as_py() for each in ("run", "sequence"))
        raise UsageError(
            f"Event {sequence} of run {run!r} has no {name}, but no column may have nulls. Write "
            "an empty text, -1 for an offset, or {} for attributes."
        )
    return values


def require_trace(path: Path) -> None:
    """Check that a file is a trace. This reads only its footer, which holds the schema.

    Raises:
        UsageError: the file is no trace, was cut off, or has another version.
    """
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    _require_schema(path, schema)


def unseen_of(paths: Iterable[Path]) -> Unseen:
    """What the events in some traces do not tell.

    Raises:
        UsageError: a file says so in a form that this streamproof cannot read.
    """
    kinds: dict[str, str] = {}
    logs = ""
    unbound: dict[str, str] = {}
    of_kafka = False
    for path in paths:
        text = (pq.read_schema(path).metadata or {}).get(UNSEEN_KEY)
        if text is not None:
            try:
                found = msgspec.json.decode(text, type=Unseen)
            except msgspec.DecodeError as error:
                raise UsageError(
                    f"{path} does not say in a known form what it lacks: {error}. Make the trace "
                    "again."
                ) from error
            kinds |= found.kinds
            logs = logs or found.logs
            unbound |= found.unbound
            of_kafka |= found.of_kafka
    return Unseen(kinds, logs, unbound, of_kafka)


def read_trace(path: Path) -> Iterator[Event]:
    """Read the events of a trace file, in order; an event may lack attributes of its kind.

    Raises:
        UsageError: the file is no trace, was cut off, or has another version.
    """
    try:
        with pq.ParquetFile(path) as file:
            _require_schema(path, file.schema_arrow)
            for batch in file.iter_batches():
                yield from events_of(batch, complete=False)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error


def _require_schema(path: Path, schema: pa.Schema) -> None:
    version = (schema.metadata or {}).get(VERSION_KEY, b"1").decode(errors="replace")
    if version != str(SCHEMA_VERSION):
        raise UsageError(
            f"{path} is a trace of version {version}, but this streamproof reads version "
            f"{SCHEMA_VERSION}. Use the streamproof that wrote it, or make the trace again."
        )
    for field in SCHEMA:
        if field.name not in schema.names:
            raise UsageError(
                f"{path} is a Parquet file, but not a trace: it has no column {field.name!r}. "
                "Name a trace; docs/events.md lists its columns."
            )
        found = schema.field(field.name).type
        # Other programs write texts with this type. Both are the same in a file.
        if found == pa.large_string():
            found = pa.string()
        if found != field.type:
            raise UsageError(
                f"{path} has a column {field.name!r} of type {found} instead of {field.type}. "
                "Name a trace; docs/events.md lists its columns."
            )


def _unreadable(path: Path, error: Exception) -> UsageError:
    reason = str(error).strip().partition("\n")[0].rstrip(".")
    return UsageError(
        f"{path} cannot be read as a trace: {reason}. If the file was cut off, make it again."
    )
