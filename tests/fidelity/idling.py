"""Whether a task may process, and which record is next: held against ``PartitionGroup``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fidelity.disagreements import UNEXPLAINED, Comparison, Disagreement, Guided, step_texts

from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.choices import Choices
from streamproof.sim.decisions.idling import DISABLED, Mode
from streamproof.sim.tasks.record_queues import PartitionGroup

__all__ = ["AS_PROPOSED", "AS_SHIPPED"]

LAGS = (0, 0, 0, 1, 7, None, -1, -3)
"""The lags of an input: less than 0 after a seek, and ``None`` if it is not known."""


def draw(choices: Choices, *, suspends: bool = True) -> dict[str, Any]:
    """A history: records, lags and times arrive, and the task asks for its next record.

    Args:
        choices: draw the history.
        suspends: whether the task may lose all of its records meanwhile.
    """
    partitions = ["a", "b", "c", "d"][: choices.between(1, 4)]
    steps: list[list[Any]] = []
    now, offset = 0, 0

    def begin() -> None:
        some = [each for each in partitions if choices.chance(0.2)]
        steps.extend(["time", each, choices.between(0, 8)] for each in some)

    begin()
    for _ in range(choices.between(1, 24)):
        match choices.below(12):
            case 0 | 1 | 2:
                records = []
                for _ in range(choices.between(1, 3)):
                    records.append([offset, choices.between(0, 12)])
                    offset += 1
                steps.append(["add", choices.pick(partitions), records])
            case 3 | 4:
                steps.append(["lags", {each: choices.pick(LAGS) for each in partitions}])
            case 5 if suspends and choices.chance(0.3):
                steps.append(["clear"])
                begin()
            case _:
                now += choices.pick((0, 0, 1, 2, 5, 11))
                steps.append(["process", now])
    return {
        "decision": "idling",
        "partitions": partitions,
        "max_task_idle_ms": choices.pick((0, DISABLED, 1, 5, 10)),
        "steps": steps,
    }


class _Replay:
    """The same history for the queues of a simulated task."""

    def __init__(self, history: Mapping[str, Any], answer: Mapping[str, Any], mode: Mode) -> None:
        self._choices = Guided()
        self.group = PartitionGroup(
            answer["order"],
            self._choices,
            max_task_idle_ms=history["max_task_idle_ms"],
            mode=mode,
        )

    def step(self, step: list[Any], kafka: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Take a step; return the answer if the step asks for one."""
        match step:
            case ["add", partition, records]:
                entries = [LogEntry(offset, time, b"", b"") for offset, time in records]
                self.group.add(partition, entries)
            case ["lags", lags]:
                self.group.update_lags(lags.get)
            case ["time", partition, time]:
                self.group.set_times({partition: time})
            case ["clear"]:
                self.group.clear()
            case ["process", now]:
                return self._process(now, (kafka or {}).get("partition"))
        return None

    def _process(self, now: int, wanted: str | None) -> dict[str, Any]:
        found = self.group.readiness(now)
        answer: dict[str, Any] = {
            "ready": found.ready,
            "enforced": found.ready and bool(found.enforced),
            "deadlines": found.deadlines,
        }
        if not found.ready:
            reasons = list(found.waiting.values())
            answer["reason"] = reasons[-1] if reasons else "nothing buffered"
        self._choices.wanted = wanted
        taken = self.group.next_record() if found.ready else None
        if taken is not None:
            answer |= {"partition": taken[0], "offset": taken[1].offset}
        answer["stream_time"] = self.group.stream_time
        answer["inputs"] = {
            each: [
                self.group.buffered(each),
                self.group.partition_times[each],
                self.group.head_offset(each),
            ]
            for each in self.group.partitions
        }
        return answer


def _compare(mode: Mode) -> Callable[[Mapping[str, Any], Any], list[Disagreement]]:
    def compare(history: Mapping[str, Any], answer: Any) -> list[Disagreement]:
        replay = _Replay(history, answer, mode)
        pairs = zip(history["steps"], answer["answers"], strict=True)
        for number, (step, kafka) in enumerate(pairs):
            empty = [each for each in replay.group.partitions if not replay.group.buffered(each)]
            lags = [replay.group._lags.get(each) for each in empty]
            ours = replay.step(step, kafka)
            if ours != kafka:
                kind = _kind(history["max_task_idle_ms"], lags, len(replay.group.partitions), mode)
                text = f"{step_texts(history, number)}: Kafka {kafka}, the simulator {ours}"
                # From here on the two have different states.
                return [Disagreement(kind, text)]
        return []

    return compare


def _kind(max_task_idle_ms: int, lags: list[int | None], partitions: int, mode: Mode) -> str:
    """The kind of a disagreement, given the lags of the empty inputs."""
    if mode == "kafka":
        return UNEXPLAINED
    if max_task_idle_ms == DISABLED:
        return "ready for nothing" if len(lags) == partitions else UNEXPLAINED
    if -1 in lags:
        return "lag of -1"
    return "one input after the other" if lags and partitions > 1 else UNEXPLAINED


AS_SHIPPED = Comparison(
    "idling and the next record, as Kafka ships it",
    "PartitionGroup, RecordQueue",
    "ready_to_process, next_partitions",
    draw,
    _compare("kafka"),
)

AS_PROPOSED = Comparison(
    "idling and the next record, as KIP-695 proposes it",
    "PartitionGroup, RecordQueue",
    "ready_to_process, next_partitions",
    # KIP-695 does not say whether idle times outlive a suspension; in Kafka they do.
    partial(draw, suspends=False),
    _compare("proposal"),
    {
        "ready for nothing": "With max.task.idle.ms = -1 Kafka calls a task ready that has no "
        "record. The task then finds none, so nothing else follows.",
        "lag of -1": "Kafka takes a lag of -1, which a seek may leave, for an unknown lag, and "
        "waits. KIP-695 has no such number: the input is caught up.",
        "one input after the other": "Kafka's walk over the inputs ends at the first one that "
        "keeps the task waiting, and looks at no later one. So the idle time of a second empty "
        "input begins when that of the first is over, and an old one goes on. KIP-695 has one idle "
        "time for each input.",
    },
)
