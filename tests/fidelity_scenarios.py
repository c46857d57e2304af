"""Plays the whole library in the simulator and on Kafka, and writes a table of docs/fidelity.md.

``nox -s fidelity_scenarios`` runs it. Each row is kept in a file of lines as soon as it is known,
so a run that is interrupted goes on where it was. Why a variant differs is in
``fidelity_scenarios.toml``: a difference without an entry there is shown as one that nobody has
explained.
"""

from __future__ import annotations

import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from streamproof.errors import StreamproofError
from streamproof.scenarios.kafka.real_play import play_for_real
from streamproof.scenarios.kafka.real_settings import why_not
from streamproof.scenarios.play import Judged, play
from streamproof.scenarios.scenario import Scenario, Setup
from streamproof.scenarios.scenario_reader import library, read
from streamproof.sim.invariants import INVARIANTS

ROOT = Path(__file__).parents[1]

PAGE = ROOT / "docs" / "fidelity.md"

REASONS = Path(__file__).with_name("fidelity_scenarios.toml")

UNPLAYED = "this page was written before it was played: `nox -s fidelity_scenarios` plays all"

RELEASES = ("4.4.0", "4.3.1", "4.2.2", "4.2.0", "3.9.2")
"""The releases that play the library: the newest one, that of the compared classes, one whose
stores keep no offsets, one with a mistake that the third has no more, and one whose brokers speak
the first version of the protocol of transactions."""


class Row(Struct, frozen=True):
    """One variant of a scenario in both worlds.

    Attributes:
        target: the scenario and the variant.
        simulated: what came of the simulated run.
        release: the release of Kafka that played it; empty if none can.
        real: what came of the real run, or why there is none.
        agrees: whether both came as the scenario expects.
        judged: how many invariants judged the real run.
        events: how many events the real run has.
        seconds: how long the real run took.
    """

    target: str
    simulated: str
    release: str
    real: str
    agrees: bool
    judged: int = 0
    events: int = 0
    seconds: float = 0.0


def variants() -> Iterator[tuple[Scenario, Setup, str, str]]:
    """Every variant, with the release that can play it, or the reason why none can."""
    for path in library().values():
        scenario = read(path)
        for setup in scenario.setups.values():
            reasons = {release: why_not(scenario, setup, release) for release in RELEASES}
            release = next((each for each, reason in reasons.items() if not reason), "")
            yield scenario, setup, release, reasons[RELEASES[0]]


def outcome(judged: Judged) -> str:
    """What came of a run, in a few words."""
    if judged.surprises:
        # The log of a process that has ended is too long for a table.
        return "; ".join(each.partition(". It wrote")[0] for each in judged.surprises)
    found = judged.played.violations
    return f"{found[0].requirement} breaks" if found else "holds"


def row_of(scenario: Scenario, setup: Setup, release: str) -> Row:
    """One variant, played in both worlds."""
    target = f"{scenario.name}@{setup.name}"
    simulated = play(scenario, setup)
    began = time.monotonic()
    try:
        real = play_for_real(scenario, setup, release)
    except StreamproofError as error:
        said = str(error).splitlines()[0]
        return Row(target, outcome(simulated), release, said, agrees=False)
    return Row(
        target,
        outcome(simulated),
        release,
        outcome(real),
        not (simulated.surprises or real.surprises),
        len(INVARIANTS) - len(real.played.unjudged),
        len(real.played.events),
        round(time.monotonic() - began, 1),
    )


def collected(known: Path) -> list[Row]:
    """All rows; those that a file has are not played again, and Ctrl-C leaves the rest out."""
    rows: dict[str, Row] = {}
    if known.exists():
        for line in known.read_text("utf-8").splitlines():
            row = msgspec.json.decode(line, type=Row)
            rows[row.target] = row
    everything = list(variants())
    with known.open("a", encoding="utf-8") as file, suppress(KeyboardInterrupt):
        for scenario, setup, release, _ in everything:
            target = f"{scenario.name}@{setup.name}"
            if release and target not in rows:
                rows[target] = row_of(scenario, setup, release)
                file.write(f"{msgspec.json.encode(rows[target]).decode()}\n")
                file.flush()
                sys.stdout.write(f"{target}: {rows[target].real}\n")
                sys.stdout.flush()
    for scenario, setup, release, reason in everything:
        target = f"{scenario.name}@{setup.name}"
        missing = Row(target, "", "", UNPLAYED if release else reason, agrees=False)
        rows.setdefault(target, missing)
    return list(rows.values())


BEGIN = "<!-- scenarios: written by nox -s fidelity_scenarios -->"

END = "<!-- scenarios: end -->"


def section(rows: Sequence[Row], reasons: dict[str, str]) -> str:
    """What stands between the marks of the page, as Markdown."""
    played = [each for each in rows if each.release]
    agreeing = sum(each.agrees for each in played)
    share = 100 * agreeing // max(len(played), 1)
    summary = (
        f"Of {len(rows)} variants, {len(played)} were played for real, and {agreeing} of these "
        f"agree ({share} %). There are {len(INVARIANTS)} invariants."
    )
    parts = [summary, "", *_table(played, reasons)]
    parts += ["", "| not played for real, because | variants |", "|---|---:|"]
    counts = Counter(each.real for each in rows if not each.release)
    parts += [f"| {reason} | {number} |" for reason, number in counts.most_common()]
    return "\n".join(parts)


def written(page: str, rows: Sequence[Row], reasons: dict[str, str]) -> str:
    """The page with a new section."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{section(rows, reasons)}\n{END}{after}"


def _table(played: Iterable[Row], reasons: dict[str, str]) -> Iterator[str]:
    yield "| variant | release | simulated | real | agree | why not | judged | events | s |"
    yield "|---|---|---|---|:-:|---|---:|---:|---:|"
    for each in played:
        why = "" if each.agrees else reasons.get(each.target, "**not explained yet**")
        cells = [
            each.target,
            each.release,
            each.simulated,
            each.real.replace("|", "\\|"),
            "yes" if each.agrees else "no",
            why,
            str(each.judged or ""),
            str(each.events or ""),
            f"{each.seconds:g}" if each.seconds else "",
        ]
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    """Play what is not in the file of the first argument yet, and write the page."""
    rows = collected(Path(sys.argv[1]))
    reasons = tomllib.loads(REASONS.read_text("utf-8"))["differences"]
    PAGE.write_text(written(PAGE.read_text("utf-8"), rows, reasons), "utf-8")


if __name__ == "__main__":
    main()
