"""Run logs for the tests: a tiny one, one with every status, and one as large as real runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from streamproof.conformance.results import (
    SCHEMA_VERSION,
    CheckRecord,
    Failure,
    Footer,
    Header,
    Level,
    Note,
    Record,
    RequirementResult,
    Status,
    Strength,
    SubjectInfo,
    SubjectVerdict,
    Verdict,
)
from streamproof.reports.run_log import RunLog, RunLogWriter

SOURCE = "KIP-1035, Public Interfaces; StateStore.commit(Map)"
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

REQUIREMENTS: dict[str, str] = {
    "LIFE": "init opens the store|init twice is refused|close is idempotent|"
    "reads after close are refused|writes after close are refused|name is stable|"
    "persistent tells the truth",
    "KV": "put then get|overwrite wins|delete removes|null value deletes|put-if-absent keeps|"
    "put-all is in order|empty value is a value|large values survive|approximate count is sane",
    "RANGE": "range is inclusive|range is in byte order|reverse range mirrors|open ends|"
    "prefix scan stops in time|iterator closes|iterator is a snapshot",
    "OFFSET": "no offset before a commit|committed offset is returned|offsets by partition|"
    "offset survives reopen|unknown partition is None|manages-offsets tells the truth",
    "COMMIT": "commit stores data and offset|an empty commit changes nothing|"
    "commit is atomic across partitions|commit after close is refused|offsets never go back|"
    "commit order is kept|uncommitted bytes are counted",
    "TXN": "uncommitted writes are invisible|own writes are read|abort drops all|"
    "commit publishes at once|nested transactions are refused|reopen drops the uncommitted",
    "ISO": "no dirty reads (G1a)|no intermediate reads (G1b)|no lost updates|"
    "queries read committed|position matches what is read",
    "CRASH": "never invented|content matches the offset|nothing committed is lost|"
    "atomic across partitions|crash during commit|crash during flush|crash during open|"
    "crash during delete|second crash during recovery",
    "RESTORE": "restore converges|interrupted restore converges|batch size does not matter|"
    "tombstones are applied|restore from a stale offset",
    "ERR": "null key is refused|unknown store is named|corrupt files are refused|"
    "errors name the store",
}


def header(*subjects: str, schema_version: int = SCHEMA_VERSION) -> Header:
    """The header of a run over these subjects."""
    return Header(
        schema_version=schema_version,
        run_id="20260304T101500Z-5f3a",
        tool_version="0.1.0",
        started_at="2026-03-04T10:15:00Z",
        seed=24378,
        profile="full",
        guarantee="exactly-once",
        spec="kafka-4.3",
        only=[],
        command=f"streamproof verify {' '.join(subjects)} --profile full --seed 24378",
        subjects=[
            SubjectInfo(
                name=name,
                description=f"The state store of {name}.",
                package=name,
                version="3.28.1",
                capabilities={"persistent": True, "transactional": True, "durability": "process"},
            )
            for name in subjects
        ],
        platform={"python": "3.11.9", "os": "Linux 6.1", "rocksdict": "0.3.29"},
    )


def result(
    subject: str = "rocksdb",
    requirement: str = "KV-001",
    status: Status = "pass",
    scale: int = 1,
    **changes: Any,
) -> RequirementResult:
    """One result, with evidence unless nothing was tried; ``changes`` replace its fields."""
    tried = status in ("pass", "fail")
    crashes = requirement.startswith(("CRASH", "COMMIT", "TXN")) and tried
    title = changes.setdefault("title", "put then get")
    plain = RequirementResult(
        subject=subject,
        requirement=requirement,
        title=title,
        promise=f"For every store it must hold that {title}, whatever was done before.",
        source=SOURCE,
        level="MUST",
        core=True,
        status=status,
        checks=[f"check_{requirement.lower().replace('-', '_')}"],
        examples=100 * scale if tried else 0,
        operations=4217 * scale if tried else 0,
        crash_points={"boundary": 12 * scale, "line": 31 * scale, "syscall": 9} if crashes else {},
        duration_s=0.731 * scale if tried else 0.0,
        strength=_strength(scale, crashes) if status == "pass" else "",
        mutants=int(crashes),
    )
    return msgspec.structs.replace(plain, **changes)


def _strength(scale: int, crashes: bool) -> Strength:
    """Any strength will do, as long as each occurs."""
    if crashes:
        return "strong" if scale > 4 else "moderate"
    return "weak" if scale > 4 else "example only"


def failure(of: RequirementResult, **changes: Any) -> Failure:
    """The failure that belongs to a failed result."""
    texts = {
        "tried": "A random program was killed between two of its operations and reopened.",
        "program": PROGRAM,
        "expected": "committed offset 1, and content {a: 1}",
        "found": "committed offset 1, and content {a: 2}",
        "shape": "early-value",
        "saved": f"failures/{of.subject}/{of.requirement}-early-value.json",
        "reproduce": f"streamproof verify {of.subject} --only {of.requirement} --seed 24378",
        **changes,
    }
    return Failure(
        subject=of.subject,
        requirement=of.requirement,
        check=of.checks[0],
        title=of.title,
        promise=of.promise,
        source=of.source,
        level=of.level,
        **texts,
    )


def footer(results: list[RequirementResult], verdicts: dict[str, Verdict]) -> Footer:
    """The footer of a run with these results."""

    def counts(subject: str, core: bool) -> dict[Status, int]:
        mine = (each for each in results if each.subject == subject and each.core == core)
        return dict(Counter(each.status for each in mine))

    order: list[Verdict] = ["success", "partial", "error", "failure"]
    worst: Verdict = "error" if not verdicts else order[max(map(order.index, verdicts.values()))]
    return Footer(
        finished_at="2026-03-04T10:52:41Z",
        duration_s=2261.4,
        verdict=worst,
        exit_code=order.index(worst),
        verdicts=[
            SubjectVerdict(
                subject=subject,
                verdict=verdict,
                summary=f"The verdict on {subject} is {verdict}.",
                core=counts(subject, True),
                extended=counts(subject, False),
            )
            for subject, verdict in verdicts.items()
        ],
        reproduce="streamproof verify --seed 24378",
    )


def checks_of(results: list[RequirementResult]) -> list[CheckRecord]:
    """A check for each result that was tried."""
    return [
        CheckRecord(
            subject=each.subject,
            check=each.checks[0],
            examples=each.examples,
            operations=each.operations,
            crash_points=each.crash_points,
            duration_s=each.duration_s,
        )
        for each in results
        if each.examples
    ]


def good_log() -> RunLog:
    """One subject that keeps everything."""
    results = [
        result("rocksdb", "KV-001"),
        result("rocksdb", "CRASH-001", title="never invented"),
        result("rocksdb", "RANGE-001", title="range is inclusive", core=False, level="SHOULD"),
    ]
    return RunLog(
        header=header("rocksdb"),
        checks=checks_of(results),
        results=results,
        failures=[],
        footer=footer(results, {"rocksdb": "success"}),
    )


def searched_log() -> RunLog:
    """A search with a bank and known failures: a promise broken in two shapes, another known."""
    broken = result("quix", "CRASH-002", "fail", title="content matches the offset", reason="torn")
    expected = result("quix", "KV-002", "known", title="overwrite wins", reason="being mended")
    results = [expected, result("quix", "KV-001"), broken, result("quix", "TXN-001", scale=9)]
    return RunLog(
        header=header("quix"),
        checks=checks_of(results),
        results=results,
        failures=[
            failure(expected, known="being mended (until 2099-12-31)"),
            failure(broken, also_found_by=["crash.in_every_line_of_commit"]),
            failure(broken, shape="missing-value", program="print(1)\n"),
        ],
        notes=[
            Note(kind="fixed", subject="quix", text="KV-003-stale-value does not fail any more."),
            Note(kind="warning", text="The known failure of faust matches nothing | <b>here</b>."),
            Note(kind="search", text="600 s, 41 rounds after the first: 9,120 examples."),
        ],
        footer=footer(results, {"quix": "failure"}),
    )


def mixed_log(complete: bool = True) -> RunLog:
    """Two subjects, and every status once."""
    broken = result("quix", "CRASH-002", "fail", title="content matches the offset", reason="torn")
    lesser = result("quix", "XTRA-001", "fail", level="SHOULD", core=False, title="a | pipe")
    results = [
        result("rocksdb", "KV-001"),
        result("rocksdb", "CRASH-002", title="content matches the offset"),
        result("rocksdb", "POWER-001", "skip", title="power loss", reason="no fault injection"),
        result("quix", "KV-001", "error", reason="the store host did not answer in 10 s"),
        broken,
        result("quix", "POWER-001", "unsupported", title="power loss", reason="not claimed"),
        lesser,
        result("rocksdb", "XTRA-001", "untested", level="SHOULD", core=False, reason="no check"),
    ]
    end = footer(results, {"rocksdb": "partial", "quix": "failure"})
    return RunLog(
        header=header("rocksdb", "quix"),
        checks=checks_of(results),
        results=results,
        failures=[failure(lesser), failure(broken)],
        footer=end if complete else None,
    )


def _realistic_status(subject: str, requirement: str) -> tuple[Status, str]:
    broken = {
        "quixstreams": {
            "CRASH-002": "5 of 120 kills left data ahead of the offset",
            "COMMIT-003": "",
        },
        "faust-streaming": dict.fromkeys(
            ("CRASH-001", "CRASH-002", "CRASH-005", "OFFSET-004", "RANGE-007", "ERR-003"),
            "the committed offset was ahead of the data",
        ),
    }
    other: dict[tuple[str, str], tuple[Status, str]] = {
        ("faust-streaming", "RESTORE-002"): ("error", "the store host died with signal 11"),
        ("faust-streaming", "LIFE-006"): ("error", "no answer within 30 s; the host was killed"),
        ("quixstreams", "CRASH-006"): ("skip", "perf_event_open is not permitted here"),
        ("rocksdb", "ISO-005"): ("untested", "the position is not in the contract yet"),
        ("quixstreams", "ISO-005"): ("untested", "the position is not in the contract yet"),
        ("faust-streaming", "ISO-005"): ("untested", "the position is not in the contract yet"),
    }
    if requirement in broken.get(subject, {}):
        return "fail", broken[subject][requirement]
    if subject == "faust-streaming" and requirement.startswith("TXN"):
        return "unsupported", "does not claim transactional"
    return other.get((subject, requirement), ("pass", ""))


def realistic_log(*subjects: str, complete: bool = True) -> RunLog:
    """65 requirements, with failures, errors, skips and gaps as real runs have them."""
    results, failures = [], []
    for subject in subjects:
        for area, titles in REQUIREMENTS.items():
            for number, title in enumerate(titles.split("|"), 1):
                requirement = f"{area}-{number:03d}"
                core = area not in ("TXN", "ISO") or number < 3
                level: Level = "MUST" if number < 6 else "SHOULD"
                status, reason = _realistic_status(subject, requirement)
                if not complete and subject == subjects[-1] and area in ("CRASH", "RESTORE", "ERR"):
                    continue
                each = result(
                    subject,
                    requirement,
                    status,
                    title=title,
                    reason=reason,
                    level=level,
                    core=core,
                    scale=3 + number,
                )
                results.append(each)
                if status == "fail":
                    failures.append(failure(each))
    verdicts: dict[str, Verdict] = {}
    for subject in subjects:
        broken = any(each.subject == subject for each in failures)
        verdicts[subject] = "failure" if broken else "success"
    return RunLog(
        header=header(*subjects),
        checks=checks_of(results),
        results=results,
        failures=failures,
        footer=footer(results, verdicts) if complete else None,
    )


def write_log(path: Path, log: RunLog) -> Path:
    """Writes a log record by record."""
    with RunLogWriter(path) as writer:
        records: list[Record] = [log.header, *log.checks, *log.results, *log.failures, *log.notes]
        for record in [*records, log.footer] if log.footer else records:
            writer.write(record)
    return path
