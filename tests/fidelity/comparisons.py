"""All comparisons of decisions, and how histories are put to both sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fidelity import assignments, commits, idling, lags, metadata_versions, openings, restorations
from fidelity.disagreements import UNEXPLAINED, Comparison, Disagreement
from fidelity.kafka_classes import KafkaClasses

from streamproof.sim.choices import Choices

__all__ = ["COMPARISONS", "disagreements", "survey"]

COMPARISONS = (
    idling.AS_SHIPPED,
    idling.AS_PROPOSED,
    lags.AS_SHIPPED,
    lags.AS_PROPOSED,
    commits.COMMITS,
    assignments.ASSIGNMENTS,
    openings.OPENINGS,
    restorations.RESTORATIONS,
    metadata_versions.VERSIONS,
)
"""By decision."""


def disagreements(
    comparison: Comparison, history: Mapping[str, Any], answer: Any
) -> list[Disagreement]:
    """The disagreements about one history.

    Kafka's classes refuse no history, so an error of theirs is a disagreement as well.
    """
    if isinstance(answer, dict) and "error" in answer:
        return [Disagreement(UNEXPLAINED, f"{history}: Kafka {answer['error']}")]
    return comparison.compare(history, answer)


def survey(
    kafka: KafkaClasses, comparison: Comparison, seeds: Iterable[int]
) -> Iterator[list[Disagreement]]:
    """The disagreements about a history for each seed."""
    drawn: list[Mapping[str, Any]] = []

    def histories() -> Iterator[Mapping[str, Any]]:
        for seed in seeds:
            drawn.append(comparison.draw(Choices.seeded(seed)))
            yield drawn[-1]

    for answer in kafka.ask(histories()):
        yield disagreements(comparison, drawn.pop(0), answer)
