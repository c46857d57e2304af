"""Traces in files: the events of runs in columns, as Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from streamproof.sim.trace import Event
from streamproof.stores.errors import UsageError

__all__ = ["BATCH", "SCHEMA", "TraceFile", "read_trace"]

BATCH = 16_384
"""Events that are in memory before they are written as columns."""

REPEATED = ["run", "actor", "kind", "task", "partition"]
"""The columns in which few values come again and again: only these are kept as dictionaries."""

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

_json = msgspec.json.Encoder(order="deterministic")


class TraceFile:
    """Keeps the events of a run in a Parquet file, in batches: memory does not grow with time.

    Args:
        path: the file; one that is there is replaced.
        run: names the run.
    """

    def __init__(self, path: Path, run: str) -> None:
        self._run = run
        self._events: list[Event] = []
        self._writer = pq.ParquetWriter(path, SCHEMA, compression="zstd", use_dictionary=REPEATED)

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
        """Write what is left, and the end of the file."""
        self._write()
        self._writer.close()

    def _write(self) -> None:
        events, self._events = self._events, []
        columns: dict[str, Any] = {"run": pa.repeat(self._run, len(events))}
        for name in SCHEMA.names[1:-1]:
            columns[name] = list(map(attrgetter(name), events))
        columns["attributes"] = [_json.encode(event.attributes) for event in events]
        self._writer.write_batch(pa.RecordBatch.from_pydict(columns, schema=SCHEMA))


def read_trace(path: Path) -> Iterator[Event]:
    """The events of a trace file.

    Raises:
        UsageError: it is no trace file, or it was cut off.
    """
    try:
        with pq.ParquetFile(path) as file:
            if file.schema_arrow.names != SCHEMA.names:
                raise UsageError(f"{path} is a Parquet file, but no trace of a simulation.")
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    row["attributes"] = msgspec.json.decode(row["attributes"])
                    del row["run"]
                    yield Event(**row)
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"{path} cannot be read as a trace: {error}") from error
