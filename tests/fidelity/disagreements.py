"""What a comparison of one decision consists of, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from streamproof.sim.choices import Choices

__all__ = ["UNEXPLAINED", "Comparison", "Disagreement", "Guided", "step_texts"]

UNEXPLAINED = "not explained"
"""The kind of a disagreement that no rule accounts for."""


class Disagreement(NamedTuple):
    """A decision that the simulator takes in another way than Kafka.

    Attributes:
        kind: a kind of the comparison's ``explained``, or any other name, which no reason covers.
        text: the question, and both answers.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class Comparison:
    """The comparison of one decision.

    Attributes:
        area: the decision, as the table names it.
        classes: the classes of Kafka that are asked.
        rule: the functions of the simulator that are asked.
        draw: draws a history.
        compare: the disagreements about a history, given Kafka's answer.
        explained: by kind of disagreement that stays, its reason.
    """

    area: str
    classes: str
    rule: str
    draw: Callable[[Choices], dict[str, Any]]
    compare: Callable[[Mapping[str, Any], Any], list[Disagreement]]
    explained: Mapping[str, str] = field(default_factory=dict)


class Guided(Choices):
    """Choices that follow Kafka where the simulator lets any of several be: ties, and orders.

    Attributes:
        wanted: what Kafka takes next; another option is taken only where this is none.
    """

    def __init__(self) -> None:
        super().__init__(lambda _: 0)
        self.wanted: Any = None

    def pick(self, options: Any) -> Any:
        """Kafka's pick, if it may be picked."""
        return self.wanted if self.wanted in options else options[0]


def step_texts(history: Mapping[str, Any], upto: int) -> str:
    """The setting of a history, and its steps up to one of them, on a line."""
    setting = {name: each for name, each in history.items() if name not in {"steps", "decision"}}
    return f"{setting} after {history['steps'][: upto + 1]}"
