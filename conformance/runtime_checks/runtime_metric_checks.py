"""The metrics of a runtime on its restorations and its waiting (KIP-869, KIP-695)."""

from __future__ import annotations

from math import isclose

from hypothesis import strategies as st

from streamproof.conformance.runtime_checks.probe import Probe, decision
from streamproof.sim.decisions.idling import Mode
from streamproof.sim.tasks.task_metrics import TaskMetrics
from streamproof.sim.updater_metrics import RATIOS, UpdaterMetrics
from streamproof.stores.api import TopicPartition
from streamproof.stores.metrics import MetricRow, Metrics

__all__: list[str] = []

UPDATER_GROUP = "stream-state-updater-metrics"
TASK_GROUP = "stream-task-metrics"
PARTITION = TopicPartition("app-one-changelog", 0)

OF_THE_UPDATER = [
    "active-paused-tasks",
    "active-restore-ratio",
    "active-restoring-tasks",
    "checkpoint-ratio",
    "idle-ratio",
    "restore-call-rate",
    "restore-records-rate",
    "standby-paused-tasks",
    "standby-update-ratio",
    "standby-updating-tasks",
]
OF_AN_ACTIVE_TASK = {
    "restore-rate": "DEBUG",
    "restore-remaining-records-total": "INFO",
    "restore-total": "DEBUG",
}
OF_A_STANDBY = {"update-rate": "DEBUG", "update-total": "DEBUG"}
OF_COMMITS = {"commit-rate", "commit-latency-avg", "commit-latency-max"}
DEPRECATED = "standby-process-ratio"

SPELLS = st.lists(
    st.tuples(st.booleans(), *(st.integers(0, 40_000) for _ in range(3))), min_size=1, max_size=20
)
COUNTS = st.lists(st.integers(1, 1_000), min_size=1, max_size=10)

Spell = tuple[bool, int, int, int]


class _Bench:
    """The metrics of one updater, and a clock that is set by hand."""

    def __init__(self, mode: Mode = "proposal") -> None:
        self.now = 0.0
        self.metrics = UpdaterMetrics("updater-0", Metrics("DEBUG", lambda: self.now), mode)

    def spend(self, spell: Spell) -> dict[str, float]:
        """Let a round pass, and return the ratios after it."""
        active, idle, restore, checkpoint = spell
        thread = self.metrics.thread
        thread.turn("idle")
        self.now += idle
        thread.turn("restoring" if active else "updating")
        self.now += restore
        thread.turn("checkpointing")
        self.now += checkpoint
        gauges = self.metrics.gauges()
        return {name: gauges[name] for name in RATIOS}

    def rows(self, group: str) -> list[MetricRow]:
        """The metrics of a group."""
        return [each for each in self.metrics.rows() if each.group == group]

    def values(self) -> dict[str, float]:
        """The metrics of all tasks by name."""
        return {each.name: each.value for each in self.rows(TASK_GROUP)}


@decision("METRIC-102", thread=st.sampled_from(["updater-0", "app-StateUpdater-1"]))
def of_the_updater(probe: Probe, thread: str) -> None:
    """List the metrics of a state updater."""
    metrics = UpdaterMetrics(thread, Metrics())
    rows = [each for each in metrics.rows() if each.group == UPDATER_GROUP]
    probe.expect(OF_THE_UPDATER, sorted(each.name for each in rows))
    for each in rows:
        probe.expect(("INFO", {"thread-id": thread}), (each.level, dict(each.tags)))


@decision("METRIC-103", active=st.booleans())
def of_a_task(probe: Probe, active: bool) -> None:
    """List the metrics of tasks in restoration, and of standbys."""
    bench = _Bench()
    tasks = {"0_1": active, "0_2": not active, "1_1": active, "1_2": not active}
    for task, is_active in tasks.items():
        bench.metrics.add(task, is_active=is_active)
    rows = [each for each in bench.rows(TASK_GROUP) if each.name != DEPRECATED]
    for each in rows:
        found = dict(sorted(each.tags.items()))
        probe.expect({"task-id": found.get("task-id"), "thread-id": "updater-0"}, found)
    for task, is_active in tasks.items():
        levels = OF_AN_ACTIVE_TASK if is_active else OF_A_STANDBY
        own = sorted((each.name, each.level) for each in rows if each.tags["task-id"] == task)
        probe.expect((task, sorted(levels.items())), (task, own))
    probe.expect(tasks.keys(), {each.tags["task-id"] for each in rows})


@decision("METRIC-104", spells=SPELLS, mode=st.sampled_from(["proposal", "kafka"]))
def ratios_sum_to_one(probe: Probe, spells: list[Spell], mode: Mode) -> None:
    """Spend time in random rounds, and add up the ratios after each round."""
    bench = _Bench(mode)
    for spell in spells:
        ratios = bench.spend(spell)
        total = sum(ratios.values())
        # If no time was spent in the last windows, all ratios are 0.
        is_whole = isclose(total, 1, abs_tol=1e-6) or (total == 0 and not any(spell[1:]))
        probe.demand(f"a sum of 1 after {spell}", f"{ratios} sum to {total}", holds=is_whole)


@decision("METRIC-105", spells=SPELLS)
def restores_or_updates(probe: Probe, spells: list[Spell]) -> None:
    """Switch between active tasks and standbys at random."""
    bench = _Bench()
    for spell in spells:
        ratios = bench.spend(spell)
        both = ratios["active-restore-ratio"] and ratios["standby-update-ratio"]
        probe.demand(f"one of the two ratios to be 0 after {spell}", str(ratios), holds=not both)


@decision("METRIC-107", counts=COUNTS)
def totals_stay(probe: Probe, counts: list[int]) -> None:
    """Restore a task, wait for a long time, and remove the task."""
    bench = _Bench()
    listener = bench.metrics.add("0_0", is_active=True)
    end = sum(counts)
    listener.on_restore_start(PARTITION, "one", 0, end)
    position = 0
    for count in counts:
        position += count
        bench.now += 1_000
        listener.on_batch_restored(PARTITION, "one", position - 1, count)
    probe.demand(
        "a rate above 0 during the restoration", "0", holds=bench.values()["restore-rate"] > 0
    )
    listener.on_restore_end(PARTITION, "one", end)
    bench.now += 10**7
    found = {name: bench.values()[name] for name in sorted(OF_AN_ACTIVE_TASK)}
    expected = {"restore-rate": 0, "restore-remaining-records-total": 0, "restore-total": end}
    probe.expect(expected, found)
    bench.metrics.remove("0_0")
    probe.expect({}, bench.values())


@decision("METRIC-108", counts=COUNTS)
def standbys_count_updates(probe: Probe, counts: list[int]) -> None:
    """Update a standby, wait for a long time, and make the standby an active task."""
    bench = _Bench()
    bench.metrics.add("0_0", is_active=False)
    for count in counts:
        bench.now += 1_000
        bench.metrics.updated("0_0", count)
    probe.expect(sum(counts), bench.values()["update-total"])
    probe.demand("a rate above 0 during the updates", "0", holds=bench.values()["update-rate"] > 0)
    bench.now += 10**7
    probe.expect(0, bench.values()["update-rate"])
    bench.metrics.add("0_0", is_active=True)
    probe.expect(dict.fromkeys(sorted(OF_AN_ACTIVE_TASK), 0), dict(sorted(bench.values().items())))


@decision("METRIC-109", records=st.integers(1, 1_000))
def rates_are_per_second(probe: Probe, records: int) -> None:
    """Restore a fixed number of records each second for a minute."""
    bench = _Bench()
    for _ in range(60):
        bench.now += 1_000
        bench.metrics.thread.record_restore_call(records)
    found = {each.name: each.value for each in bench.rows(UPDATER_GROUP)}
    for name, rate in (("restore-records-rate", records), ("restore-call-rate", 1)):
        probe.demand(
            f"{name} of about {rate}",
            str(found[name]),
            holds=isclose(found[name], rate, rel_tol=0.1),
        )


@decision("METRIC-110", times=st.integers(0, 20), late=st.lists(st.integers(0, 10_000), min_size=1))
def waiting_is_counted(probe: Probe, times: int, late: list[int]) -> None:
    """Go on without an empty input several times, and take late records."""
    metrics = Metrics("DEBUG", lambda: 1_000.0)
    task = TaskMetrics(metrics, "thread-0", "0_0", lambda: 7)
    for _ in range(times):
        task.enforced.record()
    for milliseconds in late:
        task.lateness.record(milliseconds)
    found = {each.name: each.value for each in metrics.rows() if each.group == TASK_GROUP}
    probe.expect(times, found["enforced-processing-total"])
    probe.expect(7, found["active-buffer-count"])
    probe.expect(max(late), found["record-lateness-max"])
    is_mean = isclose(found["record-lateness-avg"], sum(late) / len(late))
    probe.demand("the mean lateness", str(found["record-lateness-avg"]), holds=is_mean)
