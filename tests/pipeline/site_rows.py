"""Rows for the tests of the report site: a few subjects, with one of everything."""

from __future__ import annotations

from typing import Any

from streamproof.conformance.verdict_rule import Outcome, Shown
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
    StatusChange,
    Unreached,
    VerdictRow,
    WorldFailure,
    WorldTotals,
)
from streamproof.reports.wording import STATUSES

PROGRAM = """\
store = make_store()
store.put(b"a", b"1")
store.commit({0: 1})
kill_and_reopen(store)          # SIGKILL between put and commit
assert store.get(b"a") == b"1"
"""

WORLDS = (
    WorldTotals(
        kind="scenario", subject="rocksdb", guarantee="", count=3, held=2, broken=0, silent=1
    ),
    WorldTotals(
        kind="simulate",
        subject="",
        guarantee="exactly-once",
        count=20,
        held=19,
        broken=1,
        silent=0,
        events=5000,
    ),
    WorldTotals(
        kind="simulate",
        subject="",
        guarantee="exactly-once",
        defect="ignores-lag",
        count=8,
        held=6,
        broken=2,
        silent=0,
        events=2000,
    ),
)

WORLD_FAILURES = (
    WorldFailure(
        kind="simulate",
        outcome="fail",
        requirement="EOS-101",
        shape="Contents",
        found="task 0_1 holds a=2, and its changelog a=1",
        seed=11,
        guarantee="exactly-once",
        topology="count",
        events=310,
        sequence=207,
        time=4120,
        command="streamproof explore --seed 11",
    ),
    WorldFailure(
        kind="simulate",
        outcome="fail",
        defect="ignores-lag",
        requirement="IDLE-001",
        shape="OldestFirst",
        found="a newer record was processed first",
        seed=4,
        events=90,
        command="streamproof explore --seed 4 --defect ignores-lag",
        worlds=2,
    ),
    WorldFailure(
        kind="scenario",
        outcome="error",
        subject="rocksdb",
        scenario="KAFKA-10167@fixed",
        found="it took longer than 300 s",
        command="streamproof replay KAFKA-10167@fixed",
    ),
)

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "'\"><svg onload=alert(1)>",
    "<!-- ]]> --> {{ 7*7 }} {% raw %}",
    "=cmd|' /C calc'!A0",
    "@SUM(1+1)",
    "../../etc/passwd",
    "..",
    "/absolute/path",
    "javascript:alert(1)",
    "nul \0 bell \x07 escape \x1b[31m c1 \x9b line\u2028end",
    "bidi \u202etxt.exe\u202c \u2066x\u2069 \u200f \ufffe \udc80",
    "a | b `c` **d** [e](javascript:f) \n# heading\r\n- item @someone https://example.org",
    "",
    "x" * 100_000,
]
"""What a store, a log or a directory may be called, and may say."""


def promise(requirement: str, title: str, **changes: Any) -> Promise:
    """A requirement with everything that one has."""
    return Promise(
        **{
            "requirement": requirement,
            "title": title,
            "promise": f"For every store it holds that {title}.",
            "source": "KIP-1035, Public Interfaces; StateStore.commit(Map)",
            "level": "MUST",
            "core": True,
            "checks": ["crash.commit", "commit.random_programs"],
            **changes,
        }
    )


def cell(subject: str, version: str, requirement: str, status: Shown, **changes: Any) -> SiteCell:
    """What became of a requirement, with evidence if it was tried."""
    tried = status in ("pass", "fail", "known")
    kills = 1200 if tried and requirement.startswith("CRASH") else 0
    return SiteCell(
        **{
            "subject": subject,
            "version": version,
            "guarantee": "exactly-once",
            "requirement": requirement,
            "status": status,
            "latest": status,
            "reason": "" if status == "pass" else f"why it is {status}",
            "strength": "strong" if status == "pass" else "",
            "mutants": 2,
            "runs": 3,
            "seeds": 3,
            "examples": 100 if tried else 0,
            "operations": 4200 if tried else 0,
            "crash_points": kills,
            "wiped": kills // 100,
            "caught": int(status == "fail"),
            "low": (0.0001 if status == "fail" else 0.0) if kills else None,
            "high": (0.0046 if status == "fail" else 0.0032) if kills else None,
            **changes,
        }
    )


def verdict(subject: str, version: str, outcome: Outcome, day: int = 1) -> VerdictRow:
    """The verdict on a version that was last tested on a day in March."""
    return VerdictRow(
        subject=subject,
        version=version,
        guarantee="exactly-once",
        verdict=outcome,
        latest_at=f"2026-03-{day:02d}T10:15:00Z",
        runs=3,
    )


def failure(subject: str, version: str, requirement: str, **changes: Any) -> SiteFailure:
    """A failure with everything that one has."""
    return SiteFailure(
        **{
            "subject": subject,
            "version": version,
            "guarantee": "exactly-once",
            "requirement": requirement,
            "run_id": "20260304T101500Z-7",
            "check": "crash.commit",
            "shape": "early-value",
            "tried": "A program was killed between two of its operations and reopened.",
            "program": PROGRAM,
            "expected": "committed offset 1, and content {a: 1}",
            "found": "committed offset 1, and content {a: 2}",
            "reproduce": f"streamproof verify {subject} --only {requirement} --seed 7",
            "runs": 2,
            **changes,
        }
    )


def run(number: int, **changes: Any) -> SiteRun:
    """One run."""
    return SiteRun(
        **{
            "run_id": f"2026030{number}T101500Z-{number}",
            "started_at": f"2026-03-0{number}T10:15:00Z",
            "guarantee": "exactly-once",
            "spec": "kafka-4.3",
            "seed": number,
            "verdict": "failure",
            "profile": "quick",
            "tool_version": "0.1.0",
            "command": f"streamproof verify rocksdb lmdb --seed {number}",
            "path": f"runs/{number}/run.ndjson",
            **changes,
        }
    )


def sample() -> SiteRows:
    """Two subjects in up to three versions: one that gets worse and better, one that is whole."""
    statuses: dict[tuple[str, str], dict[str, Shown]] = {
        ("rocksdb", "1.9"): {"KV-001": "pass", "CRASH-001": "pass", "TXN-001": "fail"},
        ("rocksdb", "1.10"): {"KV-001": "pass", "CRASH-001": "fail", "TXN-001": "pass"},
        ("lmdb", "3.0"): {"KV-001": "pass", "CRASH-001": "pass", "TXN-001": "unsupported"},
    }
    cells = [
        cell(subject, version, requirement, status)
        for (subject, version), found in statuses.items()
        for requirement, status in found.items()
    ]
    cells += [
        cell("rocksdb", "1.10", "RANGE-001", "skip"),
        cell("rocksdb", "1.10", "ERR-001", "known"),
        cell("lmdb", "3.0", "RANGE-001", "pass", strength="weak"),
    ]
    return SiteRows(
        promises=(
            promise("KV-001", "put then get"),
            promise("RANGE-001", "range is inclusive", level="SHOULD", core=False),
            promise("TXN-001", "uncommitted writes are invisible", core=False),
            promise("CRASH-001", "content matches the offset"),
            promise("ERR-001", "null key is refused", checks=[]),
            promise("POWER-001", "survives a loss of power", core=False),
        ),
        cells=tuple(cells),
        verdicts=(
            verdict("rocksdb", "1.9", "failure", 1),
            verdict("rocksdb", "1.10", "failure", 2),
            verdict("lmdb", "3.0", "success", 2),
        ),
        subjects=(
            SiteSubject(
                subject="rocksdb",
                version="1.10",
                package="rocksdict",
                description="RocksDB, with its offsets in a column family.",
                capabilities="persistent, durability: process",
            ),
        ),
        runs=(run(1), run(2), run(3, verdict="incomplete")),
        failures=(
            failure("rocksdb", "1.9", "TXN-001", shape="dirty-read"),
            failure("rocksdb", "1.10", "CRASH-001"),
            failure("rocksdb", "1.10", "ERR-001", known="fixed in 1.11", shape=""),
        ),
        flaky=(
            Flaky(
                subject="rocksdb",
                version="1.10",
                guarantee="exactly-once",
                requirement="CRASH-001",
                held=2,
                broken=1,
                held_run="20260302T101500Z-2",
                broken_run="20260303T101500Z-3",
                held_seed=2,
                broken_seed=3,
            ),
        ),
        problems=(
            ReadingProblem(path="runs/9/run.ndjson", line=31, kind="unreadable", what="not valid"),
        ),
        unreached=(Unreached(situation="a standby was promoted while it restored", runs=3),),
        worlds=WORLDS,
        world_failures=WORLD_FAILURES,
        distributions=(
            Distribution(
                measure="Duration of restorations",
                group="ended",
                unit="virtual ms",
                count=40,
                minimum=2,
                p50=40,
                p90=160,
                p99=410,
                maximum=700,
            ),
        ),
        days=tuple(
            Day(
                date=f"2026-03-0{day}",
                subject="rocksdb",
                guarantee="exactly-once",
                counts={**dict.fromkeys(STATUSES, 0), "pass": 3 + day, "fail": 1},
            )
            for day in (1, 2)
        ),
    )


def hostile(text: str) -> SiteRows:
    """``text`` wherever somebody else's text can be, beside rows that are as they should be."""
    keys = {"subject": text, "version": text, "guarantee": "exactly-once", "requirement": text}
    found = failure(text, text, text)
    return SiteRows(
        promises=(
            promise(text, text, promise=text, source=text, checks=[text]),
            promise("KV-001", text),
        ),
        cells=(
            cell(text, text, text, "fail", reason=text),
            cell("plain", "1", "KV-001", "pass", reason=text),
            cell("plain", "2", "KV-001", "error", reason=text),
        ),
        verdicts=(verdict(text, text, "success"),),
        subjects=(
            SiteSubject(
                subject=text, version=text, package=text, description=text, capabilities=text
            ),
        ),
        runs=(
            run(
                1,
                run_id=text,
                started_at=text,
                spec=text,
                profile=text,
                tool_version=text,
                command=text,
                path=text,
            ),
        ),
        failures=(
            SiteFailure(
                **keys,
                run_id=text,
                check=text,
                shape=text,
                tried=text,
                program=text,
                expected=text,
                found=text,
                reproduce=text,
                known=text,
            ),
            found,
        ),
        changes=(
            StatusChange(
                subject=text,
                guarantee="exactly-once",
                requirement=text,
                kind="broken",
                before=None,
                after="fail",
                version_before=text,
                version_after=text,
            ),
        ),
        flaky=(Flaky(**keys, held=1, broken=1, held_run=text, broken_run=text),),
        problems=(ReadingProblem(path=text, what=text, kind=text),),
        unreached=(Unreached(situation=text),),
        worlds=tuple(
            WorldTotals(
                kind=text,
                subject=text,
                guarantee=text,
                defect=defect,
                count=1,
                held=0,
                broken=1,
                silent=0,
            )
            for defect in ("", text)
        ),
        world_failures=tuple(
            WorldFailure(
                kind=text,
                outcome="fail",
                subject=text,
                scenario=text,
                defect=defect,
                requirement=text,
                shape=text,
                found=text,
                title=text,
                expected=text,
                guarantee=text,
                topology=text,
                command=text,
                seed=0,
                sequence=0,
                time=0,
            )
            for defect in ("", text)
        ),
        distributions=(
            Distribution(
                measure=text,
                group=text,
                unit=text,
                count=1,
                minimum=0,
                p50=0,
                p90=0,
                p99=0,
                maximum=0,
            ),
        ),
        days=(
            Day(date=text, subject=text, guarantee="exactly-once", counts={"pass": 1}),
            Day(date=f"{text}!", subject=text, guarantee="exactly-once", counts={"pass": 1}),
        ),
        baseline=text or "the baseline",
    )
