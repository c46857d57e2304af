"""The metrics of a state updater: their names, levels and tags, and ratios that sum to 1."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproof.sim.decisions.idling import Mode
from streamproof.sim.updater_metrics import RATIOS, UpdaterMetrics
from streamproof.stores.api import TopicPartition
from streamproof.stores.metrics import Metrics
from streamproof.stores.runtime.restore_metrics import Part

PARTITION = TopicPartition("app-one-changelog", 0)

THREAD = {
    "active-restoring-tasks",
    "standby-updating-tasks",
    "active-paused-tasks",
    "standby-paused-tasks",
    "idle-ratio",
    "active-restore-ratio",
    "standby-update-ratio",
    "checkpoint-ratio",
    "restore-records-rate",
    "restore-call-rate",
}


class Bench:
    """Metrics, and a clock that is set by hand."""

    def __init__(self, mode: Mode = "proposal") -> None:
        self.now = 0.0
        self.metrics = UpdaterMetrics("updater-0", Metrics("DEBUG", lambda: self.now), mode)

    def spend(self, part: Part, milliseconds: int) -> None:
        """Some time on one part of the work."""
        self.metrics.thread.turn(part)
        self.now += milliseconds

    def ratios(self) -> dict[str, float]:
        """What the time went to."""
        return {name: self.metrics.gauges()[name] for name in RATIOS}


def test_names_levels_groups_and_tags() -> None:
    """Those of KIP-869; what remains is of level INFO."""
    metrics = Bench().metrics
    metrics.add("0_0", is_active=True)
    metrics.add("0_1", is_active=False)
    rows = metrics.rows()
    thread = [each for each in rows if each.group == "stream-state-updater-metrics"]
    assert {each.name for each in thread} == THREAD
    assert {each.level for each in thread} == {"INFO"}
    assert all(each.tags == {"thread-id": "updater-0"} for each in thread)
    task = {
        (each.name, each.level, each.tags["task-id"])
        for each in rows
        if each.group == "stream-task-metrics" and each.tags["thread-id"] == "updater-0"
    }
    assert task == {
        ("restore-rate", "DEBUG", "0_0"),
        ("restore-total", "DEBUG", "0_0"),
        ("restore-remaining-records-total", "INFO", "0_0"),
        ("update-rate", "DEBUG", "0_1"),
        ("update-total", "DEBUG", "0_1"),
        ("standby-process-ratio", "DEBUG", "0_1"),
    }
    assert len(rows) == len(thread) + len(task)


def test_what_kafka_does_when_it_goes_over_to_standbys() -> None:
    """The old window stays for a while, so that both ratios are not zero (KAFKA-18369)."""
    kafka, proposal = Bench("kafka"), Bench("proposal")
    for bench in (kafka, proposal):
        bench.spend("restoring", 3_000)
        bench.spend("updating", 1_000)
    assert kafka.ratios()["active-restore-ratio"] == 0.75
    assert kafka.ratios()["standby-update-ratio"] == 0.25
    assert proposal.ratios()["active-restore-ratio"] == 0
    assert proposal.ratios()["standby-update-ratio"] == 1
    kafka.spend("updating", 70_000)
    kafka.spend("updating", 10)
    assert kafka.ratios()["active-restore-ratio"] == 0


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), max_size=20), st.integers(0, 50))
def test_what_remains_comes_to_zero(steps: list[tuple[int, int]], trailing: int) -> None:
    """It counts offsets, so that markers and gaps leave no rest (KAFKA-20711)."""
    metrics = Bench("kafka").metrics
    listener = metrics.add("0_0", is_active=True)
    end = sum(count + gap for count, gap in steps) + trailing
    listener.on_restore_start(PARTITION, "one", 0, end)
    assert metrics.remaining == {"0_0": end}
    position = total = 0
    for count, gap in steps:
        position += count + gap
        total += count
        listener.on_batch_restored(PARTITION, "one", position - 1, count)
        assert metrics.remaining == {"0_0": end - position}
    listener.on_restore_end(PARTITION, "one", total)
    assert metrics.remaining == {"0_0": 0}
    found = {each.name: each.value for each in metrics.rows()}
    assert found["restore-total"] == total


def test_what_remains_counts_records_as_proposed() -> None:
    """Whatever is skipped stays in the count, until the restoration ends."""
    metrics = Bench().metrics
    listener = metrics.add("0_0", is_active=True)
    listener.on_restore_start(PARTITION, "one", 2, 12)
    listener.on_batch_restored(PARTITION, "one", 10, 4)
    assert metrics.remaining == {"0_0": 6}
    listener.on_restore_end(PARTITION, "one", 4)
    assert metrics.remaining == {"0_0": 0}


def test_a_standby_counts_its_updates() -> None:
    """And has no restoration; what comes again under its id begins anew."""
    bench = Bench()
    bench.metrics.add("0_0", is_active=False)
    bench.metrics.updated("0_0", 5)
    bench.now += 30_000
    bench.metrics.updated("0_0", 5)
    found = {each.name: each.value for each in bench.metrics.rows()}
    assert found["update-total"] == 10
    assert found["update-rate"] == pytest.approx(10 / 30)
    assert "restore-total" not in found
    bench.metrics.add("0_0", is_active=True)
    found = {each.name: each.value for each in bench.metrics.rows()}
    assert found["restore-total"] == 0
    assert "update-total" not in found


def test_rates_of_the_thread() -> None:
    """Records, and rounds that restore, per second of the last windows."""
    bench = Bench()
    for _ in range(60):
        bench.now += 1_000
        bench.metrics.thread.record_restore_call(20)
    found = {each.name: each.value for each in bench.metrics.rows()}
    assert found["restore-records-rate"] == pytest.approx(20, rel=0.05)
    assert found["restore-call-rate"] == pytest.approx(1, rel=0.05)


def test_closed_metrics_are_gone() -> None:
    """Those of the tasks, too."""
    metrics = Bench().metrics
    metrics.add("0_0", is_active=True)
    metrics.add("0_1", is_active=False)
    metrics.close()
    assert metrics.rows() == []
