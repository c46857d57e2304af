"""Campaigns in the tables: rows of verify like logs, and what happened in simulated worlds."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from streamproof.reports.pipeline.campaigns.campaign_tables import (
    SCHEMA_VERSION,
    TABLES,
    FailureRow,
    ResultRow,
    RunRow,
)
from streamproof.reports.pipeline.campaigns.chunk_files import RowRecords, write_chunk
from streamproof.sim.choices import Choices
from streamproof.sim.plan_space import draw
from streamproof.sim.simulation import run
from streamproof.sim.trace import Event
from streamproof.sim.trace_files import TraceFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamproof.reports.pipeline.tables.api import Tables

ENDS = {
    *(("wait", end) for end in ("processed", "enforced", "cut off")),
    *(("restoration", end) for end in ("ended", "suspended")),
}
"""Every way in which a wait or a restoration must end in one of the worlds."""

MOST_SEEDS = 400
"""So many worlds have all of these ends, or the swarm hardly has them any more."""


class Kept(NamedTuple):
    """A campaign that was carried out, and the events of its worlds."""

    directory: Path
    events: dict[str, list[Event]]


def verify_row(number: int, verdict: str, **changes: Any) -> RunRow:
    outcome = {"success": "pass", "failure": "fail", "partial": "partial"}.get(verdict, "error")
    return RunRow(
        row=f"verify-{number}",
        kind="verify",
        outcome=outcome,  # type: ignore[arg-type]
        subject="rocksdb",
        version="1.0",
        guarantee="exactly-once",
        spec="kips",
        profile="quick",
        seed=number,
        verdict=verdict,
        run_id=f"run-{number}" if verdict else "",
        started_at=f"2026-03-04T10:0{number}:00Z",
        duration_s=1.5,
        **changes,
    )


def result_row(number: int, requirement: str, status: str, **changes: Any) -> ResultRow:
    return ResultRow(
        row=f"verify-{number}",
        run_id=f"run-{number}",
        started_at=f"2026-03-04T10:0{number}:00Z",
        seed=number,
        subject="rocksdb",
        version="1.0",
        guarantee="exactly-once",
        spec="kips",
        profile="quick",
        requirement=requirement,
        title="a few words",
        promise="in full",
        source="KIP-1035",
        level="MUST",
        core=True,
        status=status,
        checks=["kv.put"],
        **changes,
    )


def world_row(name: str, **changes: Any) -> RunRow:
    return RunRow(
        row=name,
        kind="simulate",
        outcome="fail" if "broken" in name else "pass",
        guarantee="exactly-once",
        started_at="2026-03-04T11:00:00Z",
        marks={"a task idled": 2, "a disk was full": 0},
        **changes,
    )


def broken_row(name: str, **changes: Any) -> FailureRow:
    return FailureRow(
        row=name,
        kind="simulate",
        subject="rocksdb",
        version="1.0",
        guarantee="exactly-once",
        requirement="EOS-101",
        shape="contents",
        found="something else",
        command="streamproof explore",
        **changes,
    )


def write_campaign(directory: Path, found: list[RowRecords], traces: Iterable[Path] = ()) -> None:
    for name in TABLES:
        (directory / name).mkdir(parents=True)
    manifest = json.dumps({"schema_version": SCHEMA_VERSION})
    (directory / "campaign.json").write_text(manifest)
    write_chunk(directory, "chunk.parquet", found, list(traces))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Three rows of verify, and worlds: of no subject, of one, and with a mistake on purpose."""
    directory = tmp_path_factory.mktemp("campaign")
    events = worlds_with_all_ends()
    traces = []
    for name, told in events.items():
        traces.append(directory / f"{name}.trace")
        with TraceFile(traces[-1], name) as file:
            for event in told:
                file(event)
    found = [
        RowRecords(
            run=verify_row(1, "success"),
            results=[
                result_row(1, "KV-001", "pass", crash_points={"line": 3, "eio": 4}, wiped=2),
                result_row(1, "CRASH-001", "skip", reason="no ptrace"),
            ],
        ),
        RowRecords(run=verify_row(2, "failure"), results=[result_row(2, "KV-001", "fail")]),
        RowRecords(run=verify_row(3, "", problem="it took too long")),
        *[RowRecords(run=world_row(name)) for name in events],
        RowRecords(
            run=world_row("broken", subject="rocksdb", version="1.0"),
            failures=[broken_row("broken"), broken_row("broken", sequence=9)],
        ),
        RowRecords(
            run=world_row("broken on purpose", subject="rocksdb", version="1.0", defect="one"),
            failures=[broken_row("broken on purpose")],
        ),
    ]
    write_campaign(directory / "nightly", found, traces)
    return Kept(directory / "nightly", events)


def tables(spark: SparkSession, *directories: Path) -> Tables:
    from streamproof.reports.pipeline.tables.api import load_tables

    return load_tables(*directories, spark=spark)


@pytest.fixture(scope="module")
def found(spark: SparkSession, kept: Kept) -> Iterator[Tables]:
    """The tables of that campaign, which is read once."""
    made = tables(spark, kept.directory)
    yield made
    made.close()


def test_rows_of_verify_are_runs_like_those_of_logs(found: Tables, kept: Kept) -> None:
    runs = found.runs().set_index("path")
    row = runs.loc[str(kept.directory / "verify-1")]
    # It says success, and its results do not allow that.
    assert (row["stated"], row["verdict"], row["results"]) == ("success", "partial", 2)
    row = runs.loc[str(kept.directory / "verify-3")]
    assert (row["verdict"], row["problem"], row["duration_ms"]) == (
        "incomplete",
        "it took too long",
        1500,
    )
    matrix = found.matrix().set_index("requirement")["combined"].to_dict()
    assert matrix == {"KV-001": "fail", "CRASH-001": "skip", "EOS-101": "fail"}
    verdicts = found.verdicts().set_index("spec")[["combined", "broken"]]
    # Worlds judge by the proposals, and what they find broken counts.
    assert verdicts.loc["kips"].to_list() == ["failure", "EOS-101, KV-001"]
    results = found.results().set_index(["requirement", "run_id"])
    passed = results.loc["KV-001", "run-1"]
    assert (passed["crashes"], passed["line"], passed["other"]) == (7, 3, 4)
    assert passed["wiped"] == 2
    assert sorted(results["status"]) == ["fail", "fail", "pass", "skip"]
    assert len(found.failures()) == 3
    assert set(found.requirements()["requirement"]) == {"KV-001", "CRASH-001"}


def test_situations_that_no_world_has_seen_are_told(found: Tables, kept: Kept) -> None:
    (never,) = found.marks_never().to_dict("records")

    assert never == {"situation": "a disk was full", "runs": len(kept.events) + 2}
    hits = {
        (row["subject"], row["situation"]): row for row in found.situations().to_dict("records")
    }
    assert hits["", "a task idled"]["hits"] == 2 * len(kept.events)


def test_a_copy_of_a_campaign_counts_once(spark: SparkSession, kept: Kept, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    write_campaign(
        copy, [RowRecords(run=verify_row(2, "failure"), results=[result_row(2, "KV-001", "fail")])]
    )

    found = tables(spark, kept.directory, copy)

    assert len(found.runs()) == 3 + len(kept.events) + 2
    (problem,) = found.problems().to_dict("records")
    assert problem["kind"] == "duplicate"
    assert problem["run_id"] == "run-2"


def test_a_file_that_was_half_written_is_told_and_all_others_count(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_campaign(tmp_path / "a", [RowRecords(run=verify_row(1, "success"))])
    write_campaign(tmp_path / "newer", [RowRecords(run=verify_row(2, "success"))])
    (tmp_path / "newer" / "campaign.json").write_text('{"schema_version": 99}')
    whole = (tmp_path / "a" / "runs" / "chunk.parquet").read_bytes()
    half = tmp_path / "a" / "runs" / "half.parquet"
    half.write_bytes(whole[: len(whole) // 2])

    found = tables(spark, tmp_path)

    problems = {row["path"]: row["kind"] for row in found.problems().to_dict("records")}
    assert problems == {
        str(half): "unreadable",
        str(tmp_path / "newer" / "campaign.json"): "newer",
    }
    assert list(found.runs()["run_id"]) == ["run-1"]


# Times, folded event by event.


def restorations(kept: Kept) -> list[tuple[Any, ...]]:
    found = []
    for name, events in kept.events.items():
        path = str(kept.directory / name)
        begun: dict[tuple[str, ...], Event] = {}
        for event in events:
            key = event.actor, event.task, event.partition
            if event.kind == "restore.start":
                if key in begun:
                    found.append((path, *key, begun[key].time, "cut off", 0, 0))
                begun[key] = event
            elif event.kind in ("restore.end", "restore.suspended") and key in begun:
                start = begun.pop(key)
                end = "ended" if event.kind == "restore.end" else "suspended"
                total = event.attributes["total"]
                found.append((path, *key, start.time, end, event.time - start.time, total))
        found += [(path, *key, each.time, "cut off", 0, 0) for key, each in begun.items()]
    return sorted(found)


def waits(kept: Kept) -> list[tuple[Any, ...]]:
    found = []
    for name, events in kept.events.items():
        path = str(kept.directory / name)
        begun: dict[tuple[str, str], Event] = {}
        ends = {"task.processed": "processed", "task.enforced": "enforced"}

        def told(event: Event, end: str, ms: int, path: str = path) -> tuple[Any, ...]:
            reasons = ", ".join(sorted(set(event.attributes["waiting"].values())))
            return path, event.actor, event.task, event.time, reasons, end, ms

        for event in events:
            key = event.actor, event.task
            if event.kind == "task.waiting":
                begun.setdefault(key, event)
            elif event.kind in ends and key in begun:
                start = begun.pop(key)
                found.append(told(start, ends[event.kind], event.time - start.time))
            elif event.kind in ("task.state", "task.closed") and key in begun:
                found.append(told(begun.pop(key), "cut off", 0))
        found += [told(each, "cut off", 0) for each in begun.values()]
    return sorted(found)


def worlds_with_all_ends() -> dict[str, list[Event]]:
    """By seed, the events of the first worlds that have all the ends."""
    worlds: dict[str, list[Event]] = {}
    missing = set(ENDS)
    for seed in range(MOST_SEEDS):
        events: list[Event] = []
        choices = Choices.seeded(seed)
        run(choices, draw(choices), watchers=[events.append])
        one = Kept(Path(), {f"{seed}": events})
        shown = {("wait", row[5]) for row in waits(one)}
        shown |= {("restoration", row[5]) for row in restorations(one)}
        if missing & shown:
            worlds[f"{seed}"] = events
            missing -= shown
        if not missing:
            return worlds
    pytest.fail(f"Of {MOST_SEEDS} worlds, none has {missing}.")


def test_restorations_are_those_of_the_events(found: Tables, kept: Kept) -> None:
    expected = restorations(kept)
    columns = ["run", "actor", "task", "partition", "started_at", "end", "duration_ms", "records"]

    assert {row[5] for row in expected} >= {"ended", "suspended"}
    assert sorted(map(tuple, found.restorations()[columns].to_numpy().tolist())) == expected
    ended = [row for row in expected if row[5] == "ended"]
    times = found.restoration_times().set_index(["measure", "end"])
    for measure, place in (("duration_ms", 6), ("records", 7)):
        values = [row[place] for row in ended]
        row = times.loc[measure, "ended"]
        assert (row["count"], row["least"], row["most"]) == (len(values), min(values), max(values))
        assert row["median"] == median(values)
        assert row["mean"] == pytest.approx(sum(values) / len(values))


def test_waits_are_those_of_the_events(found: Tables, kept: Kept) -> None:
    expected = waits(kept)
    columns = ["run", "actor", "task", "started_at", "reasons", "end", "duration_ms"]

    assert {row[5] for row in expected} == {"processed", "enforced", "cut off"}
    assert sorted(map(tuple, found.waits()[columns].to_numpy().tolist())) == expected
    groups = defaultdict(list)
    for row in expected:
        if row[5] != "cut off":
            groups[row[4], row[5]].append(row[6])
    times = found.waiting_times().set_index(["reasons", "end"])["median"].to_dict()
    assert times == {key: median(values) for key, values in groups.items()}


def test_logs_have_no_events(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "run.ndjson").touch()

    found = tables(spark, tmp_path)

    assert found.restoration_times().empty
    assert found.waits().empty
