"""The summary of a campaign: the number of rows by outcome, and the distinct findings."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from streamproof.reports.pipeline.campaigns.campaign_tables import read_table
from streamproof.sim.invariants import INVARIANTS
from streamproof.sim.situations import situations_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CampaignFinding", "Summary", "summarise"]

MOST_PROBLEMS = 10
"""How many reasons for missing answers are listed, the most frequent ones first."""


class CampaignFinding(NamedTuple):
    """A way in which a promise is broken.

    Attributes:
        kind: the kind of the row with the smallest seed that shows it.
        requirement: its id; empty if a scenario ended unexpectedly.
        shape: the name of the invariant, or the name that the check gives the failure.
        level: the level of the requirement in ``verify``; empty in simulated worlds.
        rows: how many rows of the plan show it.
        found: the failure in a few words.
        command: the command that shows it again.
    """

    kind: str
    requirement: str
    shape: str
    level: str
    rows: int
    found: str
    command: str


class Summary(NamedTuple):
    """The summary of a campaign.

    Attributes:
        outcomes: how many rows there are, by kind and outcome.
        findings: distinct failures, the worst first, without known failures.
        problems: the reasons for missing answers, with the number of rows for each.
        never: situations that no simulated world reached; ``None`` if there was no world.
        reproduce: the command that shows the worst finding, or a row without an answer; empty if
            there is neither.
    """

    outcomes: Counter[tuple[str, str]]
    findings: list[CampaignFinding]
    problems: Counter[str]
    never: list[str] | None
    reproduce: str


def summarise(spark: SparkSession, directory: Path) -> Summary:
    """The summary of the tables of a campaign."""
    from pyspark.sql import functions as f

    runs = read_table(spark, directory, "runs")
    outcomes = Counter(
        {
            (each["kind"], each["outcome"]): each["count"]
            for each in runs.groupBy("kind", "outcome").count().collect()
        }
    )
    failures = read_table(spark, directory, "failures").where("known = ''")
    first = f.min_by(
        f.struct("kind", "level", "title", "found", "command"), f.struct("kind", "seed", "row")
    )
    grouped = failures.groupBy("requirement", "shape").agg(
        f.countDistinct("row").alias("rows"), first.alias("first")
    )
    findings = sorted(
        (
            CampaignFinding(
                each["first"]["kind"],
                each["requirement"],
                each["shape"],
                each["first"]["level"],
                each["rows"],
                each["first"]["title"] or each["first"]["found"],
                each["first"]["command"],
            )
            for each in grouped.collect()
        ),
        key=_badness,
    )
    problems = _problems(runs) if any(outcome == "error" for _, outcome in outcomes) else []
    reproduce = [each.command for each in findings] + [command for _, _, command in problems]
    return Summary(
        outcomes,
        findings,
        Counter({problem: rows for problem, rows, _ in problems}),
        _never(runs) if any(kind == "simulate" for kind, _ in outcomes) else None,
        reproduce[0] if reproduce else "",
    )


_ORDER = {each.name: number for number, each in enumerate(INVARIANTS)}


def _badness(finding: CampaignFinding) -> tuple[object, ...]:
    """Failures of real stores come first, then contents of stores, then the group."""
    return (
        ("verify", "scenario", "simulate").index(finding.kind),
        ("MUST", "SHOULD", "MAY", "").index(finding.level),
        _ORDER.get(finding.shape, -1),
        finding.requirement,
        finding.shape,
    )


def _problems(runs: DataFrame) -> list[tuple[str, int, str]]:
    """The reasons for missing answers, the number of rows for each, and a command of one row."""
    from pyspark.sql import functions as f

    grouped = runs.where("outcome = 'error'").groupBy(
        f.when(f.col("problem") != "", f.col("problem")).otherwise(f.col("summary")).alias("why")
    )
    counted = grouped.agg(f.count("*").alias("rows"), f.min_by("command", "row").alias("command"))
    found = counted.orderBy(f.desc("rows"), "why").limit(MOST_PROBLEMS).collect()
    return [(each["why"], each["rows"], each["command"]) for each in found]


def _never(runs: DataFrame) -> list[str]:
    """The situations that no world has reached."""
    from pyspark.sql import functions as f

    worlds = runs.where("kind = 'simulate'")
    marks = worlds.select(f.explode("marks").alias("mark", "hits")).where("hits > 0")
    seen = {each["mark"] for each in marks.select("mark").distinct().collect()}
    topologies = {each["topology"] for each in worlds.select("topology").distinct().collect()}
    return [each for each in situations_of(sorted(topologies - {""})) if each not in seen]
