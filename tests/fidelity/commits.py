"""Which offsets and times a task commits, and which inputs it pauses: against ``StreamTask``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fidelity.disagreements import UNEXPLAINED, Comparison, Disagreement, Guided, step_texts

from streamproof.sim.brokers.partition_log import LogEntry
from streamproof.sim.choices import Choices
from streamproof.sim.clients.producer import Producer
from streamproof.sim.decisions.idling import DISABLED
from streamproof.sim.decisions.recovery import OFFSET_UNKNOWN, Closing, commits_after
from streamproof.sim.tasks.record_queues import NO_TIME
from streamproof.sim.tasks.stream_task import StreamTask, TaskConfig, TaskState
from streamproof.sim.topology import Subtopology, Topology
from streamproof.sim.trace import Trace
from streamproof.stores.memory import InMemoryKeyValueStore

__all__ = ["COMMITS"]

TOPICS = ("a", "b", "c")

AGAIN = "commits while records are buffered"
AHEAD = "a table ahead of its content"
UNREAD = "inputs without a processed record"


def draw(choices: Choices) -> dict[str, Any]:
    """A history: polls bring records and pass markers, and the task works and commits."""
    topics = list(TOPICS[: choices.between(1, 3)])
    committed = {
        each: [choices.between(0, 9), choices.pick((NO_TIME, 3, 8))]
        for each in topics
        if choices.chance(0.5)
    }
    next_offsets = {each: committed[each][0] if each in committed else 0 for each in topics}
    steps: list[list[Any]] = []
    now = 0
    for _ in range(choices.between(1, 20)):
        match choices.below(8):
            case 0 | 1 | 2:
                polled = {}
                for each in topics:
                    if choices.chance(0.5):
                        polled[each] = _poll(choices, next_offsets[each])
                        next_offsets[each] = polled[each][1]
                steps.append(["poll", polled])
            case 3 | 4:
                steps.append(["commit"])
            case _:
                now += choices.pick((0, 0, 1, 6))
                steps.append(["process", now])
    steps.append(["end"])
    return {
        "decision": "commits",
        "partitions": topics,
        "exactly_once": choices.chance(0.5),
        "max_task_idle_ms": choices.pick((DISABLED, 0, 5)),
        "buffered_most": choices.between(1, 4),
        "committed": committed,
        "table": choices.chance(0.3),
        "steps": steps,
    }


def _poll(choices: Choices, position: int) -> list[Any]:
    """The records of an input as a poll brings them, and the position after it."""
    records = []
    for _ in range(choices.between(0, 3)):
        # Markers and aborted records leave gaps.
        position += choices.pick((0, 0, 1, 2))
        records.append([position, choices.between(0, 12)])
        position += 1
    return [records, position + choices.pick((0, 0, 1, 3))]


class _Replay:
    """The same history for a simulated task."""

    def __init__(self, history: Mapping[str, Any]) -> None:
        topics = dict.fromkeys(history["partitions"], 1)
        part = Subtopology(tuple(topics), lambda *_: None)
        if history["table"]:
            part = replace(part, stores=("table",), reused={"table": history["partitions"][0]})
        topology = Topology("app", (part,), topics)
        self._choices = Guided()
        config = TaskConfig(
            history["exactly_once"],
            transactional=False,
            max_task_idle_ms=history["max_task_idle_ms"],
            mode="kafka",
            partitions=topics,
            buffered_records_per_partition=history["buffered_most"],
        )
        self.task = StreamTask(
            "0_0",
            topology.tasks["0_0"],
            config,
            choices=self._choices,
            trace=Trace(lambda: 0),
            actor="thread",
        )
        self._paused: set[str] = set()
        self._positions: dict[str, int | None] = dict.fromkeys(self.task.spec.inputs)
        self.task.open(Path(), InMemoryKeyValueStore, _no_producer(), was_empty=True)
        times = {f"{each}-0": time for each, (_, time) in history["committed"].items()}
        self.task.queues.set_times({each: time for each, time in times.items() if time != NO_TIME})
        self.task.become(TaskState.RUNNING)
        starts = {f"{each}-0": 0 for each in topics}
        starts |= {f"{each}-0": offset for each, (offset, _) in history["committed"].items()}
        self.task.begin_at(starts)
        self._positions |= starts

    def step(self, step: list[Any], kafka: Mapping[str, Any]) -> dict[str, Any]:
        """Take a step; return the answer."""
        answer: dict[str, Any] = {"table": None}
        match step:
            case ["poll", polled]:
                self._paused = {
                    each for each in self._paused if not self.task.queues.has_space(each)
                }
                for topic, (records, position) in polled.items():
                    self._poll(f"{topic}-0", records, position)
                self.task.queues.update_lags(lambda _: 0)
            case ["process", now]:
                self._choices.wanted = f"{kafka.get('processed')}-0"
                before = self._buffered()
                if self.task.process(now):
                    after = self._buffered()
                    answer["processed"] = next(
                        each for each in before if after[each] < before[each]
                    )
            case ["commit"]:
                answer |= self._commit()
                if answer["needed"] and commits_after(self.task.traits, Closing.COMMIT):
                    answer["table"] = self._table_offset()
            case ["end"]:
                answer |= self._commit()
                answer["table"] = self._table_offset()
        answer["paused"] = sorted(each.removesuffix("-0") for each in self._paused)
        return answer

    def _poll(self, partition: str, records: list[list[int]], position: int) -> None:
        self._positions[partition] = position
        entries = [LogEntry(offset, time, b"", b"") for offset, time in records]
        if self.task.queues.add(partition, entries):
            self._paused.add(partition)

    def _buffered(self) -> dict[str, int]:
        queues = self.task.queues
        return {each.removesuffix("-0"): queues.buffered(each) for each in queues.partitions}

    def _table_offset(self) -> int | None:
        self.task.note_written()
        for holder in self.task.stores.values():
            return OFFSET_UNKNOWN if holder.offset is None else holder.offset
        return None

    def _commit(self) -> dict[str, Any]:
        """The steps of a commit that concern the task, as the committer of a thread takes them."""
        needed = self.task.commit_needed or self.task.has_passed_markers(self._positions)
        if not needed:
            return {"needed": False, "offsets": {}}
        offsets = self.task.committable_offsets(self._positions)
        times = self.task.committable_times()
        self.task.committed(offsets)
        found = {
            each.removesuffix("-0"): [offset, times.get(each, NO_TIME)]
            for each, offset in offsets.items()
        }
        return {"needed": True, "offsets": found}


def _no_producer() -> Producer:
    """The task has neither outputs nor a changelog of its own, so it sends nothing."""
    producer = object.__new__(Producer)
    producer.written = {}
    return producer


def compare(history: Mapping[str, Any], answers: Any) -> list[Disagreement]:
    """The disagreements of a history, one of each kind."""
    replay = _Replay(history)
    found: dict[str, Disagreement] = {}
    processed: set[str] = set()
    last: dict[str, int] = {}
    for number, (step, kafka) in enumerate(zip(history["steps"], answers, strict=True)):
        ours = replay.step(step, kafka)
        processed |= {kafka["processed"]} if "processed" in kafka else set()
        if ours != kafka:
            known = {
                each: {last.get(each, -1), replay.task.queues.head_offset(f"{each}-0") or -1}
                for each in history["partitions"]
            }
            kind = _kind(ours, kafka, processed, known)
            text = f"{step_texts(history, number)}: Kafka {kafka}, the simulator {ours}"
            found.setdefault(kind, Disagreement(kind, text))
            if kind == UNEXPLAINED:
                break
        last |= {each: offset for each, (offset, _) in kafka.get("offsets", {}).items()}
    return list(found.values())


def _kind(
    ours: Mapping[str, Any],
    kafka: Mapping[str, Any],
    processed: set[str],
    known: Mapping[str, set[int]],
) -> str:
    """The kind of a disagreement.

    Args:
        ours: the answer of the simulator.
        kafka: the answer of Kafka.
        processed: the inputs with a processed record.
        known: by input, the offsets that a commit without need may have: what was committed last,
            and the first buffered record.
    """
    if "needed" not in ours or ours["paused"] != kafka["paused"]:
        return UNEXPLAINED
    if (ours["needed"], ours["offsets"]) == (kafka["needed"], kafka["offsets"]):
        # An offset of a store is all that differs.
        return AHEAD if kafka["table"] > ours["table"] else UNEXPLAINED
    alike = {each: found for each, found in ours["offsets"].items() if each in processed}
    is_idle = all(found[0] in known[each] for each, found in kafka["offsets"].items())
    if kafka["needed"] and not ours["needed"]:
        return AGAIN if is_idle else UNEXPLAINED
    if alike == kafka["offsets"] and alike != ours["offsets"]:
        return UNREAD
    # Without the inputs that no record was processed of, there is nothing to commit.
    is_idle = all(found[0] in known[each] for each, found in alike.items())
    return UNREAD if not kafka["needed"] and is_idle else UNEXPLAINED


COMMITS = Comparison(
    "offsets and times to commit, and paused inputs",
    "StreamTask, PartitionGroup, TopicPartitionMetadata",
    "committable_offset, needs_commit, StreamTask.committable_times",
    draw,
    compare,
    {
        AGAIN: "Kafka compares the position of its consumer with the last processed record. While "
        "records are buffered, the position is ahead of it. So Kafka commits again although it "
        "has processed nothing since; the offset is that of the first buffered record.",
        AHEAD: "The same comparison then writes the position into the offsets of processed "
        "records, and a table whose changelog is its input takes its offset from there. So the "
        "table claims records that are buffered. If another client processes them and the task "
        "comes back, its restoration begins behind them. The simulator claims what is processed.",
        UNREAD: "Kafka commits positions behind markers only of inputs that it has processed a "
        "record of (KAFKA-6607). The simulator commits those of all inputs, so that the lag of "
        "each becomes 0.",
    },
)
