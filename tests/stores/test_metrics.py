"""Sensors, gauges, scopes, and how metrics are read."""

from __future__ import annotations

import math
import threading

import pytest

from streamproof.stores.metrics import MetricDefinition, MetricRow, Metrics, Sensor, monotonic_ms

TAGS = {"thread-id": "t1", "task-id": "0_0"}
CALLS = (
    MetricDefinition("call-rate", "group", "INFO", "call-rate", "Calls per second."),
    MetricDefinition("value-rate", "group", "INFO", "rate", "Values per second."),
    MetricDefinition("latency-avg", "group", "INFO", "avg", "The average."),
    MetricDefinition("latency-max", "group", "DEBUG", "max", "The maximum."),
    MetricDefinition("value-total", "group", "INFO", "total", "The total."),
)
GAUGE = MetricDefinition("level-now", "group", "INFO", "gauge", "How it is now.")


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def values(metrics: Metrics) -> dict[str, float]:
    return {row.name: row.value for row in metrics.rows()}


def test_measures_of_recordings() -> None:
    """Rates are at first over one full window of 30 s, as those of Kafka are."""
    clock = Clock()
    metrics = Metrics("DEBUG", clock)
    sensor = metrics.sensor(("s",), CALLS, TAGS)
    assert sensor.recording
    for value in (10, 20, 60):
        sensor.record(value)
    assert values(metrics) == {
        "call-rate": pytest.approx(3 / 30),
        "value-rate": pytest.approx(90 / 30),
        "latency-avg": 30.0,
        "latency-max": 60.0,
        "value-total": 90.0,
    }
    clock.now += 20_000
    assert values(metrics)["call-rate"] == pytest.approx(3 / 50)
    clock.now += 20_000
    assert values(metrics)["call-rate"] == pytest.approx(3 / 40)


def test_windows_pass() -> None:
    """A window counts for 60 s after it began; the total stays."""
    clock = Clock()
    metrics = Metrics("DEBUG", clock)
    sensor = metrics.sensor(("s",), CALLS, TAGS)
    sensor.record(100)
    clock.now += 30_000
    sensor.record(1)
    assert values(metrics)["latency-max"] == 100
    assert values(metrics)["call-rate"] == pytest.approx(2 / 30)
    clock.now += 30_000
    assert values(metrics)["latency-max"] == 1
    assert values(metrics)["value-total"] == 101
    clock.now += 30_000
    after = values(metrics)
    assert math.isnan(after["latency-max"])
    assert math.isnan(after["latency-avg"])
    assert after["call-rate"] == after["value-rate"] == 0
    assert after["value-total"] == 101


def test_window_is_configurable() -> None:
    clock = Clock()
    sensor = Metrics("INFO", clock, sample_window_ms=1_000, num_samples=3).unnamed_sensor()
    sensor.record(6)
    assert sensor.measure("rate") == pytest.approx(6 / 2)
    clock.now += 2_500
    assert sensor.measure("rate") == pytest.approx(6 / 2.5)
    assert sensor.recent_total() == 6
    clock.now += 500
    assert sensor.recent_total() == 0


def test_a_rate_over_no_time_is_finite() -> None:
    """With one window only there is no minimum but 1 ms, as in Kafka."""
    sensor = Sensor(Clock(), num_samples=1)
    assert sensor.measure("rate") == 0
    sensor.record(5)
    assert sensor.measure("rate") == pytest.approx(5_000)


def test_a_gauge_is_not_measured_from_recordings() -> None:
    with pytest.raises(ValueError, match=r"register it with gauge\(\)"):
        Sensor().measure("gauge")


def test_levels() -> None:
    """What is below the level is neither recorded nor shown."""
    clock = Clock()
    metrics = Metrics("INFO", clock)
    debug = MetricDefinition("debug-total", "group", "DEBUG", "total", "A total.")
    silent = metrics.sensor(("s",), [debug], TAGS)
    silent.record()
    assert not silent.recording
    assert silent.measure("total") == 0
    metrics.gauge(("s",), MetricDefinition("g", "group", "DEBUG", "gauge", "A gauge."), TAGS, int)
    assert metrics.rows() == []
    metrics.sensor(("s",), CALLS, TAGS).record()
    assert "latency-max" not in values(metrics)
    assert values(metrics)["value-total"] == 1
    assert metrics.level == "INFO"


def test_gauges_are_read_when_asked() -> None:
    metrics = Metrics()
    level = [3]
    metrics.gauge(("s",), GAUGE, TAGS, lambda: level[0])
    assert metrics.rows() == [MetricRow("level-now", "group", "INFO", TAGS, 3.0)]
    level[0] = 4
    assert values(metrics) == {"level-now": 4}
    metrics.gauge(("s",), GAUGE, TAGS, lambda: 5)
    assert values(metrics) == {"level-now": 5}


def test_scopes_are_removed_together_and_alone() -> None:
    """A sensor that is asked for again is the same one; another scope stays."""
    metrics = Metrics("DEBUG")
    sensor = metrics.sensor(("t1", "0_0"), CALLS, TAGS)
    assert metrics.sensor(("t1", "0_0"), CALLS, TAGS) is sensor
    metrics.gauge(("t1", "0_0"), GAUGE, TAGS, lambda: 1)
    other = metrics.sensor(("t1", "0_1"), CALLS, {**TAGS, "task-id": "0_1"})
    assert other is not sensor
    assert len(metrics.rows()) == 11
    metrics.remove(("t1", "0_0"))
    assert {row.tags["task-id"] for row in metrics.rows()} == {"0_1"}
    metrics.remove(("t1", "0_0"))
    metrics.remove(("t1", "0_1"))
    assert metrics.rows() == []
    assert metrics.table() == ""
    assert metrics.prometheus() == ""


def test_rows_are_sorted_and_plain() -> None:
    """By group, tags and name; the tags of a row are a copy."""
    metrics = Metrics()
    for task in ("0_1", "0_0"):
        metrics.gauge((task,), GAUGE, {**TAGS, "task-id": task}, lambda: 1)
        first = MetricDefinition("a-gauge", "group", "INFO", "gauge", "Another.")
        metrics.gauge((task,), first, {**TAGS, "task-id": task}, lambda: 2)
    rows = metrics.rows()
    assert [(row.tags["task-id"], row.name) for row in rows] == [
        ("0_0", "a-gauge"),
        ("0_0", "level-now"),
        ("0_1", "a-gauge"),
        ("0_1", "level-now"),
    ]
    rows[0].tags["task-id"] = "changed"
    assert metrics.rows()[0].tags["task-id"] == "0_0"


def test_table() -> None:
    clock = Clock()
    metrics = Metrics("DEBUG", clock)
    metrics.sensor(("s",), CALLS, TAGS)
    metrics.gauge(("s",), GAUGE, TAGS, lambda: 1.23456)
    assert metrics.table().splitlines() == [
        "metric       value    level  group  tags",
        "call-rate    0        INFO   group  task-id=0_0 thread-id=t1",
        "latency-avg  no data  INFO   group  task-id=0_0 thread-id=t1",
        "latency-max  no data  DEBUG  group  task-id=0_0 thread-id=t1",
        "level-now    1.235    INFO   group  task-id=0_0 thread-id=t1",
        "value-rate   0        INFO   group  task-id=0_0 thread-id=t1",
        "value-total  0        INFO   group  task-id=0_0 thread-id=t1",
    ]


def test_prometheus_text() -> None:
    """Names and labels have no dash, a total is a counter, and different tags share a family."""
    metrics = Metrics()
    total = MetricDefinition("value-total", "some-group", "INFO", "total", "The total.")
    metrics.sensor(("a",), [total], {"thread-id": 'a "b"', "rocksdb-state-id": "s"}).record(2)
    metrics.sensor(("b",), [total], {"in-memory-state-id": "s"}).record(3)
    metrics.gauge(("a",), GAUGE, TAGS, lambda: math.nan)
    assert metrics.prometheus() == (
        "# HELP kafka_streams_group_level_now How it is now.\n"
        "# TYPE kafka_streams_group_level_now gauge\n"
        'kafka_streams_group_level_now{task_id="0_0",thread_id="t1"} NaN\n'
        "# HELP kafka_streams_some_group_value_total The total.\n"
        "# TYPE kafka_streams_some_group_value_total counter\n"
        'kafka_streams_some_group_value_total{rocksdb_state_id="s",thread_id="a \\"b\\""} 2.0\n'
        'kafka_streams_some_group_value_total{in_memory_state_id="s"} 3.0\n'
    )


def test_default_clock_is_the_monotonic_one() -> None:
    before = monotonic_ms()
    metrics = Metrics()
    assert before <= metrics.clock() <= monotonic_ms()


def test_reading_while_another_thread_registers_and_records() -> None:
    """Neither side raises, and nothing that was recorded is lost."""
    metrics = Metrics("DEBUG", sample_window_ms=0.001, num_samples=1_000)
    sensor = metrics.sensor(("shared",), CALLS, TAGS)
    done = threading.Event()
    errors: list[Exception] = []

    def read() -> None:
        try:
            while not done.is_set():
                metrics.rows()
                metrics.prometheus()
        except Exception as error:  # noqa: BLE001 - asserted below
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(300):
        metrics.gauge((str(number),), GAUGE, TAGS, lambda: 1)
        sensor.record()
        metrics.remove((str(number - 5),))
    done.set()
    reader.join()
    assert errors == []
    assert values(metrics)["value-total"] == 300
