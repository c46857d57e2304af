"""Finds runs whose events are damaged or incomplete, so that they cannot be judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamproof.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "COLUMNS",
    "DIFFERENT",
    "DUPLICATE",
    "MISSING",
    "START",
    "WRONG_START",
    "require_events",
    "told",
    "unsound",
]

START = "application.started"
"""The kind of the first event of a run, which has the guarantee."""

# Python and Spark both fill in these texts.

DIFFERENT = (
    "Different runs have this name, so that none of them is judged. Check them apart, or give them "
    "names of their own."
)
DUPLICATE = "It was there more than once, and counts once: %d events instead of %d."
MISSING = (
    "Events are missing: there are %d, and the last one has the number %d, though they are counted "
    "from 0. Bring all events of the run, or number them anew."
)
WRONG_START = (
    f"The run begins with %s, and should begin with {START}, which tells the guarantee. Something "
    "of it is missing."
)
LACKING = (
    "Event %d of run '%s' (%s) cannot be read: it has no `%s`, or one of another type. "
    "docs/events.md lists the attributes of each kind."
)

USED: dict[str, dict[str, str]] = {
    START: {"exactly_once": "boolean"},
    "instance.crashed": {},
    "instance.stopped": {},
    "log.appended": {},
    "offsets.added": {"producer": "bigint", "offsets": "map<string, bigint>"},
    "offsets.committed": {"offsets": "map<string, bigint>"},
    "task.processed": {},
    "thread.assigned": {"generation": "bigint", "active": "array<string>"},
    "thread.died": {},
    "thread.lost": {},
    "thread.producer": {"producer": "bigint"},
    "transaction.decided": {"producer": "bigint", "commit": "boolean"},
    "transaction.marker": {},
}
"""The kinds that checks over sets read, with the attributes that matter and their types."""


COLUMNS = {
    "run": "string",
    "sequence": "bigint",
    "time": "bigint",
    "actor": "string",
    "kind": "string",
    "task": "string",
    "partition": "string",
    "offset": "bigint",
    "attributes": "string",
}
"""The columns of a trace, with their types in Spark."""


def require_events(events: DataFrame) -> None:
    """Check that a table has the columns of a trace.

    Raises:
        UsageError: a column is missing, or has another type.
    """
    found = dict(events.dtypes)
    for name, type_ in COLUMNS.items():
        if found.get(name) != type_:
            what = f"is of type {found[name]}" if name in found else "is missing"
            raise UsageError(
                f"These are no events: the column {name!r} {what}, but must be of type {type_}. "
                "docs/events.md lists the columns."
            )


def told(events: DataFrame) -> DataFrame:
    """The events that checks read, with the attributes that they read as columns."""
    from pyspark.sql import functions as f

    types = {name: type_ for each in USED.values() for name, type_ in each.items()}
    text = f.when(
        f.col("kind").isin(*(kind for kind, each in USED.items() if each)), f.col("attributes")
    )
    read = f.from_json(text, ", ".join(f"{name} {each}" for name, each in types.items()))
    columns = ("run", "sequence", "actor", "kind", "partition", "offset")
    attributes = (read[name].alias(name) for name in types)
    return events.where(f.col("kind").isin(*USED)).select(*columns, *attributes)


def unsound(events: DataFrame, told: DataFrame) -> DataFrame:
    """Damaged runs, with the columns ``run``, ``what`` and ``message``.

    An ``unreadable`` run cannot be judged. A ``duplicate`` can, after its copies are removed.

    Args:
        events: all events.
        told: the same events, as :func:`told` returns them.
    """
    return _miscounted(events).unionByName(_lacking(told))


def _miscounted(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    whole = f.xxhash64(*COLUMNS)
    once = events.groupBy("run", "sequence").agg(
        f.count("*").alias("times"),
        f.min(whole).alias("least"),
        f.max(whole).alias("most"),
        f.min("kind").alias("kind"),
    )
    runs = once.groupBy("run").agg(
        f.sum("times").alias("events"),
        f.count("*").alias("numbers"),
        f.max("sequence").alias("last"),
        f.min_by("kind", "sequence").alias("first"),
        f.max(f.col("least") != f.col("most")).alias("differ"),
    )
    unreadable = (
        f.when(f.col("differ"), f.lit(DIFFERENT))
        .when(f.expr("numbers != last + 1"), f.format_string(MISSING, "numbers", "last"))
        .when(f.col("first") != START, f.format_string(WRONG_START, "first"))
    )
    duplicate = f.when(f.expr("events > numbers"), f.format_string(DUPLICATE, "events", "numbers"))
    what = f.when(unreadable.isNotNull(), "unreadable").otherwise("duplicate").alias("what")
    message = f.coalesce(unreadable, duplicate).alias("message")
    return runs.select("run", what, message).where("message is not null")


def _lacking(told: DataFrame) -> DataFrame:
    """Runs with an event that lacks an attribute; the first such event is named."""
    from pyspark.sql import functions as f

    lacks = (
        f.when((f.col("kind") == kind) & f.col(name).isNull(), name)
        for kind, types in USED.items()
        for name in types
    )
    lacking = told.withColumn("lacks", f.coalesce(*lacks))
    return (
        lacking.where("lacks is not null")
        .groupBy("run")
        .agg(f.min_by(f.struct("sequence", "kind", "lacks"), "sequence").alias("at"))
        .select(
            "run",
            f.lit("unreadable").alias("what"),
            f.format_string(LACKING, "at.sequence", "run", "at.kind", "at.lacks").alias("message"),
        )
    )
