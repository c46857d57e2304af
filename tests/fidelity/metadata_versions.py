"""Metadata versions and version probing: held against ``StreamsPartitionAssignor``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fidelity.disagreements import UNEXPLAINED, Comparison, Disagreement

from streamproof.errors import UsageError
from streamproof.sim.choices import Choices
from streamproof.sim.decisions.versions import (
    EARLIEST_PROBEABLE_VERSION,
    LATEST_SUPPORTED_VERSION,
    Spoken,
    answers_of,
    next_version,
    readable,
)

__all__ = ["VERSIONS"]


def draw(choices: Choices) -> dict[str, Any]:
    """A group: the version that each member uses, and the newest one that it supports."""
    members = []
    for _ in range(choices.between(1, 5)):
        supported = choices.pick((LATEST_SUPPORTED_VERSION, choices.between(1, 14)))
        used = choices.pick((supported, choices.between(1, supported)))
        members.append([used, supported])
    return {"decision": "versions", "members": members}


def compare(history: Mapping[str, Any], answer: Any) -> list[Disagreement]:
    """The disagreement of a group."""
    spoken = {
        str(number): readable(*each) for number, each in enumerate(map(tuple, history["members"]))
    }
    ours: dict[str, Any] = {"latest": LATEST_SUPPORTED_VERSION}
    # The leader is up to date, and may itself have been told to use an older version.
    leader = Spoken(LATEST_SUPPORTED_VERSION, LATEST_SUPPORTED_VERSION)
    try:
        answers = answers_of({**spoken, "leader": leader}, LATEST_SUPPORTED_VERSION)
    except UsageError:
        ours["refused"] = True
    else:
        ours["probing"] = any(each.probing for each in answers.values())
        ours["version"] = answers["leader"].version
        ours["commonly_supported"] = answers["leader"].commonly_supported
        ours["members"] = [
            list(next_version(used, answers[str(number)]))
            for number, (used, _) in enumerate(history["members"])
        ]
    theirs = dict(answer)
    if theirs.get("version", EARLIEST_PROBEABLE_VERSION) < EARLIEST_PROBEABLE_VERSION:
        # Such an answer has no place for the other version, so nobody reads it.
        ours["commonly_supported"] = theirs["commonly_supported"]
    if ours == theirs:
        return []
    return [Disagreement(UNEXPLAINED, f"{history}: Kafka {theirs}, the simulator {ours}")]


VERSIONS = Comparison(
    "metadata versions and probing",
    "StreamsPartitionAssignor, SubscriptionInfo, AssignmentInfo",
    "readable, answer_of, next_version",
    draw,
    compare,
)
