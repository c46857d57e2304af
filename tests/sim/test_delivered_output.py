"""Output under at-least-once: what is lost, left out or changed is found, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from streamproof.sim.application import StreamsConfig
from streamproof.sim.choices import Choices
from streamproof.sim.invariants import Watch
from streamproof.sim.invariants.delivered_output import OutputIsInItsTopic
from streamproof.sim.simulation import Outcome, run
from streamproof.sim.tasks.stream_task import StreamTask
from streamproof.sim.workloads import WorkloadConfig
from streamproof.sim.world_plan import Plan
from tests.hand_made_events import made

CONFIG = StreamsConfig(exactly_once=False)

CALM = Plan(
    partitions=2,
    instances=1,
    kinds=(),
    activation=0,
    safety_ms=20_000,
    config=CONFIG,
    workload=WorkloadConfig(records=60, max_pause_ms=100),
)

TOPOLOGIES = [
    "stateless",
    "count",
    "stream-table-join",
    "stream-stream-join",
    "windowed-count",
    "session-count",
    "last-byte-count",
    "punctuated-count",
    "global-table-join",
    "table-operators",
]

Record = tuple[str, bytes, bytes | None, int | None]

Mistake = Callable[[Record], list[Record]]


def left_out(record: Record) -> list[Record]:
    del record
    return []


def sent_twice(record: Record) -> list[Record]:
    return [record, record]


def with_another_key(record: Record) -> list[Record]:
    topic, key, value, time = record
    return [(topic, key + b"!", value, time)]


def with_another_value(record: Record) -> list[Record]:
    topic, key, value, time = record
    return [(topic, key, b"0" if value is None else None, time)]


def with_another_timestamp(record: Record) -> list[Record]:
    topic, key, value, time = record
    return [(topic, key, value, (time or 0) + 1)]


MISTAKES = [left_out, sent_twice, with_another_key, with_another_value, with_another_timestamp]


def played(plan: Plan) -> Outcome:
    return run(Choices.seeded(7), plan, invariants=[OutputIsInItsTopic])


@pytest.mark.parametrize("cache_bytes", [0, 100_000], ids=["uncached", "cached"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_right_output_is_tried_and_holds(topology: str, cache_bytes: int) -> None:
    config = replace(CONFIG, statestore_cache_max_bytes=cache_bytes)
    outcome = played(replace(CALM, topology=topology, config=config))

    assert outcome.violations == []
    assert outcome.tried == [OutputIsInItsTopic.name] or topology == "punctuated-count"


@pytest.mark.parametrize("cache_bytes", [0, 100_000], ids=["uncached", "cached"])
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_one_wrong_record_is_found(
    topology: str, mistake: Mistake, cache_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tenth one that the runtime sends, and no other."""
    forward, sent = StreamTask.forward, []

    def wrong(
        task: StreamTask, topic: str, key: bytes, value: bytes | None, time: int | None = None
    ) -> None:
        sent.append(key)
        record = topic, key, value, time
        for each in mistake(record) if len(sent) == 10 else [record]:
            forward(task, *each)

    monkeypatch.setattr(StreamTask, "forward", wrong)
    config = replace(CONFIG, statestore_cache_max_bytes=cache_bytes)
    outcome = played(replace(CALM, topology=topology, config=config))

    assert [each.requirement for each in outcome.violations] == ["ALOS-004"]


A, B = "a/thread-0", "b/thread-0"
"""Threads of two processes, with the producers 1 and 2."""

Happens = tuple[str, str, dict[str, Any]]
"""An actor, the kind of an event, and everything else about it."""


def found(*events: Happens, topology: str = "stateless") -> list[str]:
    """What is found in a run with one record in the input."""
    watch = Watch([OutputIsInItsTopic], exactly_once=False)
    partitions = {"in": 1, "out": 1}
    start: list[Happens] = [
        (
            topology,
            "application.started",
            {"partitions": partitions, "output_max_message_bytes": 100},
        ),
        appended("in-0", b"ab", producer=-1),
        *((each, "thread.producer", {"producer": number}) for number, each in enumerate([A, B], 1)),
    ]
    for number, (actor, kind, more) in enumerate([*start, *events]):
        watch(made(number, actor, kind, **more))
    return [each.message for each in watch.violations]


def appended(partition: str, value: bytes, *, producer: int = 1) -> Happens:
    more = {"partition": partition, "offset": 0, "key": b"k", "value": value}
    return "brokers", "log.appended", {**more, "producer": producer}


def runs(actor: str) -> Happens:
    return actor, "task.state", {"task": "0_0", "after": "RUNNING"}


def processes(actor: str) -> Happens:
    return actor, "task.processed", {"task": "0_0", "partition": "in-0", "offset": 0}


COMMITTED: Happens = ("brokers", "offsets.committed", {"offsets": {"in-0": 1}})

OUTPUT = appended("out-0", b"ba")


def test_output_comes_before_the_commit() -> None:
    assert found(runs(A), processes(A), OUTPUT, COMMITTED) == []
    (message,) = found(runs(A), processes(A), COMMITTED)
    assert message == (
        "in-0 was committed at 1, but the output of its record at 0 is not in its topic: out-0 "
        "lacks b'k' = b'ba' with timestamp 0"
    )


def test_output_that_nothing_leads_to() -> None:
    (message,) = found(runs(A), OUTPUT)
    assert message == (
        "out-0 has b'k' = b'ba' with timestamp 0, but no record that was processed leads to that, "
        "or not so often"
    )


def test_one_of_several_owners_is_enough() -> None:
    """A zombie may have processed the same record, and what it has sent may still come."""
    both = [runs(A), processes(A), runs(B), processes(B)]
    assert found(*both, OUTPUT, COMMITTED) == []
    assert found(*both, OUTPUT, COMMITTED, appended("out-0", b"ba", producer=2)) == []
    assert len(found(*both, COMMITTED)) == 1
    assert len(found(*both, OUTPUT, COMMITTED, OUTPUT)) == 1


def test_a_task_that_runs_again_has_to_send_again() -> None:
    """What it has sent before counts for the run before."""
    again = [runs(A), processes(A), runs(A), processes(A)]
    assert found(*again, OUTPUT, COMMITTED, OUTPUT) == []
    assert len(found(*again, COMMITTED)) == 1


def test_what_a_reset_goes_past_needs_no_output() -> None:
    reset = A, "input.reset", {"task": "0_0", "partition": "in-0", "offset": 1, "position": 0}
    assert found(runs(A), processes(A), reset, COMMITTED) == []


@pytest.mark.parametrize("topology", ["of-a-user", "count"])
def test_output_that_nobody_knows_is_not_judged(topology: str) -> None:
    """The processor is not known, or the rows of its stores are not."""
    assert found(runs(A), processes(A), OUTPUT, COMMITTED, topology=topology) == []


def test_an_owner_that_nobody_knows_may_have_sent_what_a_zombie_has_not() -> None:
    """The rows of the task in B are not known, so nobody knows its output."""
    empty = {"task": "0_0", "partition": "count-counts-changelog-0"}
    zombie = [runs(A), (A, "store.running", empty), processes(A)]
    assert len(found(*zombie, COMMITTED, topology="count")) == 1
    assert found(*zombie, runs(B), processes(B), COMMITTED, topology="count") == []


@pytest.mark.parametrize(("records", "value"), [(1, b"ab|x"), (0, b"ab|-")])
def test_a_record_meets_the_row_of_the_global_table(records: int, value: bytes) -> None:
    """Unless a compaction has removed rows before they were read: then any row is right."""
    applied = {"partition": "table-0", "offset": 0, "store": "rows", "records": records}
    events: list[Happens] = [
        ("a/global", "global.restored", {"rows": {"rows": []}}),
        appended("table-0", b"x", producer=-1),
        ("a/global", "global.applied", applied),
        runs(A),
        processes(A),
    ]
    right = appended("out-0", value)
    assert found(*events, right, COMMITTED, topology="global-table-join") == []
    is_known = records == 1
    assert len(found(*events, COMMITTED, topology="global-table-join")) == is_known
