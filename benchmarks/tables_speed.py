"""How long compliance tables take over 10,000 run logs with a million results.

The logs are of 20 subjects in 30 versions, with 200 requirements. They are made first, from the
record types, in a temporary directory; making them, and starting Spark, is not counted. Then every
table is made once, in the order in which a report asks for them: the first one reads the logs.

Run: ``python -P benchmarks/tables_speed.py``; ``--logs`` and ``--results`` ask for less.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import msgspec

from streamproof.conformance.catalogue import load_catalogue
from streamproof.conformance.results import (
    SCHEMA_VERSION,
    CheckRecord,
    Footer,
    Header,
    Record,
    RequirementResult,
    Status,
    SubjectInfo,
    SubjectVerdict,
)
from streamproof.reports.pipeline.spark import session
from streamproof.reports.pipeline.tables.api import load_tables
from streamproof.reports.pipeline.tables.columns import TABLES

LIMIT_S = 60.0
"""All tables together, over 10,000 logs and a million results, on two cores."""

SUBJECTS = [f"store-{number}" for number in range(20)]
VERSIONS = [f"1.{number}" for number in range(30)]
REQUIREMENTS = 200
STATUSES: list[Status] = ["pass"] * 90 + ["skip"] * 4 + ["unsupported"] * 4 + ["fail", "known"]

_encoder = msgspec.json.Encoder()


def write_logs(directory: Path, logs: int, results: int) -> int:
    """Write logs with a number of results each, and return their size in bytes."""
    random = Random(7)
    catalogue = list(load_catalogue().values())[:REQUIREMENTS]
    size = 0
    for number in range(logs):
        subject, version = SUBJECTS[number % 20], VERSIONS[number // 20 % 30]
        asked = [catalogue[(number + each) % len(catalogue)] for each in range(results)]
        told: list[Record] = [_header(number, subject, version, [each.id for each in asked])]
        for requirement in asked:
            status = random.choice(STATUSES)
            told.append(
                CheckRecord(subject=subject, check=requirement.id, examples=100, operations=900)
            )
            told.append(
                RequirementResult(
                    subject=subject,
                    requirement=requirement.id,
                    title=requirement.title,
                    promise=requirement.promise,
                    source=requirement.source,
                    level=requirement.level,
                    core=requirement.core,
                    status=status,
                    reason="" if status == "pass" else f"reason {number % 7}",
                    checks=list(requirement.checks),
                    examples=100,
                    operations=4217,
                    crash_points={"boundary": 12, "line": 31},
                    duration_s=0.731,
                    strength="strong" if status == "pass" else "",
                    mutants=2,
                )
            )
        told.append(_footer(subject))
        path = directory / f"{number:05d}.ndjson"
        path.write_bytes(b"".join(_encoder.encode(each) + b"\n" for each in told))
        size += path.stat().st_size
    return size


def _header(number: int, subject: str, version: str, requirements: list[str]) -> Header:
    day, second = number * 28 // 10_000 + 1, number % 60
    return Header(
        schema_version=SCHEMA_VERSION,
        run_id=f"run-{number}",
        tool_version="0.1.0",
        started_at=f"2026-03-{day % 28 + 1:02d}T10:00:{second:02d}Z",
        seed=number,
        profile="quick",
        guarantee="exactly-once",
        spec="kafka-4.3",
        only=[],
        command=f"streamproof verify {subject} --seed {number}",
        subjects=[SubjectInfo(name=subject, version=version)],
        requirements=requirements,
    )


def _footer(subject: str) -> Footer:
    verdict = SubjectVerdict(
        subject=subject, verdict="partial", summary="so it is", core={}, extended={}
    )
    return Footer(
        finished_at="2026-03-28T11:00:00Z",
        duration_s=60.0,
        verdict="partial",
        exit_code=2,
        verdicts=[verdict],
        reproduce="streamproof verify",
    )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=10_000)
    parser.add_argument("--results", type=int, default=100, help="in each log")
    parser.add_argument("--master", default="local[2]")
    options = parser.parse_args()
    taken = all_tables_s(options.logs, options.results, options.master)
    print("within the limit" if taken <= LIMIT_S else f"more than {LIMIT_S:.0f} s")


def all_tables_s(logs: int, results: int, master: str) -> float:
    """Seconds that all tables take over this many logs with this many results each."""
    with TemporaryDirectory() as temporary:
        size = write_logs(Path(temporary), logs, results)
        print(f"{logs * results:,} results in {logs:,} logs, {size / 1e6:,.0f} MB")
        settings = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "8"}
        spark = session(master, settings=settings)
        spark.range(10).count()
        begun = time.monotonic()
        tables = load_tables(temporary, spark=spark)
        for name in TABLES:
            started = time.monotonic()
            # A million rows are for Spark; the others are what a report asks for.
            if name == "results":
                rows = tables.spark.results().count()
                assert rows == logs * results
            elif name == "difference":
                rows = len(tables.difference(tables))
            else:
                rows = len(getattr(tables, name)())
            print(f"  {name:<18} {rows:>9,} rows {time.monotonic() - started:7.2f} s")
        taken = time.monotonic() - begun
        driver = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"all tables: {taken:.1f} s; this process used {driver:,.0f} MB at most")
        tables.close()
        spark.stop()
    return taken


if __name__ == "__main__":
    main()
