"""What is wiped, kept and committed as tasks open and end: against ``ProcessorStateManager``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fidelity.disagreements import UNEXPLAINED, Comparison, Disagreement, step_texts

from streamproof.sim.choices import Choices
from streamproof.sim.decisions.recovery import (
    Closing,
    FoundStore,
    Traits,
    commits_after,
    opening,
    wipes_after,
)

__all__ = ["OPENINGS"]

ENDS = {"clean": Closing.CLEAN, "dirty": Closing.DIRTY, "corrupted": Closing.CORRUPTED}
"""How a task ends, as a history says it."""


def draw(choices: Choices) -> dict[str, Any]:
    """A history: a task opens, restores, works, commits, and ends or is killed, some times."""
    stores = {}
    for name in ["s", "t", "u"][: choices.between(1, 3)]:
        persistent = choices.chance(0.8)
        stores[name] = {
            "persistent": persistent,
            "logged": choices.chance(0.8),
            "keeps_offsets": persistent and choices.chance(0.6),
        }
    steps: list[list[Any]] = []
    offset = 0
    for _ in range(choices.between(1, 5)):
        steps.append(["open"])
        runs = False
        for _ in range(choices.between(0, 5)):
            match choices.below(5):
                case 0 | 1:
                    offset += choices.pick((1, 5, 20_000))
                    steps.append(["write", choices.pick(list(stores)), offset])
                case 2:
                    steps.append(["flush", choices.pick(list(stores))])
                case 3 if not runs:
                    steps.append(["restored"])
                    if choices.chance(0.7):
                        steps.append(["run"])
                        runs = True
                case _ if runs:
                    steps.append(["commit"])
        ends = choices.pick(("clean", "dirty", "corrupted", "kill", "kill"))
        steps.append(["kill"] if ends == "kill" else ["close", ends])
    return {
        "decision": "opening",
        "exactly_once": choices.chance(0.6),
        "active": choices.chance(0.7),
        "stores": stores,
        "steps": steps,
    }


def compare(history: Mapping[str, Any], answers: Any) -> list[Disagreement]:
    """The disagreements of a history, one of each kind.

    Each decision is asked with what Kafka has found at that moment, so that a disagreement does not
    lead to others.
    """
    found: dict[str, Disagreement] = {}
    traits = {
        name: Traits(
            history["exactly_once"],
            transactional=False,
            logged=each["logged"],
            persistent=each["persistent"],
            rules="kafka",
        )
        for name, each in history["stores"].items()
    }
    is_open, written = False, dict[str, int]()
    for number, (step, kafka) in enumerate(zip(history["steps"], answers, strict=True)):
        if not is_open and step != ["open"]:
            # After a corrupted opening the steps of that life have nothing to act on.
            continue
        ours, theirs = dict[str, Any](), dict[str, Any]()
        match step:
            case ["open"]:
                is_open, written = not kafka["corrupted"], {}
                ours, theirs = _opening(traits, kafka)
            case ["write", store, offset]:
                written[store] = offset
            case ["close", how]:
                ours = {"wiped": wipes_after(next(iter(traits.values())), ENDS[how])}
                theirs = {"wiped": kafka["wiped"]}
                ours |= _commits(traits, ENDS[how])
                theirs |= _committed(traits, kafka)
            case ["commit"]:
                is_restoring = not history["active"]
                closing = Closing.RESTORED if is_restoring else Closing.COMMIT
                ours, theirs = _commits(traits, closing), _committed(traits, kafka)
            case ["restored"]:
                ours, theirs = _commits(traits, Closing.RESTORED), _committed(traits, kafka)
        if ours != theirs:
            text = f"{step_texts(history, number)}: Kafka {theirs}, the simulator {ours}"
            found.setdefault(UNEXPLAINED, Disagreement(UNEXPLAINED, text))
    return list(found.values())


def _opening(
    traits: Mapping[str, Traits], kafka: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Whether the task is corrupted, and where restorations begin: ours, and Kafka's."""
    decided = {
        name: opening(each, FoundStore(found["offset"], kafka["empty"], found["unclean"]))
        for name, each in traits.items()
        for found in [kafka["found"][name]]
    }
    corrupted = any(each.wipe for each in decided.values())
    theirs: dict[str, Any] = {"corrupted": kafka["corrupted"]}
    ours: dict[str, Any] = {"corrupted": corrupted}
    if corrupted:
        ours["wiped"] = wipes_after(next(iter(traits.values())), Closing.CORRUPTED)
    else:
        logged = [name for name, each in traits.items() if each.logged]
        ours["starts"] = {name: decided[name].restore_from for name in logged}
    return ours, theirs | {each: kafka[each] for each in ("wiped", "starts") if each in kafka}


def _commits(traits: Mapping[str, Traits], closing: Closing) -> dict[str, Any]:
    """The stores whose offsets are committed when a task commits or ends."""
    able = [name for name, each in traits.items() if each.logged and each.persistent]
    return {"commits": able if able and commits_after(traits[able[0]], closing) else []}


def _committed(traits: Mapping[str, Traits], kafka: Mapping[str, Any]) -> dict[str, Any]:
    return {"commits": [name for name in traits if name in kafka["commits"]]}


OPENINGS = Comparison(
    "what is wiped, where restorations begin, and what is committed",
    "ProcessorStateManager, StateManagerUtil, StreamTask, StandbyTask, "
    "LegacyCheckpointingStateStore, AbstractColumnFamilyAccessor",
    "opening, commits_after, wipes_after",
    draw,
    compare,
)
