"""Metrics: the metrics that a store registers with the runtime, under Kafka's names (KIP-1035)."""

from __future__ import annotations

import math

from streamproof.conformance.check_registry import check
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.trial import Trial
from streamproof.stores.metrics import NUM_SAMPLES, SAMPLE_WINDOW_MS, Level, MetricRow

GROUP = "stream-state-metrics"
COMMIT = ("commit-rate", "commit-latency-avg", "commit-latency-max")
UNCOMMITTED = "uncommitted-bytes"
FLUSH = ("flush-rate", "flush-latency-avg", "flush-latency-max")

STATE_ID = {
    "key-value": "-state-id",
    "window": "-window-state-id",
    "session": "-session-state-id",
}
"""The ending of the tag that holds the store name, by kind of store."""

RATE_S = (NUM_SAMPLES - 1) * SAMPLE_WINDOW_MS / 1000
"""The divisor of a rate as long as no time has passed."""


def own_metrics(
    t: Trial, level: Level = "DEBUG", task_id: str | None = None
) -> dict[str, MetricRow]:
    """The currently registered store metrics by name: all of them, or those of one task."""
    t.note("lab.metrics.table()")
    registry = t.lab.metrics
    rows = [row for row in registry.rows() if row.group == GROUP] if registry else []
    t.expect_that(
        all(row.level in (level, "INFO") for row in rows),
        f"no metrics beyond the level {level}",
        rows,
    )
    return {row.name: row for row in rows if task_id in (None, row.tags.get("task-id"))}


def measured(t: Trial, name: str, task_id: str | None = None) -> float:
    """The current value of one metric."""
    found = own_metrics(t, task_id=task_id)
    t.expect_that(name in found, f"the metric {name}", sorted(found))
    return found[name].value


@check("METRIC-001", "METRIC-002", "METRIC-003")
def registered(t: Trial) -> None:
    """Open a store with a registry of metrics, and list the registered metrics."""
    t.measure("DEBUG")
    t.claim("METRIC-001", "open the store with a registry, and list the metrics")
    store = t.open()
    name = store.read("name")
    found = own_metrics(t)
    t.expect([each for each in COMMIT if each not in found], [])
    t.claim("METRIC-002", "open the store with a registry, and read the tags of its metrics")
    ending = STATE_ID[t.lab.subject.capabilities.kind]
    for row in found.values():
        tags = row.tags
        named = [tag for tag in tags if tag.endswith(ending)]
        t.expect_that(
            "thread-id" in tags
            and tags.get("task-id") == "0_0"
            and [tags[tag] for tag in named] == [name],
            f"the tags thread-id, task-id=0_0 and ...{ending}={name}",
            tags,
        )
    t.claim("METRIC-003", "open the store with a registry, and read the levels of its metrics")
    t.expect({each: found[each].level for each in COMMIT}, dict.fromkeys(COMMIT, "DEBUG"))


@check("METRIC-003", "METRIC-007")
def registered_at_the_level_of_info(t: Trial) -> None:
    """Open a store with a registry of the level INFO."""
    t.measure("INFO")
    t.claim("METRIC-003", "open the store with a registry of the level INFO")
    t.open()
    found = own_metrics(t, "INFO")
    t.expect([each for each in COMMIT if each in found], [])
    t.claim("METRIC-007", "open the store with a registry of the level INFO")
    t.expect(UNCOMMITTED in found, True)


@check("METRIC-004", "METRIC-005", "METRIC-006")
def commits_are_measured(t: Trial) -> None:
    """Commit several times, and read the metrics."""
    t.measure("DEBUG")
    store = t.open()
    t.claim("METRIC-004", "write without a commit, and read commit-rate")
    store.put(b"a", b"1")
    store.get(b"a")
    t.expect(measured(t, "commit-rate"), 0.0)
    t.claim("METRIC-004", "commit three times, and read commit-rate")
    for offset in range(3):
        store.put(b"a", b"%d" % offset)
        store.commit({CHANGELOG: offset})
    t.expect(round(measured(t, "commit-rate") * RATE_S, 6), 3.0)
    t.claim("METRIC-005", "commit three times, and read the latencies")
    average, largest = (measured(t, each) for each in COMMIT[1:])
    t.expect_that(0 <= average <= largest, "0 <= average <= maximum", (average, largest))
    t.claim("METRIC-006", "commit three times, and read the deprecated flush metrics")
    found = own_metrics(t)
    for name in FLUSH:
        value = found[name].value if name in found else 0.0
        t.expect_that(math.isnan(value) or value == 0, f"no recording in {name}", value)


@check("METRIC-007", "METRIC-008")
def uncommitted_bytes(t: Trial) -> None:
    """Write, read the uncommitted bytes, and commit."""
    t.measure("DEBUG")
    store = t.open()
    t.claim("METRIC-008", "read the metrics, then the store")
    store.put(b"a", b"1")
    store.put(b"b", b"22")
    told = store.approximate_num_uncommitted_bytes()
    own_metrics(t)
    t.expect((store.get(b"a"), store.get(b"b")), (b"1", b"22"))
    t.expect(store.approximate_num_uncommitted_bytes(), told)
    t.claim("METRIC-007", "write, and compare uncommitted-bytes with the store's own answer")
    t.expect(measured(t, UNCOMMITTED), float(told))
    t.claim("METRIC-007", "commit, and read uncommitted-bytes")
    store.commit({CHANGELOG: 1})
    t.expect(measured(t, UNCOMMITTED), 0.0)


@check("METRIC-009")
def removed(t: Trial) -> None:
    """Close the store, open another, and list the metrics."""
    t.measure("DEBUG")
    t.claim("METRIC-009", "close the store, and list the metrics")
    store = t.open()
    store.commit({CHANGELOG: 0})
    store.close()
    t.expect(sorted(own_metrics(t)), [])
    t.claim("METRIC-009", "open the store again, and read commit-rate")
    t.open()
    t.expect(measured(t, "commit-rate"), 0.0)


@check("METRIC-010")
def told_apart(t: Trial) -> None:
    """Open the stores of two tasks of one thread with the same registry."""
    t.measure("DEBUG")
    t.claim("METRIC-010", "commit two stores of one thread, and read the commit-rate of each")
    store, other = t.open(), t.open_other_task("0_1")
    for offset in range(3):
        store.put(b"a", b"1")
        store.commit({CHANGELOG: offset})
    other.commit({CHANGELOG: 0})
    for task_id, commits in (("0_0", 3.0), ("0_1", 1.0)):
        rate = measured(t, "commit-rate", task_id)
        t.expect(round(rate * RATE_S, 6), commits)
    t.claim("METRIC-010", "close one of two stores, and list the metrics of the other")
    other.close()
    t.expect(sorted(own_metrics(t, task_id="0_1")), [])
    found = own_metrics(t, task_id="0_0")
    t.expect([each for each in COMMIT if each not in found], [])
