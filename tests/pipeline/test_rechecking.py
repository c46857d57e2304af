"""Events that were kept are judged as they were while they happened, by both ways to do it."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hand_made_events import made

from streamproof.cli import main
from streamproof.errors import UsageError
from streamproof.reports.pipeline.rechecking import whole_runs as pieces
from streamproof.reports.pipeline.rechecking.continuity import OffsetsAreContinuous
from streamproof.reports.pipeline.rechecking.event_files import event_files, read_events
from streamproof.reports.pipeline.rechecking.run_invariants import (
    KNOWN,
    find_invariants,
    judge,
    recheck,
)
from streamproof.reports.pipeline.rechecking.set_checks import SET_CHECKS, recheck_sets
from streamproof.reports.pipeline.rechecking.whole_runs import recheck_files
from streamproof.sim.choices import Choices
from streamproof.sim.invariants import INVARIANTS, Invariant, Watch
from streamproof.sim.invariants.invariant import Observer
from streamproof.sim.plan_space import EVERYTHING, draw
from streamproof.sim.simulation import run
from streamproof.sim.trace import Event
from streamproof.sim.trace_files import SCHEMA, TraceFile, batch_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WORLDS = {
    "": (0, 2),
    "ignores-generation": 2,
    "does-not-wait-for-owner": 2,
    "does-not-fence-producer": 1,
    "keeps-tasks-after-loss": 2,
    "commits-last-record": 1,
}
"""The seeds of worlds without a defect; for each defect, how many worlds it must break."""

MOST_SEEDS = 400
"""A defect that breaks too few of so many worlds is not worth to be kept here."""

Found = tuple[str, str, str, int]
"""A run, an invariant, what it says, and by which event."""


class Kept:
    """Traces of worlds, and what was found while they ran."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.live: Counter[Found] = Counter()
        self.events = 0
        self.runs = 0
        for defect, wanted in WORLDS.items():
            if isinstance(wanted, tuple):
                assert not any(self._keep(defect, seed) for seed in wanted)
            else:
                broken = (seed for seed in range(MOST_SEEDS) if self._keep(defect, seed))
                assert len(list(islice(broken, wanted))) == wanted, defect

    def _keep(self, defect: str, seed: int) -> bool:
        """Run a world, and return whether it breaks a promise; with a defect, keep such worlds."""
        name = f"{defect or 'nothing'} [{seed}]"
        path = self.directory / f"{name}.parquet"
        choices = Choices.seeded(seed)
        plan = draw(choices, EVERYTHING.for_defect(defect))
        with TraceFile(path, name) as file:
            outcome = run(choices, plan, defects=[defect] if defect else [], watchers=[file])
        if defect and not outcome.violations:
            path.unlink()
            return False
        self.runs += 1
        self.events += outcome.events
        for each in outcome.violations:
            sequence = each.event.sequence if each.event else -1
            self.live[name, each.invariant, each.message, sequence] += 1
        return bool(outcome.violations)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def events(spark: SparkSession, kept: Kept) -> DataFrame:
    return read_events(spark, event_files([kept.directory]))


def found(findings: DataFrame) -> Counter[Found]:
    """The violations among findings."""
    rows = findings.where("what = 'violation'").collect()
    return Counter((each.run, each.invariant, each.message, each.sequence) for each in rows)


def told(findings: DataFrame) -> dict[tuple[str, str], str]:
    """What findings say of runs as such."""
    rows = findings.where("what != 'violation'").collect()
    assert len({(each.run, each.what) for each in rows}) == len(rows)
    return {(each.run, each.what): each.message for each in rows}


def test_runs_are_judged_as_they_were(events: DataFrame, kept: Kept) -> None:
    """All of them, with and without defects, word for word and event by event."""
    assert found(recheck(events)) == kept.live
    assert events.count() == kept.events


def test_runs_are_judged_where_their_files_are_read(
    spark: SparkSession, kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If they are in one piece; and all others as well, as if nobody had mixed them up."""
    runs = [pq.read_table(each) for each in sorted(kept.directory.iterdir())]
    parts = {
        "apart": [*runs[:3], runs[9]],
        "begins": [runs[3], runs[4][:100]],
        "goes on": [runs[4][100:], runs[5]],
        "torn": [runs[6][:7], runs[7], runs[6][7:]],
        "alone": [runs[8]],
    }
    for name, each in parts.items():
        pq.write_table(pa.concat_tables(each), tmp_path / f"{name}.parquet", row_group_size=250)
    files = event_files([tmp_path])
    assert found(recheck_files(spark, files)) == kept.live
    mixed = {str(tmp_path / f"{each}.parquet") for each in ("begins", "goes on", "torn")}
    assert pieces.mixed_files(spark, files) == mixed
    monkeypatch.setattr(pieces, "LARGEST", 0)
    assert pieces.mixed_files(spark, files) == set(map(str, files))


def test_some_invariants_find_what_they_found_among_all(events: DataFrame, kept: Kept) -> None:
    """What must hold in the end as well: a run that ended with something else has no end."""
    chosen = find_invariants(["TASK-005", "REBAL-002", "TASK-008"])
    names = {each.name for each in chosen}
    expected = Counter({each: n for each, n in kept.live.items() if each[1] in names})
    assert expected.total() > 2
    assert found(recheck(events, chosen)) == expected


def test_an_invariant_may_be_newer_than_the_events(events: DataFrame) -> None:
    class NobodyCommits(Invariant):
        """One that does not hold."""

        name = "nobody ever commits"
        requirement = "NEW-001"

        @property
        def observers(self) -> Mapping[str, Observer]:
            return {"offsets.committed": lambda event: [f"{event.attributes['group']} did"]}

    commits = events.where("kind = 'offsets.committed'").count()
    assert commits > 50
    assert found(recheck(events, [NobodyCommits])).total() == commits


def comparable(findings: Iterable[Found]) -> Counter[Found]:
    """What checks over all events are to find as well: not the end, nor what was not processed."""
    names = {each.invariant.name for each in SET_CHECKS}
    return Counter(
        each
        for each in findings
        if each[1] in names and each[3] >= 0 and not each[2].endswith("was never processed")
    )


THREADS = ["instance-0/thread-0", "instance-0/thread-1", "instance-1/thread-0"]
INPUTS = ["in-0", "in-1"]
TASKS = ["0_0", "0_1", "0_2"]
RECORD = {"key": b"k", "producer": -1}


def random_event(number: int, random: Random) -> Event:
    """An event of the kinds that checks over all events look at, as no world would have it."""
    thread, producer = random.choice(THREADS), random.randrange(3)
    offsets = {each: random.randrange(6) for each in INPUTS if random.random() < 0.7}
    assigned = {
        "generation": random.randrange(3),
        "active": random.sample(TASKS, random.randrange(3)),
    }
    ended = {"producer": producer, "transactional_id": "t", "commit": random.random() < 0.7}
    added = {"group": "g", "producer": producer, "offsets": offsets}
    choices: list[tuple[str, str, dict[str, Any]]] = [
        ("thread.producer", thread, {"producer": producer}),
        *[("task.processed", thread, {})] * 6,
        *[("offsets.added", "brokers", added)] * 3,
        ("offsets.committed", "brokers", {"group": "g", "offsets": offsets}),
        *[("transaction.decided", "brokers", ended)] * 2,
        *[("thread.assigned", thread, assigned)] * 4,
        (random.choice(["thread.lost", "thread.died"]), thread, {"reason": "r"}),
        ("instance.crashed", thread.partition("/")[0], {}),
        ("instance.stopped", thread.partition("/")[0], {}),
        *[("log.appended", "brokers", RECORD)] * 2,
        ("transaction.marker", "brokers", {**ended, "complete": True}),
    ]
    kind, actor, more = random.choice(choices)
    has_offset = kind in {"task.processed", "log.appended", "transaction.marker"}
    partition = random.choice([*INPUTS, "group:g"] if kind == "transaction.marker" else INPUTS)
    return made(
        number,
        actor,
        kind,
        time=number,
        partition=partition if has_offset else "",
        offset=random.randrange(4) if has_offset else -1,
        **more,
    )


def started(*, exactly_once: bool) -> Event:
    """The first event of a run of an application that has nothing."""
    return made(0, "mine", "application.started", exactly_once=exactly_once)


def random_run(seed: int) -> list[Event]:
    """Events that could hardly be more wrong."""
    random = Random(seed)
    producers = [
        made(number, thread, "thread.producer", producer=number)
        for number, thread in enumerate(THREADS, 1)
    ]
    rest = [random_event(number, random) for number in range(4, 4 + random.randrange(120))]
    return [started(exactly_once=random.random() < 0.8), *producers, *rest]


def test_sets_find_what_the_invariants_find(
    spark: SparkSession, events: DataFrame, kept: Kept
) -> None:
    """In worlds with defects, and in random events, of which most break something."""
    chosen = [each.invariant for each in SET_CHECKS]
    expected = comparable(kept.live.elements())
    assert {each[1] for each in expected} >= {
        "a task has a new owner only after the old one has given it up",
        "each input record is processed in exactly one committed transaction",
    }
    runs = {f"run {seed}": random_run(seed) for seed in range(100)}
    wrong: Counter[Found] = Counter()
    for name, each in runs.items():
        watch = Watch(chosen, exactly_once=each[0].attributes["exactly_once"])
        for event in each:
            watch(event)
        wrong.update(
            (name, one.invariant, one.message, one.event.sequence if one.event else -1)
            for one in watch.violations
        )
    wrong = comparable(wrong.elements())
    by_name = Counter(each[1] for each in wrong.elements())
    assert all(by_name[each.name] > 60 for each in chosen)
    table = pa.Table.from_batches([batch_of(name, each) for name, each in runs.items()])
    both = events.unionByName(spark.createDataFrame(table))
    with recheck_sets(both) as findings:
        assert found(findings) == expected + wrong


def test_what_sets_need_is_let_go(spark: SparkSession, events: DataFrame) -> None:
    """While what was found is used, what it comes from is kept; and nothing of it afterwards."""
    kept_now = spark.sparkContext._jsc.getPersistentRDDs
    before = kept_now().size()
    with recheck_sets(events, find_invariants(["REBAL-001"])) as findings:
        assert not found(findings)
        assert kept_now().size() > before
    assert kept_now().size() == before


def test_sets_know_what_they_can_check(events: DataFrame) -> None:
    chosen = find_invariants(["TASK-008"])
    message = "cannot be checked over all events at once"
    with pytest.raises(UsageError, match=message), recheck_sets(events, chosen):
        pass


def a_run(name: str, *, lacks: Sequence[int] = (), text: str = "") -> pa.Table:
    """A run with one violation, at event 2; of event 3, or of all, something may be wrong."""
    rows = [
        started(exactly_once=True),
        made(1, "brokers", "offsets.committed", group="g", offsets={"i-0": 5}),
        made(2, "brokers", "offsets.committed", group="g", offsets={"i-0": 4}),
        made(3, THREADS[0], "thread.producer", producer=3),
        made(4, THREADS[0], "thread.stopped"),
    ]
    table = pa.Table.from_batches([batch_of(name, rows)])
    if text:
        texts = table.column("attributes").to_pylist()
        table = table.set_column(8, SCHEMA.field(8), [[*texts[:3], text, texts[4]]])
    return table.take([number for number in range(5) if number not in lacks])


BAD: dict[str, tuple[Iterable[pa.Table], str, str]] = {
    "lacks an attribute": (
        [a_run("bad", text="{}")],
        "unreadable",
        r"Event 3 of run 'bad' \(thread.producer\) cannot be read: .*`producer`",
    ),
    "has an attribute of another type": (
        [a_run("bad", text='{"producer":"x"}')],
        "unreadable",
        r"Event 3 of run 'bad' \(thread.producer\) cannot be read",
    ),
    "lacks an event": (
        [a_run("bad", lacks=[3])],
        "unreadable",
        "Events are missing: there are 4, and the last one has the number 4",
    ),
    "lacks its beginning": (
        [a_run("bad", lacks=[0])],
        "unreadable",
        "Events are missing: there are 4",
    ),
    "is of different runs": (
        [a_run("bad"), a_run("bad", text='{"producer":4}')],
        "unreadable",
        "Different runs have this name",
    ),
    "is there twice": (
        [a_run("bad"), a_run("bad")],
        "duplicate",
        "It was there more than once, and counts once: 10 events instead of 5",
    ),
}


@pytest.fixture(scope="module")
def bad_events(spark: SparkSession) -> DataFrame:
    """A run that is as it should be, and one for each way in which it may not be."""
    tables = [a_run("good")]
    for name, (parts, _, _) in BAD.items():
        tables += [each.set_column(0, SCHEMA.field(0), [[name] * len(each)]) for each in parts]
    return spark.createDataFrame(pa.concat_tables(tables))


@pytest.mark.parametrize("sets", [False, True], ids=["by run", "sets"])
def test_a_run_that_cannot_be_judged_is_named(bad_events: DataFrame, sets: bool) -> None:
    """With what is wrong with it; all other runs are judged, each of them once."""
    chosen = find_invariants(["TASK-005"])
    judging = recheck_sets(bad_events, chosen) if sets else nullcontext(recheck(bad_events, chosen))
    with judging as findings:
        messages, violations = told(findings), found(findings)
    assert messages.keys() == {(name, what) for name, (_, what, _) in BAD.items()}
    for name, (_, what, message) in BAD.items():
        pattern = message.replace("'bad'", f"'{name}'")
        assert re.match(pattern, messages[name, what]), messages[name, what]
    went_back = {each[0]: n for each, n in violations.items() if "went back" in each[2]}
    assert went_back == {"good": 1, "is there twice": 1}


def judged(*parts: pa.Table) -> list[str]:
    """What is said of one run, by one invariant."""
    return [each.message for each in judge(pa.concat_tables(parts), [OffsetsAreContinuous])]


def test_a_run_that_makes_an_invariant_raise_is_named() -> None:
    events = [
        started(exactly_once=True),
        made(1, THREADS[0], "task.processed", task="0_0", partition="i-0", offset=0),
    ]
    (finding,) = judge(pa.Table.from_batches([batch_of("a", events)]), INVARIANTS)
    assert finding.what == "unreadable"
    assert "raised KeyError: 'instance-0/thread-0', at #1" in finding.message


def test_a_column_has_no_nulls() -> None:
    table = a_run("a").set_column(5, "task", [[None] * 5])
    (message,) = judged(table)
    assert message.startswith("Event 0 of run 'a' has no task, but no column may have nulls.")


def test_a_run_has_a_beginning() -> None:
    table = a_run("a", lacks=[0]).set_column(1, "sequence", [[0, 1, 2, 3]])
    (message,) = judged(table)
    assert message.startswith("The run begins with offsets.committed, and should begin with")


def test_a_log_with_a_gap_is_found() -> None:
    """What is lost of a log, comes twice, or is not in order."""
    offsets = [7, 8, 10, 10, 11, 9]
    events = [
        started(exactly_once=True),
        *(
            made(number, "brokers", "log.appended", partition="i-0", offset=offset, **RECORD)
            for number, offset in enumerate(offsets, 1)
        ),
    ]
    assert judged(pa.Table.from_batches([batch_of("a", events)])) == [
        "i-0 has an entry at 10 after the one at 8",
        "i-0 has an entry at 10 after the one at 10",
        "i-0 has an entry at 9 after the one at 11",
    ]


def test_what_are_no_events_is_refused(spark: SparkSession) -> None:
    for frame, message in (
        (spark.range(1), "the column 'run' is missing"),
        (spark.sql("select 1 as run"), "the column 'run' is of type int"),
    ):
        with pytest.raises(UsageError, match=message):
            recheck(frame)
        with pytest.raises(UsageError, match=message), recheck_sets(frame):
            pass


def test_an_invariant_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no invariant 'x'. There are: .*REBAL-001"):
        find_invariants(["x"])
    assert find_invariants([]) == KNOWN


# Files.


def test_files_are_found_wherever_they_are(tmp_path: Path) -> None:
    """In directories at any depth and in those of campaigns, each once, and no unfinished ones."""
    (tmp_path / "campaign" / "events").mkdir(parents=True)
    paths = [tmp_path / "one.parquet", tmp_path / "campaign" / "events" / "b.parquet"]
    for path in paths:
        pq.write_table(a_run("a"), path)
    for name in (".half.parquet", "_half.parquet"):
        (tmp_path / "campaign" / "events" / name).write_bytes(b"PAR1")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "campaign" / "runs.parquet")
    assert event_files([paths[0], tmp_path / "campaign", paths[0]]) == paths
    (tmp_path / "campaign" / "runs.parquet").unlink()
    assert set(event_files([tmp_path])) == set(paths)


def half_written(path: Path) -> None:
    """What Spark leaves that was killed."""
    (path / "_temporary").mkdir(parents=True)


def cut_off(path: Path) -> None:
    """A trace without its end."""
    path.mkdir()
    pq.write_table(a_run("a"), path / "a.parquet")
    (path / "a.parquet").write_bytes((path / "a.parquet").read_bytes()[:-20])


def of_two_versions(path: Path) -> None:
    """A trace of today, and one of a version to come."""
    path.mkdir()
    pq.write_table(a_run("a"), path / "a.parquet")
    later = a_run("b").replace_schema_metadata({"streamproof.events": "2"})
    pq.write_table(later, path / "b.parquet")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Path.mkdir, "There are no events in .*: it has no file"),
        (half_written, "was not written to its end: _temporary"),
        (cut_off, "a.parquet cannot be read as a trace: .*cut off"),
        (
            of_two_versions,
            "b.parquet is a trace of version 2, but this streamproof reads version 1",
        ),
    ],
)
def test_a_directory_that_cannot_be_read_is_refused(
    tmp_path: Path, make: Any, message: str
) -> None:
    make(tmp_path / "events")
    with pytest.raises(UsageError, match=message):
        event_files([tmp_path / "events"])


# The command.


@pytest.fixture
def command(
    spark: SparkSession,  # noqa: ARG001 - the command finds it running
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Any:
    """Runs the command; its exit code, and what it prints."""

    def call(*words: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["streamproof", "recheck", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out + printed.err  # type: ignore[return-value]

    return call


def test_the_command_tells_and_keeps_what_is_found(
    command: Any, kept: Kept, tmp_path: Path
) -> None:
    code, text = command(kept.directory, "--out", tmp_path / "out")
    assert code == 1
    assert f"{kept.events:,} events of {kept.runs} runs" in text
    assert f"{kept.live.total()} violations" in text
    lines = (tmp_path / "out" / "violations.ndjson").read_text().splitlines()
    rows = pq.read_table(tmp_path / "out" / "violations.parquet").to_pylist()
    assert list(map(json.loads, lines)) == rows
    assert (
        Counter(
            (each["run"], each["invariant"], each["message"], each["sequence"]) for each in rows
        )
        == kept.live
    )


def test_the_command_tells_of_nothing(command: Any, kept: Kept, tmp_path: Path) -> None:
    code, text = command(kept.directory / "nothing [0].parquet", "--out", tmp_path)
    assert code == 0
    assert "of 1 run: no violation." in text
    assert (tmp_path / "violations.ndjson").read_bytes() == b""
    assert pq.read_table(tmp_path / "violations.parquet").num_rows == 0


def test_the_command_checks_sets(command: Any, kept: Kept, tmp_path: Path) -> None:
    code, text = command(kept.directory, "--sets", "--invariant", "REBAL-001", "--out", tmp_path)
    assert code == 0
    assert f"of {kept.runs} runs: no violation." in text
    code, text = command(kept.directory, "--sets", "--invariant", "TASK-001", "--out", tmp_path)
    assert code == 3
    assert "cannot be checked over all events at once" in text


def test_the_command_tells_of_runs_that_it_cannot_judge(command: Any, tmp_path: Path) -> None:
    """And shows what is hidden in their names; it is no pass."""
    table = a_run("\x1b[31mbad[/]", lacks=[1, 2, 3])
    pq.write_table(table, tmp_path / "bad.parquet")
    code, text = command(tmp_path / "bad.parquet", "--out", tmp_path / "out")
    assert code == 3
    assert "✗ ␛[31mbad[/]: Events are missing" in text


def test_the_command_refuses_what_it_cannot_use(command: Any, tmp_path: Path) -> None:
    code, text = command(tmp_path / "none.parquet", "--out", tmp_path)
    assert code == 3
    assert text.startswith("streamproof: There is no ")
    code, text = command(tmp_path, "--invariant", "x", "--out", tmp_path)
    assert (code, "no invariant 'x'" in text) == (3, True)
