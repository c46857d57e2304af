"""Hold the simulator's decisions against Kafka's own classes, with many random histories.

Run by ``nox -s fidelity_decisions -- [HISTORIES [WORD ...]]``: how many histories of each decision,
100,000 by default, and words of the decisions to compare, all by default. A run with at least
100,000 keeps its counts in tests/fidelity/decisions.json, and writes the tables of docs/fidelity.md
from these. A disagreement without a reason ends the run with 1.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fidelity.comparisons import COMPARISONS, survey
from fidelity.disagreements import Comparison
from fidelity.kafka_classes import KafkaClasses
from rich.console import Console
from rich.progress import track

CONSOLE = Console(width=120)

PAGE = Path(__file__).parents[1] / "docs" / "fidelity.md"
COUNTS = Path(__file__).parent / "fidelity" / "decisions.json"

BEGIN = "<!-- decisions: written by nox -s fidelity_decisions -->"
END = "<!-- decisions: end -->"

HISTORIES = 100_000

SHOWN = 3
"""How many disagreements without a reason are shown for each decision."""


class Compared(NamedTuple):
    """The result of one comparison.

    Attributes:
        comparison: the comparison.
        histories: how many histories were put to both sides.
        kinds: the number of histories with each kind of disagreement.
    """

    comparison: Comparison
    histories: int
    kinds: Counter[str]

    @property
    def unexplained(self) -> int:
        """How many disagreements have no reason."""
        return sum(
            count for kind, count in self.kinds.items() if kind not in self.comparison.explained
        )


def compared(kafka: KafkaClasses, comparison: Comparison, histories: int) -> Compared:
    """Put histories to both sides, and print what no reason covers."""
    found: Counter[str] = Counter()
    shown = 0
    for each in track(
        survey(kafka, comparison, range(histories)),
        comparison.area,
        total=histories,
        console=CONSOLE,
    ):
        found.update({one.kind for one in each})
        for one in each:
            if one.kind not in comparison.explained and shown < SHOWN:
                shown += 1
                CONSOLE.print(f"{one.kind}: {one.text}", markup=False)
    return Compared(comparison, histories, found)


def keep(results: list[Compared], release: str) -> None:
    """Keep the counts of a run, in place of those of earlier runs of the same decisions."""
    counts = json.loads(COUNTS.read_text("utf-8")) if COUNTS.exists() else {}
    for each in results:
        counts[each.comparison.area] = {
            "release": release,
            "histories": each.histories,
            "kinds": dict(sorted(each.kinds.items())),
        }
    known = {each.area: counts[each.area] for each in COMPARISONS if each.area in counts}
    COUNTS.write_text(json.dumps(known, indent=2) + "\n", "utf-8")


def tables(counts: Mapping[str, Mapping[str, Any]]) -> str:
    """The decisions, and the reason of each kind of disagreement, as the page has them."""
    heads = ("decision", "functions of the simulator", "classes of Kafka", "release")
    lines = [
        f"| {' | '.join(heads)} | histories | disagreements |",
        "|---|---|---|---|--:|--:|",
    ]
    reasons = [
        "| decision | kind of disagreement | histories | reason |",
        "|---|---|--:|---|",
    ]
    for each in COMPARISONS:
        found = counts[each.area]
        rules, classes = _code(each.rule), _code(each.classes)
        total = sum(found["kinds"].values())
        lines.append(
            f"| {each.area} | {rules} | {classes} | {found['release']} | {found['histories']:,} "
            f"| {total:,} |"
        )
        reasons += [
            f"| {each.area} | {kind} | {found['kinds'].get(kind, 0):,} | {reason} |"
            for kind, reason in each.explained.items()
        ]
    return "\n".join([*lines, "", *reasons])


def _code(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", "))


def page_with(text: str, page: str) -> str:
    """The page with these tables in place of those that it has."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def main(arguments: list[str]) -> int:
    """Compare; return the exit code."""
    histories = int(arguments[0]) if arguments else HISTORIES
    words = arguments[1:]
    wanted = [
        each
        for each in COMPARISONS
        if not words or any(word.lower() in each.area.lower() for word in words)
    ]
    if not wanted:
        CONSOLE.print(f"No decision is called {' or '.join(words)}. Take a word of one of these:")
        for each in COMPARISONS:
            CONSOLE.print(f"  {each.area}")
        return 3
    with KafkaClasses() as kafka:
        results = [compared(kafka, each, histories) for each in wanted]
    for one in results:
        CONSOLE.print(f"{one.comparison.area}: {one.histories:,} histories, {dict(one.kinds)}")
    if histories >= HISTORIES:
        keep(results, KafkaClasses.release)
        counts = json.loads(COUNTS.read_text("utf-8"))
        if all(each.area in counts for each in COMPARISONS):
            PAGE.write_text(page_with(tables(counts), PAGE.read_text("utf-8")), "utf-8")
    unexplained = sum(each.unexplained for each in results)
    CONSOLE.print(f"{unexplained:,} disagreements have no reason.")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
