"""Metrics in the text format of Prometheus.

The client library is imported by nobody else: it can also serve what it exposes, and so starts
slowly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

__all__ = ["Reading", "prometheus_text"]

_NAMESPACE = "kafka_streams"


class Reading(NamedTuple):
    """A metric as of now, by Kafka's names.

    Attributes:
        is_total: whether the metric only ever grows.
    """

    group: str
    name: str
    description: str
    is_total: bool
    tags: Mapping[str, str]
    value: float


def prometheus_text(readings: Iterable[Reading]) -> str:
    """The text for what was read of each metric.

    A metric is called ``kafka_streams_<group>_<name>``, with ``_`` for ``-``.
    """
    registry = CollectorRegistry()
    registry.register(_Exposed(readings))
    return generate_latest(registry).decode()


class _Exposed(Collector):
    """Metrics as the client library wants them."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self._readings = sorted(readings, key=lambda each: each.name)

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for each in self._readings:
            name = _exposed_name(f"{_NAMESPACE}_{each.group}_{each.name}")
            kind = "gauge"
            if each.is_total:
                # The library appends the suffix to the name of a counter's samples.
                kind, name = "counter", name.removesuffix("_total")
            family = families.setdefault(name, Metric(name, each.description, kind))
            sample = f"{name}_total" if kind == "counter" else name
            labels = {_exposed_name(tag): value for tag, value in each.tags.items()}
            family.add_sample(sample, labels, each.value)
        return families.values()


def _exposed_name(name: str) -> str:
    return name.replace("-", "_")
