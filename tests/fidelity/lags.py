"""The lag of a consumer: held against ``OffsetFetcher`` and ``SubscriptionState``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fidelity.disagreements import UNEXPLAINED, Comparison, Disagreement, step_texts

from streamproof.sim.choices import Choices
from streamproof.sim.decisions.idling import Mode
from streamproof.sim.decisions.lag import current_lag

__all__ = ["AS_PROPOSED", "AS_SHIPPED"]

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


def draw(choices: Choices) -> dict[str, Any]:
    """A history: the position is sought and lost, fetches and answers bring ends."""
    steps: list[list[Any]] = []
    for _ in range(choices.between(1, 20)):
        match choices.below(11):
            case 0 | 1:
                steps.append(["seek", choices.between(0, 20)])
            case 2:
                steps.append(["lose"])
            case 3:
                steps.append(["assign"])
            case 4 | 5:
                position = choices.between(0, 20)
                stable = choices.between(0, 20)
                steps.append(["fetched", position, stable + choices.between(0, 5), stable])
            case 6:
                steps.append(["answer", choices.between(0, 20)])
            case 7:
                steps.append(["fail"])
            case _:
                steps.append(["lag"])
    isolation = COMMITTED if choices.chance(0.5) else UNCOMMITTED
    return {"decision": "lag", "isolation": isolation, "steps": steps}


class _Consumer:
    """What a consumer knows of its partition; the decision is the simulator's."""

    def __init__(self, isolation: str, mode: Mode) -> None:
        self._isolation = isolation
        self._mode: Mode = mode
        self.position: int | None = None
        self.end: int | None = None
        self._asked = False

    def step(self, step: list[Any], kafka: Mapping[str, Any]) -> dict[str, Any]:
        """Take a step; return the answer."""
        match step:
            case ["seek", offset]:
                self.position = offset
            case ["lose"]:
                self.position = None
            case ["assign"]:
                self.position = self.end = None
                self._asked = False
            case ["fetched", position, high, stable]:
                if self.position is not None:
                    self.position = position
                self._learn(stable if self._isolation == COMMITTED else high)
            case ["lag"]:
                return self._lag()
            case ["answer" | "fail", *end]:
                # A request that an earlier assignment has left is answered as well.
                if kafka["pending"]:
                    self.end, self._asked = (*end, self.end)[0], False
                return {"pending": kafka["pending"]}
        return {}

    def _learn(self, end: int) -> None:
        self.end, self._asked = end, False

    def _lag(self) -> dict[str, Any]:
        found = current_lag(self.position, self.end, asked=self._asked, mode=self._mode)
        answer: dict[str, Any] = {} if found.lag is None else {"lag": found.lag}
        if found.ask_for_end:
            self._asked = True
            answer["asked"] = self._isolation
        return answer


def _compare(mode: Mode) -> Callable[[Mapping[str, Any], Any], list[Disagreement]]:
    def compare(history: Mapping[str, Any], answers: Any) -> list[Disagreement]:
        consumer = _Consumer(history["isolation"], mode)
        found: list[Disagreement] = []
        for number, (step, kafka) in enumerate(zip(history["steps"], answers, strict=True)):
            end = consumer.end
            ours = consumer.step(step, kafka)
            if ours != kafka and not found:
                asks = mode == "proposal" and end is None and "asked" in kafka
                asks &= {**kafka, "asked": None} == {**ours, "asked": None}
                text = f"{step_texts(history, number)}: Kafka {kafka}, the simulator {ours}"
                found.append(Disagreement(ASKS if asks else UNEXPLAINED, text))
        return found

    return compare


ASKS = "a request for the end"

AS_SHIPPED = Comparison(
    "currentLag, as Kafka ships it",
    "OffsetFetcher, OffsetFetcherUtils, SubscriptionState",
    "current_lag",
    draw,
    _compare("kafka"),
)

AS_PROPOSED = Comparison(
    "currentLag, as KIP-695 proposes it",
    "OffsetFetcher, OffsetFetcherUtils, SubscriptionState",
    "current_lag",
    draw,
    _compare("proposal"),
    {
        ASKS: "KIP-695: currentLag() only reads what the consumer knows. Kafka also asks for an "
        "unknown end, in the background, so that a later call knows the lag.",
    },
)
