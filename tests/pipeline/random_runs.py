"""Runs of all kinds, drawn from a seed, and what tests of the tables do with them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import cast, get_args

from table_oracle import Told

from streamproof.conformance.results import (
    SCHEMA_VERSION,
    CheckRecord,
    Failure,
    Footer,
    Guarantee,
    Header,
    Level,
    Record,
    RequirementResult,
    Spec,
    Status,
    Strength,
    SubjectInfo,
    SubjectVerdict,
    Verdict,
)
from streamproof.reports.run_log import RunLog, RunLogWriter

__all__ = ["draw_runs", "write_runs"]

REQUIREMENTS = ("KV-001", "KV-002", "CRASH-001", "WIN-007")
STATUSES: tuple[Status, ...] = get_args(Status)
STRENGTHS: tuple[Strength, ...] = ("strong", "moderate", "weak", "example only")
SITUATIONS = ("a disk was full", "a task idled", "nothing of this kind")


def draw_runs(seed: int, count: int) -> list[RunLog]:
    """So many runs; with few subjects, versions and days, so that many of them meet."""
    random = Random(seed)
    return [_run(random, number) for number in range(count)]


def write_runs(directory: Path, runs: list[RunLog]) -> list[Told]:
    """Write each into a log of its own."""
    told = []
    for number, log in enumerate(runs):
        path = directory / f"{number:03d}" / "run.ndjson"
        path.parent.mkdir(parents=True)
        told.append(Told(str(path), log))
        records: list[Record] = [log.header, *log.checks, *log.results, *log.failures]
        with RunLogWriter(path) as writer:
            for record in [*records, log.footer] if log.footer else records:
                writer.write(record)
    return told


def _run(random: Random, number: int) -> RunLog:
    names = random.sample(("rocksdb", "<b>quix</b>", "=cmd()"), random.randint(1, 2))
    subjects = [
        SubjectInfo(name=name, version=random.choice(("", "1.9")), package=f"{name} package")
        for name in names
    ]
    planned = random.sample(REQUIREMENTS, random.randint(1, len(REQUIREMENTS)))
    # A version that holds together has few bad days; else all that is combined would be broken.
    moods = (STATUSES, ("pass",), ("pass",), ("pass",), ("pass", "skip"), ("pass", "unsupported"))
    mood = random.choice(moods)
    results = [
        _result(random, name, requirement, random.choice(mood))
        for name in names
        for requirement in planned
        if random.random() < 0.9
    ]
    started = f"2026-03-0{random.randint(1, 4)}T1{random.randint(0, 1)}:00:00Z"
    is_complete = random.random() < 0.8
    return RunLog(
        header=Header(
            schema_version=random.randint(1, SCHEMA_VERSION),
            run_id=f"run-{number}",
            tool_version="0.1.0",
            started_at=started,
            seed=random.randint(0, 3),
            profile="quick",
            guarantee=random.choice(get_args(Guarantee)),
            spec=random.choice(get_args(Spec)[:2]),
            only=[],
            command=f"streamproof verify {number}",
            subjects=subjects,
            requirements=planned,
        ),
        checks=[_check(random, name) for name in names],
        results=results,
        failures=[
            _failure(each)
            for each in results
            if each.status in ("fail", "known") or random.random() < 0.02
        ],
        footer=_footer(random, names) if is_complete else None,
    )


def _result(random: Random, subject: str, requirement: str, status: Status) -> RequirementResult:
    crashes = {
        kind: random.randint(1, 40)
        for kind in ("boundary", "line", "enospc")
        if random.random() < 0.4
    }
    return RequirementResult(
        subject=subject,
        requirement=requirement,
        title=f"{requirement} in a few words",
        promise=f"promise {random.randint(0, 9)}",
        source="KIP-1035",
        level=random.choice(cast(tuple[Level, ...], ("MUST", "MUST", "SHOULD", "MAY"))),
        core=random.random() < 0.6,
        status=status,
        reason="" if status == "pass" else f"reason {random.randint(0, 9)} </script>\n\x00",
        checks=["kv.put", "kv.get"][: random.randint(0, 2)],
        examples=random.randint(0, 100),
        operations=random.randint(0, 10_000),
        crash_points=crashes,
        wiped=random.randint(0, sum(crashes.values())),
        duration_s=random.randint(0, 9_999) / 1000,
        strength=random.choice(STRENGTHS) if status == "pass" else "",
        mutants=random.randint(0, 3),
    )


def _failure(of: RequirementResult) -> Failure:
    return Failure(
        subject=of.subject,
        requirement=of.requirement,
        check="kv.put",
        title=of.title,
        promise=of.promise,
        source=of.source,
        level=of.level,
        core=of.core,
        tried="It was killed.",
        program="store.put(b'a', b'1')",
        expected="a",
        found="b",
        reproduce="streamproof verify",
        shape="stale-value",
        known="a known bug" if of.status == "known" else "",
    )


def _check(random: Random, subject: str) -> CheckRecord:
    hits = {name: random.choice((0, 0, 3)) for name in SITUATIONS if random.random() < 0.5}
    return CheckRecord(
        subject=subject,
        check="world.run",
        situations={name: 0 if name == SITUATIONS[2] else count for name, count in hits.items()},
    )


def _footer(random: Random, names: list[str]) -> Footer:
    verdicts: tuple[Verdict, ...] = get_args(Verdict)
    told = [name for name in names if random.random() < 0.9]
    return Footer(
        finished_at="2026-03-05T00:00:00Z",
        duration_s=12.5,
        verdict=random.choice((*verdicts, "success", "success")),
        exit_code=0,
        verdicts=[
            SubjectVerdict(
                subject=name,
                verdict="success" if random.random() < 0.9 else random.choice(verdicts),
                summary=f"so it is with {name}",
                core={},
                extended={},
            )
            for name in told
        ],
        reproduce="streamproof verify again",
    )
