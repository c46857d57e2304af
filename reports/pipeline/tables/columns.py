"""Every compliance table: what a row of it stands for, and its columns.

Types are those of Spark SQL. No column is ever null: what is not known is an empty text, or 0.
"""

from __future__ import annotations

from typing import NamedTuple

from streamproof.conformance.verdict_rule import Shown

__all__ = ["COUNTED", "EVIDENCE", "TABLES", "Column", "Table", "column_names", "tables_text"]


class Column(NamedTuple):
    """A column.

    Attributes:
        name: of the column.
        type: of Spark SQL.
        meaning: what it says, with its unit.
    """

    name: str
    type: str
    meaning: str


class Table(NamedTuple):
    """A table.

    Attributes:
        meaning: what a row stands for.
        keys: the columns by which rows are sorted; together they tell each row from the others.
        columns: all of them, in their order.
    """

    meaning: str
    keys: tuple[str, ...]
    columns: tuple[Column, ...]


def _texts(**meanings: str) -> tuple[Column, ...]:
    return tuple(Column(name, "string", meaning) for name, meaning in meanings.items())


def _counts(**meanings: str) -> tuple[Column, ...]:
    return tuple(Column(name, "bigint", meaning) for name, meaning in meanings.items())


_PATH = _texts(path="the log, or the row of a campaign: identifies this run")
_RUN = _texts(run_id="the id that the run gave itself")
_SUBJECT = _texts(subject="the name of the subject, as the user wrote it")
_VERSION = _texts(version="the version of the subject's distribution; empty if unknown")
_GUARANTEE = _texts(guarantee="`exactly-once` or `at-least-once`")
_SPEC = _texts(spec="`kips`, `kafka-4.3` or `kafka-4.4`; simulated worlds have `kips`")
_REQUIREMENT = _texts(requirement="the id, `AREA-NNN`")
_STARTED = _texts(started_at="UTC, ISO 8601")
_OF_REQUIREMENT = (
    *_texts(area="the area of the requirement", level="`MUST`, `SHOULD` or `MAY`"),
    Column("core", "boolean", "whether it is a core requirement"),
)
EVIDENCE = _counts(
    examples="generated programs",
    operations="calls on the subject",
    crashes="kills, losses of power and failed calls",
    boundary="real kills between two calls",
    line="real kills at a line of the subject",
    syscall="real kills at a system call",
    other="crashes of other kinds, such as kills derived from a recording",
    wiped="crashes after which the store asked to be wiped",
    mutants="deliberately wrong stores that the requirement is known to catch",
)
"""How much was tried: the counts of a result."""

COUNTED: dict[Shown, str] = {
    "pass": "passed",
    "known": "known",
    "fail": "failed",
    "error": "errors",
    "skip": "skipped",
    "no result": "missing",
    "unsupported": "unsupported",
    "untested": "untested",
}
"""The column in which each status is counted."""

_STATUS_COUNTS = tuple(
    Column(name, "bigint", f"the number of `{status}`") for status, name in COUNTED.items()
)

TABLES: dict[str, Table] = {
    "runs": Table(
        "One run: a log, or a row of a campaign.",
        ("started_at", "run_id", "path"),
        (
            *_PATH,
            *_RUN,
            *_texts(
                origin="`log` or `campaign`",
                verdict="the verdict that the results allow, or a worse one that the run stated; "
                "`incomplete` if the run died",
                stated="the verdict that the run itself stated; empty if the run died",
            ),
            Column("complete", "boolean", "whether the run ended"),
            *_STARTED,
            *_texts(finished_at="UTC, ISO 8601; empty if the run died"),
            *_counts(duration_ms="the duration of the run"),
            *_counts(seed="determines every random decision"),
            *_texts(profile="`smoke`, `quick` or `full`"),
            *_GUARANTEE,
            *_SPEC,
            *_texts(
                tool_version="the version of streamproof",
                command="starts the same run",
                reproduce="reproduces the worst finding; empty if the run died",
            ),
            *_counts(results="the number of requirements answered, over all subjects"),
            *_texts(problem="the reason why a row of a campaign has no answer"),
        ),
    ),
    "subjects": Table(
        "One subject in one run, as the subject describes itself.",
        ("subject", "version", "guarantee", "spec", "started_at", "run_id", "path"),
        (
            *_PATH,
            *_RUN,
            *_STARTED,
            *_SUBJECT,
            *_VERSION,
            *_GUARANTEE,
            *_SPEC,
            *_texts(
                package="the distribution of the subject",
                description="one line",
                capabilities="the claims of the subject, as a JSON object",
                verdict="the verdict on this subject in this run; `incomplete` if the run died",
                summary="the verdict in one sentence",
            ),
        ),
    ),
    "requirements": Table(
        "One requirement, as the newest run that has it describes it.",
        ("requirement",),
        (
            *_REQUIREMENT,
            *_OF_REQUIREMENT,
            *_texts(
                title="a few words",
                promise="in full",
                source="proposal and section, and the Kafka class or test where one shipped",
                checks="the checks that test it, separated by commas",
            ),
        ),
    ),
    "results": Table(
        "The result of one requirement for one subject in one run.",
        ("subject", "version", "guarantee", "spec", "requirement", "started_at", "run_id", "path"),
        (
            *_PATH,
            *_RUN,
            *_STARTED,
            *_counts(seed="the seed of the run"),
            *_SUBJECT,
            *_VERSION,
            *_GUARANTEE,
            *_SPEC,
            *_REQUIREMENT,
            *_OF_REQUIREMENT,
            *_texts(
                status="the status; `no result` if the run ended before the decision",
                reason="the reason if the status is not `pass`",
                strength="how much a `pass` is worth; empty without one",
            ),
            *EVIDENCE,
            *_counts(duration_ms="the time spent in its checks"),
        ),
    ),
    "failures": Table(
        "One way in which one run found a promise broken.",
        (
            "subject",
            "version",
            "guarantee",
            "spec",
            "requirement",
            "shape",
            "started_at",
            "path",
            "check",
        ),
        (
            *_PATH,
            *_RUN,
            *_STARTED,
            *_SUBJECT,
            *_VERSION,
            *_GUARANTEE,
            *_SPEC,
            *_REQUIREMENT,
            *_OF_REQUIREMENT,
            *_texts(
                title="the title of the requirement",
                shape="the name of this way to break the promise",
                check="the check that found the smallest program",
                tried="what the check did",
                program="the smallest program that shows the failure",
                expected="what the promise demands",
                found="what the subject did",
                reproduce="the command that runs this check again",
                saved="the file that repeats only this failure, from the directory of the log",
                known_because="the reason why a known failure does not count; empty otherwise",
            ),
        ),
    ),
    "matrix": Table(
        "One requirement of a subject in a version under a guarantee and a spec, over all runs.",
        ("subject", "version", "guarantee", "spec", "requirement"),
        (
            *_SUBJECT,
            *_VERSION,
            *_GUARANTEE,
            *_SPEC,
            *_REQUIREMENT,
            *_OF_REQUIREMENT,
            *_texts(
                combined="the worst status of all runs",
                latest="the status in the newest run that has a result",
                reason="the reason of the newest result with the combined status",
                latest_run="the run_id of the newest result",
                latest_at="when that run started; UTC, ISO 8601",
            ),
            *_counts(runs="the number of runs"),
            *_STATUS_COUNTS,
        ),
    ),
    "verdicts": Table(
        "One subject in a version under a guarantee and a spec, over all runs.",
        ("subject", "version", "guarantee", "spec"),
        (
            *_SUBJECT,
            *_VERSION,
            *_GUARANTEE,
            *_SPEC,
            *_texts(
                combined="the verdict on the worst status of each requirement, and no better than "
                "what any run said",
                latest="the verdict on the newest status of each requirement; `incomplete` if the "
                "newest run died and nothing is broken",
                broken="the requirements of level MUST whose combined status is `fail`, separated "
                "by commas",
                first_at="when the first run started; UTC, ISO 8601",
                latest_at="when the newest run started; UTC, ISO 8601",
            ),
            *_counts(
                runs="the number of runs",
                incomplete="runs that died",
                seeds="different seeds",
                requirements="requirements with a combined status",
            ),
            *_STATUS_COUNTS,
        ),
    ),
    "strength": Table(
        "The evidence on one requirement of one subject in one version.",
        ("subject", "version", "guarantee", "spec", "requirement"),
        (
            *_SUBJECT,
            *_VERSION,
            *_GUARANTEE,
            *_SPEC,
            *_REQUIREMENT,
            *_texts(strength="the best strength of all passes; empty without one"),
            *_counts(
                runs="runs that tried it: `pass`, `known` or `fail`",
                seeds="different seeds of these runs",
            ),
            *EVIDENCE,
            *_counts(caught="runs that made kills and found the requirement broken"),
            Column("kill_share", "double", "`caught` of `crashes`; 0 without crashes"),
            Column("kill_low", "double", "the lower end of its 95 % interval"),
            Column("kill_high", "double", "the upper end of that interval; 1 without crashes"),
        ),
    ),
    "trends": Table(
        "How one subject did under a guarantee and a spec in one version, or on one day.",
        ("subject", "guarantee", "spec", "by", "first_at", "point"),
        (
            *_SUBJECT,
            *_GUARANTEE,
            *_SPEC,
            *_texts(
                by="`version` or `date`",
                point="the version, or the day: UTC, ISO 8601",
                first_at="when the first run started; UTC, ISO 8601",
            ),
            *_counts(runs="the number of runs"),
            *_counts(asked="requirements except `unsupported` and `untested`"),
            *_STATUS_COUNTS,
            Column("share", "double", "`passed` of `asked`; 0 if nothing was asked"),
        ),
    ),
    "difference": Table(
        "One requirement of one subject whose status differs from the baseline.",
        ("subject", "guarantee", "spec", "requirement"),
        (
            *_SUBJECT,
            *_GUARANTEE,
            *_SPEC,
            *_REQUIREMENT,
            *_OF_REQUIREMENT,
            *_texts(
                change="`broken`, `fixed`, `changed`, `added` or `removed`",
                before="the combined status in the newest version of the baseline; empty if none",
                after="the combined status in the newest version of the other runs; empty if none",
                version_before="the newest version of the baseline",
                version_after="the newest version of the other runs",
            ),
        ),
    ),
    "flaky": Table(
        "One requirement that held in some runs and was broken in others.",
        ("subject", "version", "guarantee", "spec", "requirement"),
        (
            *_SUBJECT,
            *_VERSION,
            *_GUARANTEE,
            *_SPEC,
            *_REQUIREMENT,
            *_counts(held="runs in which it held", broken="runs in which it was broken"),
            *_texts(
                held_run="the run_id of the newest run in which it held",
                broken_run="the run_id of the newest run in which it was broken",
            ),
            *_counts(held_seed="the seed of held_run", broken_seed="the seed of broken_run"),
        ),
    ),
    "restorations": Table(
        "One restoration of a changelog in a simulated world.",
        ("run", "started_at", "actor", "task", "partition"),
        (
            *_texts(
                run="the name of the run",
                actor="who restored",
                task="the id of the task",
                partition="the changelog",
                end="`ended`, `suspended`, or `cut off` if no later event mentions it",
            ),
            *_counts(
                started_at="virtual milliseconds since the start of the run",
                duration_ms="virtual; 0 if it was cut off",
                records="records that were restored",
            ),
        ),
    ),
    "restoration_times": Table(
        "The distribution of restorations that ended.",
        ("measure", "end"),
        (
            *_texts(measure="`records` or `duration_ms`", end="`ended` or `suspended`"),
            *_counts(count="restorations", least="the smallest", most="the largest"),
            Column("median", "double", "half are at most this"),
            Column("p90", "double", "nine in ten are at most this"),
            Column("p99", "double", "99 in a hundred are at most this"),
            Column("mean", "double", "the sum divided by the count"),
        ),
    ),
    "waits": Table(
        "One period in which a simulated task had records and waited for others.",
        ("run", "started_at", "actor", "task"),
        (
            *_texts(
                run="the name of the run",
                actor="the owner of the task",
                task="the id of the task",
                reasons="why the wait began, separated by commas",
                end="`processed`, `enforced` if the task ignored an empty input, or `cut off`",
            ),
            *_counts(
                started_at="virtual milliseconds since the start of the run",
                duration_ms="virtual; 0 if it was cut off",
            ),
        ),
    ),
    "waiting_times": Table(
        "The distribution of the times that tasks waited before they continued.",
        ("reasons", "end"),
        (
            *_texts(reasons="why they waited", end="`processed` or `enforced`"),
            *_counts(count="waits", least="the shortest, in ms", most="the longest, in ms"),
            Column("median", "double", "half are at most this, in ms"),
            Column("p90", "double", "nine in ten are at most this, in ms"),
            Column("p99", "double", "99 in a hundred are at most this, in ms"),
            Column("mean", "double", "in ms"),
        ),
    ),
    "situations": Table(
        "How often one interesting situation occurred in the simulated worlds of one subject.",
        ("subject", "situation"),
        (
            *_SUBJECT,
            *_texts(situation="in words"),
            *_counts(runs="runs that looked for it", hits="how often the situation occurred"),
        ),
    ),
    "marks_never": Table(
        "One situation that no run reached, so the runs prove nothing about it.",
        ("situation",),
        (*_texts(situation="in words"), *_counts(runs="runs that looked for it")),
    ),
    "problems": Table(
        "Something that could not be read, or that was left out of all other tables.",
        ("path", "line"),
        (
            *_texts(path="the file"),
            *_counts(line="counted from 1; 0 for the file as a whole"),
            *_texts(
                kind="`unreadable`, `newer`, `too large`, `duplicate`, `conflict` or `same id`",
                run_id="the id of the run, if known",
                what="the problem, and what was done about it",
            ),
        ),
    ),
}
"""All tables, by name."""


def column_names(table: str) -> list[str]:
    """The names of the columns of a table, in their order."""
    return [column.name for column in TABLES[table].columns]


def tables_text() -> str:
    """All tables with their columns, in Markdown: the exact content of ``docs/tables.md``."""
    parts = ["# The columns of the compliance tables\n", _INTRODUCTION]
    for name, table in TABLES.items():
        rows = [f"| `{each.name}` | {each.type} | {each.meaning} |\n" for each in table.columns]
        order = ", ".join(f"`{key}`" for key in table.keys)
        parts.append(f"## {name}\n\n{table.meaning} Sorted by {order}.\n\n")
        parts.append("| column | type | meaning |\n|---|---|---|\n" + "".join(rows))
    return "\n".join(parts).replace("\n\n| column", "\n| column")


_INTRODUCTION = """\
[The pipeline](pipeline.md#compliance-tables) says how the tables are made, and the
[glossary](glossary.md) explains the words. Types are those of Spark SQL. No value is missing: an
unknown value is an empty text or 0. This page is generated from
[`reports/pipeline/tables/columns.py`](../reports/pipeline/tables/columns.py), and a test keeps the
two equal.
"""
