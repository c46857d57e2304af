"""Whole applications without faults: the wiring of their metrics and listeners (KIP-869)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from streamproof.conformance.runtime_checks.probe import Probe, scripted
from streamproof.conformance.runtime_checks.small_application import (
    STORE,
    SmallApplication,
    table_and_input,
)
from streamproof.sim.actor_hosts import Steps
from streamproof.sim.application import StreamsConfig
from streamproof.sim.simulation import Stage
from streamproof.sim.tasks.assignor import AssignorConfig
from streamproof.sim.trace import Event
from streamproof.sim.world_plan import Plan
from streamproof.stores.runtime.restoration import StandbyUpdateListener, StateRestoreListener
from streamproof.stores.runtime.restore_metrics import STANDBY_PROCESS_RATIO

__all__: list[str] = []

OF_AN_UPDATER = {
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
}
OF_TASKS = {"restore-rate", "restore-total", "update-rate", "update-total"}
REMAINING = "restore-remaining-records-total"
DEPRECATED = "standby-process-ratio"
OF_COMMITS = {"commit-rate", "commit-latency-avg", "commit-latency-max"}
OF_FLUSHES = {"flush-rate", "flush-latency-avg", "flush-latency-max"}
UNCOMMITTED = "uncommitted-bytes"

PLAIN = Plan(
    config=StreamsConfig(assignor=AssignorConfig(num_standby_replicas=1)), kinds=(), activation=0.0
)
"""Two instances, each with a standby of the other's tasks, and all other settings by default."""


MOST_MS = 20
"""How long a record may take from the broker to the store of a task that waits for nothing."""


def _with(**settings: Any) -> Plan:
    return replace(PLAIN, config=replace(PLAIN.config, **settings))


def _measured(events: Iterable[Event]) -> Iterator[tuple[str, str]]:
    """The names of all metrics that were read, each with its owner: updater, task or store."""
    for event in events:
        if event.kind == "updater.metrics":
            yield from (("updater", name) for name in event.attributes["gauges"])
            for found in event.attributes["tasks"].values():
                yield from (("task", name) for name in found)
        elif event.kind == "thread.metrics":
            for stores in event.attributes["stores"].values():
                for found in stores.values():
                    yield from (("store", name) for name in found)


@scripted("METRIC-115")
def the_recording_level_decides(probe: Probe) -> None:
    """Run an application by default, and one that records DEBUG; read their metrics."""
    info = {("updater", each) for each in OF_AN_UPDATER}
    info |= {("task", REMAINING), ("store", UNCOMMITTED)}
    found = set(_measured(probe.play(PLAIN)))
    probe.expect(sorted(info), sorted(found))
    debug = info | {("task", each) for each in OF_TASKS}
    debug |= {("store", each) for each in OF_COMMITS | OF_FLUSHES}
    found = set(_measured(probe.play(_with(metrics_recording_level="DEBUG"))))
    probe.expect(sorted(debug), sorted(found - {("task", DEPRECATED)}))


@scripted("METRIC-111")
def the_deprecated_ratio_stays(probe: Probe) -> None:
    """Run an application with standbys by the rules of the proposal, and read its metrics."""
    plan = _with(metrics_recording_level="DEBUG", idling="proposal")
    found = [
        metrics
        for each in probe.play(plan)
        if each.kind == "updater.metrics"
        for metrics in each.attributes["tasks"].values()
    ]
    standbys = [each for each in found if "update-total" in each]
    probe.need("standbys", holds=bool(standbys))
    described = STANDBY_PROCESS_RATIO.description
    probe.demand("a deprecated metric", described, holds=described.startswith("Deprecated"))
    # A stream thread does not process standbys, so its share of the time is 0.
    probe.expect([0.0] * len(standbys), [each.get(DEPRECATED) for each in standbys])
    probe.expect(len(standbys), sum(DEPRECATED in each for each in found))


@scripted("METRIC-119")
def the_deprecated_ratio_is_gone(probe: Probe) -> None:
    """Run an application with standbys by Kafka's rules, and read its metrics."""
    plan = _with(metrics_recording_level="DEBUG", idling="kafka")
    found = set(_measured(probe.play(plan)))
    probe.expect(expected=True, found=("task", "update-total") in found)
    probe.expect(expected=False, found=("task", DEPRECATED) in found)


@scripted("METRIC-116")
def tasks_run_while_others_restore(probe: Probe) -> None:
    """Send a record to a task whose thread has another task in restoration for a long time."""
    application = SmallApplication(probe, table_and_input(partitions=2), exactly_once=True)
    changelog = f"app-{STORE}-changelog-1"
    record = {"key": b"k", "value": b"v", "timestamp": 0, "producer": 99, "transactional": True}
    # The transaction stays open, and a restoration waits for its end.
    application.application.cluster.produce(changelog, [record])
    application.instance.start()
    application.wait(3_000)
    for _ in range(3):
        application.calls.clear()
        sent = application.world.now
        application.send(b"a")
        application.wait(1_000)
        started = {each.partition for each in probe.of("restore.start")}
        ended = {each.partition for each in probe.of("restore.end", "restore.suspended")}
        probe.need("one task in restoration", holds=started - ended == {changelog})
        times = [each.time - sent for each in application.called("put")]
        probe.demand(
            f"the record to be processed within {MOST_MS} ms",
            f"records after {times} ms",
            holds=len(times) == 1 and times[0] <= MOST_MS,
        )


class _Heard(StateRestoreListener, StandbyUpdateListener):
    """Counts the calls, by name and partition, and the records in them."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)

        def note(partition: Any, *_: object) -> None:
            self.calls[name, f"{partition.topic}-{partition.partition}"] += 1

        return note


NAMES = {
    "restore.start": "on_restore_start",
    "restore.batch": "on_batch_restored",
    "restore.end": "on_restore_end",
    "restore.suspended": "on_restore_suspended",
    "update.start": "on_update_start",
    "update.batch": "on_batch_loaded",
    "update.suspended": "on_update_suspended",
}
"""The method of a listener that belongs to each kind of event."""


@scripted("LISTEN-109")
def every_updater_tells_the_listeners(probe: Probe) -> None:
    """Set listeners, restart an instance of two threads, and compare their calls with the trace."""
    heard = _Heard()

    def restart(stage: Stage) -> Steps:
        yield stage.world.time.timeout(5_000)
        stage.instances[0].crash()
        yield stage.world.time.timeout(2_000)
        stage.instances[0].start()

    def direct(stage: Stage) -> None:
        stage.application.restore_listener = stage.application.standby_listener = heard
        stage.world.time.process(restart(stage))

    events = probe.play(replace(PLAIN, partitions=6, threads=2), direct)
    restored = [each for each in events if each.kind == "store.restored"]
    probe.need("restored records", holds=bool(restored))
    updaters = {each.actor for each in events if each.kind in NAMES}
    probe.need("work for each of its four state updaters", holds=len(updaters) == 4)
    told = Counter((NAMES[each.kind], each.partition) for each in events if each.kind in NAMES)
    probe.expect(sorted(told.items()), sorted(heard.calls.items()))
    batches = sum(heard.calls[name, each] for name, each in heard.calls if "batch" in name)
    probe.expect(len(restored), batches)
