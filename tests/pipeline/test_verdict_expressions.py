"""The rules of verdicts as expressions of Spark agree with the functions that state them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from streamproof.conformance.verdict_rule import (
    LEVELS,
    OUTCOME_ORDER,
    STATUS_ORDER,
    RatedStatus,
    best_verdict,
    worst,
)
from streamproof.reports.wording import OUTCOMES, STATUSES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL = [RatedStatus(*each) for each in itertools.product(LEVELS, (True, False), STATUS_ORDER)]


def test_every_group_of_statuses_gets_the_same_verdict(spark: SparkSession) -> None:
    """All groups of up to three different statuses, in one job."""
    from streamproof.reports.pipeline.tables import statuses

    groups = [each for size in (1, 2, 3) for each in itertools.combinations(ALL, size)]
    rows = [(number, *rated) for number, group in enumerate(groups) for rated in group]
    table = spark.createDataFrame(rows, "number bigint, level string, core boolean, status string")
    columns = [
        statuses.allowed("status").alias("verdict"),
        statuses.combined("status").alias("status"),
    ]

    found = table.groupBy("number").agg(*columns).collect()

    assert len(found) == len(groups)
    for number, verdict, status in found:
        group = groups[number]
        assert verdict == best_verdict(group), group
        assert status == min((each.status for each in group), key=STATUS_ORDER.index), group


def test_the_worse_of_two_outcomes_is_the_same(spark: SparkSession) -> None:
    from streamproof.reports.pipeline.tables import statuses

    pairs = list(itertools.product(OUTCOME_ORDER, repeat=2))
    table = spark.createDataFrame(pairs, "one string, other string")
    found = table.select("one", "other", statuses.worse("one", "other")).collect()

    assert len(found) == len(pairs)
    assert all(worse == worst([one, other]) for one, other, worse in found)


def test_every_status_and_outcome_has_its_words() -> None:
    assert set(STATUSES) == set(STATUS_ORDER)
    assert tuple(OUTCOMES) == OUTCOME_ORDER
