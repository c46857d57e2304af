"""Reading the runs of traces and recordings, and judging each by all invariants."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from streamproof.errors import UsageError
from streamproof.reports.pipeline.rechecking.event_files import event_files
from streamproof.reports.pipeline.rechecking.run_invariants import KNOWN, in_order, judgement_of
from streamproof.reports.pipeline.rechecking.validation import DUPLICATE
from streamproof.scenarios.kafka.recording import is_recording, read_recording
from streamproof.scenarios.recorded_run import RecordedRun
from streamproof.sim.arrow import pa, pq
from streamproof.sim.invariants import InvariantError
from streamproof.sim.invariants.judging import Unseen
from streamproof.sim.trace import Event
from streamproof.sim.trace_files import BATCH, SCHEMA, events_of, unseen_of

__all__ = ["read_runs"]

MOST_NAMED = 10
"""A message names at most 10 runs."""


def read_runs(paths: Sequence[Path], names: Sequence[str]) -> list[RecordedRun]:
    """Read runs from traces or recordings, and judge them by all invariants.

    Args:
        paths: traces, directories of traces, directories of campaigns; or directories with the
            recordings of real processes, each of which is one run.
        names: the runs to read; may be empty if there is only one.

    Raises:
        UsageError: there is no such run, several runs and none of them named, or a file or a run
            that cannot be read.
    """
    recordings = [each for each in paths if is_recording(each)]
    if recordings:
        return _recorded(paths, recordings, names)
    places = _places(event_files(paths))
    where = " ".join(map(str, paths))
    if not places:
        raise UsageError(f"There are no events in {where}: nothing happened in it.")
    if not names and len(places) > 1:
        raise UsageError(f"{where} has {_several(places)}. Name one with --run.")
    missing = next((each for each in names if each not in places), None)
    if missing is not None:
        raise UsageError(f"There is no run {missing!r} in {where}: it has {_several(places)}.")
    again = ["streamproof", "replay", *map(str, paths)]
    runs = []
    for name in dict.fromkeys(names) or places:
        command = [*again, "--run", name] if len(places) > 1 else again
        runs.append(_read(name, places[name], shlex.join(command)))
    return runs


def _recorded(
    paths: Sequence[Path], recordings: Sequence[Path], names: Sequence[str]
) -> list[RecordedRun]:
    """The runs of recordings, each with the name of its directory."""
    if len(recordings) < len(paths):
        raise UsageError("Traces and recordings are replayed one kind at a time.")
    if names:
        raise UsageError("--run names a run of a trace, and a recording is one run: leave it out.")
    runs = []
    for path in recordings:
        events, unseen = read_recording(path)
        command = shlex.join(["streamproof", "replay", str(path)])
        runs.append(_judged(path.resolve().name, events, unseen, command))
    return runs


def _several(names: Iterable[str]) -> str:
    """How many runs there are, and what the first of them are called."""
    first, *others = map(repr, sorted(names))
    told = ", ".join([first, *others[: MOST_NAMED - 1]])
    left = len(others) + 1 - MOST_NAMED
    more = f", and {left:,} more" if left > 0 else ""
    return f"{len(others) + 1:,} run{'s' if others else ''}: {told}{more}"


def _places(files: Sequence[Path]) -> dict[str, list[Path]]:
    """The files in which there is anything of each run."""
    places: dict[str, list[Path]] = {}
    for path in files:
        column = _table(path, ["run"]).column("run")
        for name in column.unique().to_pylist():
            if name is None:
                raise UsageError(
                    f"{path} has events of no run: the column 'run' has no nulls. docs/events.md "
                    "says what is in it."
                )
            places.setdefault(name, []).append(path)
    return places


def _table(path: Path, columns: list[str], run: str | None = None) -> pa.Table:
    """Columns of a file, of one run or of all."""
    wanted = None if run is None else [("run", "==", run)]
    try:
        # The name of a directory says nothing of what is in its files.
        table = pq.read_table(path, columns=columns, filters=wanted, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise UsageError(
            f"{path} cannot be read to its end: {reason}. If it was copied, copy it again."
        ) from error
    # Other programs write texts as large ones. That nothing is null is seen to later, by row.
    return table.cast(pa.schema([(each, SCHEMA.field(each).type) for each in columns]))


def _read(name: str, files: Sequence[Path], command: str) -> RecordedRun:
    """One run of a trace, with what does not hold in it.

    Raises:
        UsageError: events of it are missing, or tell too little.
    """
    try:
        rows = pa.concat_tables(_table(each, SCHEMA.names, name) for each in files)
        single = in_order(rows)
        events = list(chain.from_iterable(map(events_of, single.to_batches(BATCH))))
    except UsageError as error:
        raise UsageError(f"Run {name!r} cannot be shown: {error}") from error
    twice = DUPLICATE % (len(rows), len(single)) if len(single) < len(rows) else ""
    return _judged(name, events, unseen_of(files), command, twice)


def _judged(
    name: str, events: list[Event], unseen: Unseen, command: str, story: str = ""
) -> RecordedRun:
    """A run, with what does not hold in it.

    Raises:
        UsageError: events of it are missing.
    """
    try:
        judged = judgement_of(iter(events), KNOWN, unseen)
    except InvariantError as error:
        text = str(error).removesuffix(" This is a mistake in the simulator.")
        raise UsageError(
            f"Run {name!r} cannot be judged: {text} Something is missing before that."
        ) from error
    except UsageError as error:
        raise UsageError(f"Run {name!r} cannot be shown: {error}") from error
    return RecordedRun(
        name,
        None,
        (),
        events,
        judged.violations,
        "",
        command=command,
        story=story,
        unseen=unseen,
        unjudged=judged.unjudged,
    )
