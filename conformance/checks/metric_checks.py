"""Metrics: the metrics that a store registers with the runtime, under Kafka's names (KIP-1035)."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping

from streamproof.conformance.check_registry import check
from streamproof.conformance.lab import CHANGELOG
from streamproof.conformance.trial import Trial
from streamproof.conformance.violations import Skipped
from streamproof.conformance.windowed_trial import Timed
from streamproof.stores.metrics import (
    NUM_SAMPLES,
    SAMPLE_WINDOW_MS,
    Level,
    MetricRow,
    Metrics,
    monotonic_ms,
)

NS_PER_MS = 1_000_000
GROUP = "stream-state-metrics"
COMMIT = ("commit-rate", "commit-latency-avg", "commit-latency-max")
UNCOMMITTED = "uncommitted-bytes"
FLUSH = ("flush-rate", "flush-latency-avg", "flush-latency-max")

STATE_ID = {
    "key-value": re.compile(r"(?!.*-(?:window|session)-state-id).+-state-id"),
    "window": re.compile(r".+-window-state-id"),
    "session": re.compile(r".+-session-state-id"),
}
"""The tag that holds the store name, which begins with the type of the store, by kind of store."""

RATE_S = (NUM_SAMPLES - 1) * SAMPLE_WINDOW_MS / 1000
"""The divisor of a rate as long as no time has passed."""


def own_metrics(
    t: Trial, level: Level = "DEBUG", task_id: str | None = None
) -> dict[str, MetricRow]:
    """The currently registered store metrics by name: all of them, or those of one task.

    In the program they are called ``metrics``.
    """
    t.note(f"rows = [row for row in lab.metrics.rows() if row.group == {GROUP!r}]")
    registry = t.lab.metrics
    rows = [row for row in registry.rows() if row.group == GROUP] if registry else []
    known = all(row.level in (level, "INFO") for row in rows)
    line = f"all(row.level in {(level, 'INFO')} for row in rows)"
    t.expect_shown(line, known, f"no metrics beyond the level {level}", rows)
    mine = "" if task_id is None else f" if row.tags.get('task-id') == {task_id!r}"
    t.note(f"metrics = {{row.name: row for row in rows{mine}}}")
    return {row.name: row for row in rows if task_id in (None, row.tags.get("task-id"))}


def measured(t: Trial, name: str, task_id: str | None = None) -> float:
    """The current value of one metric."""
    found = own_metrics(t, task_id=task_id)
    t.expect_shown(f"{name!r} in metrics", name in found, f"the metric {name}", sorted(found))
    return t.asked(value_of(name), found[name].value)


def value_of(name: str) -> str:
    """The value of a metric, as an expression of a program."""
    return f"metrics[{name!r}].value"


def expect_none(t: Trial, task_id: str | None = None) -> None:
    """Demand that no metric is registered."""
    found = sorted(own_metrics(t, task_id=task_id))
    t.expect(t.asked("sorted(metrics)", found), [])


def expect_there(t: Trial, names: Iterable[str], found: Mapping[str, MetricRow]) -> None:
    """Demand that these metrics are registered."""
    missing = [each for each in names if each not in found]
    t.expect(t.asked(f"[each for each in {[*names]} if each not in metrics]", missing), [])


MEAN, LARGEST = map(value_of, COMMIT[1:])
"""The mean and the largest latency of commits, as expressions of a program."""


@check("METRIC-001", "METRIC-002", "METRIC-003")
def registered(t: Trial) -> None:
    """Open a store with a registry of metrics, and list the registered metrics."""
    t.measure("DEBUG")
    t.claim("METRIC-001", "open the store with a registry, and list the metrics")
    store = t.open()
    name = store.read("name")
    found = own_metrics(t)
    expect_there(t, COMMIT, found)
    t.claim("METRIC-002", "open the store with a registry, and read the tags of its metrics")
    state_id = STATE_ID[t.lab.subject.capabilities.kind]
    threads = {row.tags.get("thread-id", "") for row in found.values()}
    t.note("import re")
    for row in found.values():
        tags = row.tags
        ids = [tag for tag in tags if tag.endswith("-state-id")]
        named = all(state_id.fullmatch(tag) and tags[tag] == name for tag in ids)
        t.note(f"tags = metrics[{row.name!r}].tags")
        t.note("ids = [tag for tag in tags if tag.endswith('-state-id')]")
        t.expect_shown(
            "tags.get('task-id') == '0_0' and ids and all("
            f"re.fullmatch({state_id.pattern!r}, tag) and tags[tag] == {name!r} for tag in ids)",
            tags.get("task-id") == "0_0" and bool(ids) and named,
            f"the tags task-id=0_0 and {state_id.pattern}={name}",
            tags,
        )
    t.note("threads = {row.tags.get('thread-id', '') for row in rows}")
    t.expect_shown(
        f"len(threads) == 1 and not threads & {{'', '0_0', {name!r}}}",
        len(threads) == 1 and not threads & {"", "0_0", name},
        "one thread-id, the name of a thread",
        sorted(threads),
    )
    t.claim("METRIC-003", "open the store with a registry, and read the levels of its metrics")
    levels = {each: found[each].level for each in COMMIT}
    t.expect(
        t.asked(f"{{each: metrics[each].level for each in {COMMIT}}}", levels),
        dict.fromkeys(COMMIT, "DEBUG"),
    )


@check("METRIC-003", "METRIC-007")
def registered_at_the_level_of_info(t: Trial) -> None:
    """Open a store with a registry of the level INFO."""
    t.measure("INFO")
    t.claim("METRIC-003", "open the store with a registry of the level INFO")
    t.open()
    found = own_metrics(t, "INFO")
    debug = [each for each in COMMIT if each in found]
    t.expect(t.asked(f"[each for each in {COMMIT} if each in metrics]", debug), [])
    t.claim("METRIC-007", "open the store with a registry of the level INFO")
    t.expect(t.asked(f"{UNCOMMITTED!r} in metrics", UNCOMMITTED in found), True)


@check("METRIC-004", "METRIC-006")
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
    expect_commits(t, 3.0, measured(t, "commit-rate"))
    t.claim("METRIC-006", "commit three times, and read the deprecated flush metrics")
    found = own_metrics(t)
    expect_there(t, FLUSH, found)
    expect_no_flush(t)
    t.claim("METRIC-006", "overflow the write buffers, and read the deprecated flush metrics")
    for number in range(60):
        store.put(b"key%d" % number, b"." * 1000)
        if number % 20 == 0:
            store.commit({CHANGELOG: 3 + number})
    expect_no_flush(t)


def expect_no_flush(t: Trial) -> None:
    """Demand that the deprecated metrics of flushes have no recording."""
    found = own_metrics(t)
    for name in FLUSH:
        value = found[name].value
        none = f"not {value_of(name)} > 0"
        is_none = math.isnan(value) or value == 0
        t.expect_shown(none, is_none, f"no recording in {name}", value)


def expect_commits(t: Trial, commits: float, rate: float) -> None:
    """Demand a commit-rate that stands for so many commits before any time passed."""
    read = f"round({value_of('commit-rate')} * {RATE_S}, 6)"
    t.expect(t.asked(read, round(rate * RATE_S, 6)), commits)


@check("METRIC-004")
def rate_is_per_second(t: Trial) -> None:
    """Commit three times, let time pass, and read commit-rate."""
    t.measure("DEBUG")
    now = [0.0]
    if t.lab.metrics is not None:
        t.note("now = [0.0]; lab.metrics.clock = lambda: now[-1]")
        t.lab.metrics.clock = lambda: now[-1]
    store = t.open()
    t.claim("METRIC-004", "commit three times, and read commit-rate after a while")
    for offset in range(3):
        store.put(b"a", b"%d" % offset)
        store.commit({CHANGELOG: offset})
    # As long as these are all recordings, the rate is over all of the time.
    for elapsed_ms in (SAMPLE_WINDOW_MS, SAMPLE_WINDOW_MS * 3 // 2):
        t.note(f"now.append({elapsed_ms})")
        now.append(elapsed_ms)
        found = measured(t, "commit-rate")
        per_second = 3_000 / elapsed_ms
        line = f"round({value_of('commit-rate')} / {per_second}, 6) == 1"
        close = math.isclose(found, per_second, rel_tol=1e-7)
        t.expect_shown(line, close, f"{per_second} commits per second", found)


@check("METRIC-005")
def latencies_are_measured(t: Trial) -> None:
    """Commit several times while the clock of the metrics runs, and read the latencies."""
    t.claim("METRIC-005", "commit while the clock runs, and read the latencies")
    t.measure("DEBUG")
    if t.lab.metrics is not None:
        t.note("import time; lab.metrics.clock = lambda: time.monotonic() * 1000")
        t.lab.metrics.clock = monotonic_ms
    store = t.open()
    for offset in range(3):
        store.put(b"a", b"%d" % offset)
        store.commit({CHANGELOG: offset})
    average, largest = (measured(t, each) for each in COMMIT[1:])
    # Every call takes time, and latencies are in nanoseconds.
    t.expect_shown(
        f"0 < {MEAN} <= {LARGEST}",
        0 < average <= largest,
        "0 < average <= maximum",
        (average, largest),
    )


@check("METRIC-005")
def latencies_are_the_mean_and_the_largest(t: Trial) -> None:
    """Commit three times, and compare the mean and the largest latency."""
    t.claim("METRIC-005", "commit three times, and let only the second commit take time")
    t.measure("DEBUG")
    times, step = [0.0], [0.0]

    def tick() -> float:
        times.append(times[-1] + step[-1])
        return times[-1]

    if t.lab.metrics is not None:
        t.note("times, step = [0.0], [0.0]")
        t.note("lab.metrics.clock = lambda: times.append(times[-1] + step[-1]) or times[-1]")
        t.lab.metrics.clock = tick
    store = t.open()
    took, has_own_clock = [], False
    for offset, ms_a_read in enumerate((0.0, 1.0, 0.0)):
        t.note(f"step.append({ms_a_read})")
        step.append(ms_a_read)
        store.put(b"a", b"%d" % offset)
        began = time.monotonic_ns()
        store.commit({CHANGELOG: offset})
        took.append(time.monotonic_ns() - began)
        # While the registry's clock stands still, only another clock sees that time passes.
        has_own_clock = has_own_clock or (offset == 0 and measured(t, COMMIT[2]) > 0)
    average, largest = found = tuple(measured(t, each) for each in COMMIT[1:])
    if not has_own_clock:
        line = f"{LARGEST} > 0 == {LARGEST} % {NS_PER_MS}"
        whole = largest > 0 == largest % NS_PER_MS
        t.expect_shown(line, whole, "a maximum of whole ms", found)
        line = f"round({LARGEST} / {MEAN}, 6) == 3"
        third = average > 0 and round(largest / average, 6) == 3
        t.expect_shown(line, third, "a mean of a third of it", found)
        return
    t.claim("METRIC-005", "commit three times, and compare with the time that each call took")
    between = average <= largest <= 3 * average + 1
    line = f"{MEAN} <= {LARGEST} <= 3 * {MEAN} + 1"
    t.expect_shown(line, between, "mean <= maximum <= 3 means", found)
    most = max(took) + NS_PER_MS  # for a clock of whole milliseconds
    mean = sum(took) / 3 + NS_PER_MS
    line = f"{MEAN} <= {mean:.0f}"
    t.expect_shown(line, average <= mean, f"a mean of at most {mean:.0f} ns", found)
    t.expect_shown(
        f"{LARGEST} <= {most}", largest <= most, f"a maximum of at most {most} ns", found
    )


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
    # Kafka 4.4 has no value for unknown bytes.
    unknown = (-1,) if t.run.settings.spec == "kips" else ()
    or_unknown = " (or -1, unknown)" if unknown else ""
    t.claim("METRIC-007", "write, and compare uncommitted-bytes with the store's own answer")
    t.expect(measured(t, UNCOMMITTED), float(told))
    if t.lab.guarantee == "exactly-once" and t.lab.subject.capabilities.transactional:
        t.claim("METRIC-007", "stage 2000 bytes, and read uncommitted-bytes")
        store.put(b"c", b"x" * 1000)
        store.put(b"d", b"y" * 1000)
        staged = measured(t, UNCOMMITTED)
        enough = staged in unknown or staged >= 2000
        line = f"{value_of(UNCOMMITTED)} in {unknown} or {value_of(UNCOMMITTED)} >= 2000"
        t.expect_shown(line, enough, f"at least 2000 bytes{or_unknown}", staged)
    t.claim("METRIC-007", "commit, and read uncommitted-bytes")
    store.commit({CHANGELOG: 1})
    left = measured(t, UNCOMMITTED)
    none = (*unknown, 0)
    line = f"{value_of(UNCOMMITTED)} in {none}"
    t.expect_shown(line, left in none, f"0 bytes{or_unknown}", left)


@check("METRIC-009")
def removed(t: Trial) -> None:
    """Close the store, open another, and list the metrics."""
    t.measure("DEBUG")
    t.claim("METRIC-009", "close the store, and list the metrics")
    store = t.open()
    store.commit({CHANGELOG: 0})
    store.close()
    expect_none(t)
    t.claim("METRIC-009", "open the store again, and read commit-rate")
    t.open()
    t.expect(measured(t, "commit-rate"), 0.0)


@check("METRIC-010")
def told_apart(t: Trial) -> None:
    """Open the stores of two tasks of one thread with the same registry."""
    t.measure("DEBUG")
    t.claim("METRIC-010", "commit two stores of one thread, and read the commit-rate of each")
    store, other = t.open(), t.open_at(t.other_task("0_1"))
    for offset in range(3):
        store.put(b"a", b"1")
        store.commit({CHANGELOG: offset})
    other.commit({CHANGELOG: 0})
    for task_id, commits in (("0_0", 3.0), ("0_1", 1.0)):
        expect_commits(t, commits, measured(t, "commit-rate", task_id))
    t.claim("METRIC-010", "close one of two stores, and list the metrics of the other")
    other.close()
    expect_none(t, "0_1")
    expect_there(t, COMMIT, own_metrics(t, task_id="0_0"))


DROPPED = "dropped-records-total"


@check("METRIC-011")
def dropped_records(t: Trial) -> None:
    """Let records come too late, commit each time, and read how many were dropped.

    Raises:
        Skipped: the store does not register the metric, which is the runtime's in Kafka.
    """
    t.measure("DEBUG")
    t.claim("METRIC-011", "put records that come too late, commit, and read dropped-records-total")
    store = Timed(t)
    early = store.times.base
    late = early + 3 * max(store.can.retention_ms, store.can.segment_interval_ms)
    store.put(b"a", b"new", late)
    if t.lab.metrics is None or not dropped(t.lab.metrics):
        raise Skipped(f"the store does not register {DROPPED}")
    expected = 0.0
    for offset, count in enumerate((2, 0, 1)):
        for _ in range(count):
            store.put(b"a", b"too late", early)
        store.handle.commit({CHANGELOG: offset})
        expected += count
        line = f"[row.value for row in lab.metrics.rows() if row.name == {DROPPED!r}]"
        t.expect(t.asked(line, dropped(t.lab.metrics)), [expected])


def dropped(metrics: Metrics) -> list[float]:
    """The values of the metric of dropped records: one for each task."""
    return [row.value for row in metrics.rows() if row.name == DROPPED]
