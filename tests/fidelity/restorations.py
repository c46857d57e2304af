"""Which records are restored, and where a restoration ends: against ``StoreChangelogReader``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fidelity.disagreements import UNEXPLAINED, Comparison, Disagreement, step_texts

from streamproof.sim.choices import Choices
from streamproof.sim.decisions.recovery import OFFSET_UNKNOWN, FoundStore, Traits, opening
from streamproof.sim.decisions.restore_range import applicable, end_of, is_complete

__all__ = ["RESTORATIONS"]

COMMIT_INTERVAL_MS = 1_000
"""How often the limit of a standby follows the committed offset; the Java side has the same."""


def draw(choices: Choices) -> dict[str, Any]:
    """A history: polls bring records behind markers, ends and committed offsets change."""
    changelogs, logs, nexts = {}, {}, dict[str, int]()
    for name in ["c", "d"][: choices.between(1, 2)]:
        start = choices.between(0, 4)
        offset = choices.pick((None, OFFSET_UNKNOWN, start + choices.between(0, 6)))
        changelogs[name] = {
            "is_source": choices.chance(0.4),
            "log_start": start,
            "offset": offset,
        }
        nexts[name] = start if offset in {None, OFFSET_UNKNOWN} else offset + 1
        stable = start + choices.between(0, 12)
        logs[name] = [choices.pick((0, stable)) and stable + choices.pick((0, 0, 1, 4)), stable]
    committed: dict[str, int | None] = {
        name: choices.pick((None, each["log_start"] + choices.between(0, 12)))
        for name, each in changelogs.items()
    }
    steps: list[list[Any]] = [["ends", logs], ["committed", dict(committed)]]
    now = 0
    for _ in range(choices.between(1, 10)):
        if choices.chance(0.2):
            steps.append(["answers", choices.chance(0.5)])
        if choices.chance(0.3):
            committed |= {
                each: (offset or 0) + choices.between(0, 4) for each, offset in committed.items()
            }
            steps.append(["committed", dict(committed)])
        polled = {}
        for name in changelogs:
            if choices.chance(0.6):
                polled[name] = _poll(choices, nexts[name])
        now += choices.pick((0, 1, COMMIT_INTERVAL_MS, COMMIT_INTERVAL_MS + 1))
        steps.append(["restore", now, polled])
        # What a poll brings is not there again: a partition that is not read skips it.
        nexts |= {name: position for name, (_, position) in polled.items()}
    steps.append(["answers", True])
    steps.append(["restore", now + 2 * COMMIT_INTERVAL_MS, {}])
    return {
        "decision": "restoration",
        "active": choices.chance(0.7),
        "changelogs": changelogs,
        "steps": steps,
    }


def _poll(choices: Choices, position: int) -> list[Any]:
    """The offsets of the records that a poll brings, and the position after it."""
    offsets = []
    for _ in range(choices.between(0, 4)):
        # Markers and aborted records leave gaps.
        position += choices.pick((0, 0, 1, 2))
        offsets.append(position)
        position += 1
    return [offsets, position + choices.pick((0, 0, 1))]


@dataclass
class _Changelog:
    """The restoration of a changelog; the decisions are the simulator's."""

    is_source: bool
    position: int
    end: int | None
    start: int | None = None
    kept: list[int] = field(default_factory=list)
    is_complete: bool = False
    total: int = 0
    last: int | None = None


class _Replay:
    """The same history for the rules of the simulator, asked in the order of a state updater."""

    def __init__(self, history: Mapping[str, Any]) -> None:
        self._active: bool = history["active"]
        self._changelogs: dict[str, _Changelog] = {}
        for name, each in history["changelogs"].items():
            found = opening(
                Traits(exactly_once=True, transactional=False),
                FoundStore(each["offset"], empty=True),
            )
            begin = max(found.restore_from, 0)
            has_offset = each["offset"] not in {None, OFFSET_UNKNOWN}
            self._changelogs[name] = _Changelog(
                each["is_source"],
                begin if has_offset else each["log_start"],
                0 if each["is_source"] and not self._active else None,
            )
        self._ends: dict[str, list[int]] = {}
        self._committed: dict[str, int | None] = {}
        self._answers = True
        self._last_limits = 0

    def step(self, step: list[Any]) -> dict[str, Any] | None:
        """Take a step; return the answer if the step restores."""
        match step:
            case ["ends", ends]:
                self._ends |= ends
            case ["committed", committed]:
                self._committed |= committed
            case ["answers", answers]:
                self._answers = answers
            case ["restore", now, polled]:
                return self._restore(now, polled)
        return None

    def _restore(self, now: int, polled: Mapping[str, Any]) -> dict[str, Any]:
        events: list[list[Any]] = []
        applied: dict[str, list[int]] = {name: [] for name in self._changelogs}
        for name, each in self._changelogs.items():
            self._begin(name, each, events)
        for name, (offsets, position) in polled.items():
            each = self._changelogs[name]
            if each.start is not None and not each.is_complete:
                each.kept += offsets
                each.position = position
        for name, each in self._changelogs.items():
            if each.start is not None and not each.is_complete:
                applied[name] = self._apply(name, each, events)
        self._move_limits(now)
        complete = [name for name, each in self._changelogs.items() if each.is_complete]
        return {
            "count": sum(map(len, applied.values())),
            "applied": applied,
            "completed": sorted(complete),
            "events": sorted(events),
        }

    def _begin(self, name: str, each: _Changelog, events: list[list[Any]]) -> None:
        """Ask for the end, and begin if the brokers answer."""
        if each.start is not None:
            return
        committed = self._committed.get(name)
        if self._active:
            if not self._answers:
                return
            each.end = end_of(self._ends[name][0], committed, is_source=each.is_source)
            events.append(["onRestoreStart", name, each.position, each.end])
        elif each.is_source and self._answers:
            each.end = max(each.end or 0, committed or 0)
        each.start = each.position

    def _apply(self, name: str, each: _Changelog, events: list[list[Any]]) -> list[int]:
        """Apply what may be applied; an active task may be complete after that."""
        count = len(each.kept) if each.end is None else applicable(each.kept, each.end)
        found, each.kept = each.kept[:count], each.kept[count:]
        each.total += count
        if self._active:
            if count:
                events.append(["onBatchRestored", name, found[-1], count])
            if is_complete(each.end or 0, each.position, each.kept):
                each.is_complete = True
                events.append(["onRestoreEnd", name, each.total])
        return found

    def _move_limits(self, now: int) -> None:
        """Let a standby follow its input up to the committed offset."""
        behind = [each for each in self._changelogs.values() if each.is_source and each.kept]
        if self._active or not behind or now - self._last_limits <= COMMIT_INTERVAL_MS:
            return
        self._last_limits = now
        for name, each in self._changelogs.items():
            if each.is_source and self._answers:
                each.end = max(each.end or 0, self._committed.get(name) or 0)


def compare(history: Mapping[str, Any], answers: Any) -> list[Disagreement]:
    """The first disagreement of a history."""
    replay = _Replay(history)
    for number, (step, kafka) in enumerate(zip(history["steps"], answers, strict=True)):
        ours = replay.step(step)
        theirs = kafka and {**kafka, "events": sorted(kafka["events"])}
        if ours != theirs:
            text = f"{step_texts(history, number)}: Kafka {theirs}, the simulator {ours}"
            return [Disagreement(UNEXPLAINED, text)]
    return []


RESTORATIONS = Comparison(
    "which records are restored, and where a restoration ends",
    "StoreChangelogReader, ProcessorStateManager",
    "end_of, applicable, is_complete, opening",
    draw,
    compare,
)
