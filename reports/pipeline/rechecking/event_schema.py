"""The page on events, docs/events.md, made from the tables that readers of events work by."""

from __future__ import annotations

from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from streamproof.sim.event_kinds import ACTORS, KINDS, EventKind
from streamproof.sim.invariants import INVARIANTS, Invariant
from streamproof.sim.invariants.log_history import LogHistory
from streamproof.sim.trace_files import SCHEMA, SCHEMA_VERSION

__all__ = ["events_page"]

_COLUMNS = {
    "run": "the name of the run that the event belongs to",
    "sequence": "the number of the event in the run: 0, 1, 2 and so on, in this order",
    "time": "milliseconds since the start of the run",
    "actor": "who acted; see below",
    "kind": "the kind of event; see below",
    "task": "the id of the task, such as `0_1`; empty if the event is about no task",
    "partition": "the partition, such as `topic-0`; empty if none. For a store: the partition of "
    "its changelog. For a marker in the offsets of a group: `group:` and the name of the group",
    "offset": "the offset that the event is about; -1 if none",
    "attributes": "everything else: a JSON object",
}

_INTRODUCTION = f"""\
# Events

A trace is a table of events in Parquet. It is one file for one run, as `streamproof replay
--format parquet` writes it, or a directory of files with any number of runs in each. This page is
version {SCHEMA_VERSION} of the schema. A file names its version as `streamproof.events` in the
metadata of its schema; a file without this entry is of version 1. The [glossary](glossary.md)
explains the words. Reading and writing traces needs `pip install 'streamproof[traces]'`.

You can bring the log of a real application into this form. `streamproof recheck` then judges the
log by the [invariants](simulator.md#invariants) of the simulator: see
[re-checking](pipeline.md#re-checking). `streamproof replay orders.parquet` draws a run of the log
and says what does not hold: see [a trace](scenarios.md#a-trace). Any program can write the Parquet
file. Python has a class for it:

```python
from pathlib import Path

from streamproof import Event, TraceFile

with TraceFile(Path("orders.parquet"), run="orders, on Monday") as file:
    offsets = {{"group": "orders", "offsets": {{"in-0": 7}}}}
    file(Event(0, 0, "brokers", "offsets.committed", "", "", -1, offsets))
```

This page is generated from `KINDS` in [`sim/event_kinds/`](../sim/event_kinds). Readers, checks and
pictures use the same table. Tests compare runs of the simulator with it.
"""

_ATTRIBUTES = """\
## Attributes

`attributes` holds one JSON object, which must have every attribute of the kind. The tables below
give each type as in Python. In JSON, the types are written as follows:

| type | in JSON |
|---|---|
| `int`, `float`, `str`, `bool` | a number, a text, `true` or `false` |
| `bytes` | a text: the bytes in base64 |
| `X \\| None` | as X, or `null` |
| `list[X]`, `tuple[X, ...]` | an array |
| `dict[str, X]`, `{name: X}` | an object |

Readers ignore attributes that are not listed. A kind that is not listed may have any attributes,
as JSON has them, for invariants that know the kind.
"""

_NEEDED = """\
## Kinds that each invariant reads

A log need not have all of these kinds: an invariant without its kinds finds nothing. All invariants
need `application.started`, which comes first and has the guarantee. Most also follow the logs, by
`log.appended`, `log.compacted`, `offsets.committed`, `transaction.decided` and
`transaction.marker`. Rules about the end of a run apply only if there is a `world.healed` event. So
a log that was cut off in the middle of work must not have one.
"""


def events_page() -> str:
    """The text of docs/events.md."""
    columns = [f"| `{field.name}` | {field.type} | {_COLUMNS[field.name]} |" for field in SCHEMA]
    actors = [f"| {name} | {example} | {who} |" for name, (example, who) in ACTORS.items()]
    parts = [
        _INTRODUCTION,
        "## Columns\n",
        "No column has nulls.\n",
        _table("column | type | meaning", columns),
        "## Actors\n",
        _table("actor | example | meaning", actors),
        _ATTRIBUTES,
        "## Kinds\n",
        *(_section(name, kind) for name, kind in KINDS.items()),
        _NEEDED,
        _table("invariant | requirement | kinds", _looked_at()),
    ]
    return "\n".join(parts)


def _table(headings: str, rows: list[str]) -> str:
    ruler = "|".join("---" for _ in headings.split("|"))
    return "\n".join([f"| {headings} |", f"|{ruler}|", *rows, ""])


def _section(name: str, kind: EventKind) -> str:
    about = [f"`{each}`" for each in kind.about.split()]
    told = f"Has {', '.join(about)}." if about else ""
    look = kind.look
    shown = f"In pictures: `{look.glyph}` in the lane *{look.lane}*, `{look.words}`."
    lines = [
        f"### {name}\n",
        " ".join(filter(None, [kind.meaning, f"By: {kind.actor}.", told])),
        shown,
        "",
    ]
    if kind.attributes:
        rows = [
            f"| `{name}` | `{_type(each.type)}` | {each.meaning} |"
            for name, each in kind.attributes.items()
        ]
        lines.append(_table("attribute | type | meaning", rows))
    return "\n".join(lines)


def _type(type_: Any) -> str:
    """A type as it is written, which a bar in a table must not cut."""
    if is_typeddict(type_):
        fields = get_type_hints(type_).items()
        return f"{{{', '.join(f'{name}: {_type(each)}' for name, each in fields)}}}"
    if isinstance(type_, type) and not get_args(type_):
        return type_.__name__
    origin = get_origin(type_)
    if origin in (dict, list):
        return f"{origin.__name__}[{', '.join(map(_type, get_args(type_)))}]"
    return str(type_).replace("|", "\\|")


def _looked_at() -> list[str]:
    return [
        f"| {each.name} | {each.requirement} | {_named(_observed(each))} |" for each in INVARIANTS
    ]


def _observed(invariant: type[Invariant]) -> list[str]:
    guarantees = (invariant(LogHistory(exactly_once=strict)).observers for strict in (True, False))
    return sorted({kind for observers in guarantees for kind in observers})


def _named(kinds: list[str]) -> str:
    return ", ".join(f"`{each}`" for each in kinds)
