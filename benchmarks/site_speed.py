"""How long the report site takes, for 20 subjects, 200 requirements and 30 versions.

    python benchmarks/site_speed.py [OUT]

The rows are made up from the catalogue and a seed; no Spark takes part. The aim is 60 s.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.verdict_rule import Outcome, Shown
from streamproof.reports.pipeline.site.pages import render_pages
from streamproof.reports.pipeline.site.site_builder import arrange
from streamproof.reports.pipeline.site.site_data import (
    Day,
    Distribution,
    Flaky,
    Promise,
    ReadingProblem,
    SiteCell,
    SiteFailure,
    SiteRows,
    SiteRun,
    SiteSubject,
    Unreached,
    VerdictRow,
)
from streamproof.reports.pipeline.site.site_writer import write_files
from streamproof.reports.wording import STATUSES

AIM_S = 60.0
SUBJECTS = 20
REQUIREMENTS = 200
VERSIONS = 30

NAMES = ("rocksdb", "memory", "lmdb", "sqlite", "duckdb", "plyvel", "quixstreams", "faust")
PROGRAM = """\
from streamproof.stores.api import StoreContext

store = make_store()
store.init(StoreContext(directory=tmp, partitions={0}))
store.put(b"a", b"1")
store.commit({0: 1})
store.put(b"a", b"2")
kill_and_reopen(store)          # SIGKILL between put and commit
assert store.get(b"a") == b"1"
"""


def synthetic(subjects: int, requirements: int, versions: int) -> SiteRows:
    """Rows as real runs could give them: most promises kept, some broken for a while."""
    chance = random.Random(20260304)
    catalogue = list(load_catalogue().values())
    promises = tuple(
        Promise(
            requirement=each.id,
            title=each.title,
            promise=each.promise,
            source=each.source,
            level=each.level,
            core=each.core,
            checks=list(each.checks),
        )
        for each in catalogue[:: max(1, len(catalogue) // requirements)][:requirements]
    )
    names = [NAMES[i] if i < len(NAMES) else f"store-{i}" for i in range(subjects)]
    cells: list[SiteCell] = []
    failures: list[SiteFailure] = []
    for subject in names:
        for promise in promises:
            spoiled = range(0)
            if chance.random() < 0.05:
                first = chance.randrange(versions)
                spoiled = range(first, min(versions, first + chance.randint(1, 12)))
            usual = chance.choices(["pass", "unsupported", "skip", "error"], [90, 8, 1.5, 0.5])[0]
            for number in range(versions):
                status: Shown = "fail" if number in spoiled else usual  # type: ignore[assignment]
                cells.append(_cell(chance, subject, f"1.{number}.0", promise.requirement, status))
                if status == "fail":
                    failures.append(_failure(subject, f"1.{number}.0", promise.requirement))
    return SiteRows(
        promises=promises,
        cells=tuple(cells),
        verdicts=tuple(_verdicts(cells)),
        subjects=tuple(_about(name, f"1.{versions - 1}.0") for name in names),
        runs=tuple(_run(number) for number in range(versions * 4)),
        failures=tuple(failures),
        flaky=tuple(
            Flaky(
                subject=cell.subject,
                version=cell.version,
                guarantee=cell.guarantee,
                requirement=cell.requirement,
                held=3,
                broken=1,
                held_run="20260304T101500Z-7",
                broken_run="20260304T111500Z-8",
                held_seed=7,
                broken_seed=8,
            )
            for cell in cells
            if cell.status == "fail" and chance.random() < 0.03
        ),
        problems=(
            ReadingProblem(path="runs/7/run.ndjson", line=31, kind="unreadable", what="not valid"),
            ReadingProblem(path="runs/9/run.ndjson", kind="newer", what="has schema version 9"),
        ),
        unreached=(Unreached(situation="a standby was promoted while it restored", runs=120),),
        distributions=tuple(_distributions()),
        days=tuple(_days(chance, names)),
    )


def _cell(
    chance: random.Random, subject: str, version: str, requirement: str, status: Shown
) -> SiteCell:
    tried = status in ("pass", "fail")
    kills = chance.randint(50, 4000) if tried and requirement.startswith("CRASH") else 0
    broken = int(status == "fail")
    return SiteCell(
        subject=subject,
        version=version,
        guarantee="exactly-once",
        requirement=requirement,
        status=status,
        reason="" if tried else "the subject does not claim it",
        strength=chance.choice(["strong", "moderate", "weak"]) if status == "pass" else "",
        mutants=2,
        runs=4,
        seeds=4,
        examples=100 * tried,
        operations=4000 * tried,
        crash_points=kills,
        caught=broken,
        low=broken * 0.2 / kills if kills else None,
        high=(3.7 + 2 * broken) / kills if kills else None,
    )


def _failure(subject: str, version: str, requirement: str) -> SiteFailure:
    return SiteFailure(
        subject=subject,
        version=version,
        guarantee="exactly-once",
        requirement=requirement,
        run_id=f"20260304T101500Z-{version}",
        check="crash.commit",
        shape="early-value",
        tried="A random program was killed between two of its operations and reopened.",
        program=PROGRAM,
        expected="committed offset 1, and content {a: 1}",
        found="committed offset 1, and content {a: 2}",
        reproduce=f"streamproof verify {subject} --only {requirement} --seed 24378",
    )


def _verdicts(cells: list[SiteCell]) -> list[VerdictRow]:
    worst: dict[tuple[str, str], Outcome] = {}
    for cell in cells:
        key = (cell.subject, cell.version)
        worst[key] = "failure" if cell.status == "fail" else worst.get(key, "success")
    return [
        VerdictRow(subject=subject, version=version, guarantee="exactly-once", verdict=verdict)
        for (subject, version), verdict in worst.items()
    ]


def _about(name: str, version: str) -> SiteSubject:
    return SiteSubject(
        subject=name,
        version=version,
        package=name,
        description=f"The state store of {name}.",
        capabilities="persistent, transactional, durability: process",
    )


def _run(number: int) -> SiteRun:
    return SiteRun(
        run_id=f"202603{number // 5 + 1:02d}T101500Z-{number}",
        started_at=f"2026-03-{number // 5 + 1:02d}T10:15:00Z",
        guarantee="exactly-once",
        spec="kafka-4.3",
        seed=number,
        verdict="failure" if number % 3 else "success",
        profile="quick",
        tool_version="0.1.0",
        command=f"streamproof verify rocksdb --seed {number}",
        path=f"runs/{number}/run.ndjson",
    )


def _distributions() -> list[Distribution]:
    return [
        Distribution(
            measure="Duration of restorations",
            group=group,
            unit="ms",
            count=4000,
            minimum=2,
            p50=40 * factor,
            p90=160 * factor,
            p99=410 * factor,
            maximum=700 * factor,
        )
        for group, factor in (("ended", 1.0), ("suspended", 1.6))
    ]


def _days(chance: random.Random, names: list[str]) -> list[Day]:
    found = []
    for day in range(1, 25):
        for name in names:
            counts: dict[Shown, int] = dict.fromkeys(STATUSES, 0)
            counts["pass"], counts["fail"] = 150 + day, chance.randint(0, 12)
            found.append(
                Day(
                    date=f"2026-03-{day:02d}",
                    subject=name,
                    guarantee="exactly-once",
                    counts=counts,
                )
            )
    return found


def main() -> None:
    """Make the site, and say how long each step took."""
    rows = synthetic(SUBJECTS, REQUIREMENTS, VERSIONS)
    assert len(rows.cells) == SUBJECTS * REQUIREMENTS * VERSIONS
    with tempfile.TemporaryDirectory() as directory:
        out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(directory)
        started = time.perf_counter()
        site = arrange(rows)
        arranged = time.perf_counter()
        written = write_files(out, render_pages(site))
        done = time.perf_counter()
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"arranged in {arranged - started:.1f} s, rendered in {done - arranged:.1f} s")
    print(f"{written.files} files, {size / 1e6:.1f} MB, {len(site.failures)} failures")
    print("within the aim" if done - started < AIM_S else f"more than {AIM_S:.0f} s")


if __name__ == "__main__":
    main()
