"""Every compliance table: what a row of it stands for, and its columns.

Types are those of Spark SQL. No column is ever null: what is not known is an empty text, or 0.
"""

from __future__ import annotations

from typing import NamedTuple

from streamproof.conformance.verdict_rule import Shown

__all__ = ["COUNTED", "TABLES", "Column", "Table", "column_names", "tables_text"]


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


_PATH = _texts(path="the log, or the row of a campaign: tells this run from all others")
_RUN = _texts(run_id="the id that the run gave itself")
_SUBJECT = _texts(subject="its name, as the user wrote it")
_VERSION = _texts(version="of the distribution that the subject comes from; empty if unknown")
_GUARANTEE = _texts(guarantee="`exactly-once` or `at-least-once`")
_SPEC = _texts(spec="`kips`, `kafka-4.3` or `kafka-4.4`; the first of simulated worlds")
_REQUIREMENT = _texts(requirement="its id, `AREA-NNN`")
_STARTED = _texts(started_at="UTC, ISO 8601")
_OF_REQUIREMENT = (
    *_texts(area="of the requirement", level="`MUST`, `SHOULD` or `MAY`"),
    Column("core", "boolean", "whether it is a core requirement"),
)
_EVIDENCE = _counts(
    examples="generated programs",
    operations="calls on the subject",
    crashes="real kills, of every kind",
    boundary="kills between two calls",
    line="kills at a line of the subject",
    syscall="kills at a system call",
    other="kills of other kinds, as at a full disk",
    mutants="deliberately wrong stores that the requirement is known to catch",
)

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
    Column(name, "bigint", f"how many are `{status}`") for status, name in COUNTED.items()
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
                verdict="what the results allow, or worse if the run says so; `incomplete` if it "
                "died",
                stated="the verdict that the run itself gave; empty if it died",
            ),
            Column("complete", "boolean", "whether the run came to its end"),
            *_STARTED,
            *_texts(finished_at="UTC, ISO 8601; empty if it died"),
            *_counts(duration_ms="how long it took"),
            *_counts(seed="every random decision follows from it"),
            *_texts(profile="`smoke`, `quick` or `full`"),
            *_GUARANTEE,
            *_SPEC,
            *_texts(
                tool_version="of streamproof",
                command="starts the same run",
                reproduce="reproduces the worst finding; empty if the run died",
            ),
            *_counts(results="how many requirements it answered, over all subjects"),
            *_texts(problem="why there is no answer, of the row of a campaign that has none"),
        ),
    ),
    "subjects": Table(
        "One subject in one run: what it says of itself.",
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
                package="the distribution that it comes from",
                description="one line",
                capabilities="what it claims, as a JSON object",
                verdict="on this subject in this run; `incomplete` if the run died",
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
        "What became of one requirement of one subject in one run.",
        ("subject", "version", "guarantee", "spec", "requirement", "started_at", "run_id", "path"),
        (
            *_PATH,
            *_RUN,
            *_STARTED,
            *_counts(seed="of the run"),
            *_SUBJECT,
            *_VERSION,
            *_GUARANTEE,
            *_SPEC,
            *_REQUIREMENT,
            *_OF_REQUIREMENT,
            *_texts(
                status="what became of it; `no result` if the run ended before it was decided",
                reason="why it is not `pass`",
                strength="how much a `pass` is worth; empty where there is none",
            ),
            *_EVIDENCE,
            *_counts(duration_ms="spent in its checks"),
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
                title="of the requirement, a few words",
                shape="what tells it from other ways in which the promise is broken",
                check="the check with the smallest program for it",
                tried="what the check did",
                program="the smallest program that shows it",
                expected="what the promise demands",
                found="what the subject did",
                reproduce="the command that runs this check again",
                saved="the file to run just this again, from the directory of the log",
                known_because="why it does not count; empty if it does",
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
                reason="that of the newest result with the combined status",
                latest_run="the run_id of the newest result",
                latest_at="when that run started; UTC, ISO 8601",
            ),
            *_counts(runs="runs that this is made from"),
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
                runs="runs that this is made from",
                incomplete="those among them that died",
                seeds="different seeds among them",
                requirements="that there is a combined status for",
            ),
            *_STATUS_COUNTS,
        ),
    ),
    "strength": Table(
        "How much is known of one requirement of one subject in one version.",
        ("subject", "version", "guarantee", "spec", "requirement"),
        (
            *_SUBJECT,
            *_VERSION,
            *_GUARANTEE,
            *_SPEC,
            *_REQUIREMENT,
            *_texts(strength="the best of all passes; empty without one"),
            *_counts(
                runs="in which it was tried: `pass`, `known` or `fail`",
                seeds="different seeds among these",
            ),
            *_EVIDENCE,
            *_counts(caught="runs that made kills and found it broken"),
            Column("kill_share", "double", "`caught` of `crashes`; 0 without crashes"),
            Column("kill_low", "double", "the lower end of its 95 % interval"),
            Column("kill_high", "double", "the upper end; 1 without crashes: nothing is known"),
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
                first_at="when the first of the runs started; UTC, ISO 8601",
            ),
            *_counts(runs="runs that this is made from"),
            *_counts(asked="requirements but for `unsupported` and `untested`"),
            *_STATUS_COUNTS,
            Column("share", "double", "`passed` of `asked`; 0 if nothing was asked"),
        ),
    ),
    "difference": Table(
        "One requirement of one subject that is not as it was.",
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
                after="the same of what it is compared with",
                version_before="the newest version of the baseline",
                version_after="the newest version of what it is compared with",
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
                run="names the run",
                actor="who restored",
                task="its id",
                partition="the changelog",
                end="`ended`, `suspended`, or `cut off` if nothing more was heard of it",
            ),
            *_counts(
                started_at="virtual milliseconds since the start of the run",
                duration_ms="virtual; 0 if it was cut off",
                records="that were restored",
            ),
        ),
    ),
    "restoration_times": Table(
        "How restorations that came to an end were spread.",
        ("measure", "end"),
        (
            *_texts(measure="`records` or `duration_ms`", end="`ended` or `suspended`"),
            *_counts(count="restorations", least="the smallest", most="the largest"),
            Column("median", "double", "half are at most this"),
            Column("p90", "double", "nine in ten are at most this"),
            Column("p99", "double", "99 in a hundred are at most this"),
            Column("mean", "double", "the sum by the count"),
        ),
    ),
    "waits": Table(
        "One time in which a simulated task had records, and waited for others.",
        ("run", "started_at", "actor", "task"),
        (
            *_texts(
                run="names the run",
                actor="whose task it was",
                task="its id",
                reasons="why it waited when it began to: separated by commas",
                end="`processed`, `enforced` if it went on without an empty input, or `cut off`",
            ),
            *_counts(
                started_at="virtual milliseconds since the start of the run",
                duration_ms="virtual; 0 if it was cut off",
            ),
        ),
    ),
    "waiting_times": Table(
        "How the times were spread in which tasks waited, and then went on.",
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
        "How often one interesting situation came about in the simulated worlds of one subject.",
        ("subject", "situation"),
        (
            *_SUBJECT,
            *_texts(situation="in words"),
            *_counts(runs="runs that looked for it", hits="how often it came about"),
        ),
    ),
    "marks_never": Table(
        "One situation that no run has seen: so nothing is known of how it is dealt with.",
        ("situation",),
        (*_texts(situation="in words"), *_counts(runs="runs that looked for it")),
    ),
    "problems": Table(
        "Something that could not be read, or that was left out of all other tables.",
        ("path", "line"),
        (
            *_texts(path="the file"),
            *_counts(line="counted from 1; 0 if it is about the file as a whole"),
            *_texts(
                kind="`unreadable`, `newer`, `too large`, `duplicate`, `conflict` or `same id`",
                run_id="of the run, as far as it is known",
                what="is wrong, and what was done about it",
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
        parts.append("| column | type | is |\n|---|---|---|\n" + "".join(rows))
    return "\n".join(parts).replace("\n\n| column", "\n| column")


_INTRODUCTION = """\
[The pipeline](pipeline.md#compliance-tables) says how they are made. Types are those of Spark SQL.
No value is missing: what is not known is an empty text, or 0. This page is made from
[`reports/pipeline/tables/columns.py`](../reports/pipeline/tables/columns.py), and a test keeps the
two equal.
"""
