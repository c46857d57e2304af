"""The simulator's decisions beside those of Kafka's own classes; and each comparison can fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fidelity import assignments, commits, idling, lags, metadata_versions, openings, restorations
from fidelity.comparisons import COMPARISONS, disagreements, survey
from fidelity.disagreements import Comparison
from fidelity.kafka_classes import KafkaClasses
from fidelity_decisions import COUNTS, HISTORIES, PAGE, page_with, tables
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.sim.choices import Choices
from streamproof.sim.decisions.idling import Input
from streamproof.sim.tasks import record_queues
from streamproof.sim.tasks.stream_task import StreamTask


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaClasses]:
    with KafkaClasses() as classes:
        yield classes


AREAS = [each.area for each in COMPARISONS]


@pytest.mark.parametrize("comparison", COMPARISONS, ids=AREAS)
def test_every_disagreement_has_a_reason(comparison: Comparison, kafka: KafkaClasses) -> None:
    """With a history as short as it gets, if it fails."""

    @settings(max_examples=40)
    @given(st.data())
    def compare(data: st.DataObject) -> None:
        history = comparison.draw(Choices.hypothesis(data))
        (answer,) = kafka.ask([history])
        found = disagreements(comparison, history, answer)

        assert [each.text for each in found if each.kind not in comparison.explained] == []

    compare()


EXPLAINED = [each for each in COMPARISONS if each.explained]


@pytest.mark.parametrize("comparison", EXPLAINED, ids=[each.area for each in EXPLAINED])
def test_every_reason_is_needed(comparison: Comparison, kafka: KafkaClasses) -> None:
    """A kind of disagreement that is gone leaves no row behind."""
    seen = {one.kind for found in survey(kafka, comparison, range(400)) for one in found}

    assert seen == set(comparison.explained)


def without_lags(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A task that takes each empty input for one that is caught up."""

    def decide(inputs: Any, *rest: Any, **more: Any) -> Any:
        return rule([Input(each.partition, each.buffered, 0) for each in inputs], *rest, **more)

    return decide


def next_of(rule: Callable[..., Any]) -> Callable[..., Any]:
    """The offset after the right one."""

    def decide(*details: Any, **more: Any) -> Any:
        found = rule(*details, **more)
        return {each: offset + 1 for each, offset in found.items()}

    return decide


def never_looking_again(rule: Callable[..., Any]) -> Callable[..., Any]:
    """An assignment that never looks again."""

    def decide(*details: Any, **more: Any) -> Any:
        return rule(*details, **more)._replace(probing=False)

    return decide


WRONG = [
    (idling.AS_SHIPPED, record_queues, "ready_to_process", without_lags),
    (
        idling.AS_SHIPPED,
        record_queues,
        "next_partitions",
        lambda _: lambda heads: [max(heads, key=lambda each: each[1])[0]],
    ),
    (
        lags.AS_SHIPPED,
        lags,
        "current_lag",
        lambda rule: lambda position, end, **more: rule(position, end and end + 1, **more),
    ),
    (commits.COMMITS, StreamTask, "committable_offsets", next_of),
    (
        commits.COMMITS,
        StreamTask,
        "committable_times",
        lambda _: lambda _: {},
    ),
    (assignments.ASSIGNMENTS, assignments, "assign", never_looking_again),
    (
        assignments.ASSIGNMENTS,
        assignments,
        "task_lag",
        lambda _: lambda reported, end: end - (reported or 0),
    ),
    (
        openings.OPENINGS,
        openings,
        "opening",
        lambda rule: lambda traits, found: rule(traits, found._replace(unclean=False)),
    ),
    (openings.OPENINGS, openings, "wipes_after", lambda _: lambda *_: False),
    (openings.OPENINGS, openings, "commits_after", lambda _: lambda *_: True),
    (
        restorations.RESTORATIONS,
        restorations,
        "end_of",
        lambda _: lambda log_end, *_, **__: log_end,
    ),
    (restorations.RESTORATIONS, restorations, "applicable", lambda _: lambda kept, _: len(kept)),
    (
        metadata_versions.VERSIONS,
        metadata_versions,
        "next_version",
        lambda rule: lambda used, answer: rule(used, answer)._replace(rejoin=False),
    ),
]
"""For each comparison, mistakes in the rules that it asks."""


@pytest.mark.parametrize("wrong", WRONG, ids=[f"{each[0].area}: {each[2]}" for each in WRONG])
def test_a_wrong_rule_disagrees(
    wrong: tuple[Comparison, Any, str, Callable[[Any], Any]],
    kafka: KafkaClasses,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    comparison, place, name, mistaken = wrong
    monkeypatch.setattr(place, name, mistaken(getattr(place, name)))

    found = [one for each in survey(kafka, comparison, range(200)) for one in each]

    assert [each for each in found if each.kind not in comparison.explained]


def test_an_error_of_kafka_is_a_disagreement(kafka: KafkaClasses) -> None:
    (answer,) = kafka.ask([{"decision": "idling", "partitions": [], "steps": [["jump"]]}])

    (found,) = disagreements(idling.AS_SHIPPED, {}, answer)
    assert "Kafka java.lang" in found.text


def test_the_page_has_the_kept_counts() -> None:
    counts = json.loads(COUNTS.read_text("utf-8"))
    page = PAGE.read_text("utf-8")

    assert page_with(tables(counts), page) == page


def test_each_decision_was_compared_often() -> None:
    counts = json.loads(COUNTS.read_text("utf-8"))

    assert [area for area in AREAS if counts[area]["histories"] < HISTORIES] == []


@pytest.mark.parametrize("comparison", COMPARISONS, ids=AREAS)
def test_the_kept_counts_have_reasons_alone(comparison: Comparison) -> None:
    counts = json.loads(COUNTS.read_text("utf-8"))

    assert set(counts[comparison.area]["kinds"]) <= set(comparison.explained)
