"""Metrics with Kafka's names, levels and tags; readable as a table and as Prometheus text.

A *sensor* takes recordings. Its metrics are computed from the recordings when they are read:
averages, maxima and rates over the last windows of time, and totals since the start. A *gauge* is a
function that is called when the metric is read. All metrics of one *scope* are removed together.

Source: Kafka, org.apache.kafka.common.metrics and StreamsMetricsImpl.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

__all__ = [
    "LEVELS",
    "NUM_SAMPLES",
    "SAMPLE_WINDOW_MS",
    "Clock",
    "Level",
    "Measure",
    "MetricDefinition",
    "MetricRow",
    "Metrics",
    "Scope",
    "Sensor",
    "monotonic_ms",
]

Level = Literal["INFO", "DEBUG"]
"""The recording level from which on a metric is recorded. DEBUG also records those of INFO."""

LEVELS: tuple[Level, ...] = get_args(Level)
"""All recording levels."""

Measure = Literal["avg", "max", "rate", "call-rate", "total", "gauge"]
"""How a metric is computed.

``avg`` and ``max``: of the values in the last windows; NaN without values. ``rate``: the sum of
these values per second. ``call-rate``: the number of these values per second. ``total``: the sum of
all values since the start. ``gauge``: by a function, and not from recordings.
"""

Scope = tuple[str, ...]
"""The owner of metrics: a thread, a task of a thread, or a store of a task."""

Clock = Callable[[], float]
"""Gives the time in milliseconds; only differences matter."""

SAMPLE_WINDOW_MS = 30_000
"""How long one window of recordings is (Kafka: ``metrics.sample.window.ms``)."""

NUM_SAMPLES = 2
"""How many windows are kept (Kafka: ``metrics.num.samples``)."""


def monotonic_ms() -> float:
    """The time of the process's monotonic clock, in milliseconds."""
    return time.monotonic() * 1000


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """The definition of a metric.

    Attributes:
        name: Kafka's name.
        group: Kafka's group, the ``type`` of a metric in JMX.
        level: the recording level from which on the metric is recorded.
        measure: how the metric is computed.
        description: the meaning of the metric, with its unit.
    """

    name: str
    group: str
    level: Level
    measure: Measure
    description: str


class MetricRow(NamedTuple):
    """One metric as plain data."""

    name: str
    group: str
    level: Level
    tags: dict[str, str]
    value: float


@dataclass(slots=True)
class _Sample:
    """What was recorded in one window of time, which starts at the first recording."""

    start_ms: float
    count: int = 0
    total: float = 0.0
    largest: float = -math.inf


class Sensor:
    """Takes recordings; a sensor whose metrics are all below the level takes none.

    Args:
        clock: gives the time in milliseconds.
        sample_window_ms: how long a window is, in milliseconds.
        num_samples: how many windows are kept.
        recording: whether recordings are taken.

    Attributes:
        recording: whether recordings are taken.

    Source: Kafka, Sensor, SampledStat and Rate.
    """

    __slots__ = ("_clock", "_num_samples", "_samples", "_total", "_window_ms", "recording")

    def __init__(
        self,
        clock: Clock = monotonic_ms,
        sample_window_ms: float = SAMPLE_WINDOW_MS,
        num_samples: int = NUM_SAMPLES,
        *,
        recording: bool = True,
    ) -> None:
        self._clock = clock
        self._window_ms = sample_window_ms
        self._num_samples = num_samples
        self._samples: list[_Sample] = []
        self._total = 0.0
        self.recording = recording

    def record(self, value: float = 1.0) -> None:
        """Take one recording, now."""
        if not self.recording:
            return
        now = self._clock()
        if not self._samples or now - self._samples[-1].start_ms >= self._window_ms:
            self._samples = [*self._live(now), _Sample(now)]
        sample = self._samples[-1]
        sample.count += 1
        sample.total += value
        sample.largest = max(sample.largest, value)
        self._total += value

    def measure(self, measure: Measure) -> float:
        """The current value of one measure of the recordings.

        Raises:
            ValueError: a gauge is not measured from recordings.
        """
        if measure == "total":
            return self._total
        now = self._clock()
        samples = self._live(now)
        if measure == "rate":
            return sum(sample.total for sample in samples) / self._seconds(samples, now)
        count = sum(sample.count for sample in samples)
        if measure == "call-rate":
            return count / self._seconds(samples, now)
        if measure == "avg":
            return sum(sample.total for sample in samples) / count if count else math.nan
        if measure == "max":
            return max(sample.largest for sample in samples) if count else math.nan
        raise ValueError(
            f"Recordings do not give the measure {measure!r}; register it with gauge()."
        )

    def recent_total(self) -> float:
        """The sum of the values in the last windows (Kafka: WindowedSum)."""
        return sum(sample.total for sample in self._live(self._clock()))

    def _live(self, now: float) -> list[_Sample]:
        oldest = now - self._num_samples * self._window_ms
        return [sample for sample in self._samples if sample.start_ms > oldest]

    def _seconds(self, samples: Sequence[_Sample], now: float) -> float:
        """What a rate is divided by: at first as if all windows but the last had passed.

        Otherwise, the first recordings would show as an enormous rate.
        Source: Kafka, Rate#windowSize.
        """
        elapsed = now - samples[0].start_ms if samples else 0.0
        missing = self._num_samples - 1 - int(elapsed // self._window_ms)
        return max(elapsed + max(missing, 0) * self._window_ms, 1.0) / 1000


class _Registered:
    def __init__(
        self, definition: MetricDefinition, tags: Mapping[str, str], value: Callable[[], float]
    ) -> None:
        self.definition = definition
        self.tags = dict(tags)
        self.value = value
        # Computed once: a simulated run reads its metrics thousands of times.
        self.place = (definition.group, sorted(tags.items()), definition.name)

    def read(self) -> MetricRow:
        name, group, level = self.definition.name, self.definition.group, self.definition.level
        return MetricRow(name, group, level, dict(self.tags), float(self.value()))


@dataclass(slots=True)
class _ScopeEntry:
    sensors: dict[str, Sensor] = field(default_factory=dict)
    metrics: dict[str, _Registered] = field(default_factory=dict)


class Metrics:
    """A registry of metrics.

    Args:
        level: metrics above this level of detail are not recorded, and not in any output
            (Kafka: ``metrics.recording.level``, INFO by default).
        clock: gives the time in milliseconds, so that a simulation can drive it.
        sample_window_ms: how long a window of recordings is, in milliseconds; 30 s by default.
        num_samples: how many windows are kept; 2 by default.
    """

    def __init__(
        self,
        level: Level = "INFO",
        clock: Clock = monotonic_ms,
        *,
        sample_window_ms: float = SAMPLE_WINDOW_MS,
        num_samples: int = NUM_SAMPLES,
    ) -> None:
        self.level = level
        self.clock = clock
        self._sample_window_ms = sample_window_ms
        self._num_samples = num_samples
        self._scopes: dict[Scope, _ScopeEntry] = {}

    def sensor(
        self, scope: Scope, definitions: Sequence[MetricDefinition], tags: Mapping[str, str]
    ) -> Sensor:
        """The sensor for these metrics in a scope; the first call makes it.

        Args:
            scope: the owner of the metrics; stores of one task share the task's sensors.
            definitions: the metrics that are computed from the recordings.
            tags: the tags of the metrics.
        """
        recorded = [each for each in definitions if self._is_recorded(each)]
        if not recorded:
            return Sensor(recording=False)
        entry = self._scopes.setdefault(scope, _ScopeEntry())
        name = recorded[0].name
        if name not in entry.sensors:
            sensor = self.unnamed_sensor()
            entry.sensors[name] = sensor
            for each in recorded:
                entry.metrics[each.name] = _Registered(each, tags, _measured(sensor, each))
        return entry.sensors[name]

    def unnamed_sensor(self) -> Sensor:
        """A sensor without metrics in any output, with the clock and windows of this registry."""
        return Sensor(self.clock, self._sample_window_ms, self._num_samples)

    def gauge(
        self,
        scope: Scope,
        definition: MetricDefinition,
        tags: Mapping[str, str],
        value: Callable[[], float],
    ) -> None:
        """Register a function as a metric; it takes the place of one with the same name."""
        if self._is_recorded(definition):
            entry = self._scopes.setdefault(scope, _ScopeEntry())
            entry.metrics[definition.name] = _Registered(definition, tags, value)

    def remove(self, scope: Scope) -> None:
        """Remove all metrics of a scope. A scope without metrics is no error."""
        self._scopes.pop(scope, None)

    def rows(self) -> list[MetricRow]:
        """All metrics as of now, by group, tags and name."""
        return [each.read() for each in sorted(self._registered(), key=lambda each: each.place)]

    def table(self) -> str:
        """All metrics as of now, as a table for people; empty without metrics."""
        lines = [("metric", "value", "level", "group", "tags")]
        for row in self.rows():
            tags = " ".join(f"{tag}={value}" for tag, value in sorted(row.tags.items()))
            lines.append((row.name, _readable(row.value), row.level, row.group, tags))
        return _aligned(lines) if len(lines) > 1 else ""

    def prometheus(self) -> str:
        """All metrics as of now, in the text format of Prometheus.

        A metric is called ``kafka_streams_<group>_<name>``, with ``_`` for ``-``.
        """
        # The client library starts slowly, since it can also serve what it exposes.
        from streamproof.stores.prometheus_text import Reading, prometheus_text

        return prometheus_text(
            Reading(
                group=each.definition.group,
                name=each.definition.name,
                description=each.definition.description,
                is_total=each.definition.measure == "total",
                tags=each.tags,
                value=float(each.value()),
            )
            for each in self._registered()
        )

    def _is_recorded(self, definition: MetricDefinition) -> bool:
        return definition.level == "INFO" or self.level == "DEBUG"

    def _registered(self) -> list[_Registered]:
        # Copied, because another thread may open or close a store during the loop.
        entries = list(self._scopes.values())
        return [registered for entry in entries for registered in list(entry.metrics.values())]


def _measured(sensor: Sensor, definition: MetricDefinition) -> Callable[[], float]:
    return lambda: sensor.measure(definition.measure)


def _readable(value: float) -> str:
    if math.isnan(value):
        return "no data"
    return str(int(value)) if value.is_integer() else f"{value:.3f}"


def _aligned(lines: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
