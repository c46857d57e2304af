"""Where tasks go: held against ``HighAvailabilityTaskAssignor`` and ``ClientState``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fidelity.disagreements import UNEXPLAINED, Comparison, Disagreement

from streamproof.sim.choices import Choices
from streamproof.sim.decisions.assignment import ClientState, assign
from streamproof.sim.decisions.lag import LATEST_OFFSET, MAX_OFFSET, UNKNOWN_OFFSET_SUM, task_lag

__all__ = ["ASSIGNMENTS"]


def draw(choices: Choices) -> dict[str, Any]:
    """A group: clients with threads and offset sums, tasks with ends, and goals."""
    partitions = choices.pick((1, 2, 3, 4, 5, 12))
    stateful = [f"0_{each}" for each in range(partitions)]
    if choices.chance(0.3):
        stateful += [f"1_{each}" for each in range(choices.between(1, 3))]
    ends = {task: choices.pick((0, 10, 50, 100)) for task in stateful}
    stateless = [f"2_{each}" for each in range(choices.pick((0, 0, 1, 4, 11)))]
    clients = []
    for _ in range(choices.between(1, 4)):
        sums = {task: _sum(choices, ends[task]) for task in stateful if choices.chance(0.5)}
        clients.append({"threads": choices.between(1, 3), "sums": sums})
    return {
        "decision": "assignment",
        "clients": clients,
        "ends": ends,
        "stateless": stateless,
        "num_standby_replicas": choices.pick((0, 0, 1, 2)),
        "max_warmup_replicas": choices.pick((2, 1, 1, 5)),
        "acceptable_recovery_lag": choices.pick((10, 0, 60, MAX_OFFSET)),
    }


def _sum(choices: Choices, end: int) -> int:
    return choices.pick(
        (end, LATEST_OFFSET, max(end - 5, 0), end // 2, 0, UNKNOWN_OFFSET_SUM, end + 7)
    )


def compare(history: Mapping[str, Any], answer: Any) -> list[Disagreement]:
    """The disagreement of a history: about lags first, for they are the input of the rest."""
    ends = history["ends"]
    lags = [
        {task: task_lag(each["sums"].get(task), end) for task, end in ends.items()}
        for each in history["clients"]
    ]
    theirs = [each["lags"] for each in answer["clients"]]
    if lags != theirs:
        return [Disagreement(UNEXPLAINED, f"{history}: Kafka {theirs}, the simulator {lags}")]
    found = assign(
        {
            f"client-{number}": ClientState(each["threads"], lags[number])
            for number, each in enumerate(history["clients"])
        },
        ends,
        history["stateless"],
        num_standby_replicas=history["num_standby_replicas"],
        max_warmup_replicas=history["max_warmup_replicas"],
        acceptable_recovery_lag=history["acceptable_recovery_lag"],
    )
    ours: dict[str, Any] = {"probing": found.probing}
    ours["clients"] = [
        {"active": sorted(each.active), "standby": sorted(each.standby | each.warmup)}
        for each in found.clients.values()
    ]
    kafka: dict[str, Any] = {"probing": answer["probing"]}
    kafka["clients"] = [
        {"active": sorted(each["active"]), "standby": sorted(each["standby"])}
        for each in answer["clients"]
    ]
    if ours == kafka:
        return []
    return [Disagreement(UNEXPLAINED, f"{history}: Kafka {kafka}, the simulator {ours}")]


ASSIGNMENTS = Comparison(
    "assignment and probing",
    "HighAvailabilityTaskAssignor, TaskMovement, DefaultStandbyTaskAssignor, ClientState",
    "assign, task_lag, is_caught_up",
    draw,
    compare,
)
